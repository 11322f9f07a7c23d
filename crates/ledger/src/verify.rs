//! Checks that everything stored can be read, that columns say what the records say, and that the sums count exactly what is
//! stored.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pointsman_domain::GenerationId;
use sha2::{Digest as _, Sha256};

use crate::{
    activity::{ActivityCounters, SLOT, slot},
    database::{Ledger, View, columns::Row, sums::Names},
    entry::Entry,
    fault::Fault,
    generations::{GenerationStore, head},
    packed::Packed,
};

/// Most faults that are named; the others are counted.
const NAMED: usize = 100;

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Groups of records.
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

/// Reads a record, and says what is wrong with it.
pub type Check<'c> = dyn FnMut(&Entry) -> Result<(), String> + 'c;

/// Checks everything in the database, and the entries that wait for it. Sums before `oldest_sum_ms` may have been added up and are
/// not compared. `progress` is told the number of records after each group.
///
/// # Errors
/// The disk refuses, or the tables cannot be read.
pub fn verify(
    ledger: &Ledger,
    waiting: &[Packed],
    oldest_sum_ms: i64,
    check: &mut Check<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Verification, Fault> {
    let view = ledger.view()?;
    let mut found = Verification::default();
    records(&view, &mut found, check, progress)?;
    for entry in waiting {
        check(&entry.entry()).unwrap_or_else(|what| found.fault(what));
        found.entries += 1;
    }
    sums(&view, &mut found, oldest_sum_ms)?;
    for hash in view.blob_hashes()? {
        let wrong = match view.blob(&hash) {
            Ok(bytes) => {
                let is_same = Sha256::digest(bytes.unwrap_or_default()).as_slice() == hash;
                (!is_same).then(|| "its bytes are not what was written".to_owned())
            }
            Err(Fault::Damaged(what)) => Some(what),
            Err(fault) => return Err(fault),
        };
        found.blobs += 1;
        if let Some(what) = wrong {
            found.fault(format!("the catalogue or policy {}…: {what}", hex::encode(hash.get(..6).unwrap_or_default())));
        }
    }
    Ok(found)
}

/// Compares every record with its columns.
fn records(
    view: &View<'_>,
    found: &mut Verification,
    check: &mut Check<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Fault> {
    let (mut after, mut damaged) = (None, 0);
    let mut names: HashMap<Box<str>, i64> = HashMap::new();
    loop {
        let groups = view.groups_after(after, 1)?;
        let Some(group) = groups.first() else { break };
        after = Some(group.number);
        found.blocks += 1;
        if group.is_damaged {
            damaged += 1;
            found.fault(format!("group {}, {}: its records cannot be read", group.number, time(group.newest_ms)));
        }
        for entry in &group.entries {
            // Retention drops columns before bytes.
            let Some(stored) = view.row(&entry.id)? else { continue };
            found.entries += 1;
            let packed = Packed::new(entry);
            let mut number = |name: &str| match names.get(name) {
                Some(number) => Ok(*number),
                None => {
                    let number = view.number(name)?.unwrap_or(-1);
                    names.insert(name.into(), number);
                    Ok(number)
                }
            };
            if Row::of(&packed.facts(), &mut number)? != stored {
                found.fault(format!(
                    "record {}: its columns are not what it says (in group {})",
                    name_of(entry),
                    group.number
                ));
            } else if let Err(what) = check(entry) {
                found.fault(format!("{what} (in group {})", group.number));
            }
        }
        progress(found.entries);
    }
    let (rows, counted) = (view.extent()?.0, view.state()?.entries);
    if rows != counted {
        found.fault(format!("{rows} records are stored, the database counts {counted}"));
    }
    if damaged == 0 && rows != found.entries {
        found.fault(format!("of {rows} records {} can be read", found.entries));
    }
    Ok(())
}

/// Compares the sums of every slot with the columns of its entries.
fn sums(view: &View<'_>, found: &mut Verification, oldest_sum_ms: i64) -> Result<(), Fault> {
    let aged_out = view.state()?.aged_out_ms.map_or(i64::MIN, |ms| slot(ms) + 1);
    let from = aged_out.max(slot(oldest_sum_ms).saturating_add(1));
    for (slot, is_whole) in view.slots(from)? {
        match is_whole {
            true => compare_slot(view, found, slot)?,
            false => found.slots_left_out += 1,
        }
    }
    Ok(())
}

fn compare_slot(view: &View<'_>, found: &mut Verification, slot: i64) -> Result<(), Fault> {
    found.slots += 1;
    let (stored, counted) = (view.sums_of(slot)?, view.counted_in(slot)?);
    let keys: BTreeSet<&Names> = stored.keys().chain(counted.keys()).collect();
    for key in keys {
        let of = |sums: &BTreeMap<Names, ActivityCounters>| sums.get(key).copied().unwrap_or_default();
        let (stored, counted) = (figures(&of(&stored)), figures(&of(&counted)));
        let different = stored.iter().zip(&counted).filter(|(stored, counted)| stored != counted);
        let texts: Vec<String> = different
            .map(|((name, stored), (_, counted))| format!("{name}: counted {stored}, records give {counted}"))
            .collect();
        if !texts.is_empty() {
            let [account, _, _, model, provider, ..] = *key;
            let name = |number| view.name(number).map(Option::unwrap_or_default);
            found.fault(format!(
                "sums of the 15 minutes from {}, model {}, provider {}, owner {}: {}",
                time(slot.saturating_mul(SLOT.as_millis() as i64)),
                name(model)?,
                name(provider)?,
                name(account)?,
                texts.join("; ")
            ));
        }
    }
    Ok(())
}

fn time(ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default().format("%FT%TZ").to_string()
}

/// The counters and the cost, each with its name.
fn figures(counters: &ActivityCounters) -> Vec<(&'static str, String)> {
    let counts = ActivityCounters::NAMES.into_iter().zip(counters.counts().map(|count| count.to_string()));
    counts.chain([("cost", counters.cost.to_string())]).collect()
}

/// The id of an entry as text.
fn name_of(entry: &Entry) -> String {
    let tail = entry.id.0.get(8..8 + GenerationId::SUFFIX).unwrap_or_default();
    format!("gen-{}-{}", entry.id.time(), String::from_utf8_lossy(tail))
}

impl GenerationStore {
    /// Reads an entry, and compares what its facts say with the record.
    pub(super) fn check(&self, entry: &Entry) -> Result<(), String> {
        let generation = self.read(entry).map_err(|fault| format!("record {}: {fault}", name_of(entry)))?;
        let counters = |packed: &Packed| Row::of(&packed.facts(), &mut |_| Ok(0)).map(|row| row.counters());
        match (counters(&head(&generation)), counters(&Packed::new(entry))) {
            (Ok(recorded), Ok(counted)) if recorded == counted => Ok(()),
            _ => Err(format!("record {}: its figures are not those that count", name_of(entry))),
        }
    }
}
