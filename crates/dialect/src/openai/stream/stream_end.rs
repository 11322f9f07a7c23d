//! How a stream of ours ends: held finishes, usage, the error chunk, `[DONE]`, and what it all came to.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::FinishReason;

use super::{
    choice::{DeltaRules, HeldFinish},
    chunk::ChatRewriter,
};
use crate::{
    answer::{AnswerFault, AnswerResult, Outcome},
    frame::StreamEvent,
    openai::{
        answer::{one_line, push_finish, rewrite_answer},
        chunk_parts::{DONE, END_OF_EVENT, push_error_end, push_usage_chunk},
        meter::{AnswerMeter, End, Finish},
        stream_options::Progress,
    },
    stream_error::StreamError,
};

impl ChatRewriter {
    pub(super) fn is_done(&self) -> bool {
        self.meter.is_done()
    }

    pub(crate) fn is_whole(&self) -> bool {
        !self.choices.is_empty() && self.choices.iter().all(|choice| choice.held.is_some())
    }

    /// Takes the upstream's `[DONE]`. A choice it forgot to finish is taken for finished.
    pub(crate) fn close(&mut self, out: &mut BytesMut) -> AnswerResult {
        if self.choices.is_empty() {
            return Err(AnswerFault::malformed("[DONE] without any choice"));
        }
        for choice in &mut self.choices {
            if choice.calls.has_nameless() {
                return Err(AnswerFault::malformed("a tool call without a name"));
            }
            let finish = FinishReason::Stop.after_calls(choice.has_called);
            choice.held.get_or_insert_with(|| HeldFinish::repaired(finish));
        }
        self.meter.has_content = true;
        self.end_halves(out);
        self.meter.end = Some(End::Done);
        self.push_finishes(|_| true, out)?;
        push_usage_chunk(&self.head, &self.meter, self.options.usage_chunk, out);
        out.put_slice(DONE);
        Ok(())
    }

    /// Takes the end of the upstream's body.
    pub(crate) fn end(&mut self, out: &mut BytesMut) -> AnswerResult {
        if self.is_done() {
            return Ok(());
        }
        if !self.is_whole() {
            return Err(AnswerFault::truncated("the stream ended without a finish and without [DONE]"));
        }
        self.close(out)
    }

    pub(crate) fn fail(&mut self, error: &StreamError, out: &mut BytesMut) {
        if self.is_done() {
            return;
        }
        self.end_halves(out);
        // The error takes the place of the first choice's finish; others that were whole keep theirs.
        // Fails only if too much is held, and the stream fails anyway.
        let _ = self.push_finishes(|index| index != 0, out);
        push_error_end(&self.head, error, &self.meter, self.options, out);
        self.meter.end = Some(End::Failed);
    }

    /// Appends chunks with U+FFFD for the halves of characters that stay alone.
    pub(crate) fn end_halves(&mut self, out: &mut BytesMut) {
        for place in 0..self.choices.len() {
            let Some(choice) = self.choices.get_mut(place).filter(|choice| !choice.halves.is_empty()) else { continue };
            let index = choice.index;
            for member in choice.halves.ended(|_| true) {
                let chunk = format!("{{\"choices\":[{{\"index\":{index},\"delta\":{{{member}}}}}]}}");
                let event = StreamEvent { data: Cow::Borrowed(chunk.as_bytes()), is_error: false };
                // The gateway's own chunk, of members that the rewriter has read before.
                let _ = self.event(&event, &mut Progress::default(), out);
            }
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        let held = self.choices.first().and_then(|choice| choice.held.as_ref());
        self.meter.outcome(held.map(|held| &held.finish))
    }

    /// Takes an answer that came whole in the place of a stream, as its only chunk: the message of a choice is its delta.
    ///
    /// # Errors
    /// When it is not valid, or an error.
    pub(crate) fn whole(&mut self, body: &Bytes, out: &mut BytesMut) -> AnswerResult {
        // Reads an error in the place of an answer, and finds what is missing.
        rewrite_answer(body, &self.meter.context)?;
        self.holder = b"message";
        let body = one_line(body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body))?;
        let event = StreamEvent { data: Cow::Borrowed(&body), is_error: false };
        self.event(&event, &mut Progress::default(), out)?;
        self.end(out)
    }

    /// Ends the stream as one whose answers are at their limit of tokens.
    ///
    /// # Errors
    /// When the answer cannot end here.
    pub(crate) fn cut_off(&mut self, answers: u32, out: &mut BytesMut) -> AnswerResult {
        for index in 0..answers {
            let finish = format!("{{\"choices\":[{{\"index\":{index},\"delta\":{{}},\"finish_reason\":\"length\"}}]}}");
            let event = StreamEvent { data: finish.into_bytes().into(), is_error: false };
            self.event(&event, &mut Progress::default(), out)?;
        }
        self.end(out)
    }

    /// The meter of the answer.
    pub(crate) fn answer(&self) -> &AnswerMeter {
        &self.meter
    }

    /// Appends one chunk for each choice that has finished and whose index is wanted, after one with what is still to be said.
    fn push_finishes(&mut self, is_wanted: impl Fn(u64) -> bool, out: &mut BytesMut) -> AnswerResult {
        let ChatRewriter { head, choices, meter: AnswerMeter { context, .. }, .. } = self;
        for choice in choices.iter_mut().filter(|choice| choice.held.is_some() && is_wanted(choice.index)) {
            let start = out.len();
            push!(out; *head, br#","choices":["#);
            let element = out.len();
            choice.push_rest(DeltaRules::new(context, choice.index), out)?;
            if out.len() > element {
                push!(out; b"]", END_OF_EVENT);
            } else {
                out.truncate(start);
            }
            let Some(held) = &choice.held else { continue };
            push!(out; *head, held.chunk_members, br#","choices":[{"index":"#, choice.index, br#","delta":"#);
            choice.push_last_delta(out);
            push_finish(out, context.finish_word(held.finish.reason), held.finish.native.as_deref());
            push!(out; held.choice_members, b"}]", END_OF_EVENT);
        }
        Ok(())
    }
}

impl HeldFinish {
    /// A finish that the upstream forgot.
    fn repaired(reason: FinishReason) -> HeldFinish {
        let choice_members = BytesMut::from(&b",\"logprobs\":null"[..]);
        HeldFinish { finish: Finish { reason, native: None }, choice_members, chunk_members: BytesMut::new() }
    }
}
