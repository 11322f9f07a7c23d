//! The statistics as decisions read them.

#[expect(clippy::disallowed_methods, reason = "ranks")]
pub(crate) mod snapshot;
pub(crate) mod statistics;
