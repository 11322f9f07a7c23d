//! Blocks: up to 256 entries packed together, with a header that lets look-ups and filters pass them over.
//!
//! A block has two compressed parts: an index with everything that filters ask, and the bytes of the entries. A page of
//! rare entries reads the headers of all blocks, the indexes of some, and the bytes of those it shows.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use crate::{
    entry::{Entry, Facts, Filter, Id, Key},
    facts_view::{put_number, put_signed},
    fault::Fault,
    packed::Packed,
};

/// Most entries of a block.
pub const ENTRIES: usize = 256;
/// A block ends when its entries hold this much: bounds the memory of reading one.
pub const BYTES: usize = 1024 * 1024;
/// Compression level of zstd. Blocks of eight candidates are 7 % larger than at 1 and take three fifths of the time; at -5 they
/// are 15 % larger and take little less.
pub const LEVEL: i32 = -3;
/// Most bytes that a part may claim to expand to.
const LARGEST: usize = 64 * 1024 * 1024;
/// Distinct labels of a field that a header lists. A field with more is not used to pass a block over.
const LABELS: usize = 32;

/// What is known of a block without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Least key.
    pub first: Key,
    /// Greatest key.
    pub last: Key,
    /// Least id.
    pub first_id: Id,
    /// Greatest id.
    pub last_id: Id,
    /// Number of entries.
    pub count: u32,
    /// Stored bytes of both parts.
    pub stored: u64,
    /// Per field, the labels that occur; `None` if they are too many.
    labels: Vec<(u8, Option<Vec<Box<str>>>)>,
    /// Per field, the least and the greatest number.
    numbers: Vec<(u8, i64, i64)>,
}

impl Header {
    /// The one label that every entry of the block may have in a field; `None` if there are several or none.
    #[must_use]
    pub fn only_label(&self, field: u8) -> Option<&str> {
        let (_, known) = self.labels.iter().find(|(other, _)| *other == field)?;
        match known.as_deref()? {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Whether an entry of the block may pass the filter.
    #[must_use]
    pub fn may_admit(&self, filter: &Filter) -> bool {
        let listed = |field: u8, texts: &[Box<str>]| {
            self.labels.iter().any(|(other, known)| {
                let known = known.as_ref();
                *other == field && known.is_none_or(|known| texts.iter().any(|text| known.contains(text)))
            })
        };
        let overlaps = |field: u8, from: i64, to: i64| {
            self.numbers.iter().any(|(other, least, greatest)| *other == field && *least <= to && *greatest >= from)
        };
        filter.since_ms.is_none_or(|since| self.last.created_ms >= since)
            && filter.until_ms.is_none_or(|until| self.first.created_ms <= until)
            && filter.labels.iter().all(|(field, texts)| listed(*field, texts))
            && filter.numbers.iter().all(|(field, range)| overlaps(*field, *range.start(), *range.end()))
    }

    /// Takes up the times and the id of an entry.
    fn add(&mut self, entry: &Packed) {
        self.first = self.first.min(entry.key());
        self.last = self.last.max(entry.key());
        self.first_id = self.first_id.min(*entry.id());
        self.last_id = self.last_id.max(*entry.id());
        self.count += 1;
    }

    fn add_number(&mut self, at: usize, field: u8, number: i64) {
        // Entries mostly have the same fields in the same order.
        let is_here = self.numbers.get(at).is_some_and(|(other, ..)| *other == field);
        let place = if is_here { Some(at) } else { self.numbers.iter().position(|(other, ..)| *other == field) };
        match place.and_then(|place| self.numbers.get_mut(place)) {
            Some((_, least, greatest)) => (*least, *greatest) = ((*least).min(number), (*greatest).max(number)),
            None => self.numbers.push((field, number, number)),
        }
    }

    fn add_label(&mut self, field: u8, text: &str) {
        match self.labels.iter_mut().find(|(other, _)| *other == field) {
            None => self.labels.push((field, Some(vec![text.into()]))),
            Some((_, known)) => {
                if let Some(list) = known
                    && list.iter().all(|other| &**other != text)
                {
                    list.push(text.into());
                    if list.len() > LABELS {
                        *known = None;
                    }
                }
            }
        }
    }
}

/// A row of the index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Place in the order of pages.
    pub key: Key,
    /// What filters see.
    pub facts: Facts,
    /// Length of the entry's bytes.
    length: u32,
}

/// A block ready to be stored.
#[derive(Debug, Clone)]
pub struct Block {
    /// Its header.
    pub header: Header,
    /// Which ids it holds.
    pub ids: IdSet,
    /// Compressed rows.
    pub index: Vec<u8>,
    /// Compressed bytes of the entries.
    pub payload: Vec<u8>,
}

/// Divides entries into blocks, in order.
///
/// # Errors
/// An entry is too long, or memory is short.
pub fn pack(entries: &[&Packed]) -> Result<Vec<Block>, Fault> {
    let mut blocks = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(ENTRIES).take_while(|entry| {
            bytes += entry.record().len();
            bytes <= BYTES
        });
        let (block, after) = rest.split_at(fits.count().max(1));
        blocks.extend(build(block)?);
        rest = after;
    }
    Ok(blocks)
}

fn build(entries: &[&Packed]) -> Result<Option<Block>, Fault> {
    let mut sorted = entries.to_vec();
    sorted.sort_by_key(|entry| entry.key());
    let Some(first) = sorted.first() else { return Ok(None) };
    let mut header = Header {
        first: first.key(),
        last: first.key(),
        first_id: *first.id(),
        last_id: *first.id(),
        count: 0,
        stored: 0,
        labels: Vec::new(),
        numbers: Vec::new(),
    };
    let mut ids = IdSet::of(sorted.len());
    // As `postcard` makes it of a list of [`Row`]s, but the facts are copied as they are.
    let mut rows = Vec::with_capacity(sorted.iter().map(|entry| 64 + entry.facts_bytes().len()).sum());
    put_number(&mut rows, sorted.len() as u64);
    let mut bytes = Vec::with_capacity(sorted.iter().map(|entry| entry.record().len()).sum());
    // Few entries have labels that no entry before had.
    let mut known: Vec<&[u8]> = Vec::with_capacity(LABELS);
    for entry in &sorted {
        header.add(entry);
        ids.insert(entry.id());
        let facts = entry.facts();
        if !known.contains(&facts.label_bytes()) {
            facts.labels().for_each(|(field, text)| header.add_label(field, text));
            if known.len() < LABELS {
                known.push(facts.label_bytes());
            }
        }
        facts.numbers().enumerate().for_each(|(at, (field, number))| header.add_number(at, field, number));
        let record = entry.record();
        let length = u32::try_from(record.len()).map_err(|_| Fault::Damaged("a record over 4 GiB".to_owned()))?;
        put_signed(&mut rows, entry.key().created_ms);
        rows.extend_from_slice(&entry.id().0);
        rows.extend_from_slice(entry.facts_bytes());
        put_number(&mut rows, u64::from(length));
        bytes.extend_from_slice(record);
    }
    let (index, payload) = (compress(&rows)?, compress(&bytes)?);
    header.stored = (index.len() + payload.len()) as u64;
    Ok(Some(Block { header, ids, index, payload }))
}

/// The rows of a stored index.
///
/// # Errors
/// The bytes are none.
pub fn rows(index: &[u8]) -> Result<Vec<Row>, Fault> {
    let bytes = expand(index)?;
    postcard::from_bytes(&bytes).map_err(|error| Fault::Damaged(format!("the index of a block ({error})")))
}

/// The entry at `row`, from the expanded bytes of its block.
#[must_use]
pub fn entry(rows: &[Row], row: usize, bytes: &[u8]) -> Option<Entry> {
    let start: usize = rows.get(..row)?.iter().map(|row| row.length as usize).sum();
    let row = rows.get(row)?;
    let bytes = bytes.get(start..start + row.length as usize)?.to_vec();
    Some(Entry { id: row.key.id, created_ms: row.key.created_ms, facts: row.facts.clone(), bytes })
}

/// Compresses bytes, with their length in front.
///
/// # Errors
/// Memory is short.
pub fn compress(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let length = u32::try_from(bytes.len()).map_err(|_| Fault::Damaged("a part over 4 GiB".to_owned()))?;
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            let mut new = zstd::bulk::Compressor::new(LEVEL)?;
            // A part that was damaged on the disk is then an error, not another record.
            new.include_checksum(true)?;
            *compressor = Some(new);
        }
        let mut packed = length.to_le_bytes().to_vec();
        if let Some(compressor) = compressor {
            packed.extend(compressor.compress(bytes)?);
        }
        Ok(packed)
    })
}

thread_local! {
    /// Kept, so that its tables are not allocated for every part.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// Undoes [`compress`].
///
/// # Errors
/// The bytes are not of its making.
pub fn expand(packed: &[u8]) -> Result<Vec<u8>, Fault> {
    let damaged = || Fault::Damaged("a compressed part".to_owned());
    let (length, rest) = packed.split_first_chunk().ok_or_else(damaged)?;
    let length = u32::from_le_bytes(*length) as usize;
    let bytes = zstd::bulk::decompress(rest, length.min(LARGEST)).map_err(|_| damaged())?;
    if bytes.len() == length { Ok(bytes) } else { Err(damaged()) }
}

/// A Bloom filter over the ids of a block: never denies an id it holds, and admits one in a hundred others. Spares a
/// look-up most of the blocks whose ids overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdSet {
    bits: Vec<u8>,
}

/// Bits per id and probes per look-up: false answers in 0.9 % of cases, by the formula of Bloom filters.
const BITS_PER_ID: usize = 10;
const PROBES: u64 = 7;

impl IdSet {
    fn of(count: usize) -> IdSet {
        IdSet { bits: vec![0; (count * BITS_PER_ID).div_ceil(8).max(1)] }
    }

    /// The set as it was stored.
    #[must_use]
    pub fn stored(bits: &[u8]) -> IdSet {
        IdSet { bits: bits.to_vec() }
    }

    /// Its stored form.
    #[must_use]
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    fn insert(&mut self, id: &Id) {
        for bit in probes(id, self.bits.len()) {
            if let Some(byte) = self.bits.get_mut(bit / 8) {
                *byte |= 1 << (bit % 8);
            }
        }
    }

    /// Whether the id may be in the block.
    #[must_use]
    pub fn may_hold(&self, id: &Id) -> bool {
        probes(id, self.bits.len()).all(|bit| self.bits.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0))
    }
}

/// Double hashing over FNV-1a, which is enough for ids that are random at their end.
fn probes(id: &Id, bytes: usize) -> impl Iterator<Item = usize> {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = id.0.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    let (start, step) = (hash & 0xffff_ffff, (hash >> 32) | 1);
    let bits = (bytes as u64 * 8).max(1);
    (0..PROBES).map(move |probe| ((start + probe * step) % bits) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_of(number: u32) -> Packed {
        let mut tail = [0; 24];
        tail[..4].copy_from_slice(&number.wrapping_mul(2_654_435_761).to_be_bytes());
        let label = format!("model-{}", number % 3);
        let facts = Facts { labels: vec![(0, label.into())], numbers: vec![(1, i64::from(number))] };
        let created_ms = 1_000 + i64::from(number);
        Packed::of(&Entry { id: Id::new(u64::from(number), tail), created_ms, facts, bytes: vec![number as u8; 50] })
    }

    fn pack_all(entries: &[Packed]) -> Vec<Block> {
        pack(&entries.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn entries_come_out_of_blocks_as_they_went_in() {
        let entries: Vec<_> = (0..600).rev().map(entry_of).collect();
        let blocks = pack_all(&entries);
        assert_eq!(blocks.iter().map(|block| block.header.count).collect::<Vec<_>>(), [256, 256, 88]);
        let mut read = Vec::new();
        for block in &blocks {
            let (rows, bytes) = (rows(&block.index).unwrap(), expand(&block.payload).unwrap());
            read.extend((0..rows.len()).map(|row| Packed::of(&entry(&rows, row, &bytes).unwrap())));
            assert!(rows.is_sorted_by_key(|row| row.key));
        }
        read.sort_by_key(|entry| std::cmp::Reverse(entry.key()));
        assert_eq!(read, entries);
    }

    #[test]
    fn a_block_with_long_entries_ends_early() {
        let long = |number| Packed::of(&Entry { bytes: vec![0; BYTES / 2], ..entry_of(number).entry() });
        let counts: Vec<u32> = pack_all(&[long(1), long(2), long(3)]).iter().map(|b| b.header.count).collect();
        assert_eq!(counts, [2, 1]);
    }

    #[test]
    fn a_header_passes_over_exactly_what_cannot_match() {
        let block = pack_all(&(0..100).map(entry_of).collect::<Vec<_>>()).remove(0);
        let labels = |text: &str| Filter { labels: vec![(0, vec![text.into()])], ..Filter::default() };
        let numbers = |from, to| Filter { numbers: vec![(1, from..=to)], ..Filter::default() };
        let since = |since| Filter { since_ms: Some(since), ..Filter::default() };
        for (filter, admits) in [
            (Filter::default(), true),
            (labels("model-2"), true),
            (labels("model-3"), false),
            (numbers(99, 200), true),
            (numbers(100, 200), false),
            (since(1_099), true),
            (since(1_100), false),
        ] {
            assert_eq!(block.header.may_admit(&filter), admits, "{filter:?}");
        }
    }

    #[test]
    fn a_field_with_many_labels_passes_no_block_over() {
        let of = |number: u32| {
            let facts = Facts { labels: vec![(0, format!("key-{number}").into())], numbers: Vec::new() };
            Packed::of(&Entry { facts, ..entry_of(number).entry() })
        };
        let block = pack_all(&(0..40).map(of).collect::<Vec<_>>()).remove(0);
        assert!(block.header.may_admit(&Filter { labels: vec![(0, vec!["other".into()])], ..Filter::default() }));
    }

    #[test]
    fn an_id_set_denies_no_id_it_holds_and_most_others() {
        let block = pack_all(&(0..256).map(entry_of).collect::<Vec<_>>()).remove(0);
        assert!((0..256).all(|number| block.ids.may_hold(entry_of(number).id())));
        let wrong = (256..10_256).filter(|number| block.ids.may_hold(entry_of(*number).id())).count();
        assert!(wrong < 300, "{wrong} of 10,000");
    }

    #[test]
    fn damaged_parts_are_errors() {
        let block = pack_all(&(0..50).map(entry_of).collect::<Vec<_>>()).remove(0);
        for at in 0..block.index.len() {
            let _ = rows(&block.index[..at]).unwrap_err();
        }
        assert!(expand(&[255; 12]).is_err());
    }
}
