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
    let query = &error.query;
    let aliases = query.targets.iter().filter_map(|target| match target {
        Target::Alias(position) => snapshot.catalog.alias(*position),
        Target::Model(_) => None,
    });
    let screen = Screen::new(&snapshot.catalog, &snapshot.lengths, query, aliases.into_iter().next());
    let against = |index: u32| -> Option<Relaxation> {
        let subject = Subject::of(&snapshot.catalog, snapshot.catalog.endpoint(index)?)?;
        let endpoint = subject.endpoint.id;
        let excluded = screen.refusals(subject).map(|(reason, detail)| Excluded { index, endpoint, reason, detail });
        Some(Relaxation { index, against: excluded.collect() })
    };
    let hopeful = |relaxation: &Relaxation| {
        !relaxation.against.is_empty() && relaxation.against.iter().all(|excluded| is_up_to_the_caller(excluded.reason))
    };
    let relaxations = error.excluded.iter().filter_map(|excluded| against(excluded.index)).filter(hopeful);
    relaxations.min_by_key(|relaxation| (relaxation.against.len(), relaxation.index))
}

const fn is_up_to_the_caller(reason: ExclusionReason) -> bool {
    use ExclusionReason::{Disabled, KeyPolicy, ModelExpired, ProviderOff, WrongEndpoint};
    !matches!(reason, Disabled | KeyPolicy | ModelExpired | ProviderOff | WrongEndpoint)
}
