//! What the store keeps: entries, their order, and filters over their facts.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Identity of an entry. Sorts by time: the first eight bytes are a big-endian time in a unit of the caller's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Id(pub [u8; Id::LENGTH]);

impl Id {
    /// Bytes of an id.
    pub const LENGTH: usize = 32;
    /// The least id.
    pub const MIN: Id = Id([0; Id::LENGTH]);

    /// The id of `time` with `tail`, which tells ids of one time apart.
    pub fn new(time: u64, tail: [u8; 24]) -> Id {
        let mut bytes = [0; Id::LENGTH];
        for (to, from) in bytes.iter_mut().zip(time.to_be_bytes().into_iter().chain(tail)) {
            *to = from;
        }
        Id(bytes)
    }

    /// The time that the id begins with.
    pub fn time(&self) -> u64 {
        self.0.first_chunk().map_or(0, |time| u64::from_be_bytes(*time))
    }
}

/// Place of an entry in the order of pages, and the cursor of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// Tells entries of one millisecond apart.
    pub id: Id,
}

/// What filters can ask of an entry. Fields are numbered by the caller; a field may have several labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Texts from small sets, such as models and providers.
    pub labels: Vec<(u8, Box<str>)>,
    /// Quantities.
    pub numbers: Vec<(u8, i64)>,
}

/// One stored record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Identity; no two entries share it.
    pub id: Id,
    /// Milliseconds since 1970, by which pages are ordered and retention counts age.
    pub created_ms: i64,
    /// What filters see.
    pub facts: Facts,
    /// The record itself, opaque to the store.
    pub bytes: Vec<u8>,
}

impl Entry {
    /// Place in the order of pages.
    pub fn key(&self) -> Key {
        Key { created_ms: self.created_ms, id: self.id }
    }
}

/// Which entries a page shows. All conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Earliest `created_ms`.
    pub since_ms: Option<i64>,
    /// Latest `created_ms`.
    pub until_ms: Option<i64>,
    /// A field, and the labels of which the entry must have one.
    pub labels: Vec<(u8, Vec<Box<str>>)>,
    /// A field, and the range that one of its numbers must lie in.
    pub numbers: Vec<(u8, RangeInclusive<i64>)>,
    /// A text that a label must contain.
    pub text: Option<TextFilter>,
}

/// A text to be found in labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFilter {
    /// Fields of the labels.
    pub fields: Vec<u8>,
    /// The text, in lower case.
    pub lowercase: Box<str>,
}

impl TextFilter {
    fn is_in(&self, facts: &Facts) -> bool {
        let labels = facts.labels.iter().filter(|(field, _)| self.fields.contains(field));
        labels.map(|(_, label)| label.to_lowercase()).any(|label| label.contains(&*self.lowercase))
    }
}

impl Filter {
    /// Whether an entry of this time may pass.
    pub fn has_time(&self, created_ms: i64) -> bool {
        self.since_ms.is_none_or(|since| created_ms >= since) && self.until_ms.is_none_or(|until| created_ms <= until)
    }

    /// Whether an entry passes.
    pub fn admits(&self, created_ms: i64, facts: &Facts) -> bool {
        let has = |field: u8, texts: &[Box<str>]| {
            facts.labels.iter().any(|(other, text)| *other == field && texts.contains(text))
        };
        let within = |field: u8, range: &RangeInclusive<i64>| {
            facts.numbers.iter().any(|(other, number)| *other == field && range.contains(number))
        };
        self.has_time(created_ms)
            && self.labels.iter().all(|(field, texts)| has(*field, texts))
            && self.numbers.iter().all(|(field, range)| within(*field, range))
            && self.text.as_ref().is_none_or(|text| text.is_in(facts))
    }
}
