//! What is asked of the sums: a range of time, what they are added up by, and which of them count.

use std::ops::RangeInclusive;

use super::ActivityKey;
pub use super::dimension::Dimension;

/// Periods of equal length that follow each other: days or hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Slots of one period.
    pub slots: i64,
    /// Slots from 1970 by which one begins earlier than a multiple of its length.
    pub offset: i64,
}

/// A question about sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouping {
    /// The slots that count.
    pub slots: RangeInclusive<i64>,
    /// What is told apart.
    pub by: Vec<Dimension>,
    /// The periods that are told apart; `None` for the whole time together.
    pub period: Option<Period>,
    /// Which generations count: of each dimension one of these names, where an empty one stands for none.
    pub only: Vec<(Dimension, Vec<String>)>,
}

impl Grouping {
    /// All sums of these slots, with nothing added up.
    pub fn all(slots: RangeInclusive<i64>) -> Grouping {
        let period = Some(Period { slots: 1, offset: 0 });
        Grouping { slots, by: Dimension::ALL.to_vec(), period, only: Vec::new() }
    }

    /// Under which slot and key the sum of another slot and key counts; `None` if it does not.
    pub fn place(&self, slot: i64, key: ActivityKey) -> Option<(i64, ActivityKey)> {
        let counts =
            |(dimension, names): &(Dimension, Vec<String>)| names.iter().any(|name| name == key.get(*dimension));
        if !self.slots.contains(&slot) || !self.only.iter().all(counts) {
            return None;
        }
        let start = match self.period {
            None => *self.slots.start(),
            Some(Period { slots, offset }) => slot - (slot + offset).rem_euclid(slots),
        };
        Some((start, key.only(|dimension| self.by.contains(&dimension))))
    }
}
