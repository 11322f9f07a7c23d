//! The statistics as decisions read them.

pub(crate) mod snapshot;
pub(crate) mod statistics;
