//! PostgreSQL: records, keys and accounts of all replicas.
//!
//! [`worker`] is the loop that sends and fetches, [`lookups`] answers questions of clients on a connection of its own.

mod changes;
mod lookups;
mod pages;
#[deny(clippy::float_arithmetic)]
mod records;
mod schema;
mod session;
mod sources;
#[deny(clippy::float_arithmetic)]
mod sums;
mod worker;

pub use lookups::{FoundEntry, Question, questions};
pub use session::Server;
pub use sources::{Deletion, Sources};
pub use worker::Worker;
