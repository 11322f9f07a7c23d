//! The meter of an answer that is translated: it stands between the decoder of the upstream and the encoder of the client.
//!
//! It counts what passes, puts calls in order, holds each finish back until nothing more can come, and leaves out reasoning that
//! the client does not want.

use std::borrow::Cow;

use pointsman_domain::{FinishReason, ReasoningFormat};

use super::{
    answer::MAX_CHOICES,
    finish::clean_text,
    meter::{AnswerMeter, End, Finish},
    stream_options::Progress,
    tool_call::{MoreOfCall, ToolCallHead},
    tool_calls::{Cause, ToolCallContext, ToolCallOrder, ToolCallSink, ToolCallTracker},
    usage::ReportedUsage,
};
use crate::{
    answer::{AnswerContext, AnswerFault, AnswerResult, Outcome},
    json::Cursor,
    neutral::{
        AnswerEvent, AnswerSink, ChatFact, EscapedText, ReasoningKind, ReasoningState, SplitPairs, ToolCallPiece,
        ToolKind, ToolNames, lone_halves_replaced, with_whole_pairs,
    },
};

/// Counts the events of one answer.
#[derive(Debug)]
pub(crate) struct EventMeter {
    meter: AnswerMeter,
    order: ToolCallOrder,
    /// Names of tools that the upstream was sent in the place of the client's.
    names: ToolNames,
    choices: Vec<MeteredChoice>,
}

#[derive(Debug)]
struct MeteredChoice {
    index: u32,
    calls: ToolCallTracker,
    has_called: bool,
    finish: Option<Finish>,
    /// The text that the last piece belongs to.
    text: TextKind,
    /// Half a character at the end of that text.
    pairs: SplitPairs,
}

/// A text that comes in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Content,
    Refusal,
    Reasoning { index: u32, format: ReasoningFormat, kind: ReasoningKind },
}

/// The meter as the sink of a decoder.
pub(crate) struct Metered<'m, S> {
    pub(crate) meter: &'m mut EventMeter,
    pub(crate) progress: &'m mut Progress,
    /// The encoder.
    pub(crate) sink: S,
}

impl<S: AnswerSink> AnswerSink for Metered<'_, S> {
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
        let Metered { meter, progress, sink } = self;
        progress.event = true;
        match event {
            AnswerEvent::Started { id } => {
                if meter.meter.upstream_id.is_none() {
                    meter.meter.upstream_id = clean_text(&id.unescaped());
                }
            }
            AnswerEvent::Usage(tokens) => meter.report(ReportedUsage::from(&tokens)),
            AnswerEvent::Chat(ChatFact::Usage(usage)) => meter.report(ReportedUsage::read(&mut Cursor::over(usage))?),
            AnswerEvent::Chat(ChatFact::Tier(tier)) => meter.meter.tier = Some(tier),
            AnswerEvent::Chat(ChatFact::ReasoningContent) => meter.meter.produced.has_reasoning_content = true,
            AnswerEvent::Chat(ChatFact::LongerThought { bytes }) => {
                meter.meter.produced.reasoning_bytes += bytes as u64;
            }
            AnswerEvent::Chat(ChatFact::LinkedImage { choice }) => {
                meter.meter.produced.images += 1;
                meter.content(choice, progress, sink)?;
            }
            AnswerEvent::Text { choice, text } => meter.text(choice, TextKind::Content, text, progress, sink)?,
            AnswerEvent::Refusal { choice, text } => meter.text(choice, TextKind::Refusal, text, progress, sink)?,
            AnswerEvent::Reasoning { choice, index, state } => match state {
                ReasoningState { format, kind, text: Some(text), sealed: None, id: None } => {
                    meter.text(choice, TextKind::Reasoning { index, format, kind }, text, progress, sink)?;
                }
                state => {
                    meter.end_text(choice, sink)?;
                    let state = ReasoningState { text: state.text.map(with_whole_pairs), ..state };
                    let bytes = state.text.as_ref().map_or(0, EscapedText::text_bytes);
                    meter.meter.produced.reasoning_bytes += bytes as u64;
                    if !meter.meter.context.exclude_reasoning {
                        meter.content(choice, progress, sink)?;
                        return sink.event(AnswerEvent::Reasoning { choice, index, state });
                    }
                    meter.hidden(choice, progress, sink)?;
                    if let (ReasoningFormat::Gemini, Some(id), Some(signature)) = (state.format, state.id, state.sealed)
                    {
                        sink.event(AnswerEvent::ToolCallSignature { id, signature })?;
                    }
                }
            },
            AnswerEvent::ToolCallStarted { choice, call, id, name, kind } => {
                let (id, name) = (Some(id), Some(name));
                let piece =
                    ToolCallPiece { index: Some(call.into()), id, name, kind, arguments: EscapedText::plain("") };
                meter.call(choice, &piece, progress, sink)?;
            }
            AnswerEvent::ToolCallArguments { choice, call, text } => {
                let (index, kind) = (Some(call.into()), ToolKind::Function);
                let piece = ToolCallPiece { index, id: None, name: None, kind, arguments: text };
                meter.call(choice, &piece, progress, sink)?;
            }
            AnswerEvent::Chat(ChatFact::ToolCallPiece { choice, piece }) => {
                meter.call(choice, &piece, progress, sink)?;
            }
            AnswerEvent::Image { choice, media_type, data } => {
                meter.end_text(choice, sink)?;
                meter.meter.produced.images += 1;
                meter.content(choice, progress, sink)?;
                sink.event(AnswerEvent::Image { choice, media_type, data })?;
            }
            AnswerEvent::Annotation { choice, json } => {
                meter.choice(choice)?;
                sink.event(AnswerEvent::Annotation { choice, json: whole_json(json) })?;
            }
            AnswerEvent::DocumentCitation { choice, json } => {
                meter.choice(choice)?;
                sink.event(AnswerEvent::DocumentCitation { choice, json: whole_json(json) })?;
            }
            AnswerEvent::Logprobs { choice, value } => {
                meter.choice(choice)?;
                let whole = lone_halves_replaced(value.written());
                let value = Cursor::new(&whole).value()?;
                sink.event(AnswerEvent::Logprobs { choice, value })?;
            }
            AnswerEvent::StoppedAt { .. } | AnswerEvent::ToolCallSignature { .. } => sink.event(event)?,
            AnswerEvent::Begun { choice } => {
                meter.choice(choice)?;
                sink.event(AnswerEvent::Begun { choice })?;
            }
            AnswerEvent::Finished { choice, finish, native } => {
                meter.end_text(choice, sink)?;
                meter.finish(choice, finish, &native)?;
                (progress.content, meter.meter.has_content) = (true, true);
                sink.event(AnswerEvent::Begun { choice })?;
            }
        }
        Ok(())
    }
}

impl EventMeter {
    pub(crate) fn new(context: AnswerContext, order: ToolCallOrder, names: ToolNames) -> EventMeter {
        EventMeter { meter: AnswerMeter::new(context), order, names, choices: Vec::new() }
    }

    /// What does not depend on choices.
    pub(crate) fn answer(&self) -> &AnswerMeter {
        &self.meter
    }

    /// Whether every choice has finished.
    pub(crate) fn is_whole(&self) -> bool {
        !self.choices.is_empty() && self.choices.iter().all(|choice| choice.finish.is_some())
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.meter.outcome(self.choices.first().and_then(|choice| choice.finish.as_ref()))
    }

    /// Takes the end of an answer: passes finishes on, after what is still to be said of calls. A choice that the upstream forgot
    /// to finish is taken for finished if the upstream says that the answer is whole.
    ///
    /// # Errors
    /// When the answer is not whole.
    pub(crate) fn end(&mut self, says_so: bool, sink: &mut impl AnswerSink) -> AnswerResult {
        if self.choices.is_empty() && says_so {
            return Err(AnswerFault::malformed("an end without any choice"));
        }
        if !says_so && !self.is_whole() {
            return Err(AnswerFault::truncated("the answer ended without a finish"));
        }
        self.end_texts(sink)?;
        for choice in &mut self.choices {
            if choice.calls.has_nameless() {
                return Err(AnswerFault::malformed("a tool call without a name"));
            }
            let reason = FinishReason::Stop.after_calls(choice.has_called);
            choice.finish.get_or_insert(Finish { reason, native: None });
        }
        (self.meter.has_content, self.meter.end) = (true, Some(End::Done));
        self.pass_finishes(0, sink)
    }

    /// Takes an error that ends the answer: it takes the place of the first choice's finish; others that were whole keep theirs.
    pub(crate) fn fail(&mut self, sink: &mut impl AnswerSink) {
        // The answer has failed already.
        let _ = self.end_texts(sink);
        self.meter.end = Some(End::Failed);
        let EventMeter { names, choices, .. } = self;
        for MeteredChoice { index, calls, .. } in choices {
            let _ = calls.break_off(&mut CallEvents { choice: *index, names, sink });
        }
        let _ = self.pass_finishes(1, sink);
    }

    fn pass_finishes(&mut self, from: u32, sink: &mut impl AnswerSink) -> AnswerResult {
        let EventMeter { names, choices, .. } = self;
        for MeteredChoice { index, calls, finish, .. } in choices.iter_mut().filter(|choice| choice.index >= from) {
            let Some(Finish { reason, native }) = finish else { continue };
            let whole = matches!(reason, FinishReason::Stop | FinishReason::ToolCalls);
            calls.end(whole, &mut CallEvents { choice: *index, names, sink })?;
            let native = EscapedText::escaping(native.as_deref().unwrap_or_default());
            sink.event(AnswerEvent::Finished { choice: *index, finish: *reason, native })?;
        }
        Ok(())
    }

    fn report(&mut self, usage: ReportedUsage) {
        self.meter.reported = Some(usage);
        self.meter.covered = self.meter.produced;
    }

    /// The choice of this index, which may be new.
    fn choice(&mut self, index: u32) -> AnswerResult<&mut MeteredChoice> {
        let place = match self.choices.iter().position(|choice| choice.index == index) {
            Some(place) => place,
            None if self.choices.len() >= MAX_CHOICES => return Err(AnswerFault::malformed("too many choices")),
            None => {
                let calls = ToolCallTracker::default();
                let (text, pairs) = (TextKind::Content, SplitPairs::default());
                self.choices.push(MeteredChoice { index, calls, has_called: false, finish: None, text, pairs });
                self.choices.len() - 1
            }
        };
        self.choices.get_mut(place).ok_or_else(|| AnswerFault::malformed("too many choices"))
    }

    /// Takes a piece of a text.
    fn text(
        &mut self,
        choice: u32,
        kind: TextKind,
        piece: EscapedText<'_>,
        progress: &mut Progress,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        if self.choice(choice)?.text != kind {
            self.end_text(choice, sink)?;
        }
        let known = self.choice(choice)?;
        known.text = kind;
        let is_empty = piece.is_empty();
        match known.pairs.escaped(piece) {
            Some(text) => self.pass_text(choice, kind, with_whole_pairs(text), progress, sink),
            // Some clients wait for any text at all.
            None if is_empty && kind == TextKind::Content => {
                sink.event(AnswerEvent::Text { choice, text: EscapedText::plain("") })
            }
            None => Ok(()),
        }
    }

    fn pass_text(
        &mut self,
        choice: u32,
        kind: TextKind,
        text: EscapedText<'_>,
        progress: &mut Progress,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        let bytes = text.text_bytes() as u64;
        let TextKind::Reasoning { index, format, kind } = kind else {
            self.meter.produced.text_bytes += bytes;
            self.content(choice, progress, sink)?;
            return sink.event(match kind {
                TextKind::Refusal => AnswerEvent::Refusal { choice, text },
                _ => AnswerEvent::Text { choice, text },
            });
        };
        self.meter.produced.reasoning_bytes += bytes;
        if self.meter.context.exclude_reasoning {
            return self.hidden(choice, progress, sink);
        }
        self.content(choice, progress, sink)?;
        sink.event(AnswerEvent::Reasoning { choice, index, state: ReasoningState::shown(format, kind, text) })
    }

    /// Ends the text of a choice: half a character that waits becomes U+FFFD.
    fn end_text(&mut self, choice: u32, sink: &mut impl AnswerSink) -> AnswerResult {
        let known = self.choice(choice)?;
        let kind = known.text;
        match known.pairs.rest() {
            Some(rest) => self.pass_text(choice, kind, rest, &mut Progress::default(), sink),
            None => Ok(()),
        }
    }

    /// The same for all choices.
    pub(crate) fn end_texts(&mut self, sink: &mut impl AnswerSink) -> AnswerResult {
        let open = self.choices.iter().filter(|choice| !choice.pairs.is_empty()).map(|choice| choice.index);
        let open: Vec<u32> = open.collect();
        open.into_iter().try_for_each(|choice| self.end_text(choice, sink))
    }

    /// Notes content that the client does not want to see.
    fn hidden(&mut self, choice: u32, progress: &mut Progress, sink: &mut impl AnswerSink) -> AnswerResult {
        progress.content = true;
        self.end_calls(choice, sink)?;
        sink.event(AnswerEvent::Begun { choice })
    }

    /// Notes content for the client, other than calls.
    fn content(&mut self, choice: u32, progress: &mut Progress, sink: &mut impl AnswerSink) -> AnswerResult {
        self.end_calls(choice, sink)?;
        (progress.content, self.meter.has_content) = (true, true);
        Ok(())
    }

    /// Other content ends the calls of a provider that sends one after the other.
    fn end_calls(&mut self, index: u32, sink: &mut impl AnswerSink) -> AnswerResult {
        let ends = self.order == ToolCallOrder::OneByOne;
        let choice = self.choice(index)?;
        if !choice.has_called || !ends {
            return Ok(());
        }
        let EventMeter { names, choices, .. } = self;
        let Some(choice) = choices.iter_mut().find(|choice| choice.index == index) else { return Ok(()) };
        choice.calls.end(true, &mut CallEvents { choice: index, names, sink })
    }

    fn call(
        &mut self,
        index: u32,
        piece: &ToolCallPiece<'_>,
        progress: &mut Progress,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        self.end_text(index, sink)?;
        let name = piece.name.as_ref().map_or(0, EscapedText::text_bytes);
        self.meter.produced.text_bytes += (name + piece.arguments.text_bytes()) as u64;
        (progress.content, self.meter.has_content) = (true, true);
        self.choice(index)?.has_called = true;
        let EventMeter { meter, order, names, choices } = self;
        let Some(choice) = choices.iter_mut().find(|choice| choice.index == index) else { return Ok(()) };
        let context = ToolCallContext { context: &meter.context, choice: index.into(), order: *order };
        choice.calls.push(piece, context, &mut CallEvents { choice: index, names, sink })
    }

    fn finish(&mut self, index: u32, finish: FinishReason, native: &EscapedText<'_>) -> AnswerResult {
        let choice = self.choice(index)?;
        let reason = finish.after_calls(choice.has_called);
        let native = if native.is_empty() { Cow::Borrowed(finish.as_str()) } else { native.unescaped() };
        choice.finish.get_or_insert_with(|| Finish { reason, native: clean_text(&native) });
        Ok(())
    }
}

/// Passes calls on as events.
struct CallEvents<'s, S> {
    choice: u32,
    names: &'s ToolNames,
    sink: &'s mut S,
}

impl<S: AnswerSink> CallEvents<'_, S> {
    fn arguments(&mut self, place: usize, arguments: &[u8]) -> AnswerResult {
        if arguments.is_empty() {
            return Ok(());
        }
        let text = with_whole_pairs(escaped(arguments));
        self.sink.event(AnswerEvent::ToolCallArguments { choice: self.choice, call: place as u32, text })
    }
}

impl<S: AnswerSink> ToolCallSink for CallEvents<'_, S> {
    fn begin(&mut self, head: &ToolCallHead<'_>, _: Cause) -> AnswerResult {
        let place = head.index.unwrap_or_default();
        let (id, name) = (escaped(head.id), with_whole_pairs(escaped(head.name)));
        let kind = if head.is_custom { ToolKind::Custom } else { ToolKind::Function };
        let name = self.names.original(&name);
        self.sink.event(AnswerEvent::ToolCallStarted { choice: self.choice, call: place as u32, id, name, kind })?;
        self.arguments(place, head.arguments)
    }

    fn more(&mut self, more: &MoreOfCall<'_>, _: Cause) -> AnswerResult {
        self.arguments(more.place, more.arguments)
    }
}

fn escaped(text: &[u8]) -> EscapedText<'_> {
    EscapedText::plain(std::str::from_utf8(text).unwrap_or_default())
}

/// JSON in which every character is whole.
fn whole_json(json: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let mended = match std::str::from_utf8(&json).map(lone_halves_replaced) {
        Ok(Cow::Owned(mended)) => mended.into_bytes(),
        _ => return json,
    };
    Cow::Owned(mended)
}
