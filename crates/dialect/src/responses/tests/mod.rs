//! The statements about this dialect, from chat bodies and to chat answers.

use pointsman_domain::{Endpoint, EndpointId, EndpointLimits};
use serde_json::{Value, json};

use super::write_request;
use crate::{
    neutral::{ToolNames, UnsupportedFields},
    openai::conversation_reader::read_settled,
};

mod answers;
mod properties;
mod requests;
mod splicing;

/// A model that reasons unless it is told not to.
const REASONING: &str = "gpt-5.6";
/// A model that reasons only if it is told to.
const IDLE: &str = "gpt-5.2";
/// A model that does not reason.
const PLAIN: &str = "gpt-4.1";

fn endpoint(model: &str) -> Endpoint {
    Endpoint {
        limits: EndpointLimits { context_length: 200_000, max_completion_tokens: None, max_prompt_tokens: None },
        dialect: Default::default(),
        ..Endpoint::with_defaults(EndpointId::new(model, "openai", ""), 0, 0, model)
    }
}

/// A chat body as it is sent to a model.
struct Sent {
    text: String,
    names: ToolNames,
}

impl Sent {
    fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

fn send(model: &str, body: &str) -> Sent {
    let conversation = read_settled(body);
    let written = write_request(&conversation, &endpoint(model), &mut UnsupportedFields::default());
    Sent { text: String::from_utf8(written.body.to_vec()).unwrap(), names: written.names }
}
