//! What of the statistics survives a restart.

pub(crate) mod state;
