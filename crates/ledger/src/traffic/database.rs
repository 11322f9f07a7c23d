//! The records of a database, read beside the gateway that writes it.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use parking_lot::Mutex;
use pointsman_domain::GenerationId;
use sha2::{Digest as _, Sha256};

use super::block::{Block, Blocks, TrafficRecord, foreign};
use crate::{
    database::{Identity, Ledger, View, groups},
    disk::SystemDisk,
    entry::Filter,
    fault::Fault,
    generations::read_entry,
    packed::Packed,
    record::ContentHash,
    version_cache::VersionCache,
};

/// What every file of SQLite begins with.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";
/// Rows that are looked up at once. Their records lie in about a thirty-second of as many groups.
const ROWS: usize = 65_536;
/// Groups of a block.
const GROUPS: usize = 32;
/// Requests of one key within this time form a cluster where there is no session.
const CLUSTER_MS: i64 = 5 * 60 * 1_000;

pub(super) struct Database {
    ledger: Arc<Ledger>,
    identity: Identity,
    versions: VersionCache,
}

impl Database {
    pub(super) fn open(file: &Path) -> Result<Database, Fault> {
        let folder = file.parent().unwrap_or(Path::new("."));
        let disk: Arc<dyn crate::disk::Disk> = Arc::new(SystemDisk::new(folder));
        let opened = Ledger::beside_writer(&disk, file).and_then(|ledger| Ok((ledger.identity()?, ledger)));
        let (identity, ledger) = opened.map_err(|fault| match fault.to_string() {
            // A database of something else has no such tables.
            what if what.contains("no such table") || what.contains("no such column") => foreign(file),
            _ => fault,
        })?;
        Ok(Database { ledger: Arc::new(ledger), identity, versions: VersionCache::default() })
    }

    pub(super) fn count(&self, filter: &Filter) -> Result<u64, Fault> {
        self.ledger.view()?.count_admitted(filter)
    }

    pub(super) fn blocks(&self, filter: &Filter) -> Result<DatabaseBlocks<'_>, Fault> {
        Ok(DatabaseBlocks {
            view: Mutex::new(self.ledger.view()?),
            filter: filter.clone(),
            after: None,
            groups: Vec::new(),
            is_read: false,
        })
    }

    /// A ledger of an earlier version has no ratings.
    pub(super) fn ratings(&self) -> Result<BTreeMap<u64, f64>, Fault> {
        let mut accepted = BTreeMap::new();
        let read = self.ledger.each_rated_answer(|answer, ratings| {
            let of_users = answer.counted(ratings).find(|rated| !rated.is_judged && rated.weight > 0);
            accepted.extend(of_users.map(|rated| (self.draw(answer.id), rated.accepted as f64 / rated.weight as f64)));
        });
        match read {
            Err(Fault::Damaged(what)) if what.contains("no such table") => Ok(accepted),
            read => read.map(|_| accepted),
        }
    }

    fn draw(&self, id: GenerationId) -> u64 {
        self.hash(3, id.as_str().as_bytes())
    }

    fn hash(&self, kind: u8, bytes: &[u8]) -> u64 {
        let digest = Sha256::new().chain_update(self.identity).chain_update([kind]).chain_update(bytes).finalize();
        digest.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// Looks rows up in the order of time, and reads the groups that hold their records.
pub(super) struct DatabaseBlocks<'l> {
    view: Mutex<View<'l>>,
    filter: Filter,
    after: Option<i64>,
    /// Groups that were found and are not read yet, the next one last, with the places in them.
    groups: Vec<(i64, Vec<usize>)>,
    is_read: bool,
}

impl Blocks for DatabaseBlocks<'_> {
    fn next(&mut self) -> Result<Option<Block>, Fault> {
        if self.groups.is_empty() && !self.is_read {
            self.look_up()?;
        }
        let first = self.groups.len().saturating_sub(GROUPS);
        let next = self.groups.split_off(first);
        if next.is_empty() {
            return Ok(None);
        }
        let view = self.view.lock();
        let packed = next.into_iter().rev().filter_map(|(group, places)| {
            let bytes = view.packed_group(group).transpose()?;
            Some(bytes.map(|bytes| (bytes, places)))
        });
        Ok(Some(Block::Groups(packed.collect::<Result<_, _>>()?)))
    }
}

impl DatabaseBlocks<'_> {
    fn look_up(&mut self) -> Result<(), Fault> {
        let mut found: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        let places = self.view.lock().places_after(&self.filter, self.after, ROWS)?;
        self.is_read = places.len() < ROWS;
        self.after = places.last().map(|place| place.key);
        for place in places {
            found.entry(place.group).or_default().push(place.at);
        }
        self.groups = found.into_iter().rev().collect();
        Ok(())
    }
}

impl Database {
    /// Hands the records of a block on, and gives the number of those that cannot be read.
    pub(super) fn read(&self, block: Block, take: &mut dyn FnMut(TrafficRecord)) -> Result<u64, Fault> {
        let Block::Groups(packed) = block else { return Ok(0) };
        let blob = |hash: ContentHash| self.ledger.view().ok()?.blob(&hash.0).ok()?;
        let versions = self.versions.over(blob);
        let mut unreadable = 0;
        for (bytes, mut places) in packed {
            let Ok(bytes) = groups::expand(&bytes) else {
                unreadable += places.len() as u64;
                continue;
            };
            places.sort_unstable();
            for (at, entry) in groups::entries(&bytes).enumerate() {
                if places.binary_search(&at).is_err() {
                    continue;
                }
                match Packed::read(entry).map(|entry| read_entry(&entry.entry(), &versions)) {
                    Some(Ok(generation)) => take(self.record(generation)),
                    Some(Err(_)) | None => unreadable += 1,
                }
            }
        }
        Ok(unreadable)
    }
}

impl Database {
    fn record(&self, generation: pointsman_domain::Generation) -> TrafficRecord {
        let session = generation.session_id.as_deref().map(|session| self.hash(1, session.as_bytes()));
        let of_key = || {
            let slot = generation.created_ms.div_euclid(CLUSTER_MS);
            let bytes = [generation.owner.to_le_bytes(), generation.key.to_le_bytes(), slot.to_le_bytes()];
            self.hash(2, bytes.as_flattened())
        };
        TrafficRecord {
            cluster: session.unwrap_or_else(of_key),
            draw: self.draw(generation.id),
            name: generation.id.as_str().to_owned(),
            key: 0,
            generation,
        }
    }
}
