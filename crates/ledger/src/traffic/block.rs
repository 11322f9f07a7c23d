//! Some records as they are stored: expanded and read by the thread that uses them.

use std::path::Path;

use pointsman_domain::Generation;

use crate::fault::Fault;

/// One record.
pub struct TrafficRecord {
    /// The generation. Of an export it has no ids, keys, tags or addresses.
    pub generation: Generation,
    /// The same for records that depend on each other: of one session, or else of one key within five minutes.
    pub cluster: u64,
    /// Its id; of an export `#` and its number.
    pub name: String,
    /// Of an export: the number of its key.
    pub key: u32,
    /// Hash of its id, by which samples are drawn.
    pub draw: u64,
}

/// Blocks of records, one after the other.
pub(super) trait Blocks: Send {
    fn next(&mut self) -> Result<Option<Block>, Fault>;
}

/// Some records as they are stored.
pub(super) enum Block {
    /// Groups of a database, with the places of the records that are wanted.
    Groups(Vec<(Vec<u8>, Vec<usize>)>),
    /// A part of an export, and the number of its first record.
    Part(Vec<u8>, u64),
}

/// The file is something else.
pub(super) fn foreign(path: &Path) -> Fault {
    Fault::NotALedger(path.display().to_string())
}
