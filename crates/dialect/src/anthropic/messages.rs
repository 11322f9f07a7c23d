//! `system` and `messages`.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::{cache_breakpoints::CacheBreakpoints, content::push_block};
use crate::{
    claude::models::NAMES,
    json::push_member,
    neutral::{
        AlternatingTurn, BlockMessages, Blocks, Content, EscapedText, Part, SealedReasoning, Speaker, ToolCallIds,
        ToolNames, UnsupportedFields, push_call_input,
    },
};

/// Appends `,"system":[…]`: the parts as blocks, and `instruction` of ours behind them.
pub(super) fn push_system(
    parts: &[Part<'_>],
    instruction: Option<&str>,
    breakpoints: &mut CacheBreakpoints,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    let start = out.len();
    push_member(out, b"system", b"[");
    let empty = out.len();
    for part in parts {
        let before = out.len();
        if !matches!(part.content, Content::Text(_)) {
            // Media went to the user before: it is of no known type.
            unsupported.drop("messages[].content[]");
            continue;
        }
        if before > empty {
            out.put_u8(b',');
        }
        if push_block(&part.content, out, unsupported) {
            breakpoints.push(part.cache_control, "messages[].content[]", out, unsupported);
            out.put_u8(b'}');
        } else {
            out.truncate(before);
        }
    }
    if let Some(instruction) = instruction {
        if out.len() > empty {
            out.put_u8(b',');
        }
        let text = Content::Text(EscapedText::escaping(instruction));
        push_block(&text, out, unsupported);
        out.put_u8(b'}');
    }
    if out.len() == empty { out.truncate(start) } else { out.put_u8(b']') }
}

/// Appends `,"messages":[…]`.
pub(super) fn push_messages(
    turns: &[AlternatingTurn<'_>],
    names: &ToolNames,
    breakpoints: &mut CacheBreakpoints,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    let (ids, thoughts) = (ToolCallIds::new(NAMES), Some(ReasoningFormat::Anthropic));
    BlockMessages { out, unsupported, names, ids, api: Breakpoints(breakpoints), thoughts, open: None }.push(turns);
}

struct Breakpoints<'o>(&'o mut CacheBreakpoints);

type Messages<'m, 'o, 'a> = BlockMessages<'m, 'a, Breakpoints<'o>>;

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
                messages.out.put_slice(b"{\"type\":\"tool_use\",\"id\":");
                messages.ids.of_call(id).push_quoted(messages.out);
                messages.out.put_slice(b",\"name\":");
                messages.names.sent(name).push_quoted(messages.out);
                messages.out.put_slice(b",\"input\":");
                push_call_input(*kind, arguments, messages.out, messages.unsupported);
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

    fn push_reasoning(thought: &SealedReasoning<'a>, out: &mut BytesMut) {
        match thought {
            SealedReasoning::Encrypted(data) => {
                out.put_slice(b"{\"type\":\"redacted_thinking\",\"data\":");
                data.push_quoted(out);
            }
            SealedReasoning::Signed { text, signature } => {
                out.put_slice(b"{\"type\":\"thinking\",\"thinking\":");
                text.push_quoted(out);
                out.put_slice(b",\"signature\":");
                signature.push_quoted(out);
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
    messages.out.put_slice(b"{\"type\":\"tool_result\",\"tool_use_id\":");
    messages.ids.of_result(id).push_quoted(messages.out);
    let parts: Vec<&Part<'a>> = parts.iter().filter(|part| !is_blank(part)).collect();
    if let [Part { content: Content::Text(text), cache_control: None }] = parts.as_slice() {
        messages.out.put_slice(b",\"content\":");
        text.push_quoted(messages.out);
    } else if !parts.is_empty() {
        messages.out.put_slice(b",\"content\":[");
        messages.push_inner_blocks(parts.into_iter(), push_marked);
        messages.out.put_u8(b']');
    }
    if failed {
        messages.out.put_slice(b",\"is_error\":true");
    }
}

fn is_blank(part: &Part<'_>) -> bool {
    matches!(&part.content, Content::Text(text) | Content::Refusal(text) if text.is_blank())
}
