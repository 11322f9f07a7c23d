//! Names of tools and ids of calls in the form that OpenAI's chat takes.
//!
//! Other APIs have longer ones, and ones of other characters. Only bodies that the gateway wrote for a client of another dialect
//! are changed: one of a client of chat goes to a chat server as it came.

use bytes::{Bytes, BytesMut};
use pointsman_domain::ReasoningFormat;

use crate::{
    json::{Raw, Splice, SpliceAction, object},
    neutral::{CHAT_NAMES, CLIENT_IDS, EscapedText, ToolNames, fitting_call_id},
};

/// A body with other names and ids.
pub(crate) struct FittingCalls {
    pub(crate) body: Bytes,
    /// Names that answers are turned back to.
    pub(crate) names: ToolNames,
}

/// Makes the names and ids in a body of the gateway's own fit. `None` if it is no JSON.
pub(crate) fn fitting_calls(body: &[u8]) -> Option<FittingCalls> {
    let text = std::str::from_utf8(body).ok()?;
    let mut names = ToolNames::default();
    let mut splice = Splice::new(text);
    splice.members(object(text).ok()?, |key, value, splice| {
        match &*key.name() {
            b"tools" => each(value, splice, |tool, splice| fit_reference(tool, splice, &mut names)),
            b"tool_choice" => fit_choice(value, splice, &mut names),
            b"messages" => each(value, splice, |message, splice| fit_message(message, splice, &mut names)),
            _ => {}
        }
        SpliceAction::Kept
    });
    Some(FittingCalls { body: splice.finish(), names })
}

fn each<'a>(list: Raw<'a>, splice: &mut Splice<'a>, mut visit: impl FnMut(Raw<'a>, &mut Splice<'a>)) {
    splice.elements(list, |element, splice| {
        visit(element, splice);
        SpliceAction::Kept
    });
}

fn fit_message<'a>(message: Raw<'a>, splice: &mut Splice<'a>, names: &mut ToolNames) {
    splice.members(message, |key, value, splice| {
        match &*key.name() {
            b"tool_calls" => each(value, splice, |call, splice| fit_reference(call, splice, names)),
            b"tool_call_id" => fit_id(value, splice),
            b"reasoning_details" => each(value, splice, fit_detail),
            _ => {}
        }
        SpliceAction::Kept
    });
}

/// The tool that a declaration, a choice or a call refers to, and the id of the call.
fn fit_reference<'a>(reference: Raw<'a>, splice: &mut Splice<'a>, names: &mut ToolNames) {
    splice.members(reference, |key, value, splice| {
        match &*key.name() {
            b"id" => fit_id(value, splice),
            b"function" | b"custom" => splice.members(value, |key, value, splice| {
                if *key.name() == *b"name" {
                    fit_name(value, splice, names);
                }
                SpliceAction::Kept
            }),
            _ => {}
        }
        SpliceAction::Kept
    });
}

fn fit_choice<'a>(choice: Raw<'a>, splice: &mut Splice<'a>, names: &mut ToolNames) {
    let Some(allowed) = choice.member(b"allowed_tools") else { return fit_reference(choice, splice, names) };
    splice.members(allowed, |key, value, splice| {
        if *key.name() == *b"tools" {
            each(value, splice, |tool, splice| fit_reference(tool, splice, names));
        }
        SpliceAction::Kept
    });
}

/// Only reasoning of this format has the id of a call.
fn fit_detail<'a>(detail: Raw<'a>, splice: &mut Splice<'a>) {
    let [format, id] = detail.pick([b"format", b"id"]);
    let is_of_call = format.is_some_and(|format| format.inner_text() == ReasoningFormat::Gemini.as_str());
    if let Some(id) = id.filter(|_| is_of_call) {
        fit_id(id, splice);
    }
}

fn fit_id<'a>(id: Raw<'a>, splice: &mut Splice<'a>) {
    if let Some(text) = EscapedText::of(id) {
        put(id, &text, &fitting_call_id(&text, CLIENT_IDS), splice);
    }
}

fn fit_name<'a>(name: Raw<'a>, splice: &mut Splice<'a>, names: &mut ToolNames) {
    if let Some(text) = EscapedText::of(name) {
        names.add(&text.unescaped(), CHAT_NAMES);
        put(name, &text, &names.sent(&text), splice);
    }
}

fn put<'a>(value: Raw<'a>, given: &EscapedText<'_>, fitting: &EscapedText<'_>, splice: &mut Splice<'a>) {
    if given != fitting {
        let mut quoted = BytesMut::new();
        fitting.push_quoted(&mut quoted);
        splice.replace(value, &quoted);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fitted(body: &Value) -> (Value, ToolNames) {
        let fitted = fitting_calls(body.to_string().as_bytes()).unwrap();
        (serde_json::from_slice(&fitted.body).unwrap(), fitted.names)
    }

    /// A chat in which everything that refers to a tool or a call has this name or id.
    fn chat(name: &str, id: &str) -> Value {
        let tool = json!({"type": "function", "function": {"name": name}});
        json!({
            "model": "m",
            "tools": [{"type": "function", "function": {"name": name, "parameters": {"properties": {"id": {"const": "a.b"}}}}}],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [tool]}},
            "messages": [
                {"role": "user", "content": "{\"name\":\"a.b\"}"},
                {"role": "assistant", "content": null,
                 "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": "{\"id\":\"a.b\"}"}}],
                 "reasoning_details": [{"type": "reasoning.encrypted", "format": "google-gemini-v1", "data": "AbC=", "id": id}]},
                {"role": "tool", "tool_call_id": id, "content": "x"},
            ],
        })
    }

    #[test]
    fn names_and_ids_fit_wherever_they_stand_and_the_same_stay_the_same() {
        let (long, id) = (format!("mcp__{}", "n".repeat(80)), "toolu_".to_owned() + &"9".repeat(60));
        for (name, id) in [(&*long, "call_1"), ("look", &*id), ("fs.read", "call:1/é"), (&*long, &*id)] {
            let (body, names) = fitted(&chat(name, id));
            let sent = body["tools"][0]["function"]["name"].as_str().unwrap().to_owned();
            let sent_id = body["messages"][2]["tool_call_id"].as_str().unwrap().to_owned();
            assert!(CHAT_NAMES.fits(&sent) && CLIENT_IDS.fits(&sent_id), "{sent} {sent_id}");
            assert_eq!(body, chat(&sent, &sent_id), "every place has the same, and all else stays");
            assert_eq!(names.original(&EscapedText::plain(&sent)).unescaped(), name);
        }
    }

    #[test]
    fn a_chosen_tool_has_the_name_of_its_declaration() {
        let mut body = chat("fs.read", "call_1");
        body["tool_choice"] = json!({"type": "function", "function": {"name": "fs.read"}});
        let (body, _) = fitted(&body);
        assert_eq!(body["tool_choice"]["function"]["name"], body["tools"][0]["function"]["name"]);
    }
}
