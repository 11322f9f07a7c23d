//! Bodies of `/chat/completions` that are in the form of the Responses API, as some agents send them: `input` in the place of
//! `messages`, or tools that are declared flat. They are written as the chat body that was meant.

use bytes::Bytes;
use pointsman_domain::Invalid;

use super::{ChatBodyWriter, read_responses, tools::is_flat, unsupported_member};
use crate::{
    json::{Raw, Splice, SpliceAction, object},
    neutral::{StateKey, UnsupportedFields},
};

/// A chat body that was meant, and what was lost on the way to it.
#[derive(Debug, Clone)]
pub struct AgentChat {
    /// The chat body.
    pub chat: Bytes,
    /// What has no equivalent in chat.
    pub unsupported: UnsupportedFields,
    /// Whether its messages were written from `input`.
    pub has_written_messages: bool,
}

/// The chat body that a body in this form means. `None` if the body has nothing of this form.
///
/// # Errors
/// The 400 for its first offending field.
#[must_use]
pub fn read_agent_chat(body: &[u8], state_key: &StateKey) -> Option<Result<AgentChat, Invalid>> {
    let text = std::str::from_utf8(body).ok()?;
    let whole = object(text).ok()?;
    if whole.member(b"messages").is_none() && whole.member(b"input").is_some_and(Raw::is_array) {
        return Some(of_input(body, state_key));
    }
    let tools = whole.member(b"tools").filter(|tools| tools.elements().any(is_flat))?;
    Some(with_nested_tools(text, whole, tools, state_key))
}

fn of_input(body: &[u8], state_key: &StateKey) -> Result<AgentChat, Invalid> {
    let read = read_responses(body, state_key)?;
    match read.native_feature {
        Some(path) => Err(unsupported_member(&path, "An item of this type is only for '/responses'.")),
        None => Ok(AgentChat { chat: read.chat, unsupported: read.unsupported, has_written_messages: true }),
    }
}

fn with_nested_tools(text: &str, whole: Raw<'_>, tools: Raw<'_>, state_key: &StateKey) -> Result<AgentChat, Invalid> {
    let mut writer = ChatBodyWriter::new(0, state_key);
    writer.tools(tools, "tools")?;
    if let Some(choice) = whole.member(b"tool_choice").filter(|choice| !choice.is_null()) {
        writer.tool_choice(choice)?;
    }
    let choice = writer.out.split();
    let mut splice = Splice::new(text);
    splice.members(whole, |key, value, splice| {
        match &*key.name() {
            b"tools" => match writer.tools.list() {
                Some(nested) => splice.replace(value, &nested),
                None => return SpliceAction::Cut,
            },
            b"parallel_tool_calls" if writer.tools.is_empty() && matches!(value.bytes(), b"true" | b"false") => {
                return SpliceAction::Cut;
            }
            b"tool_choice" if !value.is_null() => match choice.strip_prefix(b",\"tool_choice\":") {
                Some(nested) => splice.replace(value, nested),
                None => return SpliceAction::Cut,
            },
            _ => {}
        }
        SpliceAction::Kept
    });
    Ok(AgentChat { chat: splice.finish(), unsupported: writer.unsupported, has_written_messages: false })
}
