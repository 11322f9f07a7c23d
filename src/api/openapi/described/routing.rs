//! Members that say where a request may go, and the requests about them.

use schemars::JsonSchema;

use super::{Object, members_of};
use crate::{api::decisions::why_not_view::WhyNotName, base::words};

/// What says where a request may go. A value other than `objective` and the lists may also come as a string that holds its JSON.
#[derive(JsonSchema, Default)]
#[schemars(default)]
pub(crate) struct RoutingMembers {
    /// Fallback models, in this order.
    #[schemars(length(max = 32), inner(length(min = 1, max = 256)))]
    models: Option<Vec<String>>,
    objective: Option<words::Objective>,
    allowed_models: Names,
    blocked_models: Names,
    provider: Option<ProviderPreferences>,
    /// Another name of `provider`.
    provider_policy: Option<ProviderPreferences>,
    max_cost: CostCeiling,
    max_cost_per_1k_tokens: CostCeiling,
    /// Of time, cost and quality under `balanced`; not all 0.
    weights: Option<Weights>,
    preferred_max_latency: PreferredBound,
    preferred_min_throughput: PreferredBound,
    /// Least probability that an answer is acceptable, for the class of the task: the mean, or the lower tenth of what is believed.
    min_quality: Option<MinQuality>,
    /// What `min_quality` does with endpoints of unknown quality.
    quality_unknown: Option<QualityUnknown>,
    /// Tags of the client, and routing parameters by their names.
    #[schemars(extend("maxProperties" = 64))]
    metadata: Option<Object>,
    /// Further members of the body.
    extra_body: Option<Object>,
    #[schemars(length(max = 256))]
    session_id: Option<String>,
    #[schemars(length(max = 32))]
    plugins: Option<Vec<Plugin>>,
    usage: Option<UsageOption>,
    trace: Option<Object>,
    route: Option<Route>,
    #[schemars(length(max = 32))]
    transforms: Option<Vec<String>>,
    debug: Option<DebugOption>,
}

#[derive(JsonSchema)]
#[schemars(inline, untagged, deny_unknown_fields)]
enum Weights {
    Latency {
        #[schemars(extend("exclusiveMinimum" = 0))]
        latency: f64,
        #[schemars(range(min = 0))]
        cost: Option<f64>,
        #[schemars(range(min = 0))]
        quality: Option<f64>,
    },
    Cost {
        #[schemars(extend("exclusiveMinimum" = 0))]
        cost: f64,
        #[schemars(range(min = 0))]
        latency: Option<f64>,
        #[schemars(range(min = 0))]
        quality: Option<f64>,
    },
    Quality {
        #[schemars(extend("exclusiveMinimum" = 0))]
        quality: f64,
        #[schemars(range(min = 0))]
        latency: Option<f64>,
        #[schemars(range(min = 0))]
        cost: Option<f64>,
    },
}

#[derive(JsonSchema)]
#[schemars(inline, untagged)]
enum MinQuality {
    Mean(#[schemars(range(min = 0, max = 1))] f64),
    Tenth(LowerTenth),
}

#[derive(JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
struct LowerTenth {
    #[schemars(range(min = 0, max = 1))]
    p10: f64,
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
enum QualityUnknown {
    Exclude,
    Allow,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Plugin {
    id: PluginId,
    enabled: Option<bool>,
    #[schemars(default)]
    allowed_models: Names,
    #[schemars(default)]
    excluded_models: Names,
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "kebab-case")]
enum PluginId {
    AutoRouter,
    AutoBetaRouter,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct UsageOption {
    include: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
enum Route {
    Fallback,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct DebugOption {
    echo_upstream_body: Option<bool>,
}

/// Preferences for the choice of the provider. Unknown members have no effect and are named in `x-warning` or in the answer of a
/// preview.
#[derive(JsonSchema, Default)]
#[schemars(default)]
struct ProviderPreferences {
    order: Names,
    only: Names,
    ignore: Names,
    quantizations: Names,
    allow_fallbacks: Option<bool>,
    /// `false`: the choice is not drawn at random to learn from (`routing.explore`).
    explore: Option<bool>,
    require_parameters: Option<bool>,
    data_collection: Option<DataCollection>,
    zdr: Option<bool>,
    sort: Option<Sort>,
    /// Tokens per million.
    max_price: Option<MaxPrice>,
    preferred_max_latency: PreferredBound,
    preferred_min_throughput: PreferredBound,
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
enum DataCollection {
    Allow,
    Deny,
}

#[derive(JsonSchema)]
#[schemars(inline, untagged)]
enum Sort {
    Word(SortWord),
    Object { by: Option<SortWord>, partition: Option<Partition> },
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
enum SortWord {
    Price,
    Throughput,
    Latency,
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
enum Partition {
    Model,
    None,
}

#[derive(JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
struct MaxPrice {
    /// US dollars.
    prompt: Option<Dollars>,
    /// US dollars.
    completion: Option<Dollars>,
    /// US dollars.
    request: Option<Dollars>,
    /// US dollars.
    image: Option<Dollars>,
    /// US dollars.
    audio: Option<Dollars>,
}

#[derive(JsonSchema)]
#[schemars(inline, untagged)]
enum Dollars {
    Number(#[schemars(range(min = 0))] f64),
    Text(String),
}

/// Texts, also as one text with commas or with a JSON list.
#[derive(JsonSchema, Default)]
#[schemars(untagged)]
enum Names {
    Text(String),
    List(#[schemars(length(max = 1000))] Vec<String>),
    #[default]
    None,
}

/// For the median, or by percentile.
#[derive(JsonSchema, Default)]
#[schemars(untagged)]
enum PreferredBound {
    Median(#[schemars(extend("exclusiveMinimum" = 0))] f64),
    ByPercentile(Percentiles),
    Text(String),
    #[default]
    None,
}

#[derive(JsonSchema)]
#[schemars(inline, deny_unknown_fields, extend("minProperties" = 1))]
struct Percentiles {
    #[schemars(extend("exclusiveMinimum" = 0))]
    p50: Option<f64>,
    #[schemars(extend("exclusiveMinimum" = 0))]
    p75: Option<f64>,
    #[schemars(extend("exclusiveMinimum" = 0))]
    p90: Option<f64>,
    #[schemars(extend("exclusiveMinimum" = 0))]
    p95: Option<f64>,
    #[schemars(extend("exclusiveMinimum" = 0))]
    p99: Option<f64>,
}

/// US dollars.
#[derive(JsonSchema, Default)]
#[schemars(untagged)]
enum CostCeiling {
    Number(#[schemars(extend("exclusiveMinimum" = 0))] f64),
    Text(
        #[schemars(
            length(max = 20),
            extend("pattern" = "^([0-9]*[1-9][0-9]*(\\.[0-9]+)?|[0-9]+\\.[0-9]*[1-9][0-9]*)$"),
        )]
        String,
    ),
    #[default]
    None,
}

/// As for a chat; without a model the gateway chooses, and without messages for a prompt of no text.
#[derive(JsonSchema)]
#[schemars(extend("allOf" = members_of(&["ChatMembers", "RoutingMembers"])))]
pub(crate) struct PreviewRequest {
    /// Most candidates in the answer.
    top_n: Option<Shown>,
    /// 0 to 2^64 - 1.
    route_seed: Option<Seed>,
    why_not: Option<WhyNotName>,
    what_if: Option<Object>,
}

#[derive(JsonSchema)]
#[schemars(inline, untagged)]
enum Shown {
    Number(#[schemars(range(min = 1, max = 100))] u64),
    Text(#[schemars(extend("pattern" = "^([1-9][0-9]?|100)$"))] String),
}

#[derive(JsonSchema)]
#[schemars(inline, untagged)]
enum Seed {
    Number(#[schemars(range(max = 18446744073709551615_u64))] u64),
    Text(#[schemars(extend("pattern" = "^[0-9]{1,19}$"))] String),
}
