//! One of two configurations that are compared.

use std::sync::Arc;

use pointsman_domain::{Catalog, Objective, ParameterNames, ParameterSet, RoutingPolicy};

/// One configuration, as far as decisions depend on it.
#[derive(Debug, Clone)]
pub struct Side {
    /// Models, endpoints, providers and aliases.
    pub catalog: Arc<Catalog>,
    /// The constants of the routing.
    pub policy: Arc<RoutingPolicy>,
    /// Objective of requests that name none; `None`: as recorded.
    pub objective: Option<Objective>,
}

/// A set of parameters in the numbers of another catalog; names that it does not have are left out.
pub(super) fn translated(set: ParameterSet, from: &ParameterNames, to: &ParameterNames) -> ParameterSet {
    let mut names = to.clone();
    let found = from.names(set).filter_map(|name| names.intern(name).ok());
    let found = found.filter(|one| to.names(*one).next().is_some());
    found.fold(ParameterSet::default(), ParameterSet::union)
}
