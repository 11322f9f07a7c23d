//! Bodies of `/chat/completions` that are in the form of the Responses API, as some agents send them: `input` in the place of
//! `messages`, or tools that are declared flat. They are read as the chat that was meant.

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::Invalid;

use super::tool_writer::{push_choice, push_tool};
use crate::{
    json::{Raw, Splice, SpliceAction, object},
    neutral::{StateKey, ToolChoice, ToolNames, UnsupportedFields},
    responses::{
        inbound::{InboundResponses, is_flat, only_for_responses, read_flat_tools, read_responses},
        provider_state::ProviderState,
    },
};

/// A chat that was meant.
pub(crate) enum AgentChat<'a> {
    /// Its messages are items of `input`.
    Items(Box<InboundResponses<'a>>),
    /// The chat body, and what has no equivalent in it.
    Body(Bytes, UnsupportedFields),
}

/// The chat that a body in this form means, whose `input` is nested at most `max_depth` deep. `None` if the body has nothing of this form.
///
/// # Errors
/// The 400 for its first offending field.
pub(crate) fn read_agent_chat<'a>(
    body: &'a [u8],
    state_key: &StateKey,
    max_depth: usize,
) -> Option<Result<AgentChat<'a>, Invalid>> {
    let text = std::str::from_utf8(body).ok()?;
    let whole = object(text).ok()?;
    if whole.member(b"messages").is_none() && whole.member(b"input").is_some_and(Raw::is_array) {
        return Some(of_input(body, state_key, max_depth).map(|read| AgentChat::Items(Box::new(read))));
    }
    let tools = whole.member(b"tools").filter(|tools| tools.elements().any(is_flat))?;
    Some(with_nested_tools(text, whole, tools, state_key))
}

fn of_input<'a>(body: &'a [u8], state_key: &StateKey, max_depth: usize) -> Result<InboundResponses<'a>, Invalid> {
    let read = read_responses(body, state_key, || ProviderState::Refused, max_depth)?;
    match &read.native_feature {
        Some(path) => Err(only_for_responses(path)),
        None => Ok(read),
    }
}

fn with_nested_tools<'a>(
    text: &'a str,
    whole: Raw<'a>,
    tools: Raw<'a>,
    state_key: &StateKey,
) -> Result<AgentChat<'a>, Invalid> {
    let choice = whole.member(b"tool_choice").filter(|choice| !choice.is_null());
    let (read, mut unsupported) = read_flat_tools(tools, choice, state_key)?;
    let names = ToolNames::default();
    let mut nested = BytesMut::new();
    for tool in &read.tools {
        nested.put_u8(if nested.is_empty() { b'[' } else { b',' });
        push_tool(tool, &names, &mut unsupported, &mut nested);
        nested.put_u8(b'}');
    }
    nested.put_u8(b']');
    let has_tools = !read.tools.is_empty();
    let mut chosen = BytesMut::new();
    push_choice(&read.tool_choice, &read.tools, &names, &mut chosen);
    let mut splice = Splice::new(text);
    splice.members(whole, |key, value, splice| {
        match &*key.name() {
            b"tools" if !has_tools => return SpliceAction::Cut,
            b"tools" => splice.replace(value, &nested),
            b"parallel_tool_calls" if !has_tools && matches!(value.bytes(), b"true" | b"false") => {
                return SpliceAction::Cut;
            }
            b"tool_choice" if !value.is_null() => match read.tool_choice {
                ToolChoice::Unspecified => return SpliceAction::Cut,
                _ => splice.replace(value, &chosen),
            },
            _ => {}
        }
        SpliceAction::Kept
    });
    Ok(AgentChat::Body(splice.finish(), unsupported))
}
