//! Saved state of the statistics.

pub(crate) mod state;
