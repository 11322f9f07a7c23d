//! Redis: leases of spending limits, usage of rate limits, hints of health.
//!
//! [`worker`] is the loop that reports, [`listener`] hears what other replicas report.

mod connection;
#[deny(clippy::float_arithmetic)]
mod leases;
mod listener;
mod usage;
mod worker;

pub use connection::Server;
pub use listener::Listener;
pub use worker::Worker;
