//! What is asked of the sums: a range of time, what they are added up by, and which of them count.

use std::ops::RangeInclusive;

use super::ActivityKey;
use crate::facts::label;

/// What generations have in common whose sums are added up. In the order of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// Number of the account, sixteen hexadecimal digits.
    Account,
    /// Number of the key; empty for callers without one.
    Key,
    /// Team of the account at the time; empty without one.
    Team,
    /// Catalog id of the model, or the requested name if none served.
    Model,
    /// Slug of the provider; empty if none served.
    Provider,
    /// The alias that was asked for; empty for a fixed model.
    Alias,
    /// The objective of the decision.
    Objective,
    /// Class of the task; empty without one.
    Task,
}

impl Dimension {
    /// All of them, in order.
    pub const ALL: [Dimension; 8] = [
        Dimension::Account,
        Dimension::Key,
        Dimension::Team,
        Dimension::Model,
        Dimension::Provider,
        Dimension::Alias,
        Dimension::Objective,
        Dimension::Task,
    ];
    /// The order in which replicas exchange them.
    pub(super) const EXCHANGED: [Dimension; 8] = [
        Dimension::Model,
        Dimension::Provider,
        Dimension::Account,
        Dimension::Key,
        Dimension::Team,
        Dimension::Alias,
        Dimension::Objective,
        Dimension::Task,
    ];

    /// The label of entries that says it.
    #[must_use]
    pub const fn label(self) -> u8 {
        match self {
            Dimension::Account => label::OWNER,
            Dimension::Key => label::KEY,
            Dimension::Team => label::TEAM,
            Dimension::Model => label::MODEL,
            Dimension::Provider => label::PROVIDER,
            Dimension::Alias => label::ALIAS,
            Dimension::Objective => label::OBJECTIVE,
            Dimension::Task => label::TASK,
        }
    }

    /// The name in queries and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Dimension::Account => "account",
            Dimension::Key => "key",
            Dimension::Team => "team",
            Dimension::Model => "model",
            Dimension::Provider => "provider",
            Dimension::Alias => "alias",
            Dimension::Objective => "objective",
            Dimension::Task => "task",
        }
    }
}

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
    #[must_use]
    pub fn all(slots: RangeInclusive<i64>) -> Grouping {
        let period = Some(Period { slots: 1, offset: 0 });
        Grouping { slots, by: Dimension::ALL.to_vec(), period, only: Vec::new() }
    }

    /// Under which slot and key the sum of another slot and key counts; `None` if it does not.
    #[must_use]
    pub fn place(&self, slot: i64, key: ActivityKey) -> Option<(i64, ActivityKey)> {
        let counts = |(dimension, names): &(Dimension, Vec<String>)| names.iter().any(|name| name == key.get(*dimension));
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
