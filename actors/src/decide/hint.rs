//! What would have to give for something to be left.

use super::filter::{Screen, Subject};
use crate::{
    domain::{Excluded, ExclusionReason, RouteError, Target},
    stats::Snapshot,
};

/// The smallest set of reasons that stands between a request and an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Relaxation {
    /// Position of the endpoint that would serve.
    pub index: u32,
    /// Everything against it, each with the figure or pattern behind it.
    pub against: Vec<Excluded>,
}

/// The endpoint that the fewest reasons exclude, among those that a change of the request would free: what no
/// request can change (an endpoint that is off, disabled or expired, a key's policy) is not hinted at.
#[must_use]
pub fn nearest_relaxation(error: &RouteError, snapshot: &Snapshot) -> Option<Relaxation> {
    let hopeful = |relaxation: &Relaxation| {
        !relaxation.against.is_empty() && relaxation.against.iter().all(|excluded| is_up_to_the_caller(excluded.reason))
    };
    let relaxations = error.query.targets.iter().flat_map(|target| relaxations(error, snapshot, *target));
    relaxations.filter(hopeful).min_by_key(|relaxation| (relaxation.against.len(), relaxation.index))
}

/// What stands against each excluded endpoint that `target` stands for: an alias has lists of its own.
fn relaxations<'a>(
    error: &'a RouteError,
    snapshot: &'a Snapshot,
    target: Target,
) -> impl Iterator<Item = Relaxation> + use<'a> {
    let catalog = &*snapshot.catalog;
    let (alias, model) = match target {
        Target::Alias(position) => (catalog.alias(position), None),
        Target::Model(position) => (None, catalog.model(position)),
    };
    let screen = Screen::new(catalog, &snapshot.lengths, &error.query, alias);
    let is_meant = move |index: &u32| model.is_none_or(|model| model.endpoints.contains(index));
    let excluded = error.excluded.iter().map(|excluded| excluded.index).filter(is_meant);
    excluded.filter_map(move |index| {
        let subject = Subject::of(catalog, catalog.endpoint(index)?)?;
        let endpoint = subject.endpoint.id;
        let against = screen.refusals(subject).map(|(reason, detail)| Excluded { index, endpoint, reason, detail });
        Some(Relaxation { index, against: against.collect() })
    })
}

const fn is_up_to_the_caller(reason: ExclusionReason) -> bool {
    use ExclusionReason::{Disabled, KeyPolicy, ModelExpired, ProviderOff, WrongEndpoint};
    !matches!(reason, Disabled | KeyPolicy | ModelExpired | ProviderOff | WrongEndpoint)
}
