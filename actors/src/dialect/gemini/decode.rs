//! Reads answers of `generateContent`, streamed or whole, as neutral events.
//!
//! A stream is a sequence of whole answers that continue each other; it ends with the body, after a finish reason.

use std::borrow::Cow;

use bytes::BytesMut;

use super::{error, finish::finish};
use crate::{
    dialect::{
        answer::AnswerFault,
        frame::sse::SseEvent,
        json::{Cursor, Raw, push_string},
        neutral::{
            AnswerEvent, AnswerSink, EscapedText, ReasoningFormat, ReasoningKind, ReportedTokens, ToolKind, ToolNames,
        },
    },
    domain::FinishReason,
};

/// Most candidates of an answer.
const MAX_CANDIDATES: usize = 128;
/// Most tool calls of a candidate.
const MAX_CALLS: u32 = 128;
/// Longest signature of a thought, bytes.
const MAX_SIGNATURE: usize = 64 * 1_024;

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    names: ToolNames,
    is_started: bool,
    candidates: Vec<Candidate>,
    /// Number of an answer, for ids of calls that have none.
    calls_without_id: u32,
    /// Id of the answer, for the same.
    id: String,
}

#[derive(Debug, Clone, Copy, Default)]
struct Candidate {
    calls: u32,
    thoughts: u32,
    is_in_thought: bool,
    has_content: bool,
    is_finished: bool,
}

impl Decoder {
    /// A decoder for the answer to a request with these names.
    pub(crate) fn new(names: ToolNames) -> Decoder {
        Decoder { names, is_started: false, candidates: Vec::new(), calls_without_id: 0, id: String::new() }
    }

    /// Whether the stream has ended by its own word: this API has none.
    pub(crate) const fn is_done(&self) -> bool {
        false
    }

    /// Reads one event of a stream.
    ///
    /// # Errors
    /// When the upstream reports an error or the event is invalid, and those of the sink.
    pub(crate) fn event(&mut self, event: &SseEvent<'_>, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        let text = std::str::from_utf8(&event.data).map_err(|_| AnswerFault::malformed("not valid UTF-8"))?;
        let text = text.trim();
        if text.is_empty() || text == "[DONE]" {
            return Ok(());
        }
        let mut cursor = Cursor::new(text);
        let value = cursor.value()?;
        cursor.end()?;
        self.answer(value, sink)
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// When the answer is incomplete, and those of the sink.
    pub(crate) fn end(&mut self, _: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        let is_whole = !self.candidates.is_empty() && self.candidates.iter().all(|candidate| candidate.is_finished);
        if is_whole { Ok(()) } else { Err(AnswerFault::truncated("the stream ended without a finish reason")) }
    }

    /// Reads an unstreamed answer.
    ///
    /// # Errors
    /// When the upstream reports an error, or the answer is invalid or incomplete, and those of the sink.
    pub(crate) fn whole(mut self, body: &str, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        let mut cursor = Cursor::new(body.strip_prefix('\u{feff}').unwrap_or(body));
        let value = cursor.value()?;
        cursor.end()?;
        self.answer(value, sink)?;
        self.end(sink)
    }

    fn answer(&mut self, value: Raw<'_>, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        if let Some(fault) = error::fault(value) {
            return Err(fault);
        }
        if !value.is_object() {
            return Err(AnswerFault::malformed("an answer that is no object"));
        }
        if let Some(id) = value.member(b"responseId").and_then(EscapedText::of).filter(|_| !self.is_started) {
            self.is_started = true;
            self.id = id.unescaped().chars().filter(char::is_ascii_alphanumeric).take(22).collect();
            sink.event(AnswerEvent::Started { id })?;
        }
        for (place, candidate) in value.member(b"candidates").into_iter().flat_map(Raw::elements).enumerate() {
            self.candidate(place, candidate, sink)?;
        }
        if let Some(reason) = value.member(b"promptFeedback").and_then(|feedback| feedback.member(b"blockReason")) {
            self.blocked(&reason.text().unwrap_or_default(), sink)?;
        }
        if let Some(tokens) = value.member(b"usageMetadata").and_then(tokens) {
            sink.event(AnswerEvent::Usage(tokens))?;
        }
        Ok(())
    }

    /// A prompt that was blocked has no candidates: an empty answer that was filtered.
    fn blocked(&mut self, reason: &str, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        if !self.candidates.is_empty() {
            return Ok(());
        }
        self.candidates.push(Candidate { is_finished: true, ..Candidate::default() });
        let native = EscapedText::escaping(&format!("PROMPT_BLOCKED:{reason}"));
        sink.event(AnswerEvent::Text { choice: 0, text: EscapedText::plain("") })?;
        sink.event(AnswerEvent::Finished { choice: 0, finish: FinishReason::ContentFilter, native })
    }

    fn candidate(&mut self, place: usize, value: Raw<'_>, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        let index =
            value.member(b"index").and_then(Raw::count).map_or(Some(place), |index| usize::try_from(index).ok());
        let index =
            index.filter(|index| *index < MAX_CANDIDATES).ok_or(AnswerFault::malformed("too many candidates"))?;
        if self.candidates.len() <= index {
            self.candidates.resize(index + 1, Candidate::default());
        }
        let choice = u32::try_from(index).unwrap_or(u32::MAX);
        let parts = value.member(b"content").and_then(|content| content.member(b"parts"));
        for part in parts.into_iter().flat_map(Raw::elements) {
            self.part(index, choice, part, sink)?;
        }
        let Some(candidate) = self.candidates.get_mut(index) else { return Ok(()) };
        if let Some(logprobs) = value.member(b"logprobsResult").and_then(logprobs) {
            let mut cursor = Cursor::new(&logprobs);
            sink.event(AnswerEvent::Logprobs { choice, value: cursor.value()? })?;
        }
        let Some(native) = value.member(b"finishReason").and_then(EscapedText::of) else { return Ok(()) };
        if std::mem::replace(&mut candidate.is_finished, true) {
            return Ok(());
        }
        let finish = finish(&native.unescaped(), candidate.calls > 0, candidate.has_content);
        match finish {
            FinishReason::Error => Err(AnswerFault::malformed(format!("ended with {}", native.unescaped()))),
            FinishReason::Stop if !candidate.has_content => Err(AnswerFault::malformed("an answer without content")),
            finish => sink.event(AnswerEvent::Finished { choice, finish, native }),
        }
    }

    fn part(
        &mut self,
        index: usize,
        choice: u32,
        part: Raw<'_>,
        sink: &mut impl AnswerSink,
    ) -> Result<(), AnswerFault> {
        let Some(candidate) = self.candidates.get_mut(index) else { return Ok(()) };
        let signature = part.member(b"thoughtSignature").and_then(EscapedText::of);
        if signature.as_ref().is_some_and(|signature| signature.bytes().len() > MAX_SIGNATURE) {
            return Err(AnswerFault::malformed("a signature longer than allowed"));
        }
        let is_thought = part.member(b"thought").is_some_and(|thought| thought.bytes() == b"true");
        if candidate.is_in_thought && !is_thought {
            candidate.is_in_thought = false;
            candidate.thoughts += 1;
        }
        let sealed = |candidate: &mut Candidate, sealed, id| {
            let index = candidate.thoughts;
            candidate.thoughts += 1;
            let (format, kind) = (ReasoningFormat::Gemini, ReasoningKind::Encrypted);
            AnswerEvent::Reasoning { choice, index, format, kind, text: None, sealed: Some(sealed), id }
        };
        if let Some(call) = part.member(b"functionCall").filter(|call| call.is_object()) {
            candidate.has_content = true;
            let number = candidate.calls;
            candidate.calls += 1;
            if number >= MAX_CALLS {
                return Err(AnswerFault::malformed("too many tool calls"));
            }
            let id = match call.member(b"id").and_then(EscapedText::of).filter(|id| !id.is_empty()) {
                Some(id) => id,
                None => {
                    self.calls_without_id += 1;
                    EscapedText::escaping(&format!("call_{}_{}", self.id, self.calls_without_id))
                }
            };
            if let Some(signature) = signature {
                sink.event(sealed(candidate, signature, Some(id.clone())))?;
            }
            return self.call(choice, number, call, id, sink);
        }
        if let Some(text) = part.member(b"text").and_then(EscapedText::of) {
            if is_thought && !text.is_empty() {
                candidate.is_in_thought = true;
                let (index, format, kind) = (candidate.thoughts, ReasoningFormat::Gemini, ReasoningKind::Text);
                let text = Some(text);
                sink.event(AnswerEvent::Reasoning { choice, index, format, kind, text, sealed: None, id: None })?;
            } else if !is_thought && !text.is_empty() {
                candidate.has_content = true;
                sink.event(AnswerEvent::Text { choice, text })?;
            }
        } else if let Some(data) = part.member(b"inlineData").filter(|data| data.is_object()) {
            let text = |name: &[u8]| data.member(name).and_then(EscapedText::of);
            if let (Some(media_type), Some(data)) = (text(b"mimeType"), text(b"data"))
                && media_type.bytes().starts_with(b"image/")
            {
                candidate.has_content = true;
                sink.event(AnswerEvent::Image { choice, media_type, data })?;
            }
        }
        match signature {
            Some(signature) => sink.event(sealed(candidate, signature, None)),
            None => Ok(()),
        }
    }

    fn call(
        &self,
        choice: u32,
        call: u32,
        value: Raw<'_>,
        id: EscapedText<'_>,
        sink: &mut impl AnswerSink,
    ) -> Result<(), AnswerFault> {
        let name = value.member(b"name").and_then(EscapedText::of).filter(|name| !name.is_empty());
        let name = self.names.original(&name.ok_or(AnswerFault::malformed("a tool call without a name"))?);
        let args = value.member(b"args").filter(|args| args.is_object());
        let custom = self.names.is_custom(&name);
        let kind = if custom { ToolKind::Custom } else { ToolKind::Function };
        sink.event(AnswerEvent::ToolCallStarted { choice, call, id, name, kind })?;
        let text = match args {
            Some(args) if custom => args.member(b"input").and_then(EscapedText::of).unwrap_or(EscapedText::plain("")),
            Some(args) => escaped(args.bytes()),
            None if custom => EscapedText::plain(""),
            None => EscapedText::plain("{}"),
        };
        sink.event(AnswerEvent::ToolCallArguments { choice, call, text })
    }
}

/// JSON as text inside a JSON string.
fn escaped(json: &[u8]) -> EscapedText<'static> {
    EscapedText::escaping(&String::from_utf8_lossy(json))
}

/// The counts of a complete report; a report without the prompt is of something else.
fn tokens(usage: Raw<'_>) -> Option<ReportedTokens> {
    let count = |name: &[u8]| usage.member(name).and_then(Raw::count);
    let prompt = count(b"promptTokenCount")?;
    let thoughts = count(b"thoughtsTokenCount");
    Some(ReportedTokens {
        prompt: prompt.saturating_add(count(b"toolUsePromptTokenCount").unwrap_or_default()),
        cached: count(b"cachedContentTokenCount"),
        completion: count(b"candidatesTokenCount").unwrap_or_default().saturating_add(thoughts.unwrap_or_default()),
        reasoning: thoughts,
        ..ReportedTokens::default()
    })
}

/// `logprobs` of chat.
fn logprobs(result: Raw<'_>) -> Option<String> {
    let chosen: Vec<Raw<'_>> = result.member(b"chosenCandidates")?.elements().collect();
    let tops: Vec<Raw<'_>> = result.member(b"topCandidates").into_iter().flat_map(Raw::elements).collect();
    let mut out = BytesMut::from(&b"{\"content\":["[..]);
    for (place, candidate) in chosen.iter().enumerate() {
        if place > 0 {
            out.extend_from_slice(b",");
        }
        push_logprob(*candidate, &mut out)?;
        out.extend_from_slice(b",\"top_logprobs\":[");
        let others = tops.get(place).and_then(|top| top.member(b"candidates"));
        for (place, other) in others.into_iter().flat_map(Raw::elements).enumerate() {
            if place > 0 {
                out.extend_from_slice(b",");
            }
            push_logprob(other, &mut out)?;
            out.extend_from_slice(b"}");
        }
        out.extend_from_slice(b"]}");
    }
    out.extend_from_slice(b"],\"refusal\":null}");
    String::from_utf8(out.to_vec()).ok()
}

/// Appends an entry without its closing brace.
fn push_logprob(candidate: Raw<'_>, out: &mut BytesMut) -> Option<()> {
    let token: Cow<'_, str> = candidate.member(b"token")?.text()?;
    out.extend_from_slice(b"{\"token\":");
    push_string(out, &token);
    out.extend_from_slice(b",\"logprob\":");
    out.extend_from_slice(candidate.member(b"logProbability")?.bytes());
    out.extend_from_slice(b",\"bytes\":[");
    let bytes: Vec<String> = token.bytes().map(|byte| byte.to_string()).collect();
    out.extend_from_slice(bytes.join(",").as_bytes());
    out.extend_from_slice(b"]");
    Some(())
}
