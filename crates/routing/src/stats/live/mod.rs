//! The live board: state that all workers share, such as requests in flight, breakers, pacing and quotas.

pub(crate) mod attempt_end;
pub(crate) mod board;
pub(crate) mod breaker;
pub(crate) mod cell;
pub(crate) mod change;
pub(crate) mod claim;
pub(crate) mod gate;
pub(crate) mod pacing;
pub(crate) mod quota;
pub(crate) mod view;
