//! Names of teams, accounts, keys and the like, and the labels under which the ledger counts them.

use std::collections::HashMap;

use pointsman_domain::{Objective, Task};
use pointsman_ledger::{activity::grouping::Dimension, generations::owner_label};

use crate::{
    access::holders::{account_number, key_number},
    api::generations::ledger_query::Listed,
    state::gateway::Worker,
};

/// A name in a filter, or already the label of what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    Name(String),
    Label(String),
}

/// The names that the configuration has, those of issued keys, accounts and teams among them.
#[derive(Default)]
pub(super) struct KnownNames {
    /// Pairs of a name and its label.
    of: HashMap<&'static str, Vec<(String, String)>>,
}

impl KnownNames {
    /// The names that the caller of an answer may learn.
    pub(super) fn of(worker: &Worker, listed: Listed<'_>) -> KnownNames {
        let (setup, registry) = (&worker.setup, &worker.shared.access.registry);
        let owner = listed.owner();
        let is_own = |number: u64| owner.is_none_or(|owner| owner == number);
        let mut known = KnownNames::default();
        for caller in setup.keys.callers().iter().filter(|caller| is_own(caller.owner)) {
            let label = if caller.id == 0 { String::new() } else { owner_label(caller.id).into() };
            known.add(Dimension::Key, &caller.key.name, label);
            known.add(Dimension::Account, &caller.account_name, owner_label(caller.owner).into());
        }
        for (number, name) in registry.account_names().into_iter().filter(|(number, _)| is_own(*number)) {
            known.add(Dimension::Account, &name, owner_label(number).into());
        }
        match owner {
            Some(owner) => registry.team_of(owner).iter().for_each(|team| known.add_text(Dimension::Team, team)),
            None => {
                setup.config.teams.iter().for_each(|team| known.add_text(Dimension::Team, &team.name));
                registry.teams().iter().for_each(|team| known.add_text(Dimension::Team, &team.name));
            }
        }
        let catalog = &setup.catalog;
        catalog.models.iter().for_each(|model| known.add_text(Dimension::Model, model.id.as_str()));
        catalog.providers.iter().for_each(|provider| known.add_text(Dimension::Provider, provider.slug.as_str()));
        catalog.aliases.iter().for_each(|alias| known.add_text(Dimension::Alias, &alias.id));
        Objective::ALL.iter().for_each(|objective| known.add_text(Dimension::Objective, objective.as_str()));
        Task::ALL.iter().for_each(|task| known.add_text(Dimension::Task, task.as_str()));
        known
    }

    fn add(&mut self, dimension: Dimension, name: &str, label: String) {
        self.of.entry(dimension.as_str()).or_default().push((name.to_owned(), label));
    }

    fn add_text(&mut self, dimension: Dimension, name: &str) {
        self.add(dimension, name, name.to_owned());
    }

    fn pairs(&self, dimension: Dimension) -> impl Iterator<Item = &(String, String)> {
        self.of.get(dimension.as_str()).into_iter().flatten()
    }

    /// All names in a dimension.
    pub(super) fn names(&self, dimension: Dimension) -> impl Iterator<Item = &str> {
        self.pairs(dimension).map(|(name, _)| name.as_str())
    }

    /// The label of a name.
    pub(super) fn label(&self, dimension: Dimension, name: &str) -> Option<String> {
        self.pairs(dimension).find(|(known, _)| known == name).map(|(_, label)| label.clone())
    }

    /// The label that a name had when the configuration knew it. An issued key that was removed has none.
    pub(super) fn label_of_gone(dimension: Dimension, name: &str) -> String {
        match dimension {
            Dimension::Account => owner_label(account_number(name)).into(),
            Dimension::Key => owner_label(key_number(name)).into(),
            _ => name.to_owned(),
        }
    }

    /// The name of a label; `None` if what it names is gone.
    pub(super) fn name(&self, dimension: Dimension, label: &str) -> Option<&str> {
        self.pairs(dimension).find(|(_, known)| known == label).map(|(name, _)| name.as_str())
    }
}
