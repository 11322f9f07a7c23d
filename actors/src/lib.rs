//! The routing core of Pointsman and the actors that carry it.
//!
//! Rooms, from the ground up; each uses only those below it:
//!
//! * [`domain`]: the words everybody uses.
//!
//! Below the actors nothing knows actix, a clock, chance or I/O: those arrive as arguments.

pub mod decide;
pub mod domain;
pub mod stats;
