//! The statements about this dialect, from chat bodies and to chat answers.

use pointsman_domain::{Endpoint, EndpointId, EndpointLimits};
use serde_json::Value;

use super::{ApiVersion, write_request_for};
use crate::{
    neutral::{ToolNames, UnsupportedFields},
    openai::conversation_reader::read_settled,
};

mod answers;
mod history;
mod parameters;
mod properties;
mod splicing;

/// A model that takes most of what can be asked.
const SAMPLING: &str = "claude-sonnet-4-6";
const BUDGET: &str = "claude-sonnet-4-5";
const NEWEST: &str = "claude-opus-5-5";

fn endpoint(model: &str, max_completion_tokens: Option<u32>) -> Endpoint {
    Endpoint {
        limits: EndpointLimits { context_length: 200_000, max_completion_tokens, max_prompt_tokens: None },
        dialect: pointsman_domain::Dialect::Anthropic,
        ..Endpoint::with_defaults(EndpointId::new(model, "anthropic", ""), 0, 0, model)
    }
}

/// A chat body as it is sent to a model.
struct Sent {
    text: String,
    names: ToolNames,
    unsupported: UnsupportedFields,
}

impl Sent {
    fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    fn dropped(&self) -> Vec<&str> {
        self.unsupported.dropped().iter().map(AsRef::as_ref).collect()
    }

    fn emulated(&self) -> Vec<&str> {
        self.unsupported.emulated().iter().map(AsRef::as_ref).collect()
    }
}

fn send_as(model: &str, version: ApiVersion, body: &str) -> Sent {
    let mut unsupported = UnsupportedFields::default();
    let conversation = read_settled(body);
    conversation.unsupported.emulated().iter().for_each(|name| unsupported.emulate(name));
    let written = write_request_for(&conversation, &endpoint(model, None), version, &mut unsupported);
    Sent { text: String::from_utf8(written.body.to_vec()).unwrap(), names: written.names, unsupported }
}

fn send(model: &str, body: &str) -> Sent {
    send_as(model, ApiVersion::default(), body)
}

/// A body with these messages.
fn send_messages(messages: &str) -> Sent {
    send(SAMPLING, &format!(r#"{{"messages":[{messages}]}}"#))
}
