//! What sums are kept by.

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
