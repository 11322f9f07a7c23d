//! Fields of a request that are for the gateway alone, whatever the API of the client: no upstream gets them.

use super::json::Raw;

pointsman_domain::named! {
    /// Routing parameters, wherever they stand. In `metadata` every other name is a tag.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum RoutingField {
        Objective = "objective",
        AllowedModels = "allowed_models",
        BlockedModels = "blocked_models",
        ProviderPolicy = "provider_policy",
        MaxCostPer1kTokens = "max_cost_per_1k_tokens",
        MaxCost = "max_cost",
        Weights = "weights",
        PreferredMaxLatency = "preferred_max_latency",
        PreferredMinThroughput = "preferred_min_throughput",
        MinQuality = "min_quality",
        QualityUnknown = "quality_unknown",
        TopN = "top_n",
    }
}

pointsman_domain::named! {
    /// The others, which stand at the top and in `extra_body`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum GatewayField {
        Models = "models",
        StreamOptions = "stream_options",
        Metadata = "metadata",
        ExtraBody = "extra_body",
        Provider = "provider",
        SessionId = "session_id",
        Plugins = "plugins",
        Usage = "usage",
        Trace = "trace",
        Route = "route",
        Transforms = "transforms",
        Debug = "debug",
        RouteSeed = "route_seed",
        WhyNot = "why_not",
        WhatIf = "what_if",
    }
}

/// Whether a member of `metadata` is for the gateway alone: a routing parameter, or one of the two that say whether the answer before is
/// rejected. `rejected` with another value than true or false is a tag of the client's own.
pub(crate) fn is_for_gateway_in_metadata(name: &str, value: Raw<'_>) -> bool {
    match name {
        "previous_generation_id" => true,
        "rejected" => matches!(value.text().as_deref().unwrap_or(value.written()), "true" | "false"),
        _ => RoutingField::from_name(name).is_some(),
    }
}

/// Whether a member at the top of a body is for the gateway alone.
pub(crate) fn is_for_gateway(name: &str) -> bool {
    RoutingField::from_name(name).is_some() || GatewayField::from_name(name).is_some()
}
