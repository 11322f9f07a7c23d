//! The smallest change of a request that would leave an endpoint for it.

use pointsman_domain::{ExcludedEndpoint, ExclusionDetail, ExclusionReason, MAX_COST, RouteError, Target};

use crate::decide::filter::{CatalogEndpoint, HardFilters};
use crate::stats::Snapshot;

/// One excluded endpoint with all filters that exclude it.
#[derive(Debug, Clone, PartialEq)]
pub struct Relaxation {
    /// Index of the endpoint in the catalog.
    pub index: u32,
    /// Every filter that excludes the endpoint, with its figure or pattern.
    pub against: Vec<ExcludedEndpoint>,
}

/// The endpoint that the fewest filters exclude. Endpoints that no change of the request can make available (provider
/// off, endpoint disabled or expired, policy of the key) are left out. Among endpoints with equally many filters, the
/// one whose figures exceed their limits the least is returned.
pub fn nearest_relaxation(error: &RouteError, snapshot: &Snapshot) -> Option<Relaxation> {
    let is_feasible = |relaxation: &Relaxation| {
        !relaxation.against.is_empty() && relaxation.against.iter().all(|excluded| is_up_to_the_caller(excluded.reason))
    };
    let relaxations = error.query.targets.iter().flat_map(|target| relaxations(error, snapshot, *target));
    relaxations.filter(is_feasible).min_by(|a, b| {
        let (by_count, by_index) = (a.against.len().cmp(&b.against.len()), a.index.cmp(&b.index));
        let ([ratio_a, amount_a], [ratio_b, amount_b]) = (a.excess(), b.excess());
        by_count.then(ratio_a.total_cmp(&ratio_b)).then(amount_a.total_cmp(&amount_b)).then(by_index)
    })
}

/// What the caller changes so that this filter no longer excludes an endpoint: `raise max_price`.
pub fn remedy(excluded: &ExcludedEndpoint) -> &'static str {
    use ExclusionReason::{
        BlockedModel, CircuitOpen, ConfigFault, ContextLength, DataPolicy, Disabled, Draining, InputModality,
        KeyPolicy, MaxCostPer1kTokens, MaxPrice, ModelExpired, NotAllowedModel, NotFree, OutputModality, Paced,
        PriceUnknown, ProbeInFlight, ProviderIgnored, ProviderNotAllowed, ProviderOff, QualityBelow, QualityUnknown,
        Quantization, RateLimited, Saturated, UnsupportedParameter, WrongEndpoint,
    };
    match excluded.reason {
        NotAllowedModel => "add the model to the allowed models",
        BlockedModel => "remove the model from the blocked models",
        ProviderNotAllowed => "allow the provider in provider.only or provider.order",
        ProviderIgnored => "remove the provider from provider.ignore",
        NotFree => "request a model or alias that may cost money",
        UnsupportedParameter => "leave out the parameter or provider.require_parameters",
        InputModality => "leave out this kind of input",
        OutputModality => "request another kind of output",
        ContextLength => "shorten the prompt or lower max_tokens",
        MaxPrice if excluded.constraint() == MAX_COST => "raise max_cost",
        MaxPrice => "raise max_price",
        MaxCostPer1kTokens => "raise max_cost_per_1k_tokens",
        PriceUnknown => {
            "request another objective than cheapest and no limit on cost, or ask the operator for its price"
        }
        DataPolicy => "relax provider.data_collection or provider.zdr",
        Quantization => "add its format to provider.quantizations",
        QualityBelow => "lower min_quality",
        QualityUnknown => "set quality_unknown to \"allow\", or ask the operator for a score",
        KeyPolicy => "use a key that may call the model",
        ModelExpired => "request a newer model",
        Disabled | ProviderOff | ConfigFault => "ask the operator to enable the endpoint",
        CircuitOpen | ProbeInFlight | RateLimited | Paced | Saturated => "try again later",
        WrongEndpoint => "call the API endpoint of the model",
        Draining => "try again after the restart",
    }
}

/// All filters per excluded endpoint of `target`. An alias adds its own lists of allowed and blocked models.
fn relaxations<'a>(
    error: &'a RouteError,
    snapshot: &'a Snapshot,
    target: Target,
) -> impl Iterator<Item = Relaxation> + use<'a> {
    let catalog = &*snapshot.catalog;
    let (alias, model) = match target {
        Target::Alias(index) => (catalog.alias(index), None),
        Target::Model(index) => (None, catalog.model(index)),
    };
    let filters = HardFilters::new(snapshot, &error.query, alias);
    let belongs_to_target = move |index: &u32| model.is_none_or(|model| model.endpoints.contains(index));
    let excluded = error.excluded.iter().map(|excluded| excluded.index).filter(belongs_to_target);
    excluded.filter_map(move |index| {
        let subject = CatalogEndpoint::at(catalog, index)?;
        let endpoint = subject.endpoint.id;
        let against =
            filters.refusals(subject).map(|(reason, detail)| ExcludedEndpoint { index, endpoint, reason, detail });
        Some(Relaxation { index, against: against.collect() })
    })
}

impl Relaxation {
    /// The largest excess of a figure over its limit, as a ratio (infinite for a limit of 0) and as an amount. Both are 0
    /// if no filter compares figures, and infinite for an unknown quality.
    fn excess(&self) -> [f64; 2] {
        let of = |excluded: &ExcludedEndpoint| match excluded.detail {
            ExclusionDetail::Above { price, limit, .. } => excess_over(price.to_f64(), limit.to_f64()),
            ExclusionDetail::Tokens { needed, limit } => excess_over(needed as f64, f64::from(limit)),
            ExclusionDetail::Quality(ref shortfall) => {
                let (figure, least) = shortfall.figures();
                excess_over(least, figure)
            }
            // What is unknown is no near miss: any known figure is nearer.
            ExclusionDetail::NoQuality(_) => [f64::INFINITY; 2],
            _ => [0.0, 0.0],
        };
        let largest = |[ratio, amount]: [f64; 2], [other, more]: [f64; 2]| [ratio.max(other), amount.max(more)];
        self.against.iter().map(of).fold([0.0, 0.0], largest)
    }
}

fn excess_over(figure: f64, limit: f64) -> [f64; 2] {
    [if limit > 0.0 { figure / limit } else { f64::INFINITY }, figure - limit]
}

const fn is_up_to_the_caller(reason: ExclusionReason) -> bool {
    use ExclusionReason::{Disabled, KeyPolicy, ModelExpired, ProviderOff, WrongEndpoint};
    !matches!(reason, Disabled | KeyPolicy | ModelExpired | ProviderOff | WrongEndpoint)
}
