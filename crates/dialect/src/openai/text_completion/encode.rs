//! Writes what the gateway itself says in a completion of a text: that it ends, that it failed, that it is still being made.

use bytes::{BufMut as _, BytesMut};

use super::OBJECT;
use crate::{
    answer::{AnswerContext, AnswerResult},
    frame::KEEP_ALIVE,
    json::push_string_member,
    neutral::{AnswerEvent, AnswerSink, EscapedText},
    openai::{
        answer::push_head,
        chunk_parts::{DONE, END_OF_EVENT, push_usage_member},
        meter::AnswerMeter,
        stream_options::UsageChunk,
    },
    stream_error::StreamError,
};

/// Writes one stream. Every chunk names the generation.
#[derive(Debug)]
pub(crate) struct TextEncoder {
    context: AnswerContext,
    usage_chunk: UsageChunk,
    out: BytesMut,
    is_over: bool,
}

impl AnswerSink for TextEncoder {
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
        match event {
            AnswerEvent::Text { choice, text } => self.chunk(choice, &text, "null"),
            AnswerEvent::Finished { choice, finish, .. } => {
                self.chunk(choice, &EscapedText::plain(""), &format!("\"{}\"", finish.as_str()));
            }
            _ => {}
        }
        Ok(())
    }
}

impl TextEncoder {
    pub(crate) fn new(context: &AnswerContext, usage_chunk: UsageChunk) -> TextEncoder {
        TextEncoder { context: context.clone(), usage_chunk, out: BytesMut::new(), is_over: false }
    }

    fn chunk(&mut self, choice: u32, text: &EscapedText<'_>, finish: &str) {
        self.head();
        self.out.put_slice(b",\"choices\":[");
        push_choice(choice, text, finish, &mut self.out);
        self.out.put_slice(b"]}\n\n");
    }

    fn head(&mut self) {
        let TextEncoder { context, out, .. } = self;
        out.put_slice(b"data: ");
        push_head(out, OBJECT, context);
        push_string_member(out, b"system_fingerprint", &context.fingerprint);
    }

    /// Ends the stream of this answer.
    pub(crate) fn finish(&mut self, answer: &AnswerMeter) {
        if self.is_over {
            return;
        }
        if self.usage_chunk != UsageChunk::Omitted {
            self.head();
            self.out.put_slice(b",\"choices\":[");
            if self.usage_chunk == UsageChunk::WithEmptyDelta {
                push_choice(0, &EscapedText::plain(""), "null", &mut self.out);
            }
            self.out.put_u8(b']');
            push_usage_member(answer, &mut self.out);
            self.out.put_slice(END_OF_EVENT);
        }
        self.done();
    }

    fn done(&mut self) {
        self.is_over = true;
        self.out.put_slice(DONE);
    }

    /// Ends the stream with an error.
    pub(crate) fn fail(&mut self, error: &StreamError) {
        if self.is_over {
            return;
        }
        let TextEncoder { context, out, .. } = self;
        push!(out; br#"data: {"id":"#, context.generation.as_str(), br#","object":"#, OBJECT, br#","created":"#,
            context.created.to_string().as_bytes(), br#","model":"#, context.model);
        error.push(out);
        out.put_slice(b",\"choices\":[{\"text\":\"\",\"index\":0,\"logprobs\":null,\"finish_reason\":\"error\"}]}\n\n");
        self.done();
    }

    /// Says that the answer is still being made.
    pub(crate) fn keep_alive(&mut self) {
        self.out.put_slice(KEEP_ALIVE);
    }

    /// What there is to send.
    pub(crate) fn written(&mut self) -> &mut BytesMut {
        &mut self.out
    }
}

fn push_choice(choice: u32, text: &EscapedText<'_>, finish: &str, out: &mut BytesMut) {
    push!(out; br#"{"text":"#, text, br#","index":"#, u64::from(choice), br#","logprobs":null,"finish_reason":"#,
        finish.as_bytes(), b"}");
}
