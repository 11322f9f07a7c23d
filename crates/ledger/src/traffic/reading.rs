//! Opens recorded traffic, and hands its records to several threads.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    panic::resume_unwind,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use parking_lot::Mutex;

use super::{
    block::{Blocks, TrafficRecord, foreign},
    database::{self, Database},
    export_file::{self, ExportFile, Exported},
};
use crate::{directory::DATABASE, entry::Filter, facts::label, fault::Fault, generations::owner_label};

/// Recorded traffic.
pub struct Traffic {
    source: Source,
}

enum Source {
    Database(Database),
    Export(ExportFile),
}

/// Which records.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Conditions on them.
    pub filter: Filter,
    /// Of an export: its number of the key, from 1.
    pub exported_key: Option<u32>,
    /// About so many of them, chosen by hashes of their ids. `None`: all.
    pub sample: Option<Sample>,
}

/// A share of the records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Hashes up to this are taken.
    pub most: u64,
    /// Number of records that it is drawn from.
    pub drawn_from: u64,
}

impl Sample {
    /// About `wanted` of `all`. `None` if that is all.
    pub fn of(wanted: u64, all: u64) -> Option<Sample> {
        let share = wanted as f64 / all.max(1) as f64;
        (wanted < all).then_some(Sample { most: (share * u64::MAX as f64) as u64, drawn_from: all })
    }
}

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Records that were handed on.
    pub records: u64,
    /// Records that cannot be read, because they are damaged or written by a newer version.
    pub unreadable: u64,
}

impl Traffic {
    /// Opens the ledger in a directory, a database file, or an export.
    ///
    /// # Errors
    /// There is nothing, it is something else, or it cannot be read.
    pub fn open(path: &Path) -> Result<Traffic, Fault> {
        let file = if path.is_dir() { path.join(DATABASE) } else { path.to_owned() };
        let mut head = [0; 16];
        let read = File::open(&file).and_then(|mut file| file.read_exact(&mut head));
        let source = match read {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Fault::NoLedger(path.display().to_string()));
            }
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(Fault::Disk(error)),
            Ok(()) if head.starts_with(database::MAGIC) => Source::Database(Database::open(&file)?),
            Ok(()) if head.starts_with(export_file::MAGIC) => Source::Export(ExportFile::open(&file)?),
            _ => return Err(foreign(&file)),
        };
        Ok(Traffic { source })
    }

    /// Number of records that the conditions admit, but for those on samples.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn count(&self, wanted: &Wanted) -> Result<u64, Fault> {
        match &self.source {
            Source::Database(database) => database.count(&wanted.filter),
            Source::Export(file) => Ok(file.summary().records),
        }
    }

    /// How much of the answers is accepted that people and programs rated, by the hashes of their ids. An export has none.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn ratings(&self) -> Result<BTreeMap<u64, f64>, Fault> {
        match &self.source {
            Source::Database(database) => database.ratings(),
            Source::Export(_) => Ok(BTreeMap::new()),
        }
    }

    /// What an export says of itself; `None` for a ledger.
    pub fn exported(&self) -> Option<&Exported> {
        match &self.source {
            Source::Database(_) => None,
            Source::Export(file) => Some(file.summary()),
        }
    }

    /// Hands every wanted record to `step`, on so many threads, each with a value of its own that `new` makes; gives these values.
    /// Records come to the threads in any order. Ends early when `stop` is set.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn fold<S: Send>(
        &self,
        wanted: &Wanted,
        threads: usize,
        stop: &AtomicBool,
        new: impl Fn() -> S + Sync,
        step: impl Fn(&mut S, TrafficRecord) + Sync,
    ) -> Result<(Vec<S>, Reading), Fault> {
        let blocks = Mutex::new(self.blocks(wanted)?);
        let work = || -> Result<(S, Reading), Fault> {
            let (mut state, mut reading) = (new(), Reading::default());
            while !stop.load(Relaxed) {
                let Some(block) = blocks.lock().next()? else { break };
                let mut take = |record: TrafficRecord| {
                    if wanted.takes(&record) {
                        reading.records += 1;
                        step(&mut state, record);
                    }
                };
                let unreadable = match &self.source {
                    Source::Database(database) => database.read(block, &mut take)?,
                    Source::Export(file) => file.read(block, &mut take)?,
                };
                reading.unreadable += unreadable;
            }
            Ok((state, reading))
        };
        let parts = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.collect::<Result<Vec<_>, Fault>>()
        })?;
        let mut whole = Reading::default();
        let states = parts.into_iter().map(|(state, reading)| {
            whole.records += reading.records;
            whole.unreadable += reading.unreadable;
            state
        });
        let states = states.collect();
        Ok((states, whole))
    }

    fn blocks(&self, wanted: &Wanted) -> Result<Box<dyn Blocks + '_>, Fault> {
        Ok(match &self.source {
            Source::Database(database) => Box::new(database.blocks(&wanted.filter)?),
            Source::Export(file) => Box::new(file.blocks(&wanted.filter)?),
        })
    }
}

impl Wanted {
    /// Whether a record that was looked up is wanted: a database has tested the conditions.
    fn takes(&self, record: &TrafficRecord) -> bool {
        if record.key == 0 { self.samples(record) } else { self.admits(record) }
    }

    fn samples(&self, record: &TrafficRecord) -> bool {
        self.sample.is_none_or(|sample| record.draw <= sample.most)
    }

    /// Whether a record meets the conditions and is in the sample.
    pub fn admits(&self, record: &TrafficRecord) -> bool {
        let decision = &record.generation.decision;
        let has = |field: u8, texts: &[Box<str>]| match field {
            label::ALIAS => texts.iter().any(|text| **text == *decision.router.as_deref().unwrap_or_default()),
            label::OBJECTIVE => texts.iter().any(|text| **text == *decision.objective.value.as_str()),
            label::KEY if record.key == 0 => texts.contains(&owner_label(record.generation.key)),
            // The key of an export is `exported_key`.
            label::KEY => true,
            _ => false,
        };
        self.samples(record)
            && self.filter.has_time(record.generation.created_ms)
            && self.filter.labels.iter().all(|(field, texts)| has(*field, texts))
            && self.exported_key.is_none_or(|key| key == record.key)
    }
}
