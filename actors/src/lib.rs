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

pub mod catalog;
pub mod decide;
pub mod dialect;
pub mod domain;
pub mod keeping;
pub mod ledger;
pub mod mailbox;
pub mod news;
pub mod provider_health;
pub mod published;
pub mod relay;
pub mod router;
pub mod stats;
