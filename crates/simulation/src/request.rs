//! Parses chat requests and counts their tokens. `check` checks them. Unknown fields are ignored, as in real servers.

use serde::Deserialize;
use serde_json::Value;

use super::{
    prompt_cache::{Prefix, PromptReader},
    rejection::Rejection,
    words,
};

/// Tokens of an image in a message.
const IMAGE_TOKENS: u32 = 765;

/// Tokens of a message in addition to its content.
const MESSAGE_TOKENS: u32 = 4;

/// Shortest beginning of a prompt that is remembered without being asked, tokens.
const LEAST_CACHED: u32 = 1_024;

/// The body of a chat request. Numbers are read as floats, because some clients write `100.0`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ChatBody {
    pub(super) model: Option<String>,
    pub(super) messages: Option<Vec<Message>>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) max_tokens: Option<f64>,
    pub(super) max_completion_tokens: Option<f64>,
    pub(super) n: Option<f64>,
    pub(super) seed: Option<f64>,
    stop: Option<Stop>,
    tools: Option<Vec<Tool>>,
    pub(super) tool_choice: Option<ToolChoice>,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) response_format: Option<ResponseFormat>,
    modalities: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Message {
    pub(super) role: String,
    content: Option<Content>,
    pub(super) tool_calls: Option<Vec<PastCall>>,
    pub(super) tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

/// A tool call of an earlier answer.
#[derive(Debug, Deserialize)]
pub(super) struct PastCall {
    pub(super) id: String,
    function: PastFunction,
}

#[derive(Debug, Deserialize)]
struct PastFunction {
    name: String,
    arguments: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Tool {
    /// A custom tool is one without parameters.
    #[serde(alias = "custom")]
    pub(super) function: Function,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Function {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) parameters: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum ToolChoice {
    /// `none`, `auto` or `required`.
    Mode(String),
    /// One function by name.
    Named { function: NamedFunction },
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct NamedFunction {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResponseFormat {
    #[serde(rename = "type")]
    pub(super) kind: String,
    json_schema: Option<NamedSchema>,
    /// Where some local servers expect the schema, with `json_object`.
    schema: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct NamedSchema {
    schema: Option<Value>,
}

impl ResponseFormat {
    /// The schema to follow, if one was given.
    pub(super) fn schema(&self) -> Option<&Value> {
        self.json_schema.as_ref().and_then(|named| named.schema.as_ref()).or(self.schema.as_ref())
    }
}

impl Message {
    /// Its text, parts joined by line breaks.
    pub(super) fn text(&self) -> String {
        match &self.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => {
                parts.iter().filter_map(|part| part.text.as_deref()).collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Number of its images.
    pub(super) fn images(&self) -> u32 {
        match &self.content {
            Some(Content::Parts(parts)) => parts.iter().filter(|part| part.kind == "image_url").count() as u32,
            _ => 0,
        }
    }

    fn tokens(&self) -> u32 {
        let text = match &self.content {
            None => 0,
            Some(Content::Text(text)) => words::tokens(text),
            Some(Content::Parts(parts)) => {
                parts.iter().filter_map(|part| part.text.as_deref()).map(words::tokens).sum()
            }
        };
        let past = self.tool_calls.iter().flatten();
        let calls: u32 =
            past.map(|call| words::tokens(&call.function.name) + words::tokens(&call.function.arguments)).sum();
        MESSAGE_TOKENS + text + calls + self.images().saturating_mul(IMAGE_TOKENS)
    }
}

impl Tool {
    fn tokens(&self) -> u32 {
        let schema = self.function.parameters.as_ref().map_or(0, |schema| words::tokens(&schema.to_string()));
        let description = self.function.description.as_deref().map_or(0, words::tokens);
        words::tokens(&self.function.name) + description + schema
    }
}

impl ChatBody {
    /// Reads a body.
    pub(super) fn parse(body: &[u8]) -> Result<ChatBody, Rejection> {
        serde_json::from_slice(body).map_err(|fault| match fault.classify() {
            serde_json::error::Category::Data => {
                Rejection::Invalid { param: None, message: format!("Invalid request: {fault}.") }
            }
            _ => Rejection::BrokenJson,
        })
    }

    pub(super) fn messages(&self) -> &[Message] {
        self.messages.as_deref().unwrap_or_default()
    }

    pub(super) fn tools(&self) -> &[Tool] {
        self.tools.as_deref().unwrap_or_default()
    }

    /// Number of choices.
    pub(super) fn choices(&self) -> u32 {
        self.n.map_or(1, |n| n as u32)
    }

    /// Limit of the answer; the newer name takes precedence.
    pub(super) fn max_tokens(&self) -> Option<u32> {
        self.max_completion_tokens.or(self.max_tokens).map(|limit| limit as u32)
    }

    pub(super) fn stops(&self) -> &[String] {
        match &self.stop {
            None => &[],
            Some(Stop::One(stop)) => std::slice::from_ref(stop),
            Some(Stop::Several(stops)) => stops,
        }
    }

    /// Whether the request asks for an image.
    pub(super) fn wants_image(&self) -> bool {
        self.modalities.iter().flatten().any(|modality| modality == "image")
    }

    /// The last message of the user.
    pub(super) fn question(&self) -> String {
        self.messages().iter().rev().find(|message| message.role == "user").map(Message::text).unwrap_or_default()
    }

    /// Names and results of tools after the last assistant message, in order.
    pub(super) fn tool_results(&self) -> Vec<(String, String)> {
        let results = self.messages().iter().rev().take_while(|message| message.role == "tool").count();
        let (before, results) = self.messages().split_at(self.messages().len() - results);
        let calls = before.last().and_then(|message| message.tool_calls.as_deref()).unwrap_or_default();
        let name = |id: Option<&str>| {
            calls.iter().find(|call| Some(call.id.as_str()) == id).map_or("unknown", |call| &call.function.name)
        };
        results.iter().map(|result| (name(result.tool_call_id.as_deref()).to_owned(), result.text())).collect()
    }

    /// Tokens in messages and tools.
    pub(super) fn prompt_tokens(&self) -> u32 {
        let messages: u32 = self.messages().iter().map(Message::tokens).sum();
        messages.saturating_add(self.tools().iter().map(Tool::tokens).sum())
    }

    /// The beginnings of the prompt that a provider remembers without being asked: those that end with a message, and are long.
    pub(super) fn prefixes(&self) -> Vec<Prefix> {
        let mut reader = PromptReader::new(self.model.as_deref().unwrap_or_default());
        for tool in self.tools() {
            let schema = tool.function.parameters.as_ref().map(Value::to_string).unwrap_or_default();
            reader.part(&tool.function.name, tool.tokens());
            reader.part(&schema, 0);
        }
        for message in self.messages() {
            reader.part(&message.role, 0);
            reader.part(&message.text(), message.tokens());
            for call in message.tool_calls.iter().flatten() {
                reader.part(&call.function.name, 0);
                reader.part(&call.function.arguments, 0);
            }
            if reader.tokens() >= LEAST_CACHED {
                reader.mark(false);
            }
        }
        reader.finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_result_is_found_under_the_name_of_its_call() {
        let call = json!({ "id": "call_1", "type": "function", "function": { "name": "add", "arguments": "{}" } });
        let body = json!({ "messages": [
            { "role": "user", "content": "add" },
            { "role": "assistant", "content": null, "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "call_1", "content": "3" },
        ] });
        let body: ChatBody = serde_json::from_value(body).unwrap();
        assert_eq!(body.tool_results(), [("add".to_owned(), "3".to_owned())]);
    }

    #[test]
    fn broken_json_is_distinguished_from_a_wrong_type() {
        assert_eq!(ChatBody::parse(b"{\"model\"").unwrap_err(), Rejection::BrokenJson);
        assert!(matches!(ChatBody::parse(b"{\"model\": 3}"), Err(Rejection::Invalid { .. })));
    }

    #[test]
    fn the_prompt_counts_text_images_and_tools() {
        let body = json!({ "messages": [
            { "role": "system", "content": "12345678" },
            { "role": "user", "content": [{ "type": "text", "text": "1234" }, { "type": "image_url" }] },
        ] });
        let body: ChatBody = serde_json::from_value(body).unwrap();
        assert_eq!(body.prompt_tokens(), (4 + 2) + (4 + 1 + 765));
    }
}
