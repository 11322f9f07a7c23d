//! The routing core of Pointsman and the actors that carry it.
//!
//! Rooms, from the top down; each uses only those below it:
//!
//! * [`catalog`], [`provider_health`], [`router`], [`ledger`], [`relay`], and [`news`], [`mailbox`], [`published`] and
//!   [`keeping`] between them: the actors.
//! * [`decide`]: which candidates, in which order, and why.
//! * [`stats`]: what is known about endpoints.
//! * [`dialect`]: provider wire formats, both ways.
//! * [`domain`]: the words everybody uses.
//!
//! Below the actors nothing knows actix, a clock, chance or I/O: those arrive as arguments.

pub mod actors;
pub mod decide;
pub mod dialect;
pub mod domain;
pub mod explain;
pub mod stats;
