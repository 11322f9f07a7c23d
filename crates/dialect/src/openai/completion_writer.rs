//! Collects the events of an answer into the body of an unstreamed chat answer.

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::{FinishReason, ReasoningFormat};

use crate::{
    answer::{AnswerContext, AnswerFault, AnswerResult},
    json::{Cursor, Raw, push_array, push_comma, push_count, push_member, push_string_member},
    neutral::{
        AnswerEvent, AnswerSink, ChatFact, EscapedText, ReasoningKind, ReasoningState, ReportedTokens, ToolKind,
    },
    openai::{
        answer::{MAX_CHOICES, push_finish, push_head},
        chunk_parts::push_usage_member,
        meter::AnswerMeter,
        tool_call::{FunctionCall, ToolCallHead},
    },
};

/// What an answer takes beyond its texts, mostly.
const EXTRA_BYTES: usize = 2_048;
/// Most tool calls of one choice.
const MAX_CALLS: usize = 1_024;

/// The answer so far. Bounded by the answer it is made from.
#[derive(Debug, Default)]
pub(crate) struct CompletionWriter {
    id: Option<EscapedText<'static>>,
    choices: Vec<Choice>,
    /// The value of `usage`.
    usage: Option<BytesMut>,
    /// Signatures of calls whose reasoning the client does not want.
    signatures: Vec<(EscapedText<'static>, EscapedText<'static>)>,
}

#[derive(Debug, Default)]
struct Choice {
    text: BytesMut,
    has_text: bool,
    refusal: BytesMut,
    reasoning: BytesMut,
    /// Reasoning, each block with its index.
    details: Vec<(u32, ReasoningState<'static>)>,
    calls: Vec<WrittenToolCall>,
    images: BytesMut,
    annotations: BytesMut,
    /// Citations of documents.
    citations: BytesMut,
    logprobs: Option<Bytes>,
    finish: Option<(FinishReason, String)>,
}

#[derive(Debug)]
struct WrittenToolCall {
    id: EscapedText<'static>,
    name: EscapedText<'static>,
    kind: ToolKind,
    arguments: BytesMut,
    signature: Option<EscapedText<'static>>,
}

impl AnswerSink for CompletionWriter {
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
        match event {
            AnswerEvent::Started { id } => self.id = Some(id.into_owned()),
            AnswerEvent::Usage(tokens) => push_tokens(&tokens, self.usage.insert(BytesMut::new())),
            AnswerEvent::Chat(ChatFact::Usage(usage)) => self.usage = Some(usage.bytes().into()),
            AnswerEvent::ToolCallSignature { id, signature } => {
                self.signatures.push((id.into_owned(), signature.into_owned()));
            }
            AnswerEvent::Text { choice, text } => {
                let choice = self.choice(choice)?;
                choice.has_text = true;
                choice.text.put_slice(text.bytes());
            }
            AnswerEvent::Refusal { choice, text } => self.choice(choice)?.refusal.put_slice(text.bytes()),
            AnswerEvent::Reasoning { choice, index, state } => self.choice(choice)?.reason(index, state.into_owned()),
            AnswerEvent::ToolCallStarted { choice, call, id, name, kind } => {
                let hidden = self.signatures.iter().position(|(owner, _)| *owner == id);
                let hidden = hidden.map(|place| self.signatures.swap_remove(place).1);
                let choice = self.choice(choice)?;
                if choice.calls.len() != call as usize || choice.calls.len() >= MAX_CALLS {
                    return Err(AnswerFault::malformed("calls out of order, or too many"));
                }
                let signature = choice.signature_of(&id).or(hidden);
                let (id, name) = (id.into_owned(), name.into_owned());
                choice.calls.push(WrittenToolCall { id, name, kind, arguments: BytesMut::new(), signature });
            }
            AnswerEvent::ToolCallArguments { choice, call, text } => {
                let calls = &mut self.choice(choice)?.calls;
                let Some(call) = calls.get_mut(call as usize) else {
                    return Err(AnswerFault::malformed("arguments of an unknown call"));
                };
                call.arguments.put_slice(text.bytes());
            }
            AnswerEvent::Image { choice, media_type, data } => {
                let images = &mut self.choice(choice)?.images;
                images.put_u8(b',');
                push_image(&media_type, &data, images);
            }
            AnswerEvent::Annotation { choice, json } => push!(self.choice(choice)?.annotations; b",", json),
            AnswerEvent::DocumentCitation { choice, json } => push!(self.choice(choice)?.citations; b",", json),
            AnswerEvent::Logprobs { choice, value } => self.choice(choice)?.add_logprobs(value),
            AnswerEvent::Begun { choice } => {
                self.choice(choice)?;
            }
            AnswerEvent::StoppedAt { .. } | AnswerEvent::Chat(_) => {}
            AnswerEvent::Finished { choice, finish, native } => {
                self.choice(choice)?.finish = Some((finish, native.unescaped().into_owned()));
            }
        }
        Ok(())
    }
}

impl CompletionWriter {
    /// The body as an upstream of chat would send it.
    ///
    /// # Errors
    /// When a choice did not finish, or there is none.
    pub(crate) fn finish(self) -> AnswerResult<Bytes> {
        let mut out = BytesMut::from(&b"{\"id\":"[..]);
        self.id.as_ref().unwrap_or(&EscapedText::plain("")).push_quoted(&mut out);
        self.push_choices(None, &mut out)?;
        if let Some(usage) = &self.usage {
            push_member(&mut out, b"usage", usage);
        }
        out.put_u8(b'}');
        Ok(out.freeze())
    }

    /// The body for a client.
    ///
    /// # Errors
    /// As [`CompletionWriter::finish`].
    pub(crate) fn answer(&self, answer: &AnswerMeter) -> AnswerResult<Bytes> {
        let context = &answer.context;
        let texts = self.choices.iter().map(|choice| choice.text.len() + 2 * choice.reasoning.len());
        let mut out = BytesMut::with_capacity(EXTRA_BYTES + texts.sum::<usize>());
        push_head(&mut out, "chat.completion", context);
        self.push_choices(Some(context), &mut out)?;
        push_string_member(&mut out, b"system_fingerprint", &context.fingerprint);
        push_usage_member(answer, &mut out);
        out.put_u8(b'}');
        Ok(out.freeze())
    }

    fn push_choices(&self, context: Option<&AnswerContext>, out: &mut BytesMut) -> AnswerResult {
        if self.choices.is_empty() {
            return Err(AnswerFault::malformed("no choices"));
        }
        push_member(out, b"choices", b"[");
        for (index, choice) in self.choices.iter().enumerate() {
            push_comma(out);
            choice.push(index, context, out)?;
        }
        out.put_u8(b']');
        Ok(())
    }

    /// The choice of that index. Choices come in order.
    fn choice(&mut self, index: u32) -> AnswerResult<&mut Choice> {
        let index = index as usize;
        if index >= MAX_CHOICES {
            return Err(AnswerFault::malformed("too many choices"));
        }
        if self.choices.len() <= index {
            self.choices.resize_with(index + 1, Choice::default);
        }
        self.choices.get_mut(index).ok_or_else(|| AnswerFault::malformed("too many choices"))
    }
}

impl Choice {
    /// Adds a piece of reasoning; pieces of one block are joined.
    fn reason(&mut self, index: u32, piece: ReasoningState<'static>) {
        if let Some(text) = &piece.text {
            self.reasoning.put_slice(text.bytes());
        }
        let is_same = |last: &&mut (u32, ReasoningState<'_>)| {
            (last.0, last.1.kind, last.1.format) == (index, piece.kind, piece.format)
                && piece.kind != ReasoningKind::Encrypted
        };
        let Some((_, last)) = self.details.last_mut().filter(is_same) else {
            return self.details.push((index, piece));
        };
        last.text = match (last.text.take(), piece.text) {
            (Some(text), Some(more)) => Some(text.joined(&more)),
            (text, more) => text.or(more),
        };
        last.sealed = piece.sealed.or(last.sealed.take());
        last.id = piece.id.or(last.id.take());
    }

    /// Adds log probabilities: those of a stream come in pieces.
    fn add_logprobs(&mut self, value: Raw<'_>) {
        let before = self.logprobs.take().unwrap_or_default();
        let known = std::str::from_utf8(&before).ok().and_then(|text| Cursor::new(text).value().ok());
        self.logprobs = Some(match (known.and_then(logprobs_of_content), logprobs_of_content(value)) {
            (Some(known), Some(more)) => {
                let parts: [&[u8]; 5] = [b"{\"content\":[", known, b",", more, b"],\"refusal\":null}"];
                Bytes::from(parts.concat())
            }
            (Some(_), None) => before,
            (None, _) => Bytes::copy_from_slice(value.bytes()),
        });
    }

    fn signature_of(&self, id: &EscapedText<'_>) -> Option<EscapedText<'static>> {
        let states = self.details.iter().rev().map(|(_, state)| state);
        let mut of_calls = states.filter(|state| state.format == ReasoningFormat::Gemini);
        of_calls.find(|state| state.id.as_ref() == Some(id))?.sealed.clone()
    }

    /// Appends the choice. `context`: of the answer, if it is for a client.
    fn push(&self, index: usize, context: Option<&AnswerContext>, out: &mut BytesMut) -> AnswerResult {
        let Some((finish, native)) = &self.finish else {
            return Err(AnswerFault::truncated("the answer has no end"));
        };
        push!(out; br#"{"index":"#, index as u64, br#","message":{"role":"assistant""#);
        let texts = [(&b"content"[..], &self.text), (b"refusal", &self.refusal), (b"reasoning", &self.reasoning)];
        for (name, text) in texts {
            if !text.is_empty() || (name == b"content" && self.has_text) {
                push!(out; br#",""#, name, br#"":""#, text, br#"""#);
            }
        }
        push_list(
            b"reasoning_details",
            &self.details,
            |(index, state), out| push_reasoning_detail(*index, state, out),
            out,
        );
        match self.calls.first() {
            Some(first) if context.is_some_and(|context| context.legacy_functions) => first.push_function(out),
            _ => push_list(b"tool_calls", &self.calls, WrittenToolCall::push, out),
        }
        let lists: [(&[u8], _); 3] =
            [(b"images", &self.images), (b"annotations", &self.annotations), (b"citations", &self.citations)];
        lists.into_iter().for_each(|(name, list)| push_array(out, name, list));
        if !self.has_text {
            // Clients send null back, which is no message unless something else is.
            let speaks = context.is_none() || !self.calls.is_empty() || !self.refusal.is_empty();
            push_member(out, b"content", if speaks { b"null" } else { b"\"\"" });
        }
        if self.refusal.is_empty() && context.is_some() {
            push_member(out, b"refusal", b"null");
        }
        out.put_u8(b'}');
        let finish = context.map_or(finish.as_str(), |context| context.finish_word(*finish));
        let native = Some(&**native).filter(|native| !native.is_empty() || context.is_none());
        push_finish(out, finish, native);
        push!(out; br#","logprobs":"#, self.logprobs.as_deref().unwrap_or(b"null"), b"}");
        Ok(())
    }
}

/// The elements of `content`, if there are any.
fn logprobs_of_content(value: Raw<'_>) -> Option<&[u8]> {
    value.member(b"content").filter(|list| list.is_filled()).map(Raw::inner)
}

impl WrittenToolCall {
    /// Appends it in its deprecated form.
    fn push_function(&self, out: &mut BytesMut) {
        let call = FunctionCall { name: Some(self.name.bytes().to_vec()), arguments: self.arguments.clone() };
        call.value().iter().for_each(|value| push_member(out, b"function_call", value));
    }

    fn push(&self, out: &mut BytesMut) {
        let (id, name, arguments) = (self.id.bytes(), self.name.bytes(), &self.arguments);
        let is_custom = self.kind == ToolKind::Custom;
        ToolCallHead { index: None, id, name, arguments, is_custom }.push_signed(self.signature.as_ref(), out);
    }
}

fn push_list<T>(name: &[u8], list: &[T], push: impl Fn(&T, &mut BytesMut), out: &mut BytesMut) {
    if list.is_empty() {
        return;
    }
    push_member(out, name, b"[");
    for element in list {
        push_comma(out);
        push(element, out);
    }
    out.put_u8(b']');
}

pub(super) fn push_image(media_type: &EscapedText<'_>, data: &EscapedText<'_>, out: &mut BytesMut) {
    push!(out; br#"{"type":"image_url","image_url":{"url":"data:"#, media_type.bytes(), b";base64,", data.bytes(),
        br#""}}"#);
}

/// Appends an element of `reasoning_details`.
pub(super) fn push_reasoning_detail(index: u32, state: &ReasoningState<'_>, out: &mut BytesMut) {
    let (name, text, sealed) = state.kind.names();
    push!(out; br#"{"type":""#, name.as_bytes(), br#"""#);
    for (name, value) in [(text, &state.text), (sealed, &state.sealed), (b"id", &state.id)] {
        if let Some(value) = value {
            value.push_member(out, name);
        }
    }
    push!(out; br#","format":""#, state.format.as_str().as_bytes(), br#"","index":"#, u64::from(index), b"}");
}

/// Appends a `usage` object.
pub(crate) fn push_tokens(tokens: &ReportedTokens, out: &mut BytesMut) {
    push!(out; br#"{"prompt_tokens":"#, tokens.prompt, br#","completion_tokens":"#, tokens.completion,
        br#","total_tokens":"#, tokens.prompt.saturating_add(tokens.completion));
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
    for (name, word) in [(&b"service_tier"[..], tokens.service.tier), (b"inference_geo", tokens.service.geography)] {
        if let Some(word) = word {
            push_string_member(out, name, word.as_str());
        }
    }
    out.put_u8(b'}');
}

fn push_details(name: &[u8], details: &[(&[u8], Option<u64>)], out: &mut BytesMut) {
    let known: Vec<(&[u8], u64)> = details.iter().filter_map(|(name, count)| Some((*name, (*count)?))).collect();
    let Some(((first, count), others)) = known.split_first() else { return };
    push!(out; br#",""#, name, br#"":{""#, first, br#"":"#, *count);
    others.iter().for_each(|(name, count)| push_count(out, name, *count));
    out.put_u8(b'}');
}
