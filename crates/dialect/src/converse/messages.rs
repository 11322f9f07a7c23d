//! `system` and `messages`.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::{
    cache_points::{CachePoints, breakpoint_of},
    media::{MediaWriter, is_document},
    models::CALL_IDS,
};
use crate::neutral::{
    AlternatingTurn, BlockMessages, Blocks, Content, EscapedText, Part, SealedReasoning, Speaker, ToolCallIds,
    ToolNames, UnsupportedFields,
};

/// Writes `system` and `messages`. `is_claude`: the model takes back signed reasoning.
pub(super) fn block_messages<'m, 'o, 'a>(
    is_claude: bool,
    names: &'m ToolNames,
    points: &'o mut CachePoints,
    out: &'m mut BytesMut,
    unsupported: &'m mut UnsupportedFields,
) -> Messages<'m, 'o, 'a> {
    let (ids, reasoning) = (ToolCallIds::new(CALL_IDS), is_claude.then_some(ReasoningFormat::Anthropic));
    let api = Written { points, media: MediaWriter::default() };
    BlockMessages { out, unsupported, names, ids, api, reasoning, open: None }
}

pub(super) struct Written<'o> {
    points: &'o mut CachePoints,
    media: MediaWriter,
}

pub(super) type Messages<'m, 'o, 'a> = BlockMessages<'m, 'a, Written<'o>>;

impl<'a> Blocks<'a> for Written<'_> {
    const EMPTY: &'static [u8] = b"{\"text\":\"(empty)\"}";

    fn beginning(speaker: Speaker) -> &'static [u8] {
        match speaker {
            Speaker::User | Speaker::System => b"{\"role\":\"user\",\"content\":[",
            Speaker::Assistant => b"{\"role\":\"assistant\",\"content\":[",
        }
    }

    /// The API refuses documents without a text.
    fn added_block(turn: &AlternatingTurn<'a>) -> Option<(usize, &'static [u8])> {
        let is_text = |part: &Part<'_>| matches!(part.content, Content::Text(_));
        let lacks_text = turn.speaker == Speaker::User && !turn.parts.iter().any(is_text);
        let document = || turn.parts.iter().position(|part| is_document(&part.content));
        lacks_text.then(document).flatten().map(|place| (place, b"{\"text\":\"(document)\"}".as_slice()))
    }

    /// The block, and a cache point behind it.
    fn push_block(messages: &mut Messages<'_, '_, 'a>, part: &Part<'a>) -> bool {
        let is_written = match &part.content {
            Content::ToolCall { id, name, arguments, kind } => {
                messages.push_call(b"{\"toolUse\":{\"toolUseId\":", id, name, (*kind, arguments));
                messages.out.put_slice(b"}}");
                true
            }
            Content::ToolResult { id, parts, failed } => {
                push_result(messages, id, parts, *failed);
                true
            }
            content => push_content(messages, content),
        };
        if is_written {
            messages.api.points.push(breakpoint_of(part), "messages[].content[]", messages.out, messages.unsupported);
        }
        is_written
    }

    fn push_reasoning(sealed: &SealedReasoning<'a>, out: &mut BytesMut) {
        match sealed {
            SealedReasoning::Encrypted(data) => push!(out; br#"{"reasoningContent":{"redactedContent":"#, data, b"}}"),
            SealedReasoning::Signed { text, signature } => {
                push!(out; br#"{"reasoningContent":{"reasoningText":{"text":"#, text, br#","signature":"#, signature,
                    b"}}}");
            }
        }
    }
}

/// Appends a text or a medium. False if there is no block for it.
fn push_content<'a>(messages: &mut Messages<'_, '_, 'a>, content: &Content<'a>) -> bool {
    match content {
        Content::Text(text) | Content::Refusal(text) if text.is_blank() => false,
        Content::Text(text) | Content::Refusal(text) => {
            push!(messages.out; br#"{"text":"#, text, b"}");
            true
        }
        media => messages.api.media.push(media, messages.out, messages.unsupported),
    }
}

fn push_result<'a>(messages: &mut Messages<'_, '_, 'a>, id: &EscapedText<'a>, parts: &[Part<'a>], failed: bool) {
    push!(messages.out; br#"{"toolResult":{"toolUseId":"#, messages.ids.of_result(id), br#","content":["#);
    let has_blocks = messages.push_inner_blocks(parts.iter(), |messages, part| push_content(messages, &part.content));
    if !has_blocks && failed {
        // A failure must say something.
        messages.out.put_slice(b"{\"text\":\"(empty)\"}");
    }
    messages.out.put_slice(if failed { b"],\"status\":\"error\"}}" } else { b"]}}" });
}
