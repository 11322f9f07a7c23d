//! Writes a conversation as the body of `generateContent`.
//!
//! `contents` comes last and nothing before it depends on later turns, so that the body for a conversation is a prefix of
//! the body for the same conversation with one more turn.

use std::fmt::Write as _;

use bytes::{BufMut as _, BytesMut};

use super::{contents, generation_config, models, tools::ToolPlan};
use crate::{
    dialect::{
        json::push_member,
        neutral::{Content, Conversation, FieldFates, ToolNames, TranslatedRequest, alternating_turns},
    },
    domain::Endpoint,
};

/// The path of a call, relative to the base address, which ends with the version, as in
/// `https://generativelanguage.googleapis.com/v1beta`, or with the publisher at Vertex.
pub(crate) fn path(endpoint: &Endpoint, streamed: bool) -> String {
    let mut path = String::from("/models/");
    for byte in endpoint.upstream_model.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path.push_str(if streamed { ":streamGenerateContent?alt=sse" } else { ":generateContent" });
    path
}

/// The body for an endpoint. What the endpoint cannot carry is named in `fates`.
pub(crate) fn write_request(
    conversation: &Conversation<'_>,
    endpoint: &Endpoint,
    fates: &mut FieldFates,
) -> TranslatedRequest {
    let capabilities = models::capabilities(&endpoint.upstream_model);
    let names = ToolNames::of(conversation, models::NAMES);
    let turns = alternating_turns(conversation, fates);
    let mut out = BytesMut::with_capacity(1_024);
    out.put_u8(b'{');
    push_system(conversation, &mut out, fates);
    ToolPlan::of(conversation, fates).push(&names, &mut out, fates);
    if conversation.parallel_tool_calls == Some(false) {
        fates.drop("parallel_tool_calls");
    }
    generation_config::push(conversation, capabilities, &mut out, fates);
    push_member(&mut out, b"contents", b"");
    contents::push(&turns, &names, capabilities, &mut out, fates);
    out.put_u8(b'}');
    // The first member was written with a comma before it.
    let body = match out.get(1) {
        Some(b',') => {
            let mut body = BytesMut::with_capacity(out.len());
            body.put_u8(b'{');
            body.put_slice(out.get(2..).unwrap_or_default());
            body
        }
        _ => out,
    };
    TranslatedRequest { body: body.freeze(), names }
}

fn push_system(conversation: &Conversation<'_>, out: &mut BytesMut, fates: &mut FieldFates) {
    let texts: Vec<_> = conversation
        .system
        .iter()
        .filter_map(|part| match &part.content {
            Content::Text(text) | Content::Refusal(text) if !text.is_blank() => {
                if part.cache_control.is_some() {
                    fates.drop("messages[].content[].cache_control");
                }
                Some(text)
            }
            Content::Text(_) | Content::Refusal(_) => None,
            _ => {
                fates.drop("messages[].content[]");
                None
            }
        })
        .collect();
    if texts.is_empty() {
        return;
    }
    push_member(out, b"systemInstruction", b"{\"parts\":[");
    for (place, text) in texts.into_iter().enumerate() {
        out.put_slice(if place > 0 { b",{\"text\":" } else { b"{\"text\":" });
        text.push_quoted(out);
        out.put_u8(b'}');
    }
    out.put_slice(b"]}");
}
