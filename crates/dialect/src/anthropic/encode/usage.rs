//! Tokens in the arithmetic of the Messages API: the input leaves out what was read from and written to caches.

use bytes::{BufMut as _, BytesMut};

use crate::{
    json::{push_count, push_member, push_u64},
    neutral::ReportedTokens,
};

/// Appends a `usage` object. The three counts of the prompt add up to all of it, whatever the upstream said.
pub(in crate::anthropic) fn push_usage(tokens: &ReportedTokens, out: &mut BytesMut) {
    let read = tokens.cached.unwrap_or(0).min(tokens.prompt);
    let by_time = tokens.cache_write_5m.unwrap_or(0).saturating_add(tokens.cache_write_1h.unwrap_or(0));
    let written = tokens.cache_write.unwrap_or(by_time).min(tokens.prompt - read);
    let hour = tokens.cache_write_1h.unwrap_or(0).min(written);
    out.put_slice(b"{\"input_tokens\":");
    push_u64(out, tokens.prompt - read - written);
    push_count(out, b"cache_creation_input_tokens", written);
    push_count(out, b"cache_read_input_tokens", read);
    push_member(out, b"cache_creation", b"{\"ephemeral_5m_input_tokens\":");
    push_u64(out, written - hour);
    push_count(out, b"ephemeral_1h_input_tokens", hour);
    out.put_u8(b'}');
    push_count(out, b"output_tokens", tokens.completion);
    if let Some(reasoning) = tokens.reasoning {
        push_member(out, b"output_tokens_details", b"{\"thinking_tokens\":");
        push_u64(out, reasoning);
        out.put_u8(b'}');
    }
    if let Some(searches) = tokens.web_searches.filter(|searches| *searches > 0) {
        push_member(out, b"server_tool_use", b"{\"web_search_requests\":");
        push_u64(out, searches);
        out.put_u8(b'}');
    }
    out.put_u8(b'}');
}
