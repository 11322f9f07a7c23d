//! What would have to give for something to be left.

use crate::decide::filter::{CatalogEndpoint, HardFilters};
use crate::{
    domain::{ExcludedEndpoint, ExclusionDetail, ExclusionReason, RouteError, Target},
    stats::Snapshot,
};

/// The smallest set of reasons that stands between a request and an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Relaxation {
    /// Position of the endpoint that would serve.
    pub index: u32,
    /// Everything against it, each with the figure or pattern behind it.
    pub against: Vec<ExcludedEndpoint>,
}

/// The endpoint that the fewest reasons exclude, among those that a change of the request would free: what no
/// request can change (an endpoint that is off, disabled or expired, a key's policy) is not hinted at. Of several
/// it is the one whose figures have the least way to a limit.
#[must_use]
pub fn nearest_relaxation(error: &RouteError, snapshot: &Snapshot) -> Option<Relaxation> {
    let hopeful = |relaxation: &Relaxation| {
        !relaxation.against.is_empty() && relaxation.against.iter().all(|excluded| is_up_to_the_caller(excluded.reason))
    };
    let relaxations = error.query.targets.iter().flat_map(|target| relaxations(error, snapshot, *target));
    relaxations.filter(hopeful).min_by(|a, b| {
        let (by_count, by_index) = (a.against.len().cmp(&b.against.len()), a.index.cmp(&b.index));
        let ([share_a, amount_a], [share_b, amount_b]) = (a.excess(), b.excess());
        by_count.then(share_a.total_cmp(&share_b)).then(amount_a.total_cmp(&amount_b)).then(by_index)
    })
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
    let screen = HardFilters::new(catalog, &snapshot.lengths, &error.query, alias);
    let is_meant = move |index: &u32| model.is_none_or(|model| model.endpoints.contains(index));
    let excluded = error.excluded.iter().map(|excluded| excluded.index).filter(is_meant);
    excluded.filter_map(move |index| {
        let subject = CatalogEndpoint::of(catalog, catalog.endpoint(index)?)?;
        let endpoint = subject.endpoint.id;
        let against =
            screen.refusals(subject).map(|(reason, detail)| ExcludedEndpoint { index, endpoint, reason, detail });
        Some(Relaxation { index, against: against.collect() })
    })
}

impl Relaxation {
    /// How far its figures are beyond their limits, at the most: as a multiple, which nothing is of a limit of 0, and
    /// as an amount. 0 where it is only a matter of yes or no.
    fn excess(&self) -> [f64; 2] {
        let of = |excluded: &ExcludedEndpoint| match excluded.detail {
            ExclusionDetail::Above { price, limit, .. } => beyond(price.to_f64(), limit.to_f64()),
            ExclusionDetail::Tokens { needed, limit } => beyond(needed as f64, f64::from(limit)),
            _ => [0.0, 0.0],
        };
        let most = |[share, amount]: [f64; 2], [other, more]: [f64; 2]| [share.max(other), amount.max(more)];
        self.against.iter().map(of).fold([0.0, 0.0], most)
    }
}

fn beyond(figure: f64, limit: f64) -> [f64; 2] {
    [if limit > 0.0 { figure / limit } else { f64::INFINITY }, figure - limit]
}

const fn is_up_to_the_caller(reason: ExclusionReason) -> bool {
    use ExclusionReason::{Disabled, KeyPolicy, ModelExpired, ProviderOff, WrongEndpoint};
    !matches!(reason, Disabled | KeyPolicy | ModelExpired | ProviderOff | WrongEndpoint)
}
