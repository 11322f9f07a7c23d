//! Two configurations for all records: a comparison for each catalog and policy that they were made under.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use pointsman_domain::{Catalog, EndpointId, Generation, RoutingPolicy};
use pointsman_routing::explain::diff::{Change, Comparison, Side};

use super::configuration::ComparedConfiguration;

/// The comparisons for each catalog and policy of the records.
pub(super) struct Comparisons<'r> {
    /// `None`: the configuration of each decision.
    before: Option<&'r ComparedConfiguration>,
    after: &'r ComparedConfiguration,
    /// With the number of the first one that decides like it.
    known: BySetup<(Arc<Comparison>, usize)>,
}

/// What is known of each catalog and policy of the records.
pub(super) struct BySetup<T>(Mutex<Vec<Known<T>>>);

pub(super) struct Known<T> {
    catalog: Arc<Catalog>,
    policy: Arc<RoutingPolicy>,
    pub value: T,
}

impl<T: Clone> BySetup<T> {
    pub(super) fn new() -> BySetup<T> {
        BySetup(Mutex::default())
    }

    /// The value for a record, made beside those of the others if it is the first of its catalog and policy.
    pub(super) fn of(&self, generation: &Generation, new: impl FnOnce(&[Known<T>]) -> T) -> T {
        let Generation { catalog, policy, .. } = generation;
        let mut known = self.all();
        let found = known.iter().find(|one| Arc::ptr_eq(&one.catalog, catalog) && Arc::ptr_eq(&one.policy, policy));
        if let Some(found) = found {
            return found.value.clone();
        }
        let value = new(&known);
        let (catalog, policy) = (Arc::clone(catalog), Arc::clone(policy));
        known.push(Known { catalog, policy, value: value.clone() });
        value
    }

    pub(super) fn all(&self) -> MutexGuard<'_, Vec<Known<T>>> {
        self.0.lock()
    }
}

impl<'r> Comparisons<'r> {
    pub(super) fn new(before: Option<&'r ComparedConfiguration>, after: &'r ComparedConfiguration) -> Comparisons<'r> {
        Comparisons { before, after, known: BySetup::new() }
    }

    pub(super) fn of(&self, generation: &Generation) -> Arc<Comparison> {
        self.with_group(generation).0
    }

    /// The comparison for a record, and the same number for all configurations that decide alike.
    pub(super) fn with_group(&self, generation: &Generation) -> (Arc<Comparison>, usize) {
        let Generation { catalog, policy, .. } = generation;
        let side = |catalog: &Arc<Catalog>, policy: &Arc<RoutingPolicy>| Side {
            catalog: Arc::clone(catalog),
            policy: Arc::clone(policy),
            objective: None,
        };
        self.known.of(generation, |known| {
            let own = side(catalog, policy);
            let alike = known.iter().find(|one| side(&one.catalog, &one.policy).decides_like(&own));
            let group = alike.map_or(known.len(), |one| one.value.1);
            let before = self.before.map(|before| before.beside(catalog));
            let after = self.after.beside(catalog);
            (Arc::new(Comparison::new(catalog, policy, before.as_ref(), &after)), group)
        })
    }

    /// All changes, each once, in the order of their texts.
    pub(super) fn changes(&self) -> Vec<Change> {
        let known = self.known.all();
        let all = known.iter().flat_map(|one| one.value.0.changes());
        let by_text: BTreeMap<String, &Change> = all.map(|change| (change.to_string(), change)).collect();
        by_text.into_values().cloned().collect()
    }

    pub(super) fn keep_other_conversations(&self) -> bool {
        self.known.all().iter().any(|one| one.value.0.keeps_other_conversations())
    }

    pub(super) fn assumed_on(&self) -> BTreeSet<String> {
        let known = self.known.all();
        let were_on = known.iter().flat_map(|one| &one.catalog.providers).filter(|provider| provider.is_on());
        let were_on: BTreeSet<&str> = were_on.map(|provider| provider.slug.as_str()).collect();
        let without_key = self.after.without_key();
        without_key.filter(|slug| were_on.contains(slug)).map(str::to_owned).collect()
    }

    /// The catalog after the change, for the latest records.
    pub(super) fn catalog_after(&self) -> Option<Arc<Catalog>> {
        Some(self.after.beside(&self.known.all().last()?.catalog).catalog)
    }

    pub(super) fn name(&self, endpoint: EndpointId) -> Option<String> {
        self.known.all().iter().find_map(|one| one.value.0.name(endpoint))
    }
}
