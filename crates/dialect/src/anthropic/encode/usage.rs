//! Tokens in the arithmetic of the Messages API: the input leaves out what was read from and written to caches.

use bytes::{BufMut as _, BytesMut};

use crate::neutral::ReportedTokens;

/// Appends a `usage` object. The three counts of the prompt add up to all of it, whatever the upstream said.
pub(in crate::anthropic) fn push_usage(tokens: &ReportedTokens, out: &mut BytesMut) {
    let read = tokens.cached.unwrap_or(0).min(tokens.prompt);
    let by_time = tokens.cache_write_5m.unwrap_or(0).saturating_add(tokens.cache_write_1h.unwrap_or(0));
    let written = tokens.cache_write.unwrap_or(by_time).min(tokens.prompt - read);
    let hour = tokens.cache_write_1h.unwrap_or(0).min(written);
    push!(out; br#"{"input_tokens":"#, tokens.prompt - read - written, br#","cache_creation_input_tokens":"#, written,
        br#","cache_read_input_tokens":"#, read, br#","cache_creation":{"ephemeral_5m_input_tokens":"#, written - hour,
        br#","ephemeral_1h_input_tokens":"#, hour, br#"},"output_tokens":"#, tokens.completion);
    if let Some(reasoning) = tokens.reasoning {
        push!(out; br#","output_tokens_details":{"thinking_tokens":"#, reasoning, b"}");
    }
    if let Some(searches) = tokens.web_searches.filter(|searches| *searches > 0) {
        push!(out; br#","server_tool_use":{"web_search_requests":"#, searches, b"}");
    }
    out.put_u8(b'}');
}
