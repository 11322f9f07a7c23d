//! Reads answers of servers of chat, and completions of texts, as events.
//!
//! Every server has its own departures from the convention. What is missing of calls is put together in
//! [`super::event_meter`].

use std::borrow::Cow;

use pointsman_domain::ReasoningFormat;

use super::{
    answer::{one_line, utf8},
    error,
    finish::normalise,
    message_member::{ContentParts, MessageMember},
    tool_call::ToolCallPart,
    usage::service_name,
};
use crate::{
    answer::{AnswerFault, AnswerResult},
    frame::StreamEvent,
    json::{Raw, object, without_mark},
    neutral::{AnswerEvent, AnswerSink, ChatFact, EscapedText, ReasoningKind, ReasoningState},
    refusal,
};

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    choices: Vec<Choice>,
    is_done: bool,
}

/// What is remembered of a choice.
#[derive(Debug)]
struct Choice {
    index: u32,
    /// Whether it calls tools, and not just a function.
    has_tools: bool,
}

/// Where the content of a choice stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In `delta`.
    Chunk,
    /// In `message`.
    Whole,
}

impl Decoder {
    /// Reads one event of a stream.
    ///
    /// # Errors
    /// When it is not valid or reports an error, and those of the sink.
    pub(crate) fn event(&mut self, event: &StreamEvent<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let data = event.data.trim_ascii();
        if event.is_error {
            return Err(refusal::fault_of_data(data));
        }
        if data == b"[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        match &event.data {
            Cow::Borrowed(_) => self.read(utf8(data)?, Form::Chunk, sink),
            Cow::Owned(_) => self.read(utf8(&one_line(data)?)?, Form::Chunk, sink),
        }
    }

    /// Whether the stream has ended by its own word.
    pub(crate) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Reads an unstreamed answer.
    ///
    /// # Errors
    /// As [`Decoder::event`].
    pub(crate) fn whole(mut self, body: &str, sink: &mut impl AnswerSink) -> AnswerResult {
        self.read(without_mark(body), Form::Whole, sink)?;
        if self.choices.is_empty() { Err(AnswerFault::malformed("no choices")) } else { Ok(()) }
    }

    fn read(&mut self, text: &str, form: Form, sink: &mut impl AnswerSink) -> AnswerResult {
        let answer = object(text)?;
        let (mut id, mut usage, mut tier, mut choices) = (None, None, None, None);
        // Content beside an error is none, and must not stand in the way of a fallback.
        for (key, value) in answer.members() {
            match &*key.name() {
                b"error" if error::is_error(value) && form == Form::Whole => {
                    return Err(refusal::fault_of_whole(value));
                }
                b"error" if error::is_error(value) => return Err(refusal::fault(value)),
                b"base_resp" if error::is_refusal(value) => return Err(refusal::fault(value)),
                b"id" => id = EscapedText::read(value),
                b"usage" => usage = Some(value).filter(|value| value.is_object()).or(usage),
                b"service_tier" => tier = service_name(value),
                b"choices" if choices.is_some() => return Err(AnswerFault::malformed("two lists of choices")),
                b"choices" if value.is_array() => choices = Some(value),
                b"choices" if value.is_null() => {}
                b"choices" => return Err(AnswerFault::malformed("the choices are no list")),
                _ => {}
            }
        }
        if let Some(id) = id {
            sink.event(AnswerEvent::Started { id })?;
        }
        let read = choices.map_or(Ok(()), |choices| self.choices(choices, form, sink));
        // A provider bills a choice that nobody can read, too. Its usage covers the choices beside it.
        if let Some(tier) = tier {
            sink.event(AnswerEvent::Chat(ChatFact::Tier(tier)))?;
        }
        let reported = usage.map_or(Ok(()), |usage| sink.event(AnswerEvent::Chat(ChatFact::Usage(usage))));
        read.and(reported)
    }

    fn choices(&mut self, choices: Raw<'_>, form: Form, sink: &mut impl AnswerSink) -> AnswerResult {
        for (place, choice) in choices.elements().enumerate() {
            if !choice.is_object() {
                return Err(AnswerFault::malformed("a choice that is no object"));
            }
            let index = choice.member(b"index").and_then(Raw::count).filter(|_| form == Form::Chunk);
            let index = index.and_then(|index| u32::try_from(index).ok()).unwrap_or(place as u32);
            let place = self.choices.iter().position(|known| known.index == index).unwrap_or(self.choices.len());
            if place == self.choices.len() {
                // The meter bounds their number.
                sink.event(AnswerEvent::Begun { choice: index })?;
                self.choices.push(Choice { index, has_tools: false });
            }
            if let Some(known) = self.choices.get_mut(place) {
                known.read(choice, form, sink)?;
            }
        }
        Ok(())
    }
}

impl Choice {
    fn read(&mut self, choice: Raw<'_>, form: Form, sink: &mut impl AnswerSink) -> AnswerResult {
        let names: [&[u8]; 8] = byte_names![
            text delta message logprobs finish_reason native_finish_reason stop_reason matched_stop
        ];
        let [text, delta, message, logprobs, finish, native, stop_reason, matched_stop] = choice.pick(names);
        let index = self.index;
        match if form == Form::Whole { message } else { delta.filter(|delta| !delta.is_null()) } {
            // Some servers repeat its content as a text.
            Some(message) if message.is_object() => self.message(message, form, sink)?,
            None if form == Form::Chunk || text.is_some() => self.text(text, sink)?,
            _ => return Err(AnswerFault::malformed("a choice without a message")),
        }
        if let Some(value) = logprobs.filter(|value| value.is_object()) {
            sink.event(AnswerEvent::Logprobs { choice: index, value })?;
        }
        // The words of vLLM and SGLang; a number is a token.
        if let Some(text) =
            stop_reason.and_then(EscapedText::filled).or_else(|| matched_stop.and_then(EscapedText::filled))
        {
            sink.event(AnswerEvent::StoppedAt { choice: index, text })?;
        }
        let Some(word) = finish.and_then(Raw::filled_string).and_then(Raw::text) else { return Ok(()) };
        let native = native
            .and_then(EscapedText::filled)
            .or_else(|| finish.and_then(EscapedText::filled))
            .unwrap_or(EscapedText::plain(""));
        sink.event(AnswerEvent::Finished { choice: index, finish: normalise(&word), native })
    }

    /// Reads the text of a completion of a text.
    fn text(&self, text: Option<Raw<'_>>, sink: &mut impl AnswerSink) -> AnswerResult {
        let Some(text) = text.filter(|text| !text.is_null()) else { return Ok(()) };
        let text = EscapedText::read(text).ok_or_else(|| AnswerFault::malformed("a text that is no string"))?;
        if text.is_empty() { Ok(()) } else { sink.event(AnswerEvent::Text { choice: self.index, text }) }
    }

    fn message(&mut self, message: Raw<'_>, form: Form, sink: &mut impl AnswerSink) -> AnswerResult {
        let choice = self.index;
        let mut said = Said::default();
        for (key, value) in message.members() {
            let name = key.name();
            MessageMember::named(&name).check(value)?;
            said.note(&name, value);
        }
        if said.has_reasoning_content {
            sink.event(AnswerEvent::Chat(ChatFact::ReasoningContent))?;
        }
        let parts = said.content.and_then(ContentParts::read);
        match (said.details, said.thought.and_then(EscapedText::read)) {
            (Some(details), thought) => {
                let mut shown = 0;
                for (place, detail) in details.elements().enumerate() {
                    shown += read_detail(detail, place, choice, sink)?;
                }
                let bytes = thought.map_or(0, |text| text.text_bytes()).saturating_sub(shown);
                sink.event(AnswerEvent::Chat(ChatFact::LongerThought { bytes }))?;
            }
            (None, Some(text)) => sink.event(thought(choice, text))?,
            (None, None) => {
                if let Some(text) = parts.as_ref().and_then(|parts| parts.reasoning.as_deref()) {
                    sink.event(thought(choice, unquoted(text)))?;
                }
            }
        }
        let content = match &parts {
            Some(parts) => Some(unquoted(&parts.text)),
            None => said.content.and_then(EscapedText::read),
        };
        if let Some(text) = content.filter(|text| !text.is_empty()) {
            sink.event(AnswerEvent::Text { choice, text })?;
        }
        // Annotations are about the text before them.
        for annotation in said.annotations.into_iter().flat_map(Raw::elements) {
            sink.event(AnswerEvent::Annotation { choice, json: Cow::Borrowed(annotation.bytes()) })?;
        }
        for citation in said.citations.into_iter().flat_map(Raw::elements).filter(|citation| citation.is_object()) {
            sink.event(AnswerEvent::DocumentCitation { choice, json: Cow::Borrowed(citation.bytes()) })?;
        }
        if let Some(text) = said.refusal.and_then(EscapedText::filled) {
            sink.event(AnswerEvent::Refusal { choice, text })?;
        }
        self.calls(&said, form, sink)?;
        for image in said.images.into_iter().flat_map(Raw::elements) {
            read_image(image, choice, sink)?;
        }
        Ok(())
    }

    fn calls(&mut self, said: &Said<'_>, form: Form, sink: &mut impl AnswerSink) -> AnswerResult {
        let choice = self.index;
        for (place, call) in said.calls.into_iter().flat_map(Raw::elements).enumerate() {
            let mut part =
                ToolCallPart::read(call).ok_or_else(|| AnswerFault::malformed("a call that is no object"))?;
            if form == Form::Whole {
                // A call of another type may have other members, and clients of other dialects have no form for it.
                if part.name.is_none() && !part.is_function() {
                    continue;
                }
                // Each element is a call of its own, whatever its id.
                part.index = Some(place as u64);
            }
            self.has_tools = true;
            sink.event(AnswerEvent::Chat(ChatFact::ToolCallPiece { choice, piece: part.piece() }))?;
        }
        // Some servers send both forms of a call.
        match said.function.filter(|_| !self.has_tools) {
            Some(function) => {
                let piece = ToolCallPart::read_legacy(function).piece();
                sink.event(AnswerEvent::Chat(ChatFact::ToolCallPiece { choice, piece }))
            }
            None => Ok(()),
        }
    }
}

/// Reads an element of `reasoning_details`; says how many bytes of text it shows.
fn read_detail(detail: Raw<'_>, place: usize, choice: u32, sink: &mut impl AnswerSink) -> AnswerResult<usize> {
    let text = |name: &[u8]| detail.member(name).and_then(EscapedText::read);
    let (kind, shown, sealed) = match detail.kind().as_deref() {
        Some("reasoning.summary") => {
            (ReasoningKind::Summary, text(b"summary").or_else(|| text(b"text")), text(b"signature"))
        }
        Some("reasoning.encrypted") => (ReasoningKind::Encrypted, None, text(b"data")),
        _ => (ReasoningKind::Text, text(b"text"), text(b"signature")),
    };
    let format = detail.member(b"format").and_then(Raw::text);
    let format = format.map_or(ReasoningFormat::Unknown, |name| ReasoningFormat::named(&name));
    let index = detail.member(b"index").and_then(Raw::count).and_then(|index| u32::try_from(index).ok());
    let index = index.unwrap_or(place as u32);
    let bytes = shown.as_ref().map_or(0, EscapedText::text_bytes);
    let state = ReasoningState { format, kind, text: shown, sealed, id: text(b"id") };
    sink.event(AnswerEvent::Reasoning { choice, index, state })?;
    Ok(bytes)
}

/// Reasoning that is a mere text.
fn thought(choice: u32, text: EscapedText<'_>) -> AnswerEvent<'_> {
    let state = ReasoningState::shown(ReasoningFormat::Unknown, ReasoningKind::Text, text);
    AnswerEvent::Reasoning { choice, index: 0, state }
}

/// The members of a message or delta.
#[derive(Debug, Default)]
struct Said<'a> {
    has_reasoning_content: bool,
    content: Option<Raw<'a>>,
    refusal: Option<Raw<'a>>,
    /// `reasoning_details`, if there are any.
    details: Option<Raw<'a>>,
    /// The first reasoning that is a mere text.
    thought: Option<Raw<'a>>,
    calls: Option<Raw<'a>>,
    function: Option<Raw<'a>>,
    images: Option<Raw<'a>>,
    annotations: Option<Raw<'a>>,
    citations: Option<Raw<'a>>,
}

impl<'a> Said<'a> {
    fn note(&mut self, name: &[u8], value: Raw<'a>) {
        let member = MessageMember::named(name);
        match member {
            MessageMember::Content => self.content = Some(value),
            MessageMember::Refusal => self.refusal = Some(value),
            MessageMember::Reasoning => {
                self.has_reasoning_content |= name == b"reasoning_content" && value.filled_string().is_some();
                if name == b"reasoning_details" && value.is_array() && value.is_filled() {
                    self.details = Some(value);
                }
                self.thought = self.thought.or(value.filled_string());
            }
            MessageMember::ToolCalls => self.calls = Some(value).filter(|calls| calls.is_filled()),
            MessageMember::FunctionCall => self.function = Some(value).filter(|call| call.is_object()),
            MessageMember::Images => self.images = Some(value),
            MessageMember::Annotations => self.annotations = Some(value),
            MessageMember::Other if name == b"citations" => self.citations = Some(value),
            MessageMember::Role | MessageMember::Audio | MessageMember::Other => {}
        }
    }
}

fn read_image(image: Raw<'_>, choice: u32, sink: &mut impl AnswerSink) -> AnswerResult {
    let url = image.member(b"image_url").and_then(|holder| holder.member(b"url")).and_then(Raw::text);
    let Some((head, data)) = url.as_deref().and_then(|url| url.strip_prefix("data:")?.split_once(";base64,")) else {
        return sink.event(AnswerEvent::Chat(ChatFact::LinkedImage { choice }));
    };
    let (media_type, data) = (EscapedText::escaping(head), EscapedText::escaping(data));
    sink.event(AnswerEvent::Image { choice, media_type, data })
}

/// The inside of a JSON string that the gateway has put together.
fn unquoted(string: &[u8]) -> EscapedText<'_> {
    let text = std::str::from_utf8(string).unwrap_or_default();
    EscapedText::plain(text.get(1..text.len().saturating_sub(1)).unwrap_or_default())
}
