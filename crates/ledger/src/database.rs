//! The redb file: tables, one transaction per batch, retention.
//!
//! The watermark of a segment and the entries before it are committed together, so that a crash neither loses nor
//! doubles an entry. Reading pages is in [`crate::page`].

mod blobs;
pub(super) mod deletions;
mod old_sums;
mod outbox;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Range,
    sync::Arc,
};

use redb::{
    Builder, CompactionError, Database, ReadTransaction, ReadableDatabase as _, ReadableTable as _, StorageBackend,
    TableDefinition, TableError, WriteTransaction,
};
use serde::{Deserialize, Serialize};

use self::blobs::{note_used, put_blob};
use crate::{
    blocks::{self, Block, Header},
    directory::DATABASE,
    disk::{Disk, DiskFile},
    entry::{Entry, Filter, Id, RollUp},
    fault::{Fault, unless_damaged},
    packed::Packed,
    queue::{Item, Queued},
    sums::{NewSums, SlotSums, slot},
};

/// Pages that redb keeps in memory: enough for the inner pages of a file of 5 GB.
const CACHE_BYTES: usize = 8 * 1024 * 1024;
/// A block with fewer entries is written again together with what comes next.
const MERGE_BELOW: u32 = 64;
/// Longest value. redb rounds the page of a long value up to a power of two: this one fits 8 KiB with redb's own bytes.
const CHUNK: usize = 8 * 1024 - 64;
/// Most blocks that one transaction of retention drops.
const DROPPED_AT_ONCE: usize = 256;
/// Free space that compaction is worth, beside half of the file.
const WORTH_COMPACTING: u64 = 64 * 1024 * 1024;

pub use outbox::{Identity, OutboxBlock};

const STATE_KEY: &str = "state";
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
/// Name of a segment to the end of its last committed frame.
const WATERMARKS: TableDefinition<'_, &str, u64> = TableDefinition::new("watermarks");
/// Greatest `created_ms` and number of a block to its header.
pub(super) const HEADERS: TableDefinition<'_, (i64, u64), &[u8]> = TableDefinition::new("headers");
/// Least id and number of a block to its greatest id and id set.
pub(super) const IDS: TableDefinition<'_, (&[u8; Id::LENGTH], u64), &[u8]> = TableDefinition::new("ids");
/// Number of a block and of a chunk to a chunk of its index.
pub(super) const INDEXES: TableDefinition<'_, (u64, u32), &[u8]> = TableDefinition::new("indexes");
/// The same for its bytes.
pub(super) const PAYLOADS: TableDefinition<'_, (u64, u32), &[u8]> = TableDefinition::new("payloads");
/// Hash and number of a chunk to a chunk of a blob.
pub(super) const BLOBS: TableDefinition<'_, (&[u8; 32], u32), &[u8]> = TableDefinition::new("blobs");
/// Slot and key to counters.
const SUMS: TableDefinition<'_, (i64, &[u8]), &[u8]> = TableDefinition::new("sums");

/// What the database knows of itself. Written with every transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Number of the next block.
    next_block: u64,
    /// Longest time between two entries of one block, in milliseconds.
    pub span_ms: i64,
    /// The same between the times of ids.
    id_span: u64,
    /// Entries stored.
    pub entries: u64,
    /// Bytes of all blocks.
    pub stored: u64,
    /// Greatest `created_ms` of what retention dropped.
    pub aged_out_ms: Option<i64>,
    /// The process that wrote last, and the last item of its queue.
    pub run: u64,
    /// See `run`.
    pub ordinal: u64,
    /// The last block, if it is short: its key.
    tail: Option<(i64, u64)>,
}

/// An open database.
#[derive(Debug)]
pub struct Ledger {
    pub(super) database: Database,
    file: Arc<dyn DiskFile>,
}

impl Ledger {
    /// Opens the database, or makes one. Quick also after a crash.
    ///
    /// # Errors
    /// The disk refuses, or the file is damaged.
    pub fn open(disk: &dyn Disk) -> Result<Ledger, Fault> {
        let file: Arc<dyn DiskFile> = Arc::from(disk.open(DATABASE)?);
        let backend = Backend(Arc::clone(&file));
        let database = Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend).map_err(redb_fault)?;
        let ledger = Ledger { database, file };
        if ledger.is_new()? {
            let transaction = ledger.begin()?;
            transaction.open_table(WATERMARKS).map_err(redb_fault)?;
            transaction.open_table(HEADERS).map_err(redb_fault)?;
            transaction.open_table(IDS).map_err(redb_fault)?;
            transaction.open_table(INDEXES).map_err(redb_fault)?;
            transaction.open_table(PAYLOADS).map_err(redb_fault)?;
            transaction.open_table(BLOBS).map_err(redb_fault)?;
            transaction.open_table(blobs::USES).map_err(redb_fault)?;
            transaction.open_table(deletions::DELETED).map_err(redb_fault)?;
            transaction.open_table(SUMS).map_err(redb_fault)?;
            write_state(&transaction, &State::default())?;
            transaction.commit().map_err(redb_fault)?;
        }
        Ok(ledger)
    }

    fn is_new(&self) -> Result<bool, Fault> {
        match self.view()?.transaction.open_table(META) {
            Ok(_) => Ok(false),
            Err(TableError::TableDoesNotExist(_)) => Ok(true),
            Err(error) => Err(redb_fault(error)),
        }
    }

    fn begin(&self) -> Result<WriteTransaction, Fault> {
        let mut transaction = self.database.begin_write().map_err(redb_fault)?;
        // Otherwise opening after a crash reads the whole file.
        transaction.set_quick_repair(true);
        Ok(transaction)
    }

    /// A consistent view. It must not be kept: pages that it sees are not reused.
    ///
    /// # Errors
    /// The disk failed earlier.
    pub fn view(&self) -> Result<View, Fault> {
        Ok(View { transaction: self.database.begin_read().map_err(redb_fault)? })
    }

    /// What the database knows of itself.
    ///
    /// # Errors
    /// There is none yet, or the disk refuses.
    pub fn state(&self) -> Result<State, Fault> {
        self.view()?.state()
    }

    /// Commits items in order, with watermarks and sums; `forgotten` are segments that no longer exist.
    ///
    /// # Errors
    /// The disk refuses. It may have been committed all the same: reopen, and compare `run` and `ordinal`.
    pub fn commit(&self, run: u64, items: &[Queued], forgotten: &[String], sums: &dyn RollUp) -> Result<(), Fault> {
        let transaction = self.begin()?;
        let mut state = read_state(&transaction)?;
        let tail = take_tail(&transaction, &mut state)?;
        let mut entries: Vec<&Packed> = tail.iter().collect();
        for queued in items {
            match &queued.item {
                Item::Entry(entry) => entries.push(entry),
                Item::Blob(hash, bytes) => put_blob(&transaction, hash, bytes)?,
                Item::Gap => {}
            }
        }
        let new = entries.get(tail.len()..).unwrap_or_default();
        add_sums(&transaction, new, sums)?;
        note_used(&transaction, new, sums)?;
        for block in blocks::pack(&entries)? {
            put_block(&transaction, &mut state, &block)?;
        }
        if let Some(last) = items.last() {
            (state.run, state.ordinal) = (run, last.ordinal);
        }
        {
            let mut watermarks = transaction.open_table(WATERMARKS).map_err(redb_fault)?;
            for name in forgotten {
                watermarks.remove(name.as_str()).map_err(redb_fault)?;
            }
            // Positions of a segment come in order: its last one counts.
            let positions = items.iter().filter_map(|queued| queued.position.as_ref());
            let ends: HashMap<&str, u64> = positions.map(|at| (at.segment.name.as_str(), at.to)).collect();
            for (name, end) in ends {
                watermarks.insert(name, end).map_err(redb_fault)?;
            }
        }
        write_state(&transaction, &state)?;
        transaction.commit().map_err(redb_fault)
    }

    /// End of the last committed frame of a segment.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn watermark(&self, segment: &str) -> Result<u64, Fault> {
        let table = self.view()?.transaction.open_table(WATERMARKS).map_err(redb_fault)?;
        Ok(table.get(segment).map_err(redb_fault)?.map_or(0, |end| end.value()))
    }

    /// Drops the oldest blocks: those wholly before `oldest_ms`, and more until at most `most_bytes` are left. Gives the
    /// number of entries dropped; not 0 means that there may be more to drop.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn retain(&self, oldest_ms: i64, most_bytes: u64) -> Result<u64, Fault> {
        let state = self.state()?;
        let mut over = state.stored.saturating_sub(most_bytes);
        let mut doomed = Vec::new();
        let view = self.view()?;
        for row in view.headers()?.iter().map_err(redb_fault)? {
            let (key, bytes) = row.map_err(redb_fault)?;
            let Some(header) = unless_damaged(key.value().1, header(bytes.value()))? else { continue };
            if (header.last.created_ms >= oldest_ms && over == 0) || doomed.len() == DROPPED_AT_ONCE {
                break;
            }
            over = over.saturating_sub(header.stored);
            doomed.push((key.value(), header));
        }
        if doomed.is_empty() {
            return Ok(0);
        }
        let transaction = self.begin()?;
        let mut state = read_state(&transaction)?;
        for (key, header) in &doomed {
            remove_block(&transaction, &mut state, *key, header)?;
            state.aged_out_ms = state.aged_out_ms.max(Some(header.last.created_ms));
        }
        write_state(&transaction, &state)?;
        transaction.commit().map_err(redb_fault)?;
        Ok(doomed.iter().map(|(_, header)| u64::from(header.count)).sum())
    }

    /// Deletes the entries that the filter admits, and rewrites the blocks that held them beside others. Sums stay. Gives the
    /// number of deleted entries. Takes a few milliseconds per rewritten block.
    ///
    /// # Errors
    /// The disk refuses, or a block is damaged; some entries may be deleted.
    pub fn delete(&self, filter: &Filter) -> Result<u64, Fault> {
        let mut deleted = 0;
        // From a view, because a block that is rewritten during the loop must not be looked at again.
        for row in self.view()?.headers()?.iter().map_err(redb_fault)? {
            let (key, bytes) = row.map_err(redb_fault)?;
            let deletion = header(bytes.value()).and_then(|header| match header.may_admit(filter) {
                true => self.delete_from_block(key.value(), filter),
                false => Ok(0),
            });
            deleted += unless_damaged(key.value().1, deletion)?.unwrap_or_default();
        }
        Ok(deleted)
    }

    fn delete_from_block(&self, key: (i64, u64), filter: &Filter) -> Result<u64, Fault> {
        let transaction = self.begin()?;
        let mut state = read_state(&transaction)?;
        let Some((header, entries)) = read_block(&transaction, key)? else { return Ok(0) };
        let admitted = |entry: &Entry| filter.admits(entry.created_ms, &entry.facts);
        let (doomed, kept): (Vec<_>, Vec<_>) = entries.into_iter().partition(admitted);
        if doomed.is_empty() {
            return Ok(0);
        }
        deletions::note_deleted(&transaction, doomed.iter().map(|entry| entry.created_ms))?;
        remove_block(&transaction, &mut state, key, &header)?;
        let tail = state.tail;
        let kept: Vec<Packed> = kept.iter().map(Packed::of).collect();
        for block in blocks::pack(&kept.iter().collect::<Vec<_>>())? {
            put_block(&transaction, &mut state, &block)?;
        }
        // What is left of an older block does not take up newer entries.
        state.tail = tail;
        write_state(&transaction, &state)?;
        transaction.commit().map_err(redb_fault)?;
        Ok(doomed.len() as u64)
    }

    /// Whether so much of what the file takes on the disk is free that compaction pays. redb doubles the length of a file that
    /// is full, so the length says nothing.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn is_sparse(&self) -> Result<bool, Fault> {
        let (allocated, stored) = (self.file.allocated()?, self.state()?.stored);
        Ok(allocated > stored.saturating_mul(2).saturating_add(WORTH_COMPACTING))
    }

    /// Gives free space back to the disk. May take seconds per GB, and nobody may read meanwhile. `false` if there was none
    /// to give, or a view is still in use.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn compact(&mut self) -> Result<bool, Fault> {
        match self.database.compact() {
            Err(CompactionError::TransactionInProgress) => Ok(false),
            compacted => compacted.map_err(redb_fault),
        }
    }
}

/// A consistent view of the database.
pub struct View {
    pub(super) transaction: ReadTransaction,
}

type Chunks = redb::ReadOnlyTable<(u64, u32), &'static [u8]>;
type Headers = redb::ReadOnlyTable<(i64, u64), &'static [u8]>;
type Sums = redb::ReadOnlyTable<(i64, &'static [u8]), &'static [u8]>;

impl View {
    /// What the database knows of itself.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn state(&self) -> Result<State, Fault> {
        let table = self.transaction.open_table(META).map_err(redb_fault)?;
        let bytes = table.get(STATE_KEY).map_err(redb_fault)?.ok_or_else(|| damaged("no state"))?;
        parse_state(bytes.value())
    }

    pub(super) fn headers(&self) -> Result<Headers, Fault> {
        self.transaction.open_table(HEADERS).map_err(redb_fault)
    }

    pub(super) fn sums_table(&self) -> Result<Sums, Fault> {
        self.transaction.open_table(SUMS).map_err(redb_fault)
    }

    /// The stored index of a block, or its bytes, whichever table is given.
    pub(super) fn part(
        &self,
        table: TableDefinition<'_, (u64, u32), &'static [u8]>,
        block: u64,
    ) -> Result<Vec<u8>, Fault> {
        let table: Chunks = self.transaction.open_table(table).map_err(redb_fault)?;
        let mut whole = Vec::new();
        for row in table.range((block, 0)..=(block, u32::MAX)).map_err(redb_fault)? {
            whole.extend_from_slice(row.map_err(redb_fault)?.1.value());
        }
        Ok(whole)
    }

    /// The entry with this id.
    ///
    /// # Errors
    /// The disk refuses, or the block is damaged.
    pub fn entry(&self, id: &Id) -> Result<Option<Entry>, Fault> {
        let span = self.state()?.id_span;
        let table = self.transaction.open_table(IDS).map_err(redb_fault)?;
        let from = Id::new(id.time().saturating_sub(span), [0; 24]);
        let mut damage = None;
        for row in table.range((&from.0, 0)..=(&id.0, u64::MAX)).map_err(redb_fault)?.rev() {
            let (key, value) = row.map_err(redb_fault)?;
            let Some((last, ids)) = value.value().split_first_chunk::<{ Id::LENGTH }>() else { continue };
            if *last < id.0 || !blocks::IdSet::stored(ids).may_hold(id) {
                continue;
            }
            let block = key.value().1;
            let rows = match self.part(INDEXES, block).and_then(|index| blocks::rows(&index)) {
                // It may hold the id, or another block does.
                Err(Fault::Damaged(what)) => {
                    damage = Some(what);
                    continue;
                }
                rows => rows?,
            };
            if let Some(row) = rows.iter().position(|row| row.key.id == *id) {
                return Ok(blocks::entry(&rows, row, &blocks::expand(&self.part(PAYLOADS, block)?)?));
            }
        }
        damage.map_or(Ok(None), |what| Err(Fault::Damaged(what)))
    }

    /// The blob with this hash.
    ///
    /// # Errors
    /// The disk refuses, or the blob is damaged.
    pub fn blob(&self, hash: &[u8; 32]) -> Result<Option<Vec<u8>>, Fault> {
        let table = self.transaction.open_table(BLOBS).map_err(redb_fault)?;
        let mut whole = Vec::new();
        for row in table.range((hash, 0)..=(hash, u32::MAX)).map_err(redb_fault)? {
            whole.extend_from_slice(row.map_err(redb_fault)?.1.value());
        }
        if whole.is_empty() { Ok(None) } else { blocks::expand(&whole).map(Some) }
    }

    /// Sums of the slots from the one at `since_ms` to the one at `until_ms`: slot, key, counters. Those of long ago are not
    /// among them.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn sums(&self, since_ms: i64, until_ms: i64) -> Result<SlotSums, Fault> {
        self.sums_in(slot(since_ms)..slot(until_ms).saturating_add(1))
    }

    fn sums_in(&self, slots: Range<i64>) -> Result<SlotSums, Fault> {
        let none: &[u8] = &[];
        let range = (slots.start, none)..(slots.end, none);
        let table = self.sums_table()?;
        let mut sums = BTreeMap::new();
        for row in table.range(range).map_err(redb_fault)? {
            let (key, value) = row.map_err(redb_fault)?;
            let (slot, name) = key.value();
            sums.insert((slot, name.to_vec()), value.value().to_vec());
        }
        Ok(sums)
    }
}

/// Reads a stored header.
pub(super) fn header(bytes: &[u8]) -> Result<Header, Fault> {
    postcard::from_bytes(bytes).map_err(|error| damaged(&format!("the header of a block ({error})")))
}

fn damaged(what: &str) -> Fault {
    Fault::Damaged(what.to_owned())
}

fn parse_state(bytes: &[u8]) -> Result<State, Fault> {
    postcard::from_bytes(bytes).map_err(|error| damaged(&format!("the state of the database ({error})")))
}

fn read_state(transaction: &WriteTransaction) -> Result<State, Fault> {
    let table = transaction.open_table(META).map_err(redb_fault)?;
    let bytes = table.get(STATE_KEY).map_err(redb_fault)?;
    bytes.map_or(Ok(State::default()), |bytes| parse_state(bytes.value()))
}

fn write_state(transaction: &WriteTransaction, state: &State) -> Result<(), Fault> {
    let bytes = postcard::to_stdvec(state).map_err(|error| damaged(&error.to_string()))?;
    let mut table = transaction.open_table(META).map_err(redb_fault)?;
    table.insert(STATE_KEY, bytes.as_slice()).map_err(redb_fault)?;
    Ok(())
}

/// Takes out the entries of the last block, if it is short.
fn take_tail(transaction: &WriteTransaction, state: &mut State) -> Result<Vec<Packed>, Fault> {
    let Some(key) = state.tail.take() else { return Ok(Vec::new()) };
    // A damaged block stays as it is, and a new one begins.
    let stored = unless_damaged(key.1, read_block(transaction, key))?.flatten();
    let Some((header, entries)) = stored else { return Ok(Vec::new()) };
    remove_block(transaction, state, key, &header)?;
    Ok(entries.iter().map(Packed::of).collect())
}

/// A header and the entries of its block.
type StoredBlock = (Header, Vec<Entry>);

/// A block with its entries. `None` if it is not there any more.
fn read_block(transaction: &WriteTransaction, key: (i64, u64)) -> Result<Option<StoredBlock>, Fault> {
    let stored = {
        let table = transaction.open_table(HEADERS).map_err(redb_fault)?;
        let bytes = table.get(key).map_err(redb_fault)?;
        bytes.map(|bytes| header(bytes.value())).transpose()?
    };
    let Some(header) = stored else { return Ok(None) };
    let index = read_chunks(transaction, INDEXES, key.1)?;
    let bytes = blocks::expand(&read_chunks(transaction, PAYLOADS, key.1)?)?;
    let rows = blocks::rows(&index)?;
    let entries = (0..rows.len()).filter_map(|row| blocks::entry(&rows, row, &bytes)).collect();
    Ok(Some((header, entries)))
}

fn read_chunks(
    transaction: &WriteTransaction,
    table: TableDefinition<'_, (u64, u32), &'static [u8]>,
    block: u64,
) -> Result<Vec<u8>, Fault> {
    let table = transaction.open_table(table).map_err(redb_fault)?;
    let mut whole = Vec::new();
    for row in table.range((block, 0)..=(block, u32::MAX)).map_err(redb_fault)? {
        whole.extend_from_slice(row.map_err(redb_fault)?.1.value());
    }
    Ok(whole)
}

fn put_block(transaction: &WriteTransaction, state: &mut State, block: &Block) -> Result<(), Fault> {
    let header = &block.header;
    let number = state.next_block;
    let key = (header.last.created_ms, number);
    let bytes = postcard::to_stdvec(header).map_err(|error| damaged(&error.to_string()))?;
    transaction.open_table(HEADERS).map_err(redb_fault)?.insert(key, bytes.as_slice()).map_err(redb_fault)?;
    let ids = [&header.last_id.0, block.ids.bits()].concat();
    let mut table = transaction.open_table(IDS).map_err(redb_fault)?;
    table.insert((&header.first_id.0, number), ids.as_slice()).map_err(redb_fault)?;
    for (part, bytes) in [(INDEXES, &block.index), (PAYLOADS, &block.payload)] {
        let mut table = transaction.open_table(part).map_err(redb_fault)?;
        for (chunk, bytes) in (0_u32..).zip(bytes.chunks(CHUNK)) {
            table.insert((number, chunk), bytes).map_err(redb_fault)?;
        }
    }
    state.next_block += 1;
    state.span_ms = state.span_ms.max(header.last.created_ms.saturating_sub(header.first.created_ms));
    state.id_span = state.id_span.max(header.last_id.time() - header.first_id.time());
    state.entries += u64::from(header.count);
    state.stored += header.stored;
    state.tail = (header.count < MERGE_BELOW).then_some(key);
    Ok(())
}

fn remove_block(
    transaction: &WriteTransaction,
    state: &mut State,
    key: (i64, u64),
    header: &Header,
) -> Result<(), Fault> {
    transaction.open_table(HEADERS).map_err(redb_fault)?.remove(key).map_err(redb_fault)?;
    let mut ids = transaction.open_table(IDS).map_err(redb_fault)?;
    ids.remove((&header.first_id.0, key.1)).map_err(redb_fault)?;
    for part in [INDEXES, PAYLOADS] {
        let mut table = transaction.open_table(part).map_err(redb_fault)?;
        table.retain_in((key.1, 0)..=(key.1, u32::MAX), |_, _| false).map_err(redb_fault)?;
    }
    state.entries = state.entries.saturating_sub(u64::from(header.count));
    state.stored = state.stored.saturating_sub(header.stored);
    if state.tail == Some(key) {
        state.tail = None;
    }
    Ok(())
}

fn add_sums(transaction: &WriteTransaction, entries: &[&Packed], sums: &dyn RollUp) -> Result<(), Fault> {
    let mut added = NewSums::default();
    for entry in entries {
        added.count(entry, sums);
    }
    let mut table = transaction.open_table(SUMS).map_err(redb_fault)?;
    for ((slot, key), more) in added.into_sums() {
        merge_sum(&mut table, (slot, &key), more, sums)?;
    }
    Ok(())
}

type SumsTable<'t> = redb::Table<'t, (i64, &'static [u8]), &'static [u8]>;

/// Adds counters to a stored sum.
fn merge_sum(table: &mut SumsTable<'_>, place: (i64, &[u8]), more: Vec<u8>, sums: &dyn RollUp) -> Result<(), Fault> {
    let stored = table.get(place).map_err(redb_fault)?.map(|sum| sum.value().to_vec());
    let sum = match stored {
        None => more,
        Some(mut sum) => {
            sums.merge(&mut sum, &more);
            sum
        }
    };
    table.insert(place, sum.as_slice()).map_err(redb_fault)?;
    Ok(())
}

/// What redb reports, as a fault of the store.
pub(super) fn redb_fault(error: impl Into<redb::Error>) -> Fault {
    match error.into() {
        // So redb names a file that it did not write, or of which it wrote only the beginning.
        redb::Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => Fault::Damaged(error.to_string()),
        redb::Error::Io(error) => Fault::Disk(error),
        redb::Error::Corrupted(what) => Fault::Damaged(what),
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => Fault::Unavailable,
        other => Fault::Damaged(other.to_string()),
    }
}

/// A file of the store as redb wants it.
struct Backend(Arc<dyn DiskFile>);

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> std::io::Result<u64> {
        self.0.length()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read_at(offset, out)
    }

    fn set_len(&self, length: u64) -> std::io::Result<()> {
        self.0.set_length(length)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write_at(offset, data)
    }
}
