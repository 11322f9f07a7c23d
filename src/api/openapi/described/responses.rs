//! The answer of the Responses API. Its request is in `written/responses.json`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use super::Object;
use crate::base::words::OrNull;

/// A member that comes back.
struct Echo<T>(T);

impl<T: JsonSchema> JsonSchema for Echo<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = OrNull::<T>::json_schema(generator);
        schema.insert("description".to_owned(), "As in the request, or what holds without it.".into());
        schema
    }
}

/// The answer of an endpoint of the same API passes as it came, but for the id and the model; of that of another API all members
/// are there.
#[derive(JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub(crate) struct ResponsesAnswer {
    /// Id of the generation, with `resp_` before it.
    id: OrNull<String>,
    /// Always `response`.
    object: OrNull<String>,
    /// When the answer was made, in Unix seconds.
    created_at: Option<OrNull<f64>>,
    /// When the answer was complete, in Unix seconds; `null` unless it is.
    completed_at: Option<OrNull<f64>>,
    frequency_penalty: Option<Echo<f64>>,
    presence_penalty: Option<Echo<f64>>,
    /// `completed`; `incomplete` if a limit or a filter ended the answer; `failed` after an error.
    status: OrNull<String>,
    /// The error of a `failed` answer; else `null`.
    error: Option<Value>,
    /// Of an `incomplete` answer; else `null`.
    incomplete_details: Option<OrNull<Incomplete>>,
    /// Id of the model that served.
    model: OrNull<String>,
    /// Items of the answer, in their order.
    output: OrNull<Vec<OrNull<Item>>>,
    /// Always `false`: answers are made at once.
    background: Option<OrNull<bool>>,
    instructions: Option<Echo<Value>>,
    max_output_tokens: Option<Echo<f64>>,
    max_tool_calls: Option<Echo<Value>>,
    metadata: Option<Echo<Object>>,
    parallel_tool_calls: Option<Echo<bool>>,
    /// Always `null`: the gateway keeps no conversations.
    previous_response_id: Option<Value>,
    prompt_cache_key: Option<Echo<Value>>,
    reasoning: Option<Echo<Reasoning>>,
    safety_identifier: Option<Echo<Value>>,
    service_tier: Option<Echo<String>>,
    /// Always `false`: the gateway keeps no answers.
    store: Option<OrNull<bool>>,
    temperature: Option<Echo<f64>>,
    text: Option<Echo<Text>>,
    tool_choice: Option<Echo<Value>>,
    tools: Option<Echo<Vec<Value>>>,
    top_logprobs: Option<Echo<f64>>,
    top_p: Option<Echo<f64>>,
    truncation: Option<Echo<String>>,
    user: Option<Echo<Value>>,
    /// Tokens; `null` before the end. The cost is in the header `x-route-cost`.
    usage: Option<OrNull<Usage>>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct Incomplete {
    /// `max_output_tokens` or `content_filter`.
    reason: Option<OrNull<String>>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct Item {
    /// Kind of the item: `message`, `function_call`, `reasoning` and others of the API.
    r#type: Option<OrNull<String>>,
    /// Id of the item; `null` where the endpoint gives none.
    id: Option<OrNull<String>>,
    /// `completed`, or `incomplete` if the item was cut off.
    status: Option<OrNull<String>>,
    /// Of a message: `assistant`.
    role: Option<OrNull<String>>,
    /// Of a message: its parts, such as `output_text`. Of reasoning: its text, if it is shown.
    content: Option<OrNull<Vec<OrNull<Object>>>>,
    /// Of a call: its id, which its result names.
    call_id: Option<String>,
    /// Of a call: the tool.
    name: Option<String>,
    /// Of a call: its arguments as JSON text.
    arguments: Option<String>,
    /// Of reasoning: parts of its summary.
    summary: Option<Vec<Object>>,
    /// Of reasoning: what is to be sent back in the next turn.
    encrypted_content: Option<OrNull<String>>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct Reasoning {
    effort: Option<Echo<Value>>,
    summary: Option<Echo<Value>>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct Text {
    format: Option<Echo<TextFormat>>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct TextFormat {
    r#type: Option<Echo<String>>,
}

#[derive(JsonSchema)]
#[schemars(inline, extend("additionalProperties" = true))]
struct Usage {
    /// Tokens of the prompt, those read from or written to a cache included.
    input_tokens: Option<OrNull<f64>>,
    /// The prompt by kinds of tokens.
    input_tokens_details: Option<OrNull<InputTokens>>,
    /// Tokens of the answer, reasoning included.
    output_tokens: Option<OrNull<f64>>,
    /// The answer by kinds of tokens.
    output_tokens_details: Option<OrNull<OutputTokens>>,
    /// Both together.
    total_tokens: Option<OrNull<f64>>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct InputTokens {
    /// Prompt tokens read from the provider's cache.
    cached_tokens: Option<OrNull<f64>>,
    /// Prompt tokens written to the provider's cache.
    cache_write_tokens: Option<OrNull<f64>>,
}

#[derive(JsonSchema)]
#[schemars(inline)]
struct OutputTokens {
    /// Tokens of the answer that were spent on reasoning.
    reasoning_tokens: Option<OrNull<f64>>,
}
