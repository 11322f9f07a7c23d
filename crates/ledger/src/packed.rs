//! Entries as bytes, as they travel from the worker to the journal, the queue and the database, encoded once.
//!
//! The bytes are those that `postcard` makes of an id, a time and [`Facts`](crate::entry::Facts), followed by the record.

use std::sync::Arc;

use crate::{
    entry::{Entry, Id, Key},
    facts_view::{FactsView, take},
    record::append,
};

/// Memory that an entry takes beside its bytes, in bytes; an estimate for bounds.
const OVERHEAD: usize = 160;

/// Where parts of an entry lie in its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Places {
    /// Beginning of its facts.
    facts: usize,
    /// Beginning of the numbers among them.
    numbers: usize,
    /// End of its facts: the record follows.
    record: usize,
}

/// An entry as bytes. Clones share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    id: Id,
    created_ms: i64,
    places: Places,
    bytes: Arc<[u8]>,
}

impl Packed {
    /// Packs an entry.
    pub fn new(entry: &Entry) -> Packed {
        let labels: Vec<_> = entry.facts.labels.iter().map(|(field, text)| (*field, &**text)).collect();
        let mut packer = Packer::default();
        packer.begin(entry.id, entry.created_ms, &labels, &entry.facts.numbers);
        packer.record().extend_from_slice(&entry.bytes);
        packer.finish()
    }

    /// What [`Packed::bytes`] gave. `None` if it is no entry.
    pub fn read(bytes: &[u8]) -> Option<Packed> {
        let mut rest = bytes;
        let (id, created_ms) = take(&mut rest)?;
        let facts = bytes.len() - rest.len();
        take::<Vec<(u8, &str)>>(&mut rest)?;
        let numbers = bytes.len() - rest.len();
        take::<Vec<(u8, i64)>>(&mut rest)?;
        let places = Places { facts, numbers, record: bytes.len() - rest.len() };
        Some(Packed { id, created_ms, places, bytes: bytes.into() })
    }

    /// The entry.
    pub fn entry(&self) -> Entry {
        let facts = postcard::from_bytes(self.facts_bytes()).unwrap_or_default();
        Entry { id: self.id, created_ms: self.created_ms, facts, bytes: self.record().to_vec() }
    }

    /// Its identity.
    pub const fn id(&self) -> &Id {
        &self.id
    }

    /// Place in the order of pages.
    pub const fn key(&self) -> Key {
        Key { created_ms: self.created_ms, id: self.id }
    }

    /// What filters see.
    pub fn facts(&self) -> FactsView<'_> {
        FactsView::new(self.facts_bytes(), self.places.numbers - self.places.facts)
    }

    /// The same as stored bytes.
    pub fn facts_bytes(&self) -> &[u8] {
        self.bytes.get(self.places.facts..self.places.record).unwrap_or_default()
    }

    /// The record itself.
    pub fn record(&self) -> &[u8] {
        self.bytes.get(self.places.record..).unwrap_or_default()
    }

    /// Everything.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Memory that the entry takes, in bytes; an estimate for bounds.
    pub fn weight(&self) -> usize {
        OVERHEAD + self.bytes.len()
    }
}

/// Packs entries, one after the other, in a buffer that it keeps.
#[derive(Debug, Default)]
pub struct Packer {
    id: Option<Id>,
    created_ms: i64,
    places: Places,
    buffer: Vec<u8>,
}

impl Packer {
    /// Begins an entry.
    pub fn begin(&mut self, id: Id, created_ms: i64, labels: &[(u8, &str)], numbers: &[(u8, i64)]) {
        let out = &mut self.buffer;
        out.clear();
        out.extend_from_slice(&id.0);
        append(&created_ms, out);
        let facts_at = out.len();
        append(labels, out);
        let numbers_at = out.len();
        append(numbers, out);
        (self.id, self.created_ms) = (Some(id), created_ms);
        self.places = Places { facts: facts_at, numbers: numbers_at, record: out.len() };
    }

    /// Where the record is to be appended.
    pub const fn record(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// The entry that was begun last.
    pub fn finish(&mut self) -> Packed {
        let id = self.id.unwrap_or(Id::MIN);
        Packed { id, created_ms: self.created_ms, places: self.places, bytes: self.buffer.as_slice().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Facts;

    /// Numbers of all lengths, and zero to three labels and numbers.
    fn entries() -> Vec<Entry> {
        let long = "ß".repeat(100);
        let labels = [(7, ""), (1, "acme/one"), (255, &*long)].map(|(field, text)| (field, Box::from(text)));
        let times = [0, 1, -1, 63, 64, -65, 1 << 40, i64::MAX, i64::MIN];
        let of = |(at, created_ms): (usize, i64)| Entry {
            id: Id::new(at as u64, [at as u8 + 200; 24]),
            created_ms,
            facts: Facts { labels: labels[..at % 4].to_vec(), numbers: times[..at].iter().map(|n| (9, *n)).collect() },
            bytes: vec![at as u8; at * 50],
        };
        times.into_iter().enumerate().map(of).collect()
    }

    #[test]
    fn a_packed_entry_is_what_postcard_makes_of_it_and_comes_out_as_it_went_in() {
        for entry in entries() {
            let packed = Packed::new(&entry);
            let head = (entry.id, entry.created_ms, entry.facts.clone());
            let expected = [postcard::to_stdvec(&head).unwrap(), entry.bytes.clone()].concat();
            assert_eq!(packed.bytes(), expected);
            assert_eq!(packed.entry(), entry);
            let labels: Vec<_> = entry.facts.labels.iter().map(|(field, text)| (*field, &**text)).collect();
            assert_eq!(packed.facts().labels().collect::<Vec<_>>(), labels);
            assert_eq!(packed.facts().numbers().collect::<Vec<_>>(), entry.facts.numbers);
            assert_eq!(packed.facts().label(1), labels.get(1).map_or("", |(_, text)| text));
            assert_eq!(Packed::read(packed.bytes()), Some(packed));
        }
    }

    #[test]
    fn bytes_that_end_before_the_facts_do_are_no_entry() {
        for entry in entries() {
            let packed = Packed::new(&entry);
            for cut in 0..packed.bytes().len() - entry.bytes.len() {
                assert_eq!(Packed::read(&packed.bytes()[..cut]), None, "cut at {cut}");
            }
        }
    }
}
