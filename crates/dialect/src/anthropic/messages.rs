//! `system` and `messages`.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::{cache_breakpoints::CacheBreakpoints, content::push_block};
use crate::{
    claude::models::NAMES,
    neutral::{
        BlockMessages, Blocks, Content, EscapedText, Part, SealedReasoning, Speaker, ToolCallIds, ToolNames,
        UnsupportedFields,
    },
};

/// Writes `system` and `messages`.
pub(super) fn block_messages<'m, 'o, 'a>(
    names: &'m ToolNames,
    breakpoints: &'o mut CacheBreakpoints,
    out: &'m mut BytesMut,
    unsupported: &'m mut UnsupportedFields,
) -> Messages<'m, 'o, 'a> {
    let (ids, reasoning) = (ToolCallIds::new(NAMES), Some(ReasoningFormat::Anthropic));
    BlockMessages { out, unsupported, names, ids, api: Breakpoints(breakpoints), reasoning, open: None }
}

pub(super) struct Breakpoints<'o>(&'o mut CacheBreakpoints);

pub(super) type Messages<'m, 'o, 'a> = BlockMessages<'m, 'a, Breakpoints<'o>>;

impl<'a> Blocks<'a> for Breakpoints<'_> {
    const EMPTY: &'static [u8] = b"{\"type\":\"text\",\"text\":\"(empty)\"}";

    fn beginning(speaker: Speaker) -> &'static [u8] {
        match speaker {
            Speaker::User => b"{\"role\":\"user\",\"content\":[",
            Speaker::Assistant => b"{\"role\":\"assistant\",\"content\":[",
            Speaker::System => b"{\"role\":\"system\",\"content\":[",
        }
    }

    fn push_block(messages: &mut Messages<'_, '_, 'a>, part: &Part<'a>) -> bool {
        let place = match &part.content {
            Content::ToolCall { id, name, arguments, kind } => {
                messages.push_call(b"{\"type\":\"tool_use\",\"id\":", id, name, (*kind, arguments));
                "messages[].tool_calls[]"
            }
            Content::ToolResult { id, parts, failed } => {
                push_result(messages, id, parts, *failed);
                "messages[]"
            }
            _ => return push_marked(messages, part),
        };
        end_block(messages, part, place)
    }

    fn push_reasoning(sealed: &SealedReasoning<'a>, out: &mut BytesMut) {
        match sealed {
            SealedReasoning::Encrypted(data) => push!(out; br#"{"type":"redacted_thinking","data":"#, data),
            SealedReasoning::Signed { text, signature } => {
                push!(out; br#"{"type":"thinking","thinking":"#, text, br#","signature":"#, signature);
            }
        }
        out.put_u8(b'}');
    }
}

/// Appends a block with its mark of the cache and its closing brace.
fn push_marked<'a>(messages: &mut Messages<'_, '_, 'a>, part: &Part<'a>) -> bool {
    push_block(&part.content, messages.out, messages.unsupported) && end_block(messages, part, "messages[].content[]")
}

fn end_block(messages: &mut Messages<'_, '_, '_>, part: &Part<'_>, place: &'static str) -> bool {
    messages.api.0.push(part.cache_control, place, messages.out, messages.unsupported);
    messages.out.put_u8(b'}');
    true
}

/// A result without its closing brace. One unmarked text is sent as a string, as most clients do.
fn push_result<'a>(messages: &mut Messages<'_, '_, 'a>, id: &EscapedText<'a>, parts: &[Part<'a>], failed: bool) {
    push!(messages.out; br#"{"type":"tool_result","tool_use_id":"#, messages.ids.of_result(id));
    let parts: Vec<&Part<'a>> = parts.iter().filter(|part| !part.is_blank()).collect();
    if let [Part { content: Content::Text(text), cache_control: None }] = parts.as_slice() {
        push!(messages.out; br#","content":"#, text);
    } else if !parts.is_empty() {
        messages.out.put_slice(b",\"content\":[");
        messages.push_inner_blocks(parts.into_iter(), push_marked);
        messages.out.put_u8(b']');
    }
    if failed {
        messages.out.put_slice(b",\"is_error\":true");
    }
}
