//! Writes answers for clients of the Messages API, streamed or whole, from neutral events.
//!
//! Clients of this API are strict: the name of an event stands on a line of its own, blocks never overlap, their indices have
//! no gaps, and a delta has the kind of its block. Calls whose arguments come in turns are therefore put in order: while the
//! arguments of one are incomplete, what comes next waits. Reasoning of other providers gets an envelope as its signature
//! ([`StateKey`]), so that it comes back unchanged.

mod blocks;
mod call;
mod content;
mod message;
mod piece;
mod usage;

use pointsman_domain::{FinishReason, ReasoningFormat};

pub(super) use usage::push_usage;

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};

use self::{
    blocks::{BlockKind, BlockWriter},
    call::OpenToolCall,
    piece::{Piece, Waiting},
};
use super::{
    citations::push_citation,
    client_error::{push_error, push_stream_error},
};
use crate::{
    answer::{AnswerFault, AnswerResult},
    neutral::{AnswerEvent, AnswerForm, AnswerProgress, AnswerSink, EscapedText, ReportedTokens, StateKey},
    stream_error::StreamError,
};

/// What an answer begins with, and the limits it has.
#[derive(Debug, Clone)]
pub(crate) struct MessageOpening {
    /// The id that the client sees.
    pub(crate) id: Arc<str>,
    /// The name of the model that the client sees.
    pub(crate) model: Arc<str>,
    /// Estimated prompt tokens, reported at the start of a stream until the upstream has counted them.
    pub(crate) prompt_tokens: u32,
    /// Streamed or whole.
    pub(crate) form: AnswerForm,
    /// Whether the client wants signatures of reasoning without its text.
    pub(crate) omits_thinking: bool,
    /// Texts that end the answer, a JSON array as the client wrote it; may be empty.
    pub(crate) stop_sequences: Bytes,
    /// Most bytes that wait because the arguments of a call before them are incomplete.
    pub(crate) max_held_bytes: usize,
    /// Seals the reasoning of other providers.
    pub(crate) state_key: StateKey,
}

/// Writes one answer. Only the first choice is shown, because this API has no others.
#[derive(Debug)]
pub(crate) struct MessagesEncoder {
    opening: MessageOpening,
    progress: AnswerProgress,
    blocks: BlockWriter,
    open: Option<Open>,
    waiting: Waiting,
    /// Calls so far.
    calls: u32,
    refusal: BytesMut,
    usage: Option<ReportedTokens>,
    finish: Option<FinishReason>,
    /// Which of the texts that end it ended the answer, if the upstream says so.
    stopped_at: Option<StoppedAt>,
}

/// What an upstream says of the text that ended an answer.
#[derive(Debug)]
enum StoppedAt {
    /// A stop sequence ended the answer; which one is unknown.
    Some,
    /// This stop sequence.
    Text(EscapedText<'static>),
}

/// The block that is open.
#[derive(Debug)]
enum Open {
    Text {
        is_cited: bool,
    },
    /// `omitted`: its text so far, if the client wants none and the provider wants it back; `None` if it is too long to be
    /// sealed.
    Reasoning {
        index: u32,
        format: ReasoningFormat,
        omitted: Option<EscapedText<'static>>,
    },
    Call(OpenToolCall),
}

impl AnswerSink for MessagesEncoder {
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
        if self.progress == AnswerProgress::Done {
            return Ok(());
        }
        match event {
            AnswerEvent::Usage(tokens) => self.usage = Some(tokens),
            AnswerEvent::Text { choice: 0, text } if !text.is_empty() => return self.add(Piece::Text(text)),
            AnswerEvent::Refusal { choice: 0, text } => return self.refuse(&text),
            AnswerEvent::Reasoning { choice: 0, index, state } => return self.add(Piece::Reasoning(index, state)),
            AnswerEvent::ToolCallStarted { choice: 0, call, id, name, kind } => {
                // A call is announced once; a repetition says nothing new.
                if call < self.calls {
                    return Ok(());
                }
                if call > self.calls {
                    return Err(AnswerFault::malformed("calls out of order"));
                }
                self.calls += 1;
                return self.add(Piece::Call { call, id, name, kind, arguments: EscapedText::plain("") });
            }
            AnswerEvent::ToolCallArguments { choice: 0, call, text } => return self.arguments(call, text),
            AnswerEvent::Annotation { choice: 0, json } => {
                let mut citation = BytesMut::new();
                if push_citation(&json, &mut citation) {
                    return self.add(Piece::Citation(citation.freeze()));
                }
            }
            AnswerEvent::StoppedAt { choice: 0, text } => self.stopped_at = Some(StoppedAt::Text(text.into_owned())),
            AnswerEvent::Finished { choice: 0, finish, native } => {
                self.finish = Some(finish);
                if native.bytes() == b"stop_sequence" {
                    self.stopped_at.get_or_insert(StoppedAt::Some);
                }
                self.settle();
            }
            // This API has no form for images and log probabilities in answers, and the id is the gateway's.
            _ => {}
        }
        Ok(())
    }
}

impl MessagesEncoder {
    /// A writer at the beginning of an answer.
    pub(crate) fn new(opening: MessageOpening) -> MessagesEncoder {
        MessagesEncoder {
            progress: AnswerProgress::Idle,
            blocks: BlockWriter::new(opening.form),
            open: None,
            waiting: Waiting::new(opening.max_held_bytes),
            calls: 0,
            refusal: BytesMut::new(),
            usage: None,
            finish: None,
            stopped_at: None,
            opening,
        }
    }

    /// What there is to send, which the caller takes. Of a whole answer, that is nothing before it has ended.
    pub(crate) fn written(&mut self) -> &mut BytesMut {
        &mut self.blocks.out
    }

    #[cfg(test)]
    fn take(&mut self) -> Bytes {
        self.written().split().freeze()
    }

    /// Ends the answer. If the upstream finished it with an error, the answer ends with one.
    pub(crate) fn finish(&mut self) {
        if self.progress == AnswerProgress::Done {
            return;
        }
        if self.finish == Some(FinishReason::Error) {
            return self.fail(&StreamError::broken_answer());
        }
        self.begin();
        self.settle();
        self.push_end();
        self.progress = AnswerProgress::Done;
    }

    /// Ends the answer with an error: an event in a stream, else the whole body.
    pub(crate) fn fail(&mut self, error: &StreamError) {
        if self.progress == AnswerProgress::Done {
            return;
        }
        self.progress = AnswerProgress::Done;
        match self.opening.form {
            AnswerForm::Streamed => push_stream_error(error, &mut self.blocks.out),
            AnswerForm::Whole => {
                self.blocks.out.clear();
                push_error(&error.into(), &mut self.blocks.out);
            }
        }
    }

    /// Writes something that a client notices and that says nothing. Some clients count pings as silence while a block is
    /// open, so there it is an empty delta.
    pub(crate) fn keep_alive(&mut self) {
        if self.opening.form == AnswerForm::Whole || self.progress == AnswerProgress::Done {
            return;
        }
        if self.progress == AnswerProgress::Idle {
            return self.begin();
        }
        match &self.open {
            Some(Open::Text { .. }) => self.blocks.nothing(BlockKind::Text),
            Some(Open::Reasoning { .. }) => self.blocks.nothing(BlockKind::Thinking),
            Some(Open::Call(_)) => self.blocks.nothing(BlockKind::Call),
            None => self.blocks.ping(),
        }
    }

    /// The answer, ended. Of a stream, what was not yet taken.
    pub(crate) fn whole(mut self) -> Bytes {
        self.finish();
        self.blocks.out.freeze()
    }

    /// Adds a piece of content, or keeps it until the call before it is complete.
    fn add(&mut self, piece: Piece<'_>) -> AnswerResult {
        if self.must_wait() {
            return self.waiting.push(piece);
        }
        self.write(piece);
        Ok(())
    }

    fn must_wait(&self) -> bool {
        matches!(&self.open, Some(Open::Call(call)) if !call.is_complete())
    }

    /// Adds a piece of arguments. A call whose arguments were complete takes no more.
    fn arguments(&mut self, call: u32, text: EscapedText<'_>) -> AnswerResult {
        if call >= self.calls {
            return Err(AnswerFault::malformed("arguments of an unknown call"));
        }
        match &mut self.open {
            Some(Open::Call(open)) if open.call() == call => {
                open.check(text.bytes().len(), self.opening.max_held_bytes)?;
                if let Some(piece) = open.piece(text) {
                    self.blocks.fragment(&piece);
                }
                while !self.must_wait()
                    && let Some(piece) = self.waiting.pop()
                {
                    self.write(piece);
                }
                Ok(())
            }
            _ => self.waiting.add_arguments(call, &text),
        }
    }

    fn refuse(&mut self, text: &EscapedText<'_>) -> AnswerResult {
        if self.refusal.len() + text.bytes().len() > self.opening.max_held_bytes {
            return Err(AnswerFault::malformed("a refusal longer than allowed"));
        }
        self.refusal.put_slice(text.bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
