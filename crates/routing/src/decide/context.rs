//! Inputs of one decision.

use pointsman_domain::{Catalog, EndpointId, Query, RoutingParameters, RoutingPolicy, Tick};

use super::{forecast::ForecastRules, noise::Noise};
use crate::stats::{ClassLengths, Gate, LengthClass, LiveView, Snapshot};

/// One decision to make.
pub(crate) struct DecisionContext<'a> {
    pub snapshot: &'a Snapshot,
    pub catalog: &'a Catalog,
    pub policy: &'a RoutingPolicy,
    pub live: &'a LiveView,
    pub query: &'a Query,
    pub now: Tick,
    pub rules: ForecastRules,
    /// Load (ln) from which an endpoint is saturated.
    saturation: f64,
    pub lengths: ClassLengths<'a>,
    /// Estimated prompt tokens, answers and images of the query, as floats.
    pub prompt_tokens: f64,
    pub answers: f64,
    pub images: f64,
    /// Whether the query orders providers or prefers a latency or throughput.
    pub has_preferences: bool,
    /// The seed of the noise; 0 for none.
    pub seed: u64,
    pub noise: Noise,
}

impl<'a> DecisionContext<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        live: &'a LiveView,
        query: &'a Query,
        now: Tick,
        seed: Option<u64>,
    ) -> DecisionContext<'a> {
        DecisionContext::under(&snapshot.policy, snapshot, live, query, (now, seed))
    }

    /// The same under another policy than that of the snapshot.
    pub(crate) fn under(
        policy: &'a RoutingPolicy,
        snapshot: &'a Snapshot,
        live: &'a LiveView,
        query: &'a Query,
        (now, seed): (Tick, Option<u64>),
    ) -> DecisionContext<'a> {
        // Without exploration serving ranks as the preview does.
        let explores = policy.exploration > 0.0 || query.exploration.share > 0.0;
        let seed = if explores { seed.unwrap_or(0) } else { 0 };
        DecisionContext {
            snapshot,
            catalog: &snapshot.catalog,
            policy,
            live,
            query,
            now,
            saturation: libm::log(policy.hot_inflation.max(1.0)),
            rules: ForecastRules::new(policy, query.objective.value, query.streamed),
            lengths: snapshot.lengths.of(LengthClass::of(query.max_tokens)),
            prompt_tokens: f64::from(query.prompt_tokens),
            answers: f64::from(query.answers),
            images: f64::from(query.images),
            has_preferences: has_preferences(&query.routing),
            seed,
            noise: Noise::new(seed),
        }
    }
}

impl DecisionContext<'_> {
    /// Whether a load (ln) counts as saturation: only a knee with evidence excludes an endpoint.
    pub(crate) fn is_saturated(&self, load: f64, knee_is_sure: bool) -> bool {
        knee_is_sure && load > self.saturation
    }

    /// The stricter gate of an endpoint and its provider.
    pub(crate) fn gate(&self, index: u32) -> Gate {
        let provider = self.catalog.endpoint(index).map_or(Gate::Passing, |at| self.live.provider(at.provider).gate);
        self.live.endpoint(index).gate.and(provider)
    }

    /// Prompt tokens that an endpoint may have in its cache.
    #[inline]
    pub(crate) fn cached_at(&self, endpoint: EndpointId) -> u32 {
        let sticky = self.query.sticky.filter(|sticky| sticky.endpoint == endpoint);
        sticky.map_or(0, |sticky| sticky.cached_tokens.min(self.query.prompt_tokens))
    }
}

/// Whether anything but the score ranks endpoints of one target.
fn has_preferences(routing: &RoutingParameters) -> bool {
    let prefers = routing.preferred_max_latency.is_some() || routing.preferred_min_throughput.is_some();
    prefers || !routing.provider.order.is_empty()
}
