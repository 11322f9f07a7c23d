//! Recorded traffic, read whole by several threads: the records of a database, also of one that a running gateway writes to, or
//! of an export without names.
//!
//! Nothing here waits for the gateway or locks its directory. What still lies in the journal, of the last five seconds at most,
//! is not seen.

mod block;
mod database;
mod export;
mod export_file;
mod in_order;
mod reading;
mod strip;

pub use self::{
    block::TrafficRecord,
    export::export,
    export_file::Exported,
    reading::{Reading, Sample, Traffic, Wanted},
};
