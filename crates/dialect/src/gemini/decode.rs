//! Reads answers of `generateContent`, streamed or whole, as neutral events.
//!
//! A stream is a sequence of whole answers that continue each other; it ends with the body, after a finish reason.

use pointsman_domain::{Evidence, FailureKind, FinishReason};

use super::{
    error,
    finish::{finish, is_fault, is_of_request},
    signature_memory::RememberedSignatures,
    usage::tokens,
};
use crate::{
    answer::{AnswerFault, AnswerResult},
    frame::StreamEvent,
    json::{Cursor, Raw, without_mark},
    neutral::{AnswerEvent, AnswerSink, EscapedText, ToolNames},
    refusal,
    sanitize::{NAME_CHARS, clean},
};

mod candidate;
mod citations;
mod logprobs;
mod positions;

use candidate::{Candidate, PartContext};
use citations::CitedSources;

/// Most candidates of an answer.
const MAX_CANDIDATES: usize = 128;

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    names: ToolNames,
    /// Whether the upstream sent anything that is an answer.
    has_answer: bool,
    /// Id of the answer.
    id: Option<EscapedText<'static>>,
    candidates: Vec<Candidate>,
    memory: Option<RememberedSignatures>,
}

impl Decoder {
    /// A decoder for the answer to a request with these names. Signatures of its calls are kept in `memory`.
    pub(crate) fn new(names: ToolNames, memory: Option<RememberedSignatures>) -> Decoder {
        Decoder { names, has_answer: false, id: None, candidates: Vec::new(), memory }
    }

    /// Whether the stream has ended by its own word: this API has none.
    pub(crate) const fn is_done(&self) -> bool {
        false
    }

    /// Reads one event of a stream.
    ///
    /// # Errors
    /// When the upstream reports an error or the event is invalid, and those of the sink.
    pub(crate) fn event(&mut self, event: &StreamEvent<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let text = std::str::from_utf8(&event.data).map_err(|_| AnswerFault::malformed("not valid UTF-8"))?;
        let text = text.trim();
        if !event.is_error && (text.is_empty() || text == "[DONE]") {
            return Ok(());
        }
        match Raw::whole(text) {
            Ok(value) if event.is_error => Err(error::fault(value).unwrap_or_else(unnamed_error)),
            Ok(value) => self.answers(value, sink),
            Err(_) if event.is_error => Err(unnamed_error()),
            Err(fault) => Err(fault.into()),
        }
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// When the answer is incomplete.
    pub(crate) fn end(&self) -> AnswerResult {
        if self.has_answer && self.candidates.is_empty() {
            return Err(AnswerFault::malformed("an answer without candidates"));
        }
        if self.candidates.is_empty() || !self.candidates.iter().all(Candidate::is_finished) {
            return Err(AnswerFault::truncated("the stream ended without a finish reason"));
        }
        Ok(())
    }

    /// Reads an unstreamed answer.
    ///
    /// # Errors
    /// When the upstream reports an error, or the answer is invalid or incomplete, and those of the sink.
    pub(crate) fn whole(mut self, body: &str, sink: &mut impl AnswerSink) -> AnswerResult {
        let value = Raw::whole(without_mark(body))?;
        self.answers(value, sink)?;
        self.end()
    }

    /// Takes an answer, or the list of answers that a stream without framing is.
    fn answers(&mut self, value: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        if !value.is_array() {
            return self.answer(value, sink);
        }
        value.elements().try_for_each(|answer| self.answer(answer, sink))
    }

    fn answer(&mut self, value: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        if !value.is_object() {
            return Err(error::fault(value).unwrap_or(AnswerFault::malformed("an answer that is no object")));
        }
        let [error, id, usage, candidates, feedback] =
            value.pick([b"error", b"responseId", b"usageMetadata", b"candidates", b"promptFeedback"]);
        if let Some(error) = error.filter(|error| error.is_object()) {
            return Err(refusal::fault(error));
        }
        self.has_answer = true;
        if self.id.is_none()
            && let Some(id) = id.and_then(EscapedText::filled)
        {
            self.id = Some(id.clone().into_owned());
            sink.event(AnswerEvent::Started { id })?;
        }
        // First, since a failed answer is billed, too.
        if let Some(tokens) = usage.and_then(tokens) {
            sink.event(AnswerEvent::Usage(tokens))?;
        }
        for (place, candidate) in candidates.into_iter().flat_map(Raw::elements).enumerate() {
            self.candidate(place, candidate, sink)?;
        }
        if let Some(reason) = feedback.and_then(|feedback| feedback.member(b"blockReason")) {
            self.blocked(&reason.text().unwrap_or_default(), sink)?;
        }
        Ok(())
    }

    /// A prompt that was blocked has no candidates: an empty answer that was filtered.
    fn blocked(&mut self, reason: &str, sink: &mut impl AnswerSink) -> AnswerResult {
        if !self.candidates.is_empty() {
            return Ok(());
        }
        self.candidates.push(Candidate::finished());
        let native = EscapedText::escaping(&format!("PROMPT_BLOCKED:{reason}"));
        sink.event(AnswerEvent::Text { choice: 0, text: EscapedText::plain("") })?;
        sink.event(AnswerEvent::Finished { choice: 0, finish: FinishReason::ContentFilter, native })
    }

    fn candidate(&mut self, place: usize, value: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let [index, finish_reason, content, citation, grounding, logprobs] = value.pick(byte_names![
            index finishReason content citationMetadata groundingMetadata logprobsResult
        ]);
        let index = index.and_then(Raw::count).map_or(Some(place), |index| usize::try_from(index).ok());
        let index =
            index.filter(|index| *index < MAX_CANDIDATES).ok_or(AnswerFault::malformed("too many candidates"))?;
        while self.candidates.len() <= index {
            self.candidates.push(Candidate::new(u32::try_from(self.candidates.len()).unwrap_or(u32::MAX)));
        }
        let Decoder { names, id, candidates, memory, .. } = self;
        let context = PartContext { names, answer: id.as_ref(), memory: memory.as_ref() };
        let Some(candidate) = candidates.get_mut(index) else { return Ok(()) };
        let native = finish_reason.and_then(EscapedText::read).filter(|_| !candidate.is_finished());
        // Before its parts, so that another provider can still be tried if these are the first ones.
        if let Some(reason) = native.as_ref().map(EscapedText::unescaped).filter(|reason| is_fault(reason)) {
            return Err(ended_with(&reason));
        }
        let parts = content.and_then(|content| content.member(b"parts"));
        // A citation must follow its text before a signature or a call does: then the text has ended for some clients.
        let sources = CitedSources { citation, grounding };
        let parts = || parts.into_iter().flat_map(Raw::elements).enumerate();
        let has_text = |part: Raw<'_>| part.member(b"text").and_then(Raw::filled_string).is_some();
        let texts =
            parts().filter(|(_, part)| sources.any() && has_text(*part)).last().map_or(0, |(place, _)| place + 1);
        for (place, part) in parts() {
            if place == texts {
                candidate.citations(sources, sink)?;
            }
            candidate.part(part, context, sink)?;
        }
        candidate.citations(sources, sink)?;
        if let Some(logprobs) = logprobs.and_then(logprobs::of_chat) {
            let mut cursor = Cursor::new(&logprobs);
            sink.event(AnswerEvent::Logprobs { choice: candidate.choice, value: cursor.value()? })?;
        }
        let Some(native) = native else { return Ok(()) };
        candidate.finish();
        match finish(&native.unescaped(), candidate.has_calls(), candidate.has_content) {
            FinishReason::Error => Err(ended_with(&native.unescaped())),
            FinishReason::Stop if !candidate.has_parts => {
                Err(AnswerFault::malformed("an answer without content").of_one_caller())
            }
            finish => sink.event(AnswerEvent::Finished { choice: candidate.choice, finish, native }),
        }
    }
}

fn unnamed_error() -> AnswerFault {
    AnswerFault::new(FailureKind::Server, "an error event that names no error")
}

fn ended_with(reason: &str) -> AnswerFault {
    let fault = AnswerFault::malformed(format!("the answer ended with {}", clean(reason, NAME_CHARS)));
    // What a model fails to answer well depends on what it is asked.
    if is_of_request(reason) { AnswerFault { evidence: Evidence::Request, ..fault } } else { fault.of_one_caller() }
}
