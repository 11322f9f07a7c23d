//! The JSON body of an error, the same for every status.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{PreviousError, Problem, availability::Availability, budget::BudgetBody};

/// Every error but those of the Messages API.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ErrorBody<'a> {
    error: ErrorObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "serde_json::Value", extend("$ref" = "#/components/schemas/RouteMetadata")))]
    openrouter_metadata: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct ErrorObject<'a> {
    /// The HTTP status.
    code: u16,
    /// What is wrong and what to do, for people. Its wording may change.
    message: &'a str,
    /// Coarse kind, in the words of the OpenAI API.
    #[cfg_attr(test, schemars(with = "crate::base::words::ErrorKind"))]
    r#type: &'static str,
    /// The member or parameter that is at fault, such as `messages[2].content`; `null` if there is none.
    param: Option<&'a str>,
    metadata: Metadata<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    availability: Option<&'a Availability>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Metadata<'a> {
    /// Kind of the error, as in OpenRouter: one of `invalid_request`, `invalid_prompt`, `context_length_exceeded`,
    /// `content_policy_violation`, `authentication`, `permission_denied`, `not_found`, `payload_too_large`,
    /// `unprocessable`, `payment_required`, `rate_limit_exceeded`, `provider_overloaded`, `provider_unavailable`,
    /// `timeout`, `server`. `reason` is finer.
    error_type: &'static str,
    /// The finer name of the error; absent where there is none. The names of a refused request: `missing_field`,
    /// `invalid_type`, `invalid_value`, `unsupported_parameter` and the like. Of a key: `missing_key`, `invalid_key`,
    /// `disabled_key`, `disabled_account`, `disabled_team`, `expired_key`, `scope`. Of a spending limit: `key_limit`, `account_limit`, `team_limit`,
    /// `max_cost`, `price_unknown`, `spending_unknown`, `budget_lease_used_up`. Of a limit of calls of the gateway:
    /// `gateway_requests`, `gateway_tokens`, `gateway_concurrency`, `gateway_analyses`, `free_pool`, `overloaded`;
    /// `provider` where all providers that could serve are rate-limiting. Of the routing: `model_not_found`,
    /// `model_deprecated`, `model_not_allowed_for_key`, `no_candidates`, `all_circuits_open`, `probe_in_flight`. Of
    /// providers: `provider_refused`, `provider_unavailable`, `content_policy_violation`, `context_length_exceeded`,
    /// `upstream_timeout`, `deadline`. Of the gateway itself: `draining`, `gateway_limit`, `gateway_shortage`, `ledger_unavailable`,
    /// `shared_records_unavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<crate::base::words::ErrorReason>"))]
    reason: Option<&'static str>,
    /// Id of the request, as in the header `x-request-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    /// Id of the generation, for `/route/explain`; absent if the request was not routed.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_id: Option<&'a str>,
    /// Display name of the provider whose failure the error reports; absent if no provider is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_name: Option<&'a str>,
    /// The HTTP status of that provider; absent if it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream_status: Option<u16>,
    /// The provider's own code of the error; only where it refused the request itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_code: Option<&'a str>,
    /// The provider's answer, shortened and without secrets; only where it refused the request itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    /// The failed attempts, in their order; absent without any.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    previous_errors: &'a [PreviousError],
    /// What the member may be, where it is one of few values.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    allowed_values: &'a [String],
    /// Every fault of a configuration that was refused, a sentence each.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    faults: &'a [String],
    /// The spending limit that leaves no room; only with the status 402 and a `reason` that ends in `_limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'a BudgetBody>,
}

impl Serialize for PreviousError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shape<'a> {
            provider: &'a str,
            model: &'a str,
            status: Option<u16>,
            code: &'static str,
        }
        Shape { provider: &self.provider, model: &self.model, status: self.status, code: self.code }
            .serialize(serializer)
    }
}

/// `error.metadata` alone, as JSON.
pub(super) fn metadata(problem: &Problem) -> String {
    serde_json::to_string(&Metadata::new(problem)).unwrap_or_else(|_| "{}".to_owned())
}

impl<'a> Metadata<'a> {
    fn new(problem: &'a Problem) -> Metadata<'a> {
        let upstream = problem.upstream.as_ref();
        Metadata {
            error_type: problem.error_type,
            reason: problem.reason,
            request_id: problem.request_id.as_deref(),
            generation_id: problem.generation.as_ref().map(|id| id.as_str()),
            provider_name: upstream.map(|detail| detail.provider_name.as_str()),
            upstream_status: upstream.and_then(|detail| detail.status),
            provider_code: upstream.and_then(|detail| detail.code.as_deref()),
            raw: upstream.and_then(|detail| detail.raw.as_deref()),
            previous_errors: &problem.previous,
            allowed_values: &problem.allowed_values,
            faults: &problem.faults,
            budget: problem.budget.as_deref(),
        }
    }
}

impl<'a> ErrorBody<'a> {
    pub(super) fn new(problem: &'a Problem) -> ErrorBody<'a> {
        ErrorBody {
            error: ErrorObject {
                code: problem.status.as_u16(),
                message: &problem.message,
                r#type: problem.kind.as_str(),
                param: problem.param.as_deref(),
                metadata: Metadata::new(problem),
                availability: problem.availability.as_ref(),
            },
            openrouter_metadata: problem.route.as_deref(),
        }
    }
}
