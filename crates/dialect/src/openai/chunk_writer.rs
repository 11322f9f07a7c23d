//! Writes the events of an answer as chunks of a chat stream, for [`super::stream`], which adds what the gateway adds.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use crate::{
    json::{push_member, push_string, push_u64},
    neutral::{AnswerEvent, EscapedText, ReasoningKind, ReportedTokens, ToolKind},
    openai::answer::push_finish,
};

/// Writes one chunk per event. Remembers only a signature that belongs to the next call.
#[derive(Debug, Default)]
pub(crate) struct ChunkWriter {
    /// Id of a call that is not announced yet, and its thought signature.
    signature: Option<(EscapedText<'static>, EscapedText<'static>)>,
}

impl ChunkWriter {
    /// Appends the chunk of an event: JSON without framing. Nothing for an event that chat has no chunk for.
    pub(crate) fn push(&mut self, event: &AnswerEvent<'_>, out: &mut BytesMut) {
        match event {
            AnswerEvent::Started { id } => {
                out.put_slice(b"{\"id\":");
                id.push_quoted(out);
                out.put_slice(b",\"choices\":[]}");
            }
            AnswerEvent::Usage(tokens) => {
                out.put_slice(b"{\"choices\":[],\"usage\":");
                push_tokens(tokens, out);
                out.put_u8(b'}');
            }
            AnswerEvent::Finished { choice, finish, native } => {
                begin_choice(*choice, out);
                out.put_u8(b'}');
                push_finish(out, finish.as_str(), Some(&native.unescaped()));
                out.put_slice(b"}]}");
            }
            AnswerEvent::Logprobs { choice, value } => {
                begin_choice(*choice, out);
                out.put_u8(b'}');
                push_member(out, b"logprobs", value.bytes());
                out.put_slice(b"}]}");
            }
            // Only upstreams of this API say it.
            AnswerEvent::StoppedAt { .. } => {}
            AnswerEvent::Text { choice, .. }
            | AnswerEvent::Refusal { choice, .. }
            | AnswerEvent::Reasoning { choice, .. }
            | AnswerEvent::ToolCallStarted { choice, .. }
            | AnswerEvent::ToolCallArguments { choice, .. }
            | AnswerEvent::Image { choice, .. }
            | AnswerEvent::Annotation { choice, .. }
            | AnswerEvent::DocumentCitation { choice, .. } => {
                begin_choice(*choice, out);
                self.push_delta(event, out);
                out.put_slice(b"}}]}");
            }
        }
    }

    /// Appends the members of the delta.
    fn push_delta(&mut self, event: &AnswerEvent<'_>, out: &mut BytesMut) {
        match event {
            AnswerEvent::Text { text, .. } => push_text(b"content", text, out),
            AnswerEvent::Refusal { text, .. } => push_text(b"refusal", text, out),
            AnswerEvent::Reasoning { index, format, kind, text, sealed, id, .. } => {
                if let (ReasoningFormat::Gemini, Some(id), Some(sealed)) = (format, id, sealed) {
                    self.signature = Some((id.clone().into_owned(), sealed.clone().into_owned()));
                }
                if let Some(text) = text {
                    push_text(b"reasoning", text, out);
                    out.put_u8(b',');
                }
                out.put_slice(b"\"reasoning_details\":[");
                let detail = ReasoningDetail { kind: *kind, format: *format, index: *index, text, sealed, id };
                detail.push(out);
                out.put_u8(b']');
            }
            AnswerEvent::ToolCallStarted { call, id, name, kind, .. } => {
                out.put_slice(b"\"tool_calls\":[{\"index\":");
                push_u64(out, u64::from(*call));
                let signature = self.signature.take_if(|(owner, _)| *owner == *id).map(|(_, signature)| signature);
                push_call_head(id, name, *kind, out);
                out.put_slice(b"\"}");
                push_signature(signature.as_ref(), out);
                out.put_slice(b"}]");
            }
            AnswerEvent::ToolCallArguments { call, text, .. } => {
                out.put_slice(b"\"tool_calls\":[{\"index\":");
                push_u64(out, u64::from(*call));
                out.put_slice(b",\"function\":{\"arguments\":");
                text.push_quoted(out);
                out.put_slice(b"}}]");
            }
            AnswerEvent::Image { media_type, data, .. } => {
                out.put_slice(b"\"images\":[");
                push_image(media_type, data, out);
                out.put_u8(b']');
            }
            AnswerEvent::Annotation { json, .. } => push_only_element(b"annotations", json, out),
            AnswerEvent::DocumentCitation { json, .. } => push_only_element(b"citations", json, out),
            AnswerEvent::Started { .. }
            | AnswerEvent::Usage(_)
            | AnswerEvent::StoppedAt { .. }
            | AnswerEvent::Finished { .. }
            | AnswerEvent::Logprobs { .. } => {}
        }
    }
}

fn begin_choice(choice: u32, out: &mut BytesMut) {
    out.put_slice(b"{\"choices\":[{\"index\":");
    push_u64(out, u64::from(choice));
    out.put_slice(b",\"delta\":{");
}

fn push_only_element(list: &[u8], element: &[u8], out: &mut BytesMut) {
    out.put_u8(b'"');
    out.put_slice(list);
    out.put_slice(b"\":[");
    out.put_slice(element);
    out.put_u8(b']');
}

fn push_text(name: &[u8], text: &EscapedText<'_>, out: &mut BytesMut) {
    out.put_u8(b'"');
    out.put_slice(name);
    out.put_slice(b"\":");
    text.push_quoted(out);
}

/// Appends `,"id":…,"type":…,"function":{"name":…,"arguments":"`: the caller closes the string and both objects.
pub(super) fn push_call_head(id: &EscapedText<'_>, name: &EscapedText<'_>, kind: ToolKind, out: &mut BytesMut) {
    push_member(out, b"id", b"");
    id.push_quoted(out);
    let (before, after): (&[u8], &[u8]) = match kind {
        ToolKind::Function => (b",\"type\":\"function\",\"function\":{\"name\":", b",\"arguments\":\""),
        ToolKind::Custom => (b",\"type\":\"custom\",\"custom\":{\"name\":", b",\"input\":\""),
    };
    out.put_slice(before);
    name.push_quoted(out);
    out.put_slice(after);
}

/// Appends the thought signature of a call where clients of Google's compatible endpoint look for it.
pub(super) fn push_signature(signature: Option<&EscapedText<'_>>, out: &mut BytesMut) {
    if let Some(signature) = signature {
        out.put_slice(b",\"extra_content\":{\"google\":{\"thought_signature\":");
        signature.push_quoted(out);
        out.put_slice(b"}}");
    }
}

pub(super) fn push_image(media_type: &EscapedText<'_>, data: &EscapedText<'_>, out: &mut BytesMut) {
    out.put_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:");
    out.put_slice(media_type.bytes());
    out.put_slice(b";base64,");
    out.put_slice(data.bytes());
    out.put_slice(b"\"}}");
}

/// One element of `reasoning_details`.
#[derive(Debug)]
pub(super) struct ReasoningDetail<'d, 'a> {
    pub(super) kind: ReasoningKind,
    pub(super) format: ReasoningFormat,
    pub(super) index: u32,
    pub(super) text: &'d Option<EscapedText<'a>>,
    pub(super) sealed: &'d Option<EscapedText<'a>>,
    pub(super) id: &'d Option<EscapedText<'a>>,
}

impl ReasoningDetail<'_, '_> {
    pub(super) fn push(&self, out: &mut BytesMut) {
        let (name, text, sealed): (&str, &[u8], &[u8]) = match self.kind {
            ReasoningKind::Text => ("reasoning.text", b"text", b"signature"),
            ReasoningKind::Summary => ("reasoning.summary", b"summary", b"signature"),
            ReasoningKind::Encrypted => ("reasoning.encrypted", b"text", b"data"),
        };
        out.put_slice(b"{\"type\":\"");
        out.put_slice(name.as_bytes());
        out.put_u8(b'"');
        for (name, value) in [(text, self.text), (sealed, self.sealed), (b"id", self.id)] {
            if let Some(value) = value {
                push_member(out, name, b"");
                value.push_quoted(out);
            }
        }
        out.put_slice(b",\"format\":\"");
        out.put_slice(self.format.as_str().as_bytes());
        out.put_slice(b"\",\"index\":");
        push_u64(out, u64::from(self.index));
        out.put_u8(b'}');
    }
}

/// Appends a `usage` object.
pub(crate) fn push_tokens(tokens: &ReportedTokens, out: &mut BytesMut) {
    out.put_slice(b"{\"prompt_tokens\":");
    push_u64(out, tokens.prompt);
    push_count(b"completion_tokens", tokens.completion, out);
    push_count(b"total_tokens", tokens.prompt.saturating_add(tokens.completion), out);
    let by_time = tokens.cache_write_5m.is_some() || tokens.cache_write_1h.is_some();
    push_details(
        b"prompt_tokens_details",
        &[
            (b"cached_tokens", tokens.cached),
            (b"cache_write_tokens", tokens.cache_write),
            (b"audio_tokens", tokens.audio_prompt),
        ],
        out,
    );
    if by_time {
        let times = [
            (&b"ephemeral_5m_input_tokens"[..], tokens.cache_write_5m),
            (b"ephemeral_1h_input_tokens", tokens.cache_write_1h),
        ];
        push_details(b"cache_creation", &times, out);
    }
    push_details(
        b"completion_tokens_details",
        &[(b"reasoning_tokens", tokens.reasoning), (b"audio_tokens", tokens.audio_completion)],
        out,
    );
    if let Some(searches) = tokens.web_searches {
        push_details(b"server_tool_use", &[(b"web_search_requests", Some(searches))], out);
    }
    for (name, told) in [(&b"service_tier"[..], tokens.service.tier), (b"inference_geo", tokens.service.geography)] {
        if let Some(told) = told {
            push_member(out, name, b"");
            push_string(out, told.as_str());
        }
    }
    out.put_u8(b'}');
}

fn push_details(name: &[u8], details: &[(&[u8], Option<u64>)], out: &mut BytesMut) {
    let known: Vec<(&[u8], u64)> = details.iter().filter_map(|(name, count)| Some((*name, (*count)?))).collect();
    let Some(((first, count), others)) = known.split_first() else { return };
    push_member(out, name, b"{\"");
    out.put_slice(first);
    out.put_slice(b"\":");
    push_u64(out, *count);
    others.iter().for_each(|(name, count)| push_count(name, *count, out));
    out.put_u8(b'}');
}

fn push_count(name: &[u8], count: u64, out: &mut BytesMut) {
    push_member(out, name, b"");
    push_u64(out, count);
}
