//! The file of changes that have their place in the common order, so that a start without PostgreSQL knows all keys.

use std::{collections::HashSet, io, sync::Arc};

use pointsman_config::from_hex;
use pointsman_ledger::{
    accounts::{AccountLog, SHARED_FILE},
    disk::Disk,
    fault::Fault,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::access::registry::{ChangeId, SharedChange, is_readable};

/// A change and its place in the common order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedChange {
    /// Its place.
    pub seq: i64,
    /// The change.
    pub change: SharedChange,
}

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    seq: i64,
    id: String,
    #[serde(borrow)]
    change: &'a RawValue,
}

/// The open file.
pub struct SharedLog {
    log: AccountLog,
    /// What the file holds, or will hold once the disk takes it.
    placed: Vec<PlacedChange>,
    /// How many of them the file holds.
    stored: usize,
}

impl SharedLog {
    /// Opens the file and reads it.
    ///
    /// # Errors
    /// The file cannot be read, or a line before the last is damaged.
    pub fn open(disk: Arc<dyn Disk>) -> Result<SharedLog, Fault> {
        let (log, stored) = AccountLog::open_named(disk, SHARED_FILE)?;
        let placed: Option<Vec<PlacedChange>> = stored.changes.iter().map(|line| read(line)).collect();
        let placed = placed.ok_or_else(|| Fault::Damaged(format!("a line of \"{SHARED_FILE}\"")))?;
        Ok(SharedLog { stored: placed.len(), placed, log })
    }

    /// The last place and the change there.
    pub fn last(&self) -> Option<(i64, ChangeId)> {
        self.placed.last().map(|placed| (placed.seq, placed.change.id))
    }

    /// Adds changes behind the last. They are remembered also if the disk refuses, and written with the next.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn add(&mut self, changes: Vec<PlacedChange>) -> io::Result<()> {
        self.placed.extend(changes);
        let lines: Vec<Vec<u8>> = self.placed.iter().skip(self.stored).filter_map(write).collect();
        self.log.append_all(lines.iter().map(Vec::as_slice))?;
        self.stored = self.placed.len();
        Ok(())
    }

    /// Forgets all places, because the common order was lost. Gives the changes.
    pub fn clear(&mut self) -> Vec<SharedChange> {
        if let Err(error) = self.log.clear() {
            log::warn!("the file of shared changes cannot be cut: {error}");
        }
        self.stored = 0;
        std::mem::take(&mut self.placed).into_iter().map(|placed| placed.change).collect()
    }

    /// All changes in the order in which they take effect: those with a place, then those of `own` without. Also the
    /// latter alone, and the identities of all of `own`.
    pub fn merge(&self, own: Vec<Vec<u8>>) -> Merged {
        let placed: HashSet<ChangeId> = self.placed.iter().map(|placed| placed.change.id).collect();
        let own: Vec<SharedChange> = own.into_iter().map(SharedChange::new).collect();
        let ids = own.iter().map(|change| change.id).collect();
        let without: Vec<SharedChange> = own.into_iter().filter(|change| !placed.contains(&change.id)).collect();
        // What a later version wrote is left out here as it was when it came.
        let readable = |placed: &&PlacedChange| is_readable(&placed.change.line);
        let first = self.placed.iter().filter(readable).map(|placed| placed.change.line.clone());
        let lines = first.chain(without.iter().map(|change| change.line.clone())).collect();
        Merged { lines, unsent: without, own: ids }
    }
}

/// What a start begins with.
pub struct Merged {
    /// All changes in the order in which they take effect.
    pub lines: Vec<Vec<u8>>,
    /// Own changes without a place.
    pub unsent: Vec<SharedChange>,
    /// Identities of the own changes.
    pub own: HashSet<ChangeId>,
}

fn read(line: &[u8]) -> Option<PlacedChange> {
    let Line { seq, id, change } = serde_json::from_slice(line).ok()?;
    let change = SharedChange { id: from_hex(&id)?, line: change.get().as_bytes().to_vec() };
    Some(PlacedChange { seq, change })
}

fn write(placed: &PlacedChange) -> Option<Vec<u8>> {
    let change = serde_json::from_slice(&placed.change.line).ok()?;
    serde_json::to_vec(&Line { seq: placed.seq, id: hex::encode(placed.change.id), change }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ledger::disk::{SystemDisk, make_folder};

    fn change(name: &str) -> SharedChange {
        let switch = format!(
            r#"{{"at_ms":1,"by":"a","from":"b","change":{{"action":"switch_key","name":"{name}","on":false}}}}"#
        );
        SharedChange::new(switch.into_bytes())
    }

    #[test]
    fn a_start_without_postgres_has_the_common_order_and_then_what_was_not_sent() {
        let folder = std::env::temp_dir().join(format!("pointsman-shared-log-{}", std::process::id()));
        make_folder(&folder).unwrap();
        let disk = || Arc::new(SystemDisk::new(&folder)) as Arc<dyn Disk>;
        let mut log = SharedLog::open(disk()).unwrap();
        let placed = |seq, name| PlacedChange { seq, change: change(name) };
        let later = br#"{"at_ms":1,"by":"a","from":"b","change":{"action":"fly"}}"#.to_vec();
        log.add(vec![placed(3, "foreign"), PlacedChange { seq: 5, change: SharedChange::new(later) }]).unwrap();
        log.add(vec![placed(7, "own")]).unwrap();
        let log = SharedLog::open(disk()).unwrap();
        assert_eq!(log.last(), Some((7, change("own").id)));
        let merged = log.merge(vec![change("own").line, change("new").line]);
        assert_eq!(merged.lines, [change("foreign").line, change("own").line, change("new").line]);
        assert_eq!(merged.unsent, [change("new")]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
