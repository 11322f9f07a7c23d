//! How a stream of ours ends: held finishes, usage, the error chunk, `[DONE]`, and what it all came to.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::{FinishReason, Usage};

use super::{
    Progress, UsageChunk,
    choice::{DeltaRules, HeldFinish},
    chunk::{ChatRewriter, End},
};
use crate::{
    answer::{AnswerFault, Outcome},
    frame::StreamEvent,
    json::{push_member, push_u64},
    openai::{
        answer::push_finish,
        usage::{ProducedOutput, billed_usage, push_usage, usage_with_later_output},
    },
    stream_error::StreamError,
};

const DONE: &[u8] = b"data: [DONE]\n\n";
const END_OF_EVENT: &[u8] = b"}\n\n";

impl ChatRewriter {
    pub(super) fn is_done(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn has_content(&self) -> bool {
        self.has_content
    }

    pub(super) fn is_whole(&self) -> bool {
        !self.choices.is_empty() && self.choices.iter().all(|choice| choice.held.is_some())
    }

    /// Takes the upstream's `[DONE]`. A choice it forgot to finish is taken for finished.
    pub(super) fn close(&mut self, out: &mut BytesMut) -> Result<(), AnswerFault> {
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
        self.has_content = true;
        self.end_halves(out);
        self.end = Some(End::Done);
        self.push_finishes(|_| true, out);
        self.push_usage_chunk(out);
        out.put_slice(DONE);
        Ok(())
    }

    /// Takes the end of the upstream's body.
    pub(super) fn end(&mut self, out: &mut BytesMut) -> Result<(), AnswerFault> {
        if self.is_done() {
            return Ok(());
        }
        if !self.is_whole() {
            return Err(AnswerFault::truncated("the stream ended without a finish and without [DONE]"));
        }
        self.close(out)
    }

    pub(super) fn fail(&mut self, error: &StreamError, out: &mut BytesMut) {
        if self.is_done() {
            return;
        }
        self.end_halves(out);
        // The error takes the place of the first choice's finish; others that were whole keep theirs.
        self.push_finishes(|index| index != 0, out);
        out.put_slice(&self.head);
        error.push(out);
        let delta: &[u8] =
            if self.options.error_compat { b"{\"content\":\"\",\"annotations\":{}}" } else { b"{\"content\":\"\"}" };
        out.put_slice(b",\"choices\":[{\"index\":0,\"delta\":");
        out.put_slice(delta);
        out.put_slice(b",\"finish_reason\":\"error\",\"native_finish_reason\":null}]");
        if self.reported.is_some() && self.options.usage_chunk != UsageChunk::Omitted {
            self.push_usage_member(out);
        }
        out.put_slice(END_OF_EVENT);
        out.put_slice(DONE);
        self.end = Some(End::Failed);
    }

    /// Appends chunks with U+FFFD for the halves of characters that stay alone.
    pub(super) fn end_halves(&mut self, out: &mut BytesMut) {
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

    pub(super) fn outcome(&self) -> Outcome {
        let usage = self.usage();
        let held = self.choices.first().and_then(|choice| choice.held.as_ref());
        let finish = match self.end {
            Some(End::Failed) => Some(FinishReason::Error),
            _ => held.map(|held| held.finish),
        };
        Outcome {
            usage,
            cost: self.context.cost(&usage),
            finish,
            native_finish: held.and_then(|held| held.native.clone()),
            upstream_id: self.upstream_id.clone(),
            images: self.produced.images,
            hidden_tokens: self.produced.hidden_tokens(&usage),
            gives_reasoning_content: self.produced.has_reasoning_content,
        }
    }

    pub(super) fn spent(&self) -> Option<Usage> {
        let took = self.reported.is_some() || self.produced != ProducedOutput::default();
        took.then(|| self.usage())
    }

    pub(super) fn produced_tokens(&self) -> u64 {
        self.produced.text_tokens()
    }

    /// The usage so far. Output that came after the last report is estimated, unless the answer is whole.
    fn usage(&self) -> Usage {
        let (told, produced) = (self.reported.unwrap_or_default().with_tier(self.tier), self.produced);
        match self.end {
            Some(End::Done) => billed_usage(Some(&told), produced, &self.context),
            _ => usage_with_later_output(Some(&told), produced, produced.since(&self.covered), &self.context),
        }
    }

    /// Appends one chunk for each choice that has finished and whose index is wanted, after one with what is still to be said.
    fn push_finishes(&mut self, is_wanted: impl Fn(u64) -> bool, out: &mut BytesMut) {
        let ChatRewriter { head, choices, context, call_order, .. } = self;
        for choice in choices.iter_mut().filter(|choice| choice.held.is_some() && is_wanted(choice.index)) {
            let start = out.len();
            out.put_slice(head);
            push_member(out, b"choices", b"[");
            let element = out.len();
            choice.push_rest(DeltaRules::new(context, choice.index, *call_order), out);
            if out.len() > element {
                out.put_u8(b']');
                out.put_slice(END_OF_EVENT);
            } else {
                out.truncate(start);
            }
            let Some(held) = &choice.held else { continue };
            out.put_slice(head);
            out.put_slice(&held.chunk_members);
            out.put_slice(b",\"choices\":[{\"index\":");
            push_u64(out, choice.index);
            out.put_slice(b",\"delta\":");
            choice.push_last_delta(out);
            push_finish(out, context.finish_word(held.finish), held.native.as_deref());
            out.put_slice(&held.choice_members);
            out.put_slice(b"}]");
            out.put_slice(END_OF_EVENT);
        }
    }

    fn push_usage_chunk(&self, out: &mut BytesMut) {
        let choices: &[u8] = match self.options.usage_chunk {
            UsageChunk::Omitted => return,
            UsageChunk::WithoutChoices => b"[]",
            UsageChunk::WithEmptyDelta => {
                b"[{\"index\":0,\"delta\":{},\"finish_reason\":null,\"native_finish_reason\":null,\"logprobs\":null}]"
            }
        };
        out.put_slice(&self.head);
        push_member(out, b"choices", choices);
        self.push_usage_member(out);
        out.put_slice(END_OF_EVENT);
    }

    fn push_usage_member(&self, out: &mut BytesMut) {
        let usage = self.usage();
        let cost = self.context.cost(&usage);
        push_member(out, b"usage", b"");
        push_usage(out, &usage, cost.as_ref(), self.reported.as_ref());
    }
}

impl HeldFinish {
    /// A finish that the upstream forgot.
    fn repaired(finish: FinishReason) -> HeldFinish {
        let choice_members = BytesMut::from(&b",\"logprobs\":null"[..]);
        HeldFinish { finish, native: None, choice_members, chunk_members: BytesMut::new() }
    }
}
