//! Checks that everything stored can be read and that the sums count exactly what is stored.
//!
//! Blocks are visited from the oldest on. The sums of a slot are compared as soon as no later block can hold an entry of
//! it, so that memory does not grow with the ledger.

use std::collections::BTreeSet;

use crate::{
    blocks::{self, Header},
    database::{self, IDS, INDEXES, Ledger, PAYLOADS, View, deletions, redb_fault},
    entry::{Entry, Id, RollUp},
    fault::Fault,
    packed::Packed,
    sums::{NewSums, SLOT, slot},
};

/// Most faults that are named; the others are counted.
const NAMED: usize = 100;

/// What is checked beyond the form of the store.
pub trait Checks {
    /// Reads an entry. The text of the error names it.
    ///
    /// # Errors
    /// It cannot be read.
    fn entry(&mut self, entry: &Entry) -> Result<(), String>;

    /// Reads a blob.
    ///
    /// # Errors
    /// It cannot be read.
    fn blob(&mut self, hash: &[u8; 32], bytes: &[u8]) -> Result<(), String>;

    /// A sum that differs, in words.
    fn difference(&self, difference: &Difference<'_>) -> String;

    /// Called now and then with the number of entries checked so far.
    fn progress(&mut self, entries: u64);
}

/// A sum that is not what the entries give.
#[derive(Debug, Clone, Copy)]
pub struct Difference<'a> {
    /// Beginning of its slot, Unix milliseconds.
    pub slot_ms: i64,
    /// Its key.
    pub key: &'a [u8],
    /// What is stored.
    pub stored: Option<&'a [u8]>,
    /// What the entries add up to.
    pub counted: Option<&'a [u8]>,
}

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Blocks.
    pub blocks: u64,
    /// Entries that were read.
    pub entries: u64,
    /// Blobs that were read.
    pub blobs: u64,
    /// Slots whose sums were compared.
    pub slots: u64,
    /// Slots with sums of which entries were deleted or have aged out.
    pub slots_left_out: u64,
    /// The first faults, in words.
    pub faults: Vec<String>,
    /// Number of all faults.
    pub fault_count: u64,
}

impl Verification {
    /// Counts a fault, and names it if there are few.
    pub fn fault(&mut self, text: String) {
        self.fault_count += 1;
        if self.faults.len() < NAMED {
            self.faults.push(text);
        }
    }
}

struct Verifier<'v, C> {
    view: &'v View,
    sums: &'v dyn RollUp,
    checks: &'v mut C,
    found: Verification,
    /// Sums of the entries in slots that are not compared yet.
    counted: NewSums,
    /// The first slot that is not compared yet.
    next: i64,
    /// Slots of which entries are missing.
    incomplete: BTreeSet<i64>,
    /// The same, as ranges.
    unread: Vec<(i64, i64)>,
}

/// Checks everything in `view`. Sums before `oldest_sum_ms` may have been dropped and are not compared.
///
/// # Errors
/// The disk refuses, or the tables cannot be read.
pub fn verify(
    view: &View,
    sums: &dyn RollUp,
    oldest_sum_ms: i64,
    checks: &mut impl Checks,
) -> Result<Verification, Fault> {
    let state = view.state()?;
    let aged_out = state.aged_out_ms.map_or(i64::MIN, |ms| slot(ms) + 1);
    let mut verifier = Verifier {
        view,
        sums,
        checks,
        found: Verification::default(),
        counted: NewSums::default(),
        next: aged_out.max(slot(oldest_sum_ms).saturating_add(1)),
        incomplete: deletions::deleted(view)?,
        unread: Vec::new(),
    };
    verifier.found.slots_left_out = slots_before(view, verifier.next)?;
    for row in view.headers()?.range((i64::MIN, 0)..).map_err(redb_fault)? {
        let (key, bytes) = row.map_err(redb_fault)?;
        let (last_ms, block) = key.value();
        let first_ms = last_ms.saturating_sub(state.span_ms);
        verifier.compare(slot(first_ms))?;
        let header = database::header(bytes.value());
        let range = header.as_ref().map_or((first_ms, last_ms), |header| (header.first.created_ms, last_ms));
        match header.and_then(|header| verifier.block(block, &header)) {
            Ok(()) => {}
            Err(Fault::Damaged(what)) => {
                verifier.found.fault(format!("block {block}, {}: {what}", times(range)));
                verifier.unread.push((slot(range.0), slot(range.1)));
            }
            Err(fault) => return Err(fault),
        }
        verifier.found.blocks += 1;
        verifier.checks.progress(verifier.found.entries);
    }
    verifier.compare(i64::MAX / SLOT.as_millis() as i64)?;
    verifier.blobs()?;
    let mut found = verifier.found;
    if found.entries != state.entries && verifier.unread.is_empty() {
        found.fault(format!("{} records are stored, the database counts {}", found.entries, state.entries));
    }
    Ok(found)
}

fn times((first_ms, last_ms): (i64, i64)) -> String {
    let time = |ms| chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default().format("%FT%T%.3fZ");
    format!("{} to {}", time(first_ms), time(last_ms))
}

impl<C: Checks> Verifier<'_, C> {
    fn block(&mut self, block: u64, header: &Header) -> Result<(), Fault> {
        let rows = blocks::rows(&self.view.part(INDEXES, block)?)?;
        let bytes = blocks::expand(&self.view.part(PAYLOADS, block)?)?;
        let entries: Option<Vec<Entry>> = (0..rows.len()).map(|row| blocks::entry(&rows, row, &bytes)).collect();
        let entries = entries.ok_or_else(|| Fault::Damaged("its parts do not fit each other".to_owned()))?;
        let ids = self.view.ids(&header.first_id, block)?;
        for entry in &entries {
            let indexed = ids.as_ref().is_some_and(|ids| ids.may_hold(&entry.id));
            if !indexed || !(header.first..=header.last).contains(&entry.key()) {
                return Err(Fault::Damaged("its entries are not those that its header names".to_owned()));
            }
        }
        if entries.len() as u64 != u64::from(header.count) {
            return Err(Fault::Damaged(format!("{} entries instead of {}", entries.len(), header.count)));
        }
        for entry in &entries {
            if let Err(what) = self.checks.entry(entry) {
                self.found.fault(format!("{what} (in block {block})"));
            }
            if slot(entry.created_ms) >= self.next {
                self.counted.count(&Packed::of(entry), self.sums);
            }
        }
        self.found.entries += entries.len() as u64;
        Ok(())
    }

    /// Compares the sums of all slots before `until`.
    fn compare(&mut self, until: i64) -> Result<(), Fault> {
        if until <= self.next {
            return Ok(());
        }
        let mut counted = self.counted.take_before(until);
        let millis = SLOT.as_millis() as i64;
        let stored =
            self.view.sums(self.next.saturating_mul(millis), until.saturating_mul(millis).saturating_sub(1))?;
        self.next = until;
        let mut seen: Option<(i64, bool)> = None;
        let keys: BTreeSet<_> = stored.keys().chain(counted.keys()).cloned().collect();
        for place in keys {
            let (slot, key) = &place;
            let complete = match seen {
                Some((last, complete)) if last == *slot => complete,
                _ => {
                    let complete = !self.incomplete.contains(slot)
                        && !self.unread.iter().any(|(first, last)| (first..=last).contains(&slot));
                    self.found.slots += u64::from(complete);
                    self.found.slots_left_out += u64::from(!complete);
                    seen = Some((*slot, complete));
                    complete
                }
            };
            let (stored, counted) = (stored.get(&place), counted.remove(&place));
            if complete && stored != counted.as_ref() {
                let (stored, counted) = (stored.map(Vec::as_slice), counted.as_deref());
                let slot_ms = slot.saturating_mul(millis);
                let difference = Difference { slot_ms, key, stored, counted };
                self.found.fault(self.checks.difference(&difference));
            }
        }
        Ok(())
    }

    fn blobs(&mut self) -> Result<(), Fault> {
        for hash in self.view.blob_hashes()? {
            let name = hex::encode(hash.get(..6).unwrap_or_default());
            let read = match self.view.blob(&hash) {
                Ok(bytes) => self.checks.blob(&hash, &bytes.unwrap_or_default()),
                Err(Fault::Damaged(what)) => Err(what),
                Err(fault) => return Err(fault),
            };
            self.found.blobs += 1;
            if let Err(what) = read {
                self.found.fault(format!("the catalogue or policy {name}…: {what}"));
            }
        }
        Ok(())
    }
}

/// Number of slots before `slot` that have sums.
fn slots_before(view: &View, slot: i64) -> Result<u64, Fault> {
    let mut slots = BTreeSet::new();
    view.each_sum_before(slot, |slot| {
        slots.insert(slot);
    })?;
    Ok(slots.len() as u64)
}

impl View {
    /// Which ids a block holds.
    pub(super) fn ids(&self, first: &Id, block: u64) -> Result<Option<blocks::IdSet>, Fault> {
        let table = self.transaction.open_table(IDS).map_err(redb_fault)?;
        let stored = table.get((&first.0, block)).map_err(redb_fault)?;
        Ok(stored.and_then(|ids| ids.value().get(Id::LENGTH..).map(blocks::IdSet::stored)))
    }
}

impl Ledger {
    /// Checks the checksums of the whole file. `false` if the file had to be mended.
    ///
    /// # Errors
    /// The disk refuses, or the file is damaged.
    pub fn check(&mut self) -> Result<bool, Fault> {
        self.database.check_integrity().map_err(redb_fault)
    }
}
