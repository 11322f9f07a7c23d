//! Checks of a chat request, in the order of a real provider.

use pointsman_domain::Modality;

use super::{
    ProviderSettings, SimulatedModel,
    rejection::Rejection,
    request::{ChatBody, Message, ToolChoice},
};

/// Maximum number of choices.
const MAX_CHOICES: u32 = 128;

impl ChatBody {
    /// Checks the request and returns its model.
    pub(super) fn check<'a>(&self, settings: &'a ProviderSettings) -> Result<&'a SimulatedModel, Rejection> {
        let id = self.model.as_deref().ok_or(Rejection::Missing("model"))?;
        let model = settings.model(id).ok_or_else(|| Rejection::UnknownModel(id.to_owned()))?;
        if self.messages.is_none() {
            return Err(Rejection::Missing("messages"));
        }
        self.check_messages(model)?;
        self.check_tools(model)?;
        self.check_numbers()?;
        self.check_length(model)?;
        Ok(model)
    }

    fn check_messages(&self, model: &SimulatedModel) -> Result<(), Rejection> {
        if self.messages().is_empty() {
            return Err(invalid("messages", "Invalid 'messages': empty array. Expected at least one message."));
        }
        let mut asked: Vec<&str> = Vec::new();
        for (position, message) in self.messages().iter().enumerate() {
            check_role(message, &asked).map_err(|fault| invalid(&format!("messages[{position}].role"), &fault))?;
            if message.role == "assistant" {
                asked = message.tool_calls.iter().flatten().map(|call| call.id.as_str()).collect();
            }
            if message.images() > 0 && !model.inputs.contains(Modality::Image) {
                let message = format!("Invalid content type: image_url is not supported by {}.", model.id);
                return Err(Rejection::Unsupported { param: "messages", message });
            }
        }
        Ok(())
    }

    fn check_tools(&self, model: &SimulatedModel) -> Result<(), Rejection> {
        if !self.tools().is_empty() && !model.tools {
            let message = format!("'tools' is not supported by {}.", model.id);
            return Err(Rejection::Unsupported { param: "tools", message });
        }
        match &self.tool_choice {
            Some(ToolChoice::Named { function }) if !self.tools().iter().any(|t| t.function.name == function.name) => {
                let message = format!("Tool choice '{}' not found in 'tools' parameter.", function.name);
                Err(invalid("tool_choice", &message))
            }
            Some(ToolChoice::Mode(mode)) if !matches!(mode.as_str(), "none" | "auto" | "required") => {
                Err(invalid("tool_choice", &format!("Invalid value: '{mode}'.")))
            }
            _ => Ok(()),
        }
    }

    fn check_numbers(&self) -> Result<(), Rejection> {
        let at_least_one =
            [("max_tokens", self.max_tokens), ("max_completion_tokens", self.max_completion_tokens), ("n", self.n)];
        let low = at_least_one.into_iter().find(|(_, value)| value.is_some_and(|value| value < 1.0));
        if let Some((name, _)) = low {
            return Err(invalid(name, &format!("Invalid '{name}': expected a value >= 1.")));
        }
        if self.choices() > MAX_CHOICES {
            return Err(invalid("n", &format!("Invalid 'n': expected a value <= {MAX_CHOICES}.")));
        }
        Ok(())
    }

    fn check_length(&self, model: &SimulatedModel) -> Result<(), Rejection> {
        let Some(limit) = model.context_length else { return Ok(()) };
        let (prompt, completion) = (self.prompt_tokens(), self.max_tokens().unwrap_or(0));
        if prompt.saturating_add(completion) > limit {
            return Err(Rejection::TooLong { limit, prompt, completion });
        }
        Ok(())
    }
}

/// Whether a message with this role is allowed after an answer with the tool calls `asked`.
fn check_role(message: &Message, asked: &[&str]) -> Result<(), String> {
    match message.role.as_str() {
        "system" | "developer" | "user" | "assistant" | "function" => Ok(()),
        // A result without a call means that an id was lost or changed on the way.
        "tool" if message.tool_call_id.as_deref().is_some_and(|id| asked.contains(&id)) => Ok(()),
        "tool" => {
            Err("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.".to_owned())
        }
        other => Err(format!(
            "Invalid value: '{other}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and \
             'developer'."
        )),
    }
}

fn invalid(param: &str, message: &str) -> Rejection {
    Rejection::Invalid { param: Some(param.to_owned()), message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(mut body: Value, expected: Result<&str, &str>) {
        let settings = ProviderSettings {
            models: vec![
                SimulatedModel { tools: false, context_length: Some(50), ..SimulatedModel::text("small") },
                SimulatedModel::text("large").seeing(),
            ],
            ..ProviderSettings::default()
        };
        if let Some(object) = body.as_object_mut() {
            object.entry("messages").or_insert(json!([{ "role": "user", "content": "Hi" }]));
        }
        let checked = ChatBody::parse(body.to_string().as_bytes()).and_then(|body| body.check(&settings).cloned());
        match (checked, expected) {
            (Ok(model), Ok(id)) => assert_eq!(model.id, id, "{body}"),
            (Err(rejection), Err(part)) => assert!(rejection.to_string().contains(part), "{body}: {rejection}"),
            (checked, expected) => panic!("{body}: {checked:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn valid_requests_are_accepted_and_invalid_ones_refused() {
        let picture =
            json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "data:" } }] }]);
        let tools = json!([{ "type": "function", "function": { "name": "add" } }]);
        let named = json!({ "type": "function", "function": { "name": "subtract" } });
        check(json!({ "model": "small", "max_tokens": 10.0, "unheard_of": {} }), Ok("small"));
        check(json!({ "model": "large", "messages": picture }), Ok("large"));
        check(json!({ "model": "large", "tools": tools, "tool_choice": "required" }), Ok("large"));
        check(json!({}), Err("'model'"));
        check(json!([]), Err("Invalid request"));
        check(json!({ "model": "tiny" }), Err("The model `tiny` does not exist"));
        check(json!({ "model": "large", "messages": null }), Err("'messages'"));
        check(json!({ "model": "large", "messages": [] }), Err("empty array"));
        check(json!({ "model": "large", "messages": [{ "role": "wizard" }] }), Err("Invalid value: 'wizard'"));
        check(json!({ "model": "small", "messages": picture }), Err("image_url is not supported"));
        check(json!({ "model": "small", "tools": tools }), Err("'tools' is not supported by small"));
        check(json!({ "model": "large", "tools": tools, "tool_choice": named }), Err("'subtract' not found"));
        check(json!({ "model": "large", "max_tokens": 0 }), Err("'max_tokens'"));
        check(json!({ "model": "large", "n": 200 }), Err("'n'"));
        check(
            json!({ "model": "small", "max_tokens": 46 }),
            Err("However, you requested 51 tokens (5 in the messages"),
        );
    }

    #[test]
    fn a_tool_message_must_answer_a_call_that_was_made() {
        let round_trip = |id: &str| {
            let call = json!({ "id": "call_1", "type": "function", "function": { "name": "add", "arguments": "{}" } });
            json!({ "model": "large", "messages": [
                { "role": "user", "content": "add" },
                { "role": "assistant", "content": null, "tool_calls": [call] },
                { "role": "tool", "tool_call_id": id, "content": "3" },
            ] })
        };
        check(round_trip("call_1"), Ok("large"));
        check(round_trip("call_2"), Err("must be a response to a preceeding message"));
    }
}
