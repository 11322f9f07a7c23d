//! The routing core of Pointsman and the actors that carry it.
//!
//! Modules, from the top down; each uses only those below it:
//!
//! * [`actors`]: the actix actors and the batches, mailboxes and published state between them.
//! * [`explain`]: reasons, why-not, what-if and replay of decisions.
//! * [`decide`]: which candidates, in which order.
//! * [`stats`]: models, live state and observations of endpoints.
//! * [`dialect`]: provider wire formats, both ways.
//! * [`domain`]: types that all modules share.
//!
//! Below the actors there is no actix, no clock, no randomness and no I/O: those are arguments.

pub mod actors;
pub mod decide;
pub mod dialect;
pub mod domain;
pub mod explain;
pub mod stats;
