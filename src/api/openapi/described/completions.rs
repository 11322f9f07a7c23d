//! Texts that are continued, as OpenAI offered it.

use schemars::JsonSchema;

use super::{Object, members_of};
use crate::base::words::OrNull;

/// The deprecated API of OpenAI that continues a text, for endpoints with `legacy_completions`, which get the body as it came. A
/// model without such an endpoint is refused.
#[derive(JsonSchema)]
#[schemars(extend(
    "allOf" = members_of(&["RoutingMembers"]),
    "examples" = [
        {"model": "acme/small", "prompt": "def f(", "max_tokens": 16},
        {"model": "acme/small", "prompt": ["Once"], "stop": ["\n"], "objective": "fastest"},
    ],
))]
pub(crate) struct CompletionRequest {
    #[schemars(length(min = 1, max = 256))]
    model: String,
    prompt: Prompt,
    /// What follows the text that is asked for.
    suffix: Option<String>,
    echo: Option<bool>,
    #[schemars(range(min = 1))]
    best_of: Option<u64>,
    #[schemars(range(max = 5))]
    logprobs: Option<u64>,
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    stream: Option<bool>,
    /// Belongs to `/chat/completions`.
    #[schemars(default)]
    messages: (),
}

#[derive(JsonSchema)]
#[schemars(inline, untagged)]
enum Prompt {
    Text(String),
    /// Several texts.
    Texts(#[schemars(length(min = 1, max = 2048))] Vec<String>),
    /// Token ids.
    Tokens(#[schemars(length(min = 1))] Vec<u64>),
    /// Several lists of token ids.
    TokenLists(#[schemars(length(min = 1), inner(length(min = 1)))] Vec<Vec<u64>>),
}

/// The answer of the endpoint as it came, with the gateway's `id` and `model`.
#[derive(JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub(crate) struct Completion {
    /// Id of the generation, for `/generation` and `/route/explain`.
    id: String,
    /// Always `text_completion`.
    object: Option<String>,
    /// When the answer was made, in Unix seconds.
    created: Option<u64>,
    /// Id of the model that served.
    model: Option<String>,
    /// One continuation, or as many as `n` asks for.
    choices: Vec<Choice>,
    /// Tokens, as the provider wrote them.
    usage: Option<Object>,
    /// As the provider wrote it.
    service_tier: Option<OrNull<String>>,
    /// As the provider wrote it; of a provider that sends none, the version of the gateway's routing settings.
    system_fingerprint: Option<OrNull<String>>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct Choice {
    /// The text that continues the prompt.
    text: Option<String>,
    /// Number of the continuation, from 0.
    index: Option<u64>,
    /// Probabilities of the tokens, as the provider wrote them; `null` without any.
    logprobs: Option<OrNull<Object>>,
    /// Why it ended: `stop`, `length` or `content_filter`.
    finish_reason: Option<OrNull<String>>,
}
