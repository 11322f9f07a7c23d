//! Chat, as OpenAI and OpenRouter offer it. `ChatMembers` are in `written/chat.json`.

use schemars::JsonSchema;
use serde_json::Value;

use super::{Cost, Object, members_of};
use crate::base::words::OrNull;

/// As in the chat API of OpenAI and OpenRouter. A member that is null counts as absent; unknown members are passed on where the
/// endpoint takes them.
#[derive(JsonSchema)]
#[schemars(extend(
    "allOf" = members_of(&["ChatMembers", "RoutingMembers"]),
    "anyOf" = [{"required": ["model"], "properties": {"model": {"type": "string"}}}, {"required": ["models"]}],
    "examples" = [
        {"model": "meadow/small", "messages": [{"role": "user", "content": "Hello"}]},
        {
            "model": "service/auto",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
            "temperature": 0.5,
            "max_tokens": 20,
            "stop": ["x"],
        },
        {"models": ["meadow/small", "meadow/large"], "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, "seed": 7, "top_p": null},
    ],
))]
pub(crate) struct ChatRequest {
    messages: Vec<Value>,
}

/// An assistant's message may be without content; a tool's names its call.
#[derive(JsonSchema)]
#[schemars(extend("allOf" = [
    {"anyOf": [
        {"properties": {"role": {"enum": ["assistant"]}}},
        {"required": ["content"], "properties": {"content": {"type": ["string", "array"]}}},
    ]},
    {"anyOf": [
        {"properties": {"role": {"enum": ["system", "developer", "user", "assistant", "function"]}}},
        {"required": ["tool_call_id"], "properties": {"tool_call_id": {"type": "string", "minLength": 1}}},
    ]},
]))]
pub(crate) struct Message {
    role: Role,
    /// Text, or a list of parts such as text and images.
    content: Option<Content>,
    name: Option<String>,
    tool_calls: Option<Vec<Value>>,
    tool_call_id: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    Function,
}

#[derive(JsonSchema)]
#[schemars(inline, untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Part {
    r#type: String,
}

/// Further members are those of the provider.
#[derive(JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub(crate) struct ChatCompletion {
    /// Id of the generation, for `/generation` and `/route/explain`.
    id: String,
    /// Always `chat.completion`.
    object: ChatCompletionObject,
    /// When the answer was made, in Unix seconds.
    created: u64,
    /// Id of the model that served.
    model: String,
    /// Display name of the provider that served.
    provider: Option<String>,
    /// One answer, or as many as `n` asks for.
    choices: Vec<Choice>,
    usage: Usage,
    /// As the provider wrote it.
    service_tier: Option<OrNull<String>>,
    /// As the provider wrote it; of a provider that sends none, the version of the gateway's routing settings.
    system_fingerprint: Option<OrNull<String>>,
    /// Only for requests with the header `X-OpenRouter-Metadata: enabled`, and not in streams.
    #[schemars(extend("$ref" = "#/components/schemas/RouteMetadata"))]
    openrouter_metadata: Option<Value>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
enum ChatCompletionObject {
    #[schemars(rename = "chat.completion")]
    ChatCompletion,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Choice {
    /// Number of the answer, from 0.
    index: u64,
    message: AnswerMessage,
    /// Why the model ended its answer: `stop`, `length`, `tool_calls`, `content_filter` or `error`; `function_call` instead of
    /// `tool_calls` if the request has `functions`.
    finish_reason: OrNull<String>,
    /// The provider's own word for it; `null` if it gave none.
    native_finish_reason: Option<OrNull<String>>,
    /// Probabilities of the tokens, as the provider wrote them; `null` without any.
    logprobs: Option<OrNull<Object>>,
}

/// Further members are those of the provider.
#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct AnswerMessage {
    /// Always `assistant`.
    role: String,
    /// The text of the answer: empty if the model says nothing, `null` beside calls of tools, a refusal or sound without text.
    content: Option<OrNull<String>>,
    /// Why the model refuses, in its words; `null` if it does not.
    refusal: Option<OrNull<String>>,
    /// Calls of tools that the model asks for.
    tool_calls: Option<Vec<Object>>,
    /// Reasoning of the model as text.
    reasoning: Option<OrNull<String>>,
    /// The same by parts, to be sent back in the next turn.
    reasoning_details: Option<Vec<Object>>,
    /// Citations of pages.
    annotations: Option<Vec<Object>>,
    /// Citations of documents of the prompt, as their provider wrote them.
    citations: Option<Vec<Object>>,
}

#[derive(JsonSchema)]
struct Usage {
    /// Tokens of the prompt, those read from or written to a cache included.
    prompt_tokens: u64,
    /// Tokens of the answer, reasoning included.
    completion_tokens: u64,
    /// Both together, also where the provider says something else.
    total_tokens: u64,
    #[serde(flatten)]
    cost: Cost,
    /// `true` where the provider reported no tokens and the gateway counted them; absent otherwise.
    estimated: Option<bool>,
    /// Always `false`: the gateway has no keys of customers at providers.
    is_byok: Option<bool>,
    /// The prompt by kinds of tokens: these, and what else the provider reports.
    prompt_tokens_details: Option<PromptTokens>,
    /// The answer by kinds of tokens: these, and what else the provider reports.
    completion_tokens_details: Option<CompletionTokens>,
    /// Parts of the cost, and what the provider says.
    cost_details: Option<CostParts>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct PromptTokens {
    /// Prompt tokens read from the provider's cache.
    cached_tokens: Option<u64>,
    /// Prompt tokens written to the provider's cache. Absent without any.
    cache_write_tokens: Option<u64>,
    /// Those of them that were written for one hour. Absent without any.
    cache_write_1h_tokens: Option<u64>,
    /// Prompt tokens that are audio, as the provider reports them.
    audio_tokens: Option<u64>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct CompletionTokens {
    /// Tokens of the answer that were spent on reasoning.
    reasoning_tokens: Option<u64>,
    /// Tokens of the answer that are audio.
    audio_tokens: Option<u64>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct CostParts {
    /// The cost in US dollars that the provider reported, which is never charged; `null` if it reported none.
    upstream_inference_cost: Option<OrNull<f64>>,
    /// US dollars of `cost` for the prompt.
    upstream_inference_prompt_cost: Option<f64>,
    /// US dollars of `cost` for the answer.
    upstream_inference_completions_cost: Option<f64>,
}
