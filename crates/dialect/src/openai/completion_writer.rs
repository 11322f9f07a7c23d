//! Collects the events of an answer into the body of an unstreamed chat answer, for [`super::answer`], which adds what the
//! gateway adds.

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::{FinishReason, ReasoningFormat};

use crate::{
    answer::AnswerFault,
    json::{Cursor, Raw, push_member, push_u64},
    neutral::{AnswerEvent, AnswerSink, EscapedText, ReasoningKind, ReportedTokens, ToolKind},
    openai::{
        answer::{MAX_CHOICES, push_finish},
        chunk_writer::{ReasoningDetail, push_call_head, push_image, push_signature, push_tokens},
    },
};

/// Most tool calls of one choice.
const MAX_CALLS: usize = 1_024;

/// The answer so far. Bounded by the answer it is made from.
#[derive(Debug, Default)]
pub(crate) struct CompletionWriter {
    id: Option<EscapedText<'static>>,
    choices: Vec<Choice>,
    tokens: Option<ReportedTokens>,
}

#[derive(Debug, Default)]
struct Choice {
    text: BytesMut,
    has_text: bool,
    refusal: BytesMut,
    reasoning: BytesMut,
    details: Vec<Detail>,
    calls: Vec<WrittenToolCall>,
    images: BytesMut,
    annotations: BytesMut,
    /// Citations of documents.
    citations: BytesMut,
    logprobs: Option<Bytes>,
    finish: Option<(FinishReason, String)>,
}

#[derive(Debug)]
struct Detail {
    kind: ReasoningKind,
    format: ReasoningFormat,
    index: u32,
    text: Option<EscapedText<'static>>,
    sealed: Option<EscapedText<'static>>,
    id: Option<EscapedText<'static>>,
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
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        match event {
            AnswerEvent::Started { id } => self.id = Some(id.into_owned()),
            AnswerEvent::Usage(tokens) => self.tokens = Some(tokens),
            AnswerEvent::Text { choice, text } => {
                let choice = self.choice(choice)?;
                choice.has_text = true;
                choice.text.put_slice(text.bytes());
            }
            AnswerEvent::Refusal { choice, text } => self.choice(choice)?.refusal.put_slice(text.bytes()),
            AnswerEvent::Reasoning { choice, index, format, kind, text, sealed, id } => {
                let own = |text: Option<EscapedText<'_>>| text.map(EscapedText::into_owned);
                let detail = Detail { kind, format, index, text: own(text), sealed: own(sealed), id: own(id) };
                self.choice(choice)?.reason(detail);
            }
            AnswerEvent::ToolCallStarted { choice, call, id, name, kind } => {
                let choice = self.choice(choice)?;
                if choice.calls.len() != call as usize || choice.calls.len() >= MAX_CALLS {
                    return Err(AnswerFault::malformed("calls out of order, or too many"));
                }
                let signature = choice.signature_of(&id);
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
                push_comma(images);
                push_image(&media_type, &data, images);
            }
            AnswerEvent::Annotation { choice, json } => {
                let annotations = &mut self.choice(choice)?.annotations;
                push_comma(annotations);
                annotations.put_slice(&json);
            }
            AnswerEvent::DocumentCitation { choice, json } => {
                let citations = &mut self.choice(choice)?.citations;
                push_comma(citations);
                citations.put_slice(&json);
            }
            AnswerEvent::Logprobs { choice, value } => {
                self.choice(choice)?.add_logprobs(value);
            }
            AnswerEvent::StoppedAt { .. } => {}
            AnswerEvent::Finished { choice, finish, native } => {
                self.choice(choice)?.finish = Some((finish, native.unescaped().into_owned()));
            }
        }
        Ok(())
    }
}

impl CompletionWriter {
    /// The body of the answer.
    ///
    /// # Errors
    /// When a choice did not finish, or there is none.
    pub(crate) fn finish(self) -> Result<Bytes, AnswerFault> {
        let mut out = BytesMut::new();
        out.put_slice(b"{\"id\":");
        self.id.unwrap_or(EscapedText::plain("")).push_quoted(&mut out);
        out.put_slice(b",\"choices\":[");
        if self.choices.is_empty() {
            return Err(AnswerFault::malformed("no choices"));
        }
        for (index, choice) in self.choices.iter().enumerate() {
            if index > 0 {
                out.put_u8(b',');
            }
            choice.push(index, &mut out)?;
        }
        out.put_u8(b']');
        if let Some(tokens) = &self.tokens {
            push_member(&mut out, b"usage", b"");
            push_tokens(tokens, &mut out);
        }
        out.put_u8(b'}');
        Ok(out.freeze())
    }

    /// The choice of that index. Choices come in order.
    fn choice(&mut self, index: u32) -> Result<&mut Choice, AnswerFault> {
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
    fn reason(&mut self, detail: Detail) {
        if let Some(text) = &detail.text {
            self.reasoning.put_slice(text.bytes());
        }
        let same = |last: &&mut Detail| {
            last.kind == detail.kind
                && last.format == detail.format
                && last.index == detail.index
                && detail.kind != ReasoningKind::Encrypted
        };
        let Some(last) = self.details.last_mut().filter(same) else { return self.details.push(detail) };
        last.text = match (last.text.take(), detail.text) {
            (Some(text), Some(more)) => Some(text.joined(&more)),
            (text, more) => text.or(more),
        };
        last.sealed = detail.sealed.or(last.sealed.take());
        last.id = detail.id.or(last.id.take());
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
        let is_its = |detail: &&Detail| {
            detail.format == ReasoningFormat::Gemini
                && detail.id.as_ref().is_some_and(|owner| owner.bytes() == id.bytes())
        };
        self.details.iter().rev().find(is_its)?.sealed.clone()
    }

    fn push(&self, index: usize, out: &mut BytesMut) -> Result<(), AnswerFault> {
        let Some((finish, native)) = &self.finish else {
            return Err(AnswerFault::truncated("the answer has no end"));
        };
        out.put_slice(b"{\"index\":");
        push_u64(out, index as u64);
        out.put_slice(b",\"message\":{\"role\":\"assistant\",\"content\":");
        if self.has_text {
            push_quoted(&self.text, out)
        } else {
            out.put_slice(b"null")
        }
        if !self.refusal.is_empty() {
            push_member(out, b"refusal", b"");
            push_quoted(&self.refusal, out);
        }
        if !self.reasoning.is_empty() {
            push_member(out, b"reasoning", b"");
            push_quoted(&self.reasoning, out);
        }
        push_list(b"reasoning_details", &self.details, Detail::push, out);
        push_list(b"tool_calls", &self.calls, WrittenToolCall::push, out);
        let lists: [(&[u8], _); 3] =
            [(b"images", &self.images), (b"annotations", &self.annotations), (b"citations", &self.citations)];
        for (name, list) in lists {
            if !list.is_empty() {
                push_member(out, name, b"[");
                out.put_slice(list);
                out.put_u8(b']');
            }
        }
        out.put_u8(b'}');
        push_finish(out, finish.as_str(), Some(native));
        push_member(out, b"logprobs", self.logprobs.as_deref().unwrap_or(b"null"));
        out.put_u8(b'}');
        Ok(())
    }
}

/// The elements of `content`, if there are any.
fn logprobs_of_content(value: Raw<'_>) -> Option<&[u8]> {
    value.member(b"content").filter(|list| list.is_filled()).map(Raw::inner)
}

impl Detail {
    fn push(&self, out: &mut BytesMut) {
        let Detail { kind, format, index, text, sealed, id } = self;
        ReasoningDetail { kind: *kind, format: *format, index: *index, text, sealed, id }.push(out);
    }
}

impl WrittenToolCall {
    fn push(&self, out: &mut BytesMut) {
        // The head begins with a comma, behind the index that only chunks have.
        let start = out.len();
        push_call_head(&self.id, &self.name, self.kind, out);
        if let Some(comma) = out.get_mut(start) {
            *comma = b'{';
        }
        out.put_slice(&self.arguments);
        out.put_slice(b"\"}");
        push_signature(self.signature.as_ref(), out);
        out.put_u8(b'}');
    }
}

fn push_list<T>(name: &[u8], list: &[T], push: impl Fn(&T, &mut BytesMut), out: &mut BytesMut) {
    if list.is_empty() {
        return;
    }
    push_member(out, name, b"[");
    for (index, element) in list.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        push(element, out);
    }
    out.put_u8(b']');
}

fn push_comma(list: &mut BytesMut) {
    if !list.is_empty() {
        list.put_u8(b',');
    }
}

fn push_quoted(escaped: &[u8], out: &mut BytesMut) {
    out.put_u8(b'"');
    out.put_slice(escaped);
    out.put_u8(b'"');
}
