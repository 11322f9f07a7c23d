//! Writes answers for clients of chat, streamed, from neutral events: one chunk for each that shows something.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::{
    answer::push_finish,
    chunk_parts::{DONE, chunk_head, push_error_end, push_usage_chunk},
    completion_writer::{push_image, push_reasoning_detail},
    meter::AnswerMeter,
    stream_options::StreamOptions,
    tool_call::{MoreOfCall, ToolCallHead, ToolCallPart},
};
use crate::{
    answer::{AnswerContext, AnswerResult},
    frame::KEEP_ALIVE,
    neutral::{AnswerEvent, AnswerSink, EscapedText, ToolKind},
    stream_error::StreamError,
};

/// What a chunk takes beyond its head and its text, mostly.
const CHUNK_BYTES: usize = 256;

/// Writes one stream.
#[derive(Debug)]
pub(crate) struct ChatEncoder {
    context: AnswerContext,
    options: StreamOptions,
    /// The beginning of every event: `data: ` and the members that name the generation.
    head: BytesMut,
    choices: Vec<Choice>,
    /// Choice and place of the calls of custom tools.
    custom_calls: Vec<(u32, u32)>,
    /// Id of a call that is not announced yet, and its thought signature.
    signature: Option<(EscapedText<'static>, EscapedText<'static>)>,
    pub(crate) out: BytesMut,
}

/// What a choice has shown.
#[derive(Debug, Clone, Copy)]
struct Choice {
    index: u32,
    /// A text, maybe an empty one, or a call.
    has_said: bool,
}

impl AnswerSink for ChatEncoder {
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
        match event {
            AnswerEvent::ToolCallSignature { id, signature } => {
                self.signature = Some((id.into_owned(), signature.into_owned()));
            }
            AnswerEvent::Begun { choice } => {
                if !self.choices.iter().any(|known| known.index == choice) {
                    self.delta(choice, |_| {});
                }
            }
            AnswerEvent::Finished { choice, finish, native } => {
                let has_said = self.choices.iter().any(|known| known.index == choice && known.has_said);
                self.begin(choice);
                let delta: &[u8] = if has_said { b"{}" } else { b"{\"content\":\"\"}" };
                self.out.put_slice(delta);
                let native = Some(native.unescaped()).filter(|native| !native.is_empty());
                push_finish(&mut self.out, self.context.finish_word(finish), native.as_deref());
                self.end(b"null");
            }
            AnswerEvent::Logprobs { choice, value } => {
                self.members(choice, |_| {});
                self.end(value.bytes());
            }
            AnswerEvent::Text { choice, text } => self.said(choice, |out| push_text(b"content", &text, out)),
            AnswerEvent::Refusal { choice, text } => self.said(choice, |out| push_text(b"refusal", &text, out)),
            AnswerEvent::Reasoning { choice, index, state } => {
                if let (ReasoningFormat::Gemini, Some(id), Some(sealed)) = (state.format, &state.id, &state.sealed) {
                    self.signature = Some((id.clone().into_owned(), sealed.clone().into_owned()));
                }
                self.delta(choice, |out| {
                    if let Some(text) = &state.text {
                        push_text(b"reasoning", text, out);
                        out.put_u8(b',');
                    }
                    out.put_slice(b"\"reasoning_details\":[");
                    push_reasoning_detail(index, &state, out);
                    out.put_u8(b']');
                });
            }
            AnswerEvent::ToolCallStarted { choice, call, id, name, kind } => {
                if self.context.legacy_functions {
                    return self.function(choice, call, Some(&name), &EscapedText::plain(""));
                }
                if kind == ToolKind::Custom {
                    self.custom_calls.push((choice, call));
                }
                let signature = self.signature.take_if(|(owner, _)| *owner == id).map(|(_, signature)| signature);
                let (index, is_custom) = (Some(call as usize), kind == ToolKind::Custom);
                let head = ToolCallHead { index, id: id.bytes(), name: name.bytes(), arguments: b"", is_custom };
                self.said(choice, |out| {
                    out.put_slice(b"\"tool_calls\":[");
                    head.push_signed(signature.as_ref(), out);
                    out.put_u8(b']');
                });
            }
            AnswerEvent::ToolCallArguments { choice, call, text } => {
                if self.context.legacy_functions {
                    return self.function(choice, call, None, &text);
                }
                let is_custom = self.custom_calls.contains(&(choice, call));
                let more = MoreOfCall { place: call as usize, is_custom, name: None, arguments: text.bytes() };
                self.said(choice, |out| {
                    out.put_slice(b"\"tool_calls\":[");
                    more.push(&ToolCallPart::default(), out);
                    out.put_u8(b']');
                });
            }
            AnswerEvent::Image { choice, media_type, data } => self.delta(choice, |out| {
                out.put_slice(b"\"images\":[");
                push_image(&media_type, &data, out);
                out.put_u8(b']');
            }),
            AnswerEvent::Annotation { choice, json } => {
                self.delta(choice, |out| push_only_element(b"annotations", &json, out));
            }
            AnswerEvent::DocumentCitation { choice, json } => {
                self.delta(choice, |out| push_only_element(b"citations", &json, out));
            }
            // The id is the gateway's, usage comes at the end, and only servers of chat say the others.
            AnswerEvent::Started { .. }
            | AnswerEvent::Usage(_)
            | AnswerEvent::StoppedAt { .. }
            | AnswerEvent::Chat(_) => {}
        }
        Ok(())
    }
}

impl ChatEncoder {
    pub(crate) fn new(context: AnswerContext, options: StreamOptions) -> ChatEncoder {
        let head = chunk_head(&context, &context.fingerprint);
        ChatEncoder {
            context,
            options,
            head,
            choices: Vec::new(),
            custom_calls: Vec::new(),
            signature: None,
            out: BytesMut::new(),
        }
    }

    /// Ends the stream.
    pub(crate) fn finish(&mut self, answer: &AnswerMeter) {
        push_usage_chunk(&self.head, answer, self.options.usage_chunk, &mut self.out);
        self.out.put_slice(DONE);
    }

    /// Ends the stream with an error.
    pub(crate) fn fail(&mut self, error: &StreamError, answer: &AnswerMeter) {
        push_error_end(&self.head, error, answer, self.options, &mut self.out);
    }

    /// Says that the answer is still being made.
    pub(crate) fn keep_alive(&mut self) {
        self.out.put_slice(KEEP_ALIVE);
    }

    /// Writes a delta with a text or a call.
    fn said(&mut self, choice: u32, members: impl FnOnce(&mut BytesMut)) {
        self.delta(choice, members);
        self.choices.iter_mut().filter(|known| known.index == choice).for_each(|known| known.has_said = true);
    }

    /// Writes a chunk with a delta of these members.
    fn delta(&mut self, choice: u32, members: impl FnOnce(&mut BytesMut)) {
        self.members(choice, members);
        self.end(b"null");
    }

    /// Writes a chunk up to the end of the delta. The first of a choice names the role.
    fn members(&mut self, choice: u32, members: impl FnOnce(&mut BytesMut)) {
        self.begin(choice);
        let out = &mut self.out;
        out.put_u8(b'{');
        if !self.choices.iter().any(|known| known.index == choice) {
            self.choices.push(Choice { index: choice, has_said: false });
            out.put_slice(b"\"role\":\"assistant\",");
        }
        let start = out.len();
        members(out);
        if out.len() == start && out.last() == Some(&b',') {
            out.truncate(start - 1);
        }
        out.put_slice(b"},\"finish_reason\":null,\"native_finish_reason\":null");
    }

    fn begin(&mut self, choice: u32) {
        self.out.reserve(self.head.len() + CHUNK_BYTES);
        push!(self.out; self.head, br#","choices":[{"index":"#, u64::from(choice), br#","delta":"#);
    }

    fn end(&mut self, logprobs: &[u8]) {
        push!(self.out; br#","logprobs":"#, logprobs, b"}]}\n\n");
    }

    /// Writes a piece of a call in the deprecated form, which has no more than the first.
    fn function(
        &mut self,
        choice: u32,
        call: u32,
        name: Option<&EscapedText<'_>>,
        arguments: &EscapedText<'_>,
    ) -> AnswerResult {
        if call > 0 {
            return self.event(AnswerEvent::Begun { choice });
        }
        self.said(choice, |out| {
            out.put_slice(b"\"function_call\":{");
            if let Some(name) = name {
                push_text(b"name", name, out);
                out.put_u8(b',');
            }
            push_text(b"arguments", arguments, out);
            out.put_u8(b'}');
        });
        Ok(())
    }
}

fn push_only_element(list: &[u8], element: &[u8], out: &mut BytesMut) {
    push!(out; br#"""#, list, br#"":["#, element, b"]");
}

fn push_text(name: &[u8], text: &EscapedText<'_>, out: &mut BytesMut) {
    push!(out; br#"""#, name, br#"":"#, text);
}
