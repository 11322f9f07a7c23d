//! JSON of the merged routing parameters of a request, each with its source.
//!
//! Shows only parameters that were set. Lists from different sources stay separate, because each one restricts the choice.

use pointsman_domain::{
    DataCollection, Decision, ModelPattern, Preference, PriceCeiling, ProviderPolicy, QualityFloor, RoutingParameters,
    Source, Sourced, UnknownQuality, Usd, Weights,
};
use serde::Serialize;

use crate::api::number::{Dollars, Figure, Text};

/// What the decision went by, each with its source. Parameters that nobody set are absent.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Parameters"))]
pub(crate) struct ParametersBody<'a> {
    /// What the choice optimises.
    #[cfg_attr(test, schemars(with = "SourcedBody<crate::base::words::Objective>"))]
    pub(crate) objective: SourcedBody<&'static str>,
    pub(crate) weights: WeightsBody,
    /// Lists of patterns; a model must match one of each.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) allowed_models: Vec<Vec<Text<&'a ModelPattern>>>,
    /// Patterns; a model must match none of them.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) blocked_models: Vec<Text<&'a ModelPattern>>,
    /// What was asked of providers; absent if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider: Option<ProviderPolicyBody<'a>>,
    /// US dollars per 1,000 tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_cost_per_1k_tokens: Option<SourcedBody<Dollars>>,
    /// US dollars for the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_cost: Option<SourcedBody<Dollars>>,
    /// Seconds to the first token, by percentile, and the factor by which the decision was stricter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) preferred_max_latency: Option<TargetBody>,
    /// Output tokens per second, by percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) preferred_min_throughput: Option<SourcedBody<PreferenceBody>>,
    /// Least quality for the class of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_quality: Option<SourcedBody<QualityFloorBody>>,
    /// What becomes of endpoints of unknown quality where there is a least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<SourcedBody<crate::base::words::UnknownQuality>>"))]
    pub(crate) quality_unknown: Option<SourcedBody<&'static str>>,
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

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct WeightsBody {
    /// Weight of time for `balanced`; only ratios count.
    pub(crate) latency: Figure,
    /// Weight of cost for `balanced`.
    pub(crate) cost: Figure,
    /// Weight of quality for `balanced`; absent if it is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quality: Option<Figure>,
    #[cfg_attr(test, schemars(with = "crate::base::words::Source"))]
    pub(crate) source: &'static str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PreferenceBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p75: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p90: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95: Option<Figure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<Figure>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ProviderPolicyBody<'a> {
    /// Providers to be called first, in this order.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    order: &'a [String],
    /// Lists of providers; a provider must be in each of them.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    only: &'a [Vec<String>],
    /// Providers that may not serve.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ignore: &'a [String],
    /// `none`: the models of `models` compete with each other; absent if each waits for the one before it to fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<crate::base::words::Partition>"))]
    partition: Option<&'static str>,
    /// Whether another endpoint may serve after a failure.
    allow_fallbacks: bool,
    /// Whether an endpoint must support every parameter of the request.
    require_parameters: bool,
    /// `deny`: only providers that are configured as not collecting data.
    #[cfg_attr(test, schemars(extend("enum" = ["allow", "deny"])))]
    data_collection: &'static str,
    /// Whether only endpoints without data retention may serve.
    zdr: bool,
    /// The allowed quantizations.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    quantizations: &'a [String],
    /// Highest list prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_price: Option<PriceCeilingBody>,
}

/// In the units of requests: dollars per million tokens.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PriceCeilingBody {
    /// US dollars per million prompt tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<Dollars>,
    /// US dollars per million output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    completion: Option<Dollars>,
    /// US dollars per request.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Dollars>,
    /// US dollars per image.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Dollars>,
}

impl<'a> ParametersBody<'a> {
    /// The parameters of a decision.
    pub(crate) fn new(decision: &'a Decision) -> ParametersBody<'a> {
        let RoutingParameters { allowed, blocked, provider, .. } = &*decision.parameters;
        let parameters = &decision.parameters;
        ParametersBody {
            objective: SourcedBody::new(decision.objective, |objective| objective.as_str()),
            weights: WeightsBody::new(decision),
            allowed_models: allowed.iter().map(|list| list.iter().map(Text).collect()).collect(),
            blocked_models: blocked.iter().map(Text).collect(),
            provider: (*provider != ProviderPolicy::default()).then(|| ProviderPolicyBody::new(provider)),
            max_cost_per_1k_tokens: parameters.max_cost_per_1k_tokens.map(|cost| SourcedBody::new(cost, Dollars)),
            max_cost: parameters.max_cost.map(|cost| SourcedBody::new(cost, Dollars)),
            preferred_max_latency: parameters.preferred_max_latency.map(|latency| TargetBody {
                preference: SourcedBody::new(latency, PreferenceBody::new),
                margin: Figure::rounded(decision.latency_margin, 3),
            }),
            preferred_min_throughput: parameters
                .preferred_min_throughput
                .map(|throughput| SourcedBody::new(throughput, PreferenceBody::new)),
            min_quality: parameters.min_quality.map(|floor| SourcedBody::new(floor, QualityFloorBody::new)),
            quality_unknown: parameters.quality_unknown.map(|given| SourcedBody::new(given, UnknownQuality::as_str)),
        }
    }
}

impl<T> SourcedBody<T> {
    fn new<V>(sourced: Sourced<V>, write: impl FnOnce(V) -> T) -> SourcedBody<T> {
        SourcedBody { value: write(sourced.value), source: sourced.source.as_str() }
    }
}

impl WeightsBody {
    fn new(decision: &Decision) -> WeightsBody {
        let Weights { latency, cost, quality } = decision.weights;
        let source = decision.parameters.weights.map_or(Source::Default, |weights| weights.source);
        WeightsBody {
            latency: Figure::exact(latency),
            cost: Figure::exact(cost),
            quality: (quality != 0.0).then(|| Figure::exact(quality)),
            source: source.as_str(),
        }
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

    fn new(preference: Preference) -> PreferenceBody {
        PreferenceBody {
            p50: preference.p50.map(Figure::exact),
            p75: preference.p75.map(Figure::exact),
            p90: preference.p90.map(Figure::exact),
            p95: preference.p95.map(Figure::exact),
            p99: preference.p99.map(Figure::exact),
        }
    }
}

impl<'a> ProviderPolicyBody<'a> {
    fn new(policy: &'a ProviderPolicy) -> ProviderPolicyBody<'a> {
        ProviderPolicyBody {
            order: &policy.order,
            only: &policy.only,
            ignore: &policy.ignore,
            partition: policy.across_models.then_some("none"),
            allow_fallbacks: policy.allow_fallbacks,
            require_parameters: policy.require_parameters,
            data_collection: match policy.data_collection {
                DataCollection::Allow => "allow",
                DataCollection::Deny => "deny",
            },
            zdr: policy.zero_data_retention,
            quantizations: &policy.quantizations,
            max_price: (policy.max_price != PriceCeiling::default()).then(|| PriceCeilingBody::new(policy.max_price)),
        }
    }
}

impl PriceCeilingBody {
    fn new(ceiling: PriceCeiling) -> PriceCeilingBody {
        let per_million = |price: Usd| Dollars(price * 1_000_000);
        PriceCeilingBody {
            prompt: ceiling.prompt.map(per_million),
            completion: ceiling.completion.map(per_million),
            request: ceiling.request.map(Dollars),
            image: ceiling.image.map(Dollars),
        }
    }
}
