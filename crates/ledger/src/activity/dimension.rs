//! What sums are kept by.

use crate::database::columns::{DIMENSIONS, LABELS};

/// What generations have in common whose sums are added up. In the order of [`LABELS`].
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
    pub const ALL: [Dimension; DIMENSIONS] = [
        Dimension::Account,
        Dimension::Key,
        Dimension::Team,
        Dimension::Model,
        Dimension::Provider,
        Dimension::Alias,
        Dimension::Objective,
        Dimension::Task,
    ];

    /// The label of entries that says it.
    #[must_use]
    pub fn label(self) -> u8 {
        LABELS.get(self as usize).map_or(0, |(label, _)| *label)
    }

    /// The name in queries and answers, and of the column.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        LABELS.get(self as usize).map_or("", |(_, name)| name)
    }
}
