//! Words that members of answers are limited to, and values that may be `null`, for the schemas of the OpenAPI documents. Compiled in
//! tests only.

use std::borrow::Cow;

use pointsman_config::Scope as KeyScope;
use pointsman_domain as domain;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A type for each vocabulary: written out where it is used, or under its name if it has a description.
macro_rules! words {
    ($($name:ident = $words:expr $(, $description:literal)?;)*) => {$(
        pub(crate) enum $name {}

        impl $name {
            const DESCRIPTION: &[&str] = &[$($description)?];
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                $name::DESCRIPTION.is_empty()
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut schema = json_schema!({ "type": "string", "enum": $words.as_slice() });
                for description in $name::DESCRIPTION {
                    schema.insert("description".to_owned(), (*description).into());
                }
                schema
            }
        }
    )*};
}

/// Marks a schema that takes `null` also where its member may be absent.
pub(crate) const OR_NULL: &str = "x-or-null";

/// A value, or `null`.
pub(crate) struct OrNull<T>(T);

impl<T: JsonSchema> JsonSchema for OrNull<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Option::<T>::json_schema(generator);
        schema.insert(OR_NULL.to_owned(), true.into());
        schema
    }
}

words! {
    ApiType = ["completions", "image", "embeddings", "messages", "responses"];
    AvailabilityCode = ["model_not_found", "model_deprecated", "constraint_filtered", "no_endpoints"];
    Change = [
        "price", "ttft_ms", "tokens_per_second", "failure_probability", "quality", "weights.latency", "weights.quality",
    ];
    Circuit = ["closed", "open", "half_open"],
        "State of a circuit breaker. `closed`: requests pass. `open`: none pass. `half_open`: one request may pass \
         as a probe.";
    Condition = ["healthy", "degraded", "down", "unknown", "off"],
        "Condition in one word. `healthy`: answers. `degraded`: the success rate is below 0.95, a cooldown runs, \
         the breaker is half-open, or nothing comes although requests wait. `down`: the breaker is open, or the \
         provider refuses the gateway's key or account. `unknown`: not called lately. `off`: not enabled.";
    CostCause = pointsman_ledger::activity::explanation::Cause::ALL.map(|cause| cause.as_str());
    DecisionCode = domain::DecisionCode::ALL.map(domain::DecisionCode::as_str),
        "Why this endpoint is the choice, or which fallback served. `fixed_model`: the request named one model, and \
         this is its best endpoint; `only_candidate`: no other was left; `cheapest_available`: least expected cost; \
         `fastest_available`: least predicted time; `most_reliable`: least probability of failure; \
         `balanced_best_match`: best of time and cost together; `free_pool`: chosen from the free models; \
         `model_fallback`: a later entry of `models` served; `provider_fallback`: another provider of the same \
         model served; `session_sticky`: the conversation stays where its prompt is cached; `exploration`: \
         chance changed the choice, by exploration noise or a draw (`routing.explore`); `no_candidates`: no endpoint \
         could take the request, so none was called; `cascade`: the first answer was broken, and that of another model took \
         its place.";
    Dialect = domain::Dialect::ALL.map(domain::Dialect::as_str);
    ErrorKind = [
        "invalid_request_error", "authentication_error", "permission_error", "insufficient_quota", "rate_limit_error",
        "provider_error", "timeout_error", "server_error",
    ];
    ErrorReason = [
        "account_limit", "all_circuits_open", "budget_lease_used_up", "changed_meanwhile", "client_timeout", "configuration_refused",
        "console_logins", "content_policy_violation", "context_length_exceeded", "cors", "deadline", "diff_runs",
        "disabled_account", "disabled_key", "disabled_team", "disabled_until_restart", "draining", "expired_key", "feedback_too_late", "foreign_form", "free_pool",
        "gateway_analyses", "gateway_concurrency", "gateway_limit", "gateway_requests", "gateway_shortage",
        "gateway_tokens", "generation_not_found", "generation_running", "headers_too_large", "host_not_allowed", "invalid_json",
        "invalid_key", "invalid_type", "invalid_value", "key_limit", "ledger_unavailable", "max_cost",
        "method_not_allowed", "missing_field", "missing_key", "model_deprecated", "model_not_allowed_for_key",
        "model_not_found", "no_candidates", "no_durable_ledger", "not_found", "not_stored", "overloaded",
        "payload_too_large", "previous_response_not_supported", "price_unknown", "probe_in_flight", "provider",
        "provider_refused", "provider_unavailable", "record_of_later_version", "scope", "shared_records_unavailable",
        "spending_unknown", "stale_form", "team_limit", "thread_unsupported_request", "too_many_ratings", "unknown_diff", "unknown_path",
        "unprocessable", "unsupported_media_type", "unsupported_parameter", "unsupported_plugin", "upstream_timeout",
        "wrong_endpoint",
    ];
    ExclusionReason = domain::ExclusionReason::ALL.map(domain::ExclusionReason::as_str),
        "Why an endpoint may not serve a request. `not_allowed_model`: no list of allowed models names the model; \
         `blocked_model`: a list of blocked models names it; `provider_not_allowed`: `provider.only` does not name \
         the provider; `provider_ignored`: `provider.ignore` names it; `not_free`: free models were asked for, and \
         it costs something; `unsupported_parameter`: a required parameter is not supported; `input_modality`: a \
         kind of input is not supported; `output_modality`: a kind of output is not supported; `context_length`: \
         prompt and answer do not fit; `max_price`: above `provider.max_price` or `max_cost`; \
         `max_cost_per_1k_tokens`: above `max_cost_per_1k_tokens`; `price_unknown`: its price is not known, and the \
         request limits or minimises cost; `data_policy`: the provider's use of data; `quantization`: not one of \
         the allowed ones; `quality_below`: its quality for the class of the task is below `min_quality`; \
         `quality_unknown`: nothing is known of its quality, and `min_quality` asks for some; `key_policy`: the key may not use it; `model_expired`: the model is past its expiration \
         date; `disabled`: switched off in the configuration; `provider_off`: its provider is off; `config_fault`: \
         the provider refuses the gateway's key, account or name for the model; `circuit_open`: its breaker is \
         open; `probe_in_flight`: its breaker is half-open, and the probe is on its way; `rate_limited`: a pause \
         after a 429; `paced`: calls are spaced out after 429s; `saturated`: more attempts in progress than it \
         serves without slowing down; `wrong_endpoint`: the model belongs to another path of the API; `draining`: \
         the gateway is shutting down.";
    FinishReason = ["stop", "length", "tool_calls", "content_filter", "error"];
    ListObject = ["list"];
    Modality = domain::Modality::ALL.map(domain::Modality::as_str);
    Objective = domain::Objective::ALL.map(domain::Objective::as_str);
    Partition = ["none"];
    Percentile = domain::Percentile::ALL.map(domain::Percentile::as_str);
    RedisCommand = ["publish", "subscribe"];
    ReloadResult = ["changed", "unchanged", "refused"];
    ResetPeriod = domain::ResetPeriod::ALL.map(domain::ResetPeriod::as_str);
    Scope = KeyScope::ALL.map(KeyScope::as_str);
    ScoreUnit = ["s", "usd", "probability", "none"];
    Source = ["metadata", "extra_body", "top_level", "provider", "plugins", "header", "alias", "key", "default"],
        "Where a parameter comes from: a part of the body (`top_level`, `metadata`, `extra_body`, `provider`, \
         `plugins`), a `header`, the requested `alias`, the `key`, or the `default` of the gateway.";
    StateFormat = ["anthropic-claude-v1", "google-gemini-v1", "openai-responses-v1"];
    Task = domain::Task::ALL.map(domain::Task::as_str);
    UnknownQuality = domain::UnknownQuality::ALL.map(domain::UnknownQuality::as_str);
    TaskFeature = ["image", "schema", "tools", "long_prompt", "code", "math", "short_message"];
    WaitedFor = ["rate_limited", "paced", "circuit_open", "probe_in_flight", "saturated"];
}
