//! Some records as they are stored: expanded and read by the thread that uses them.

use std::{collections::HashMap, path::Path, sync::Arc};

use parking_lot::Mutex;
use pointsman_domain::{Catalog, Generation, RoutingPolicy};

use crate::{
    fault::Fault,
    record::{self, ContentHash, Versions},
};

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

/// Reads the records of its blocks.
pub(super) trait BlockReader {
    /// Hands the records on, and gives the number of those that cannot be read.
    fn read(&self, block: Block, take: &mut dyn FnMut(TrafficRecord)) -> Result<u64, Fault>;
}

impl Block {
    pub(super) fn records(self, reader: &impl BlockReader, take: &mut dyn FnMut(TrafficRecord)) -> Result<u64, Fault> {
        reader.read(self, take)
    }
}

/// Catalogs and policies that were read.
#[derive(Default)]
pub(super) struct KnownVersions {
    catalogs: Mutex<HashMap<ContentHash, Option<Arc<Catalog>>>>,
    policies: Mutex<HashMap<ContentHash, Option<Arc<RoutingPolicy>>>>,
}

/// Versions by the bytes that `bytes` finds.
pub(super) struct VersionsOf<'v, F> {
    pub known: &'v KnownVersions,
    pub bytes: F,
}

impl<F: Fn(ContentHash) -> Option<Vec<u8>>> Versions for VersionsOf<'_, F> {
    fn catalog(&self, hash: ContentHash) -> Option<Arc<Catalog>> {
        let read = || Some(Arc::new(record::read_catalog(&(self.bytes)(hash)?).ok()?));
        self.known.catalogs.lock().entry(hash).or_insert_with(read).clone()
    }

    fn policy(&self, hash: ContentHash) -> Option<Arc<RoutingPolicy>> {
        let read = || Some(Arc::new(record::read_policy(&(self.bytes)(hash)?).ok()?));
        self.known.policies.lock().entry(hash).or_insert_with(read).clone()
    }
}

/// The file is something else.
pub(super) fn foreign(path: &Path) -> Fault {
    Fault::NotALedger(path.display().to_string())
}
