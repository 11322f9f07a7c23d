//! The response object.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{ResponseOpening, output::Output};
use crate::{
    json::{push_member, push_string_member},
    neutral::ReportedTokens,
};

/// How far a response is.
#[derive(Debug)]
pub(super) enum ResponseState {
    InProgress,
    Completed,
    /// It ended for this reason.
    Incomplete(&'static str),
    /// It ended with this error, an object.
    Failed(Bytes),
}

impl ResponseState {
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            ResponseState::InProgress => "in_progress",
            ResponseState::Completed => "completed",
            ResponseState::Incomplete(_) => "incomplete",
            ResponseState::Failed(_) => "failed",
        }
    }
}

/// Appends the response object.
pub(super) fn push_response(
    opening: &ResponseOpening,
    state: &ResponseState,
    output: &Output,
    usage: Option<&ReportedTokens>,
    out: &mut BytesMut,
) {
    push!(out; br#"{"id":"#, opening.id, br#","object":"response","created_at":"#,
        opening.created.to_string().as_bytes());
    let completed = matches!(state, ResponseState::Completed).then(|| (opening.clock)().max(opening.created));
    push_member(out, b"completed_at", completed.map_or("null".to_owned(), |at| at.to_string()).as_bytes());
    push_string_member(out, b"status", state.as_str());
    push_member(out, b"error", if let ResponseState::Failed(error) = state { error } else { b"null" });
    match state {
        ResponseState::Incomplete(reason) => push!(out; br#","incomplete_details":{"reason":"#, reason, b"}"),
        _ => push_member(out, b"incomplete_details", b"null"),
    }
    push!(out; br#","model":"#, opening.model, br#","output":"#);
    match state {
        // Nothing is done yet, and clients add to it.
        ResponseState::InProgress => out.put_slice(b"[]"),
        _ => output.push(out),
    }
    push!(out; opening.echo.members(), br#","usage":"#);
    match usage {
        Some(tokens) => push_usage(tokens, out),
        None => out.put_slice(b"null"),
    }
    out.put_u8(b'}');
}

/// Appends the usage. What it cost is in a header: strict clients refuse members that they do not know.
pub(in crate::responses) fn push_usage(tokens: &ReportedTokens, out: &mut BytesMut) {
    push!(out; br#"{"input_tokens":"#, tokens.prompt, br#","input_tokens_details":{"cached_tokens":"#,
        tokens.cached.unwrap_or(0), br#","cache_write_tokens":"#, tokens.cache_write.unwrap_or(0),
        br#"},"output_tokens":"#, tokens.completion, br#","output_tokens_details":{"reasoning_tokens":"#,
        tokens.reasoning.unwrap_or(0), br#"},"total_tokens":"#, tokens.prompt.saturating_add(tokens.completion), b"}");
}
