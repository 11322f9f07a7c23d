//! Chat, as Anthropic offers it. `MessageMembers` are in `written/messages.json`.

use schemars::JsonSchema;
use serde_json::Value;

use super::{Object, members_of};
use crate::base::words::OrNull;

/// As in the Messages API of Anthropic. A member that is null counts as absent; unknown members are passed on to endpoints of this
/// API and dropped for others.
#[derive(JsonSchema)]
#[schemars(extend(
    "allOf" = members_of(&["MessageMembers", "RoutingMembers"]),
    "examples" = [
        {"model": "meadow/small", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]},
        {
            "model": "meadow/small",
            "max_tokens": 20,
            "system": "Be brief.",
            "temperature": 1,
            "stop_sequences": ["x"],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
                {"role": "assistant", "content": "Hi"},
                {"role": "user", "content": "And now?"},
            ],
        },
        {
            "model": "meadow/small",
            "max_tokens": 20,
            "objective": "cheapest",
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "auto"},
            "messages": [{"role": "user", "content": "Hello"}],
        },
    ],
))]
pub(crate) struct MessagesRequest {
    /// 0 only fills the cache, which only endpoints of this API do.
    max_tokens: u64,
}

/// As for a message, without a limit on the output.
#[derive(JsonSchema)]
#[schemars(extend(
    "allOf" = members_of(&["MessageMembers", "RoutingMembers"]),
    "examples" = [{"model": "meadow/small", "messages": [{"role": "user", "content": "Hello"}]}],
))]
pub(crate) struct CountTokensRequest {
    /// Has no effect.
    #[schemars(default)]
    max_tokens: Value,
}

/// The answer of an endpoint of the same API passes as it came, but for the id and the model; of that of another API all members
/// are there.
#[derive(JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub(crate) struct MessagesAnswer {
    /// Id of the generation, with `msg_` before it.
    id: OrNull<String>,
    /// Always `message`.
    r#type: OrNull<String>,
    /// Always `assistant`.
    role: OrNull<String>,
    /// Id of the model that served.
    model: OrNull<String>,
    /// Blocks of the answer, in their order.
    content: OrNull<Vec<OrNull<Block>>>,
    /// Why the model ended its answer: `end_turn`, `max_tokens`, `tool_use` or `refusal`; of an endpoint of the same API also others.
    stop_reason: Option<OrNull<String>>,
    /// The stop sequence that ended the answer, if the endpoint tells it; else `null`.
    stop_sequence: Option<Value>,
    /// Tokens in the arithmetic of the Anthropic API: the three counts of the prompt add up to all of it. The cost is in the header
    /// `x-route-cost`.
    usage: Option<OrNull<Usage>>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct Block {
    /// Kind of the block: `text`, `tool_use`, `thinking`, `redacted_thinking` and others of the Anthropic API.
    r#type: Option<OrNull<String>>,
    /// Of `text`: the text.
    text: Option<OrNull<String>>,
    /// Of `tool_use`: id of the call, which its result names.
    id: Option<String>,
    /// Of `tool_use`: the tool.
    name: Option<String>,
    /// Of `tool_use`: its arguments.
    input: Option<Object>,
    /// Of `thinking`: the reasoning as text; may be empty.
    thinking: Option<String>,
    /// Of `thinking`: what makes the block acceptable in the next turn.
    signature: Option<String>,
    /// Of `redacted_thinking`: reasoning that only its provider can read.
    data: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct Usage {
    /// Prompt tokens that were neither read from the provider's cache nor written to it.
    input_tokens: Option<OrNull<f64>>,
    /// Prompt tokens written to the provider's cache.
    cache_creation_input_tokens: Option<OrNull<f64>>,
    /// Prompt tokens read from the provider's cache.
    cache_read_input_tokens: Option<OrNull<f64>>,
    /// The written ones by time.
    cache_creation: Option<OrNull<CacheCreation>>,
    /// Tokens of the answer, reasoning included.
    output_tokens: Option<OrNull<f64>>,
    /// Absent if the provider does not report reasoning.
    output_tokens_details: Option<OrNull<OutputTokens>>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct CacheCreation {
    /// Written for five minutes, or for a time that is not reported.
    ephemeral_5m_input_tokens: Option<OrNull<f64>>,
    /// Written for one hour.
    ephemeral_1h_input_tokens: Option<OrNull<f64>>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct OutputTokens {
    /// Tokens of the answer that were spent on reasoning.
    thinking_tokens: Option<OrNull<f64>>,
}

/// An error in the form of the Anthropic API.
#[derive(JsonSchema)]
pub(crate) struct MessagesError {
    /// Always `error`.
    r#type: ErrorType,
    error: ErrorObject,
    /// Id of the request, as in the headers `request-id` and `x-request-id`; `null` if it is not known.
    request_id: Option<OrNull<String>>,
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
enum ErrorType {
    Error,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct ErrorObject {
    /// Kind of the error in the words of the Anthropic API: `invalid_request_error`, `authentication_error`, `billing_error`,
    /// `permission_error`, `not_found_error`, `timeout_error`, `conflict_error`, `request_too_large`, `rate_limit_error`,
    /// `overloaded_error` or `api_error`.
    r#type: String,
    /// What is wrong and what to do, for people; it begins with the path of the member at fault, if there is one.
    message: String,
    /// The cause for programs: `error_code`, and the members of `error.metadata` in errors of the other APIs. Absent where the cause
    /// has no name; of a provider of the same API that refused the request itself, as it came.
    details: Option<ErrorDetails>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct ErrorDetails {
    /// The `reason` of the error, as in the other APIs; its `error_type` where there is none.
    error_code: Option<String>,
}
