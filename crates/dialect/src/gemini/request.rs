//! Writes a conversation as the body of `generateContent`.
//!
//! `contents` comes last and nothing before it depends on later turns, so that the body for a conversation is a prefix of
//! the body for the same conversation with one more turn.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::Endpoint;

use super::{contents, generation_config, models, signatures::SignatureSources, tools::ToolPlan};
use crate::{
    json::push_member,
    neutral::{Content, Conversation, EscapedText, ToolNames, TranslatedRequest, UnsupportedFields, alternating_turns},
    percent,
};

/// The path of a call, relative to the base address, which ends with the version, as in
/// `https://generativelanguage.googleapis.com/v1beta`, or with the publisher at Vertex.
pub(crate) fn path(endpoint: &Endpoint, streamed: bool) -> String {
    path_of(endpoint, if streamed { ":streamGenerateContent?alt=sse" } else { ":generateContent" })
}

/// The path of a method of the endpoint's model.
pub(super) fn path_of(endpoint: &Endpoint, method: &str) -> String {
    format!("/models/{}{method}", percent::encoded(&endpoint.upstream_model))
}

/// The body for an endpoint, with the signatures that the client returned.
#[cfg(test)]
pub(crate) fn write_request(
    conversation: &Conversation<'_>,
    endpoint: &Endpoint,
    unsupported: &mut UnsupportedFields,
) -> TranslatedRequest {
    write_request_with(conversation, endpoint, SignatureSources::default(), unsupported)
}

/// The body for an endpoint, with these signatures of reasoning. What the endpoint cannot carry is named in `unsupported`.
pub(crate) fn write_request_with(
    conversation: &Conversation<'_>,
    endpoint: &Endpoint,
    signatures: SignatureSources<'_>,
    unsupported: &mut UnsupportedFields,
) -> TranslatedRequest {
    let capabilities = models::capabilities(&endpoint.upstream_model);
    let names = ToolNames::new(conversation, models::NAMES);
    let turns = alternating_turns(conversation, unsupported);
    let mut out = BytesMut::with_capacity(1_024);
    ToolPlan::new(conversation, unsupported).push(&names, capabilities, &mut out, unsupported);
    if conversation.parallel_tool_calls == Some(false) {
        unsupported.drop("parallel_tool_calls");
    }
    let instruction = generation_config::push(conversation, endpoint, capabilities, &mut out, unsupported);
    if let Some(settings) = &endpoint.safety_settings {
        push_member(&mut out, b"safetySettings", settings.as_bytes());
    }
    push_system(conversation, instruction.as_deref(), &mut out, unsupported);
    push_member(&mut out, b"contents", b"");
    contents::push(&turns, &names, capabilities, signatures, &mut out, unsupported);
    out.put_u8(b'}');
    // The first member was written with a comma before it.
    if let Some(first) = out.first_mut() {
        *first = b'{';
    }
    TranslatedRequest { body: out.freeze(), names, ..TranslatedRequest::default() }
}

/// Appends the instructions of the client, part by part, and one of ours behind them.
fn push_system(
    conversation: &Conversation<'_>,
    instruction: Option<&str>,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    let mut texts = Vec::new();
    for part in &conversation.system {
        match &part.content {
            Content::Text(text) | Content::Refusal(text) if text.is_blank() => {}
            Content::Text(text) | Content::Refusal(text) => {
                if part.cache_control.is_some() {
                    unsupported.drop("messages[].content[].cache_control");
                }
                texts.push(text.clone());
            }
            _ => unsupported.drop("messages[].content[]"),
        }
    }
    texts.extend(instruction.map(EscapedText::escaping));
    if texts.is_empty() {
        return;
    }
    push_member(out, b"systemInstruction", b"{\"parts\":[");
    for (place, text) in texts.into_iter().enumerate() {
        out.put_slice(if place > 0 { b",{\"text\":" } else { b"{\"text\":" });
        push!(out; text, b"}");
    }
    out.put_slice(b"]}");
}
