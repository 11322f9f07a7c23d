//! JSON of the merged routing parameters of a request, each with its source.
//!
//! Shows only parameters that were set. Lists from different sources stay separate, because each one restricts the choice.

use pointsman_domain::{
    DataCollection, Decision, ModelPattern, Preference, PriceCeiling, ProviderPolicy, QualityFloor, RoutingParameters,
    Source, Sourced, UnknownQuality, Usd, Weights,
};
use serde::Serialize;

use crate::api::number::{Dollars, Figure, Text};

view! {
    /// What the decision went by, each with its source. Parameters that nobody set are absent.
    pub(crate) struct ParametersBody<'a> as "Parameters" {
        /// The parameters of a decision.
        pub(crate) fn new(decision: &'a Decision) {
            let RoutingParameters { allowed, blocked, provider, .. } = &*decision.parameters;
            let parameters = &decision.parameters;
        }

        /// What the choice optimises.
        #[cfg_attr(test, schemars(with = "SourcedBody<crate::base::words::Objective>"))]
        pub(crate) objective: SourcedBody<&'static str> =
            SourcedBody::new(decision.objective, |objective| objective.as_str()),
        pub(crate) weights: WeightsBody = WeightsBody::new(decision),
        /// Lists of patterns; a model must match one of each.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        pub(crate) allowed_models: Vec<Vec<Text<&'a ModelPattern>>> =
            allowed.iter().map(|list| list.iter().map(Text).collect()).collect(),
        /// Patterns; a model must match none of them.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        pub(crate) blocked_models: Vec<Text<&'a ModelPattern>> = blocked.iter().map(Text).collect(),
        /// What was asked of providers; absent if nothing was.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) provider: Option<ProviderPolicyBody<'a>> =
            (*provider != ProviderPolicy::default()).then(|| ProviderPolicyBody::new(provider)),
        /// US dollars per 1,000 tokens.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) max_cost_per_1k_tokens: Option<SourcedBody<Dollars>> =
            parameters.max_cost_per_1k_tokens.map(|cost| SourcedBody::new(cost, Dollars)),
        /// US dollars for the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) max_cost: Option<SourcedBody<Dollars>> =
            parameters.max_cost.map(|cost| SourcedBody::new(cost, Dollars)),
        /// Seconds to the first token, by percentile, and the factor by which the decision was stricter.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) preferred_max_latency: Option<TargetBody> = parameters.preferred_max_latency.map(|latency| TargetBody {
            preference: SourcedBody::new(latency, PreferenceBody::new),
            margin: Figure::rounded(decision.latency_margin, 3),
        }),
        /// Output tokens per second, by percentile.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) preferred_min_throughput: Option<SourcedBody<PreferenceBody>> = parameters
            .preferred_min_throughput
            .map(|throughput| SourcedBody::new(throughput, PreferenceBody::new)),
        /// Least quality for the class of the task.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) min_quality: Option<SourcedBody<QualityFloorBody>> =
            parameters.min_quality.map(|floor| SourcedBody::new(floor, QualityFloorBody::new)),
        /// What becomes of endpoints of unknown quality where there is a least one.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "Option<SourcedBody<crate::base::words::UnknownQuality>>"))]
        pub(crate) quality_unknown: Option<SourcedBody<&'static str>> =
            parameters.quality_unknown.map(|given| SourcedBody::new(given, UnknownQuality::as_str)),
    }
}

/// A least quality, as in requests.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(untagged)]
pub(crate) enum QualityFloorBody {
    /// Of the mean.
    Mean(Figure),
    /// Of the lower tenth.
    Tenth { p10: Figure },
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct SourcedBody<T> {
    pub(crate) value: T,
    #[cfg_attr(test, schemars(with = "crate::base::words::Source"))]
    pub(crate) source: &'static str,
}

/// A latency bound, and the factor by which the decision was stricter.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct TargetBody {
    #[serde(flatten)]
    pub(crate) preference: SourcedBody<PreferenceBody>,
    /// Factor by which the decision was stricter (above 1) or laxer (below 1) than the bound, because of past misses;
    /// three decimals.
    margin: Figure,
}

view! {
    pub(crate) struct WeightsBody {
        fn new(decision: &Decision) {
            let Weights { latency, cost, quality } = decision.weights;
            let source = decision.parameters.weights.map_or(Source::Default, |weights| weights.source);
        }

        /// Weight of time for `balanced`; only ratios count.
        pub(crate) latency: Figure = Figure::exact(latency),
        /// Weight of cost for `balanced`.
        pub(crate) cost: Figure = Figure::exact(cost),
        /// Weight of quality for `balanced`; absent if it is 0.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) quality: Option<Figure> = (quality != 0.0).then(|| Figure::exact(quality)),
        #[cfg_attr(test, schemars(with = "crate::base::words::Source"))]
        pub(crate) source: &'static str = source.as_str(),
    }
}

view! {
    pub(crate) struct PreferenceBody {
        fn new(preference: Preference) {}

        #[serde(skip_serializing_if = "Option::is_none")]
        p50: Option<Figure> = preference.p50.map(Figure::exact),
        #[serde(skip_serializing_if = "Option::is_none")]
        p75: Option<Figure> = preference.p75.map(Figure::exact),
        #[serde(skip_serializing_if = "Option::is_none")]
        p90: Option<Figure> = preference.p90.map(Figure::exact),
        #[serde(skip_serializing_if = "Option::is_none")]
        p95: Option<Figure> = preference.p95.map(Figure::exact),
        #[serde(skip_serializing_if = "Option::is_none")]
        p99: Option<Figure> = preference.p99.map(Figure::exact),
    }
}

view! {
    pub(crate) struct ProviderPolicyBody<'a> {
        fn new(policy: &'a ProviderPolicy) {}

        /// Providers to be called first, in this order.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        order: &'a [String] = &policy.order,
        /// Lists of providers; a provider must be in each of them.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        only: &'a [Vec<String>] = &policy.only,
        /// Providers that may not serve.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        ignore: &'a [String] = &policy.ignore,
        /// `none`: the models of `models` compete with each other; absent if each waits for the one before it to fail.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(test, schemars(with = "Option<crate::base::words::Partition>"))]
        partition: Option<&'static str> = policy.across_models.then_some("none"),
        /// Whether another endpoint may serve after a failure.
        allow_fallbacks: bool = policy.allow_fallbacks,
        /// Whether an endpoint must support every parameter of the request.
        require_parameters: bool = policy.require_parameters,
        /// `deny`: only providers that are configured as not collecting data.
        #[cfg_attr(test, schemars(extend("enum" = ["allow", "deny"])))]
        data_collection: &'static str = match policy.data_collection {
            DataCollection::Allow => "allow",
            DataCollection::Deny => "deny",
        },
        /// Whether only endpoints without data retention may serve.
        zdr: bool = policy.zero_data_retention,
        /// The allowed quantizations.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        quantizations: &'a [String] = &policy.quantizations,
        /// Highest list prices.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_price: Option<PriceCeilingBody> =
            (policy.max_price != PriceCeiling::default()).then(|| PriceCeilingBody::new(policy.max_price)),
    }
}

view! {
    /// In the units of requests: dollars per million tokens.
    pub(crate) struct PriceCeilingBody {
        fn new(ceiling: PriceCeiling) {
            let per_million = |price: Usd| Dollars(price * 1_000_000);
        }

        /// US dollars per million prompt tokens.
        #[serde(skip_serializing_if = "Option::is_none")]
        prompt: Option<Dollars> = ceiling.prompt.map(per_million),
        /// US dollars per million output tokens.
        #[serde(skip_serializing_if = "Option::is_none")]
        completion: Option<Dollars> = ceiling.completion.map(per_million),
        /// US dollars per request.
        #[serde(skip_serializing_if = "Option::is_none")]
        request: Option<Dollars> = ceiling.request.map(Dollars),
        /// US dollars per image.
        #[serde(skip_serializing_if = "Option::is_none")]
        image: Option<Dollars> = ceiling.image.map(Dollars),
    }
}

impl<T> SourcedBody<T> {
    fn new<V>(sourced: Sourced<V>, write: impl FnOnce(V) -> T) -> SourcedBody<T> {
        SourcedBody { value: write(sourced.value), source: sourced.source.as_str() }
    }
}

impl QualityFloorBody {
    fn new(floor: QualityFloor) -> QualityFloorBody {
        match floor {
            QualityFloor::Mean(least) => QualityFloorBody::Mean(Figure::exact(least)),
            QualityFloor::Tenth(least) => QualityFloorBody::Tenth { p10: Figure::exact(least) },
        }
    }
}

impl PreferenceBody {
    /// The bounds, each with the name of its percentile.
    pub(crate) fn bounds(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let bounds =
            [("p50", &self.p50), ("p75", &self.p75), ("p90", &self.p90), ("p95", &self.p95), ("p99", &self.p99)];
        bounds.into_iter().filter_map(|(name, bound)| Some((name, bound.as_ref()?.value())))
    }
}
