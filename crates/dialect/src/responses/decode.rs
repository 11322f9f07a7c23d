//! Reads answers of the Responses API, streamed or whole, as neutral events.
//!
//! Deltas are what counts; of the events `…done`, and of the whole items and the whole response at the end, only what no delta
//! brought is taken. So a whole answer goes through the same steps as a stream: each of its items is one that is done at once.
//! Unknown events, items and parts are passed over.

use super::{error, finish::finish, usage};
use crate::{
    answer::{AnswerFault, AnswerResult},
    frame::StreamEvent,
    json::Raw,
    neutral::{AnswerEvent, AnswerSink, EscapedText, ToolNames},
};

mod counters;
mod item;

use counters::Counters;
use item::{Item, PartKind};

/// Most items of an answer.
const MAX_ITEMS: usize = 1_024;

/// An event with the members that most of its kinds have.
struct ResponseEvent<'a> {
    value: Raw<'a>,
    /// The place of its item in the output.
    place: Option<u64>,
    /// The place of its part in the item, for a part of the content and of the summary.
    content: u64,
    summary: u64,
    /// A piece of a text.
    delta: Option<Raw<'a>>,
    logprobs: Option<Raw<'a>>,
    item: Option<Raw<'a>>,
    response: Option<Raw<'a>>,
}

impl ResponseEvent<'_> {
    fn part(&self, kind: PartKind) -> u64 {
        if kind == PartKind::Summary { self.summary } else { self.content }
    }
}

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    names: ToolNames,
    is_started: bool,
    is_done: bool,
    /// The items so far and their places in the output.
    items: Vec<(u64, Item)>,
    counters: Counters,
}

impl Decoder {
    /// A decoder for the answer to a request with these names.
    pub(crate) fn new(names: ToolNames) -> Decoder {
        Decoder { names, is_started: false, is_done: false, items: Vec::new(), counters: Counters::default() }
    }

    /// Reads one event of a stream.
    ///
    /// # Errors
    /// When the upstream reports an error or the event is invalid, and those of the sink.
    pub(crate) fn event(&mut self, event: &StreamEvent<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        if self.is_done {
            return Ok(());
        }
        let Some(value) = event.value()? else { return Ok(()) };
        let names: [&[u8]; 9] = byte_names![
            type error output_index content_index summary_index delta logprobs item response
        ];
        let [kind, error, place, content, summary, delta, logprobs, item, response] = value.pick(names);
        let kind = kind.and_then(Raw::text);
        if event.is_error || kind.as_deref() == Some("error") {
            return Err(error::of_event(value));
        }
        let [place, content, summary] = [place, content, summary].map(|number| number.and_then(Raw::count));
        let (content, summary) = (content.unwrap_or(0), summary.unwrap_or(0));
        let delta = delta.filter(|delta| delta.is_string());
        let event = ResponseEvent { value, place, content, summary, delta, logprobs, item, response };
        match kind.as_deref() {
            Some(kind) => match kind.strip_prefix("response.") {
                Some(kind) => self.event_of_response(kind, &event, sink),
                None => Ok(()),
            },
            None if error.is_some_and(|error| !error.is_null()) => Err(error::of_event(value)),
            None => Err(AnswerFault::malformed("an event without a type")),
        }
    }

    /// Whether an item has begun and not ended.
    pub(crate) fn has_open_item(&self) -> bool {
        self.items.iter().any(|(_, item)| item.is_open())
    }

    /// Whether such an item sends nothing until it is done.
    pub(crate) fn works_silently(&self) -> bool {
        self.items.iter().any(|(_, item)| item.is_open() && item.is_silent())
    }

    /// Whether the response has ended, so that nothing follows.
    pub(crate) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// When the answer is incomplete.
    pub(crate) fn end(&self) -> AnswerResult {
        if self.is_done { Ok(()) } else { Err(AnswerFault::truncated("the stream ended before response.completed")) }
    }

    /// Reads a whole answer.
    ///
    /// # Errors
    /// When the body is an error or invalid, and those of the sink.
    pub(crate) fn whole(mut self, body: &str, sink: &mut impl AnswerSink) -> AnswerResult {
        let response = Raw::whole(body)?;
        let [kind, error, output] = response.pick([b"type", b"error", b"output"]);
        if kind.and_then(Raw::text).as_deref() == Some("error") {
            return Err(error::of_event(response));
        }
        if error.is_some_and(|error| !error.is_null()) {
            return Err(error::of_response(response));
        }
        if !output.is_some_and(Raw::is_array) {
            return Err(AnswerFault::malformed("the response has no output"));
        }
        self.finish(response, sink)
    }

    fn event_of_response(&mut self, kind: &str, event: &ResponseEvent<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        match kind {
            "created" | "in_progress" | "queued" => match event.response {
                Some(response) => self.start(response, sink),
                None => Ok(()),
            },
            "output_item.added" => self.item_added(event, sink),
            "output_item.done" => {
                let Some(item) = event.item.filter(|item| item.is_object()) else { return Ok(()) };
                self.item_done(self.place_of(event), item, sink)
            }
            "output_text.delta" => {
                self.piece(event, PartKind::Text, sink)?;
                let logprobs = event.logprobs.filter(|list| list.is_filled());
                logprobs.map_or(Ok(()), |list| self.counters.logprobs(list, sink))
            }
            "output_text.done" => self.rest(event, PartKind::Text, b"text", sink),
            "refusal.delta" => self.piece(event, PartKind::Refusal, sink),
            "refusal.done" => self.rest(event, PartKind::Refusal, b"refusal", sink),
            "reasoning_summary_text.delta" => self.piece(event, PartKind::Summary, sink),
            "reasoning_summary_text.done" => self.rest(event, PartKind::Summary, b"text", sink),
            "reasoning_text.delta" => self.piece(event, PartKind::Reasoning, sink),
            "reasoning_text.done" => self.rest(event, PartKind::Reasoning, b"text", sink),
            "function_call_arguments.delta" | "custom_tool_call_input.delta" => {
                self.piece(event, PartKind::Arguments, sink)
            }
            "function_call_arguments.done" => self.rest(event, PartKind::Arguments, b"arguments", sink),
            "custom_tool_call_input.done" => self.rest(event, PartKind::Arguments, b"input", sink),
            "output_text.annotation.added" => {
                let Some(annotation) = event.value.member(b"annotation") else { return Ok(()) };
                let (counters, Some(item)) = self.item(event) else { return Ok(()) };
                item.annotate(event.part(PartKind::Text), annotation, counters, sink)
            }
            "completed" | "incomplete" | "failed" | "cancelled" => match event.response {
                Some(response) if response.is_object() => self.finish(response, sink),
                _ => Err(AnswerFault::malformed("the end of a response without the response")),
            },
            _ => Ok(()),
        }
    }

    fn start(&mut self, response: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let id = response.member(b"id").and_then(EscapedText::filled);
        match id {
            Some(id) if !std::mem::replace(&mut self.is_started, true) => sink.event(AnswerEvent::Started { id }),
            _ => Ok(()),
        }
    }

    /// The place of an event's item; that of the last item if the event does not say.
    fn place_of(&self, event: &ResponseEvent<'_>) -> u64 {
        event.place.unwrap_or(self.items.last().map_or(0, |(place, _)| *place))
    }

    /// The item that an event belongs to.
    fn item(&mut self, event: &ResponseEvent<'_>) -> (&mut Counters, Option<&mut Item>) {
        let place = self.place_of(event);
        let found = self.items.iter_mut().rev().find(|(at, _)| *at == place).map(|(_, item)| item);
        (&mut self.counters, found)
    }

    fn item_added(&mut self, event: &ResponseEvent<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let Some(item) = event.item.filter(|item| item.is_object()) else { return Ok(()) };
        let next = self.items.last().map_or(0, |(place, _)| place.saturating_add(1));
        let place = event.place.unwrap_or(next);
        if self.items.iter().any(|(at, _)| *at == place) {
            return Ok(());
        }
        self.add(place, item, sink)
    }

    fn add(&mut self, place: u64, item: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        if self.items.len() >= MAX_ITEMS {
            return Err(AnswerFault::malformed("too many items"));
        }
        let item = Item::start(item, &self.names, &mut self.counters, sink)?;
        self.items.push((place, item));
        Ok(())
    }

    /// A whole item: what no event before it brought is taken from it.
    fn item_done(&mut self, place: u64, item: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        if !self.items.iter().any(|(at, _)| *at == place) {
            self.add(place, item, sink)?;
        }
        match self.items.iter_mut().find(|(at, _)| *at == place) {
            Some((_, known)) => known.finish(item, &mut self.counters, sink),
            None => Ok(()),
        }
    }

    /// Takes a piece of a part.
    fn piece(&mut self, event: &ResponseEvent<'_>, kind: PartKind, sink: &mut impl AnswerSink) -> AnswerResult {
        let Some(piece) = event.delta else { return Ok(()) };
        if self.item(event).1.is_none() {
            let Some(item) = Item::implied_by(kind).filter(|_| self.items.len() < MAX_ITEMS) else {
                return Err(AnswerFault::malformed("a delta of an item that was not added"));
            };
            self.items.push((self.place_of(event), item));
        }
        match self.item(event) {
            (counters, Some(item)) => item.piece(kind, event.part(kind), piece, counters, sink),
            _ => Ok(()),
        }
    }

    /// Takes a whole part, which stands in the member `name`, if no piece of it came before.
    fn rest(
        &mut self,
        event: &ResponseEvent<'_>,
        kind: PartKind,
        name: &[u8],
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        let whole = event.value.member(name).filter(|text| text.is_string());
        match (self.item(event), whole) {
            ((counters, Some(item)), Some(whole)) => item.whole_part(kind, event.part(kind), whole, counters, sink),
            // The whole item follows.
            _ => Ok(()),
        }
    }

    /// The end of the answer. What it holds and no event brought is taken from it.
    fn finish(&mut self, response: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        self.start(response, sink)?;
        let status = response.member(b"status").and_then(Raw::text).unwrap_or("completed".into());
        if !matches!(&*status, "completed" | "incomplete") {
            self.report_usage(response, sink)?;
            return Err(match &*status {
                "in_progress" | "queued" => AnswerFault::truncated("the response is not finished"),
                _ => error::of_response(response),
            });
        }
        for (place, item) in response.elements_of(b"output").enumerate() {
            self.item_done(place as u64, item, sink)?;
        }
        self.is_done = true;
        let reason = response.member(b"incomplete_details").and_then(|details| details.member(b"reason"));
        let native = match reason.and_then(EscapedText::read) {
            Some(reason) if &*status == "incomplete" => reason.into_owned(),
            _ => EscapedText::escaping(&status),
        };
        let finish = finish(&native.unescaped(), self.counters.has_calls());
        sink.event(AnswerEvent::Finished { choice: 0, finish, native })?;
        self.report_usage(response, sink)
    }

    fn report_usage(&self, response: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let tokens = usage::tokens(response, self.counters.searches());
        tokens.map_or(Ok(()), |tokens| sink.event(AnswerEvent::Usage(tokens)))
    }
}
