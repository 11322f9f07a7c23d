//! The ledger on disk.

pub mod record;
