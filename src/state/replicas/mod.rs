//! What replicas share with each other: records, keys and accounts through PostgreSQL; budgets, rate limits and hints of health
//! through Redis.
//!
//! No request waits for a store that is away. Every replica keeps its own truth: its records in the ledger on disk, all keys in
//! memory, its part of each budget as a lease. A thread of its own with one small runtime exchanges that with the stores, and
//! [`Replicas`] is all that others see of it.

pub mod node;
pub mod shared_log;
pub mod status;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod transport;

mod handle;

pub use handle::{HealthPort, LookupFault, Replicas, Start};
