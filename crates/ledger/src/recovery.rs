//! What an earlier process left in the journal.

use std::{collections::HashMap, sync::Arc};

use crate::{
    database::Ledger,
    directory::JOURNAL,
    disk::Disk,
    entry::{Entry, Id},
    fault::Fault,
    journal::{
        Journal, Segment,
        frame::{self, Frames, Kind},
    },
    packed::Packed,
};

/// What was found at the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Segments that were not deleted in time.
    pub segments: u64,
    /// Entries in them that the database lacked.
    pub entries: u64,
    /// Segments that ended in bytes that are no frame.
    pub torn: u64,
    /// Segments with damage before their end.
    pub damaged: u64,
    /// Bytes that were cut off behind the last whole frame of such segments.
    pub torn_bytes: u64,
    /// Entries that had begun and were never finished.
    pub interrupted: u64,
}

/// Segments to be read back, and entries that had begun.
pub struct LeftOver {
    /// The segments.
    pub segments: Vec<Arc<Segment>>,
    /// The entries that had begun and did not end.
    pub started: Vec<Entry>,
    /// The counts.
    pub recovery: Recovery,
}

/// Looks through the journal. Holds one segment in memory at a time.
pub fn find(disk: &dyn Disk, journal: &Journal, ledger: &Ledger) -> Result<LeftOver, Fault> {
    let mut names = disk.list(JOURNAL)?;
    names.retain(|name| !journal.is_own(name));
    let mut found = LeftOver { segments: Vec::new(), started: Vec::new(), recovery: Recovery::default() };
    let mut started: HashMap<Id, Packed> = HashMap::new();
    for name in &names {
        let bytes = disk.read(&format!("{JOURNAL}/{name}"))?;
        let segment = inspect(name, &bytes, ledger.watermark(name)?, &mut started, &mut found.recovery);
        found.segments.push(Arc::new(segment));
    }
    // The finished entry may lie in a segment that sorts before the one with its beginning.
    for name in &names {
        if started.is_empty() {
            break;
        }
        let bytes = disk.read(&format!("{JOURNAL}/{name}"))?;
        let finished = Frames::new(&bytes, 0).filter(|frame| frame.kind == Kind::Entry);
        for entry in finished.filter_map(|frame| frame.entry()) {
            started.remove(entry.id());
        }
    }
    let view = ledger.view()?;
    for (id, entry) in started {
        if !view.has(&id)? {
            found.started.push(entry.entry());
        }
    }
    found.started.sort_by_key(Entry::key);
    found.recovery.interrupted = found.started.len() as u64;
    Ok(found)
}

fn inspect(
    name: &str,
    bytes: &[u8],
    committed: u64,
    started: &mut HashMap<Id, Packed>,
    recovery: &mut Recovery,
) -> Segment {
    let mut needed = 0;
    let mut frames = Frames::new(bytes, 0);
    for frame in frames.by_ref() {
        match frame.kind {
            Kind::Started => started.extend(frame.entry().map(|entry| (*entry.id(), entry))),
            Kind::Entry | Kind::Blob => {
                recovery.entries += u64::from(frame.kind == Kind::Entry && frame.end > committed);
                needed = frame.end;
            }
        }
    }
    recovery.segments += 1;
    recovery.torn += u64::from(!frames.left().is_empty());
    recovery.torn_bytes += frames.left().len() as u64;
    let damaged = frame::is_damage(frames.left());
    recovery.damaged += u64::from(damaged);
    Segment::left_over(name.to_owned(), needed, committed, damaged)
}
