//! One item of the output, from its start to its end.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::ReasoningFormat;

use super::Counters;
use crate::{
    answer::{AnswerFault, AnswerResult},
    json::{Raw, push_count},
    neutral::{
        AnswerEvent, AnswerSink, CLIENT_IDS, EscapedText, ReasoningKind, ReasoningState, ToolKind, ToolNames,
        fitting_call_id,
    },
};

/// Kind of a part of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Text,
    Refusal,
    /// A summary of reasoning.
    Summary,
    /// Reasoning itself.
    Reasoning,
    /// The arguments or the input of a call.
    Arguments,
}

/// An item of which something was handed on.
#[derive(Debug)]
pub(super) struct Item {
    kind: Kind,
    /// Its id, of reasoning only: with its encrypted content the id goes back to the upstream.
    id: Option<EscapedText<'static>>,
    /// Its parts so far.
    parts: Vec<Part>,
    /// Annotations that were handed on.
    annotations: u32,
    is_done: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Message,
    Reasoning,
    Call {
        index: u32,
    },
    Search,
    Image,
    /// Not shown.
    Hidden,
}

/// A part of which something was handed on.
#[derive(Debug)]
struct Part {
    kind: PartKind,
    index: u64,
    /// Where it begins in the text of the answer, in characters; for reasoning, the index of its block.
    start: u64,
    /// The id that its first piece is handed on with.
    id: Option<EscapedText<'static>>,
}

impl Item {
    /// Begins an item. A call is announced at once.
    pub(super) fn start(
        item: Raw<'_>,
        names: &ToolNames,
        counters: &mut Counters,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult<Item> {
        let kind = match item.kind().as_deref() {
            Some("message") => Kind::Message,
            Some("reasoning") => Kind::Reasoning,
            Some("function_call") => call(item, ToolKind::Function, names, counters, sink)?,
            Some("custom_tool_call") => call(item, ToolKind::Custom, names, counters, sink)?,
            Some("web_search_call") => Kind::Search,
            Some("image_generation_call") => Kind::Image,
            _ => Kind::Hidden,
        };
        let id = item.member(b"id").filter(|_| matches!(kind, Kind::Reasoning)).and_then(Raw::filled_string);
        let id = id.and_then(EscapedText::read).map(EscapedText::into_owned);
        Ok(Item { kind, id, parts: Vec::new(), annotations: 0, is_done: false })
    }

    pub(super) const fn is_open(&self) -> bool {
        !self.is_done
    }

    /// Whether nothing of it may come until it is done: reasoning without a summary, and what the provider's own tools do.
    pub(super) const fn is_silent(&self) -> bool {
        matches!(self.kind, Kind::Reasoning | Kind::Search | Kind::Image | Kind::Hidden)
    }

    /// An item that was not announced, for a part that does not need it.
    pub(super) fn implied_by(kind: PartKind) -> Option<Item> {
        let kind = match kind {
            PartKind::Text | PartKind::Refusal => Kind::Message,
            PartKind::Summary | PartKind::Reasoning => Kind::Reasoning,
            PartKind::Arguments => return None,
        };
        Some(Item { kind, id: None, parts: Vec::new(), annotations: 0, is_done: false })
    }

    /// Takes a piece of a part.
    pub(super) fn piece(
        &mut self,
        kind: PartKind,
        index: u64,
        piece: Raw<'_>,
        counters: &mut Counters,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        if !self.has(kind) {
            return match self.kind {
                Kind::Hidden => Ok(()),
                _ => Err(AnswerFault::malformed("a delta of another kind than its item")),
            };
        }
        let Some(text) = EscapedText::filled(piece) else { return Ok(()) };
        let call = self.kind;
        hand_on(call, self.part(kind, index, counters)?, text, counters, sink)
    }

    /// Takes a whole part, if no piece of it came before.
    pub(super) fn whole_part(
        &mut self,
        kind: PartKind,
        index: u64,
        whole: Raw<'_>,
        counters: &mut Counters,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        let is_known = self.parts.iter().any(|part| part.kind == kind && part.index == index);
        if is_known || !self.has(kind) {
            return Ok(());
        }
        self.piece(kind, index, whole, counters, sink)
    }

    /// Takes what the whole item holds and no event before brought.
    pub(super) fn finish(
        &mut self,
        item: Raw<'_>,
        counters: &mut Counters,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        if std::mem::replace(&mut self.is_done, true) {
            return Ok(());
        }
        match self.kind {
            Kind::Message => self.finish_message(item, counters, sink),
            Kind::Reasoning => self.finish_reasoning(item, counters, sink),
            Kind::Call { .. } => {
                let text = item.member(b"arguments").or_else(|| item.member(b"input")).filter(|text| text.is_string());
                if let Some(text) = text {
                    self.whole_part(PartKind::Arguments, 0, text, counters, sink)?;
                }
                Ok(())
            }
            Kind::Search => {
                // Opening a page of the results is no search.
                let action = item.member(b"action").and_then(|action| action.member(b"type")).and_then(Raw::text);
                if action.is_none_or(|action| action == "search") {
                    counters.search();
                }
                Ok(())
            }
            Kind::Image => finish_image(item, sink),
            Kind::Hidden => Ok(()),
        }
    }

    fn finish_message(&mut self, item: Raw<'_>, counters: &mut Counters, sink: &mut impl AnswerSink) -> AnswerResult {
        let handed_on = self.annotations;
        let mut annotations: u32 = 0;
        for (index, part) in item.elements_of(b"content").enumerate() {
            let (index, is_new) = (index as u64, !self.parts.iter().any(|known| known.index == index as u64));
            let text = |name: &[u8]| part.member(name).filter(|text| text.is_string());
            match part.kind().as_deref() {
                Some("output_text") => {
                    if let Some(text) = text(b"text") {
                        self.whole_part(PartKind::Text, index, text, counters, sink)?;
                    }
                    let logprobs = part.member(b"logprobs").filter(|list| is_new && list.is_filled());
                    logprobs.map_or(Ok(()), |list| counters.logprobs(list, sink))?;
                }
                Some("refusal") => {
                    if let Some(text) = text(b"refusal") {
                        self.whole_part(PartKind::Refusal, index, text, counters, sink)?;
                    }
                }
                _ => {}
            }
            for annotation in part.elements_of(b"annotations") {
                annotations = annotations.saturating_add(1);
                if annotations > handed_on {
                    self.annotate(index, annotation, counters, sink)?;
                }
            }
        }
        Ok(())
    }

    fn finish_reasoning(&mut self, item: Raw<'_>, counters: &mut Counters, sink: &mut impl AnswerSink) -> AnswerResult {
        for (list, kind) in [(&b"summary"[..], PartKind::Summary), (b"content", PartKind::Reasoning)] {
            for (index, part) in item.elements_of(list).enumerate() {
                if let Some(text) = part.member(b"text").filter(|text| text.is_string()) {
                    self.whole_part(kind, index as u64, text, counters, sink)?;
                }
            }
        }
        let sealed = item.member(b"encrypted_content").and_then(EscapedText::filled);
        let Some(sealed) = sealed else { return Ok(()) };
        let id = item.member(b"id").and_then(EscapedText::filled);
        let state = ReasoningState::sealed(ReasoningFormat::Responses, ReasoningKind::Encrypted, sealed);
        let (index, state) = (counters.next_reasoning(), ReasoningState { id, ..state });
        sink.event(AnswerEvent::Reasoning { choice: 0, index, state })
    }

    /// Hands on a citation of a page; other annotations have no form in chat.
    pub(super) fn annotate(
        &mut self,
        index: u64,
        annotation: Raw<'_>,
        counters: &Counters,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        self.annotations = self.annotations.saturating_add(1);
        let part = self.parts.iter().find(|part| part.kind == PartKind::Text && part.index == index);
        let start = part.map_or(counters.characters(), |part| part.start);
        match url_citation(annotation, start) {
            Some(json) => sink.event(AnswerEvent::Annotation { choice: 0, json: json.to_vec().into() }),
            None => Ok(()),
        }
    }

    /// Whether items like this have parts of that kind.
    fn has(&self, kind: PartKind) -> bool {
        match self.kind {
            Kind::Message => matches!(kind, PartKind::Text | PartKind::Refusal),
            Kind::Reasoning => matches!(kind, PartKind::Summary | PartKind::Reasoning),
            Kind::Call { .. } => kind == PartKind::Arguments,
            Kind::Search | Kind::Image | Kind::Hidden => false,
        }
    }

    /// The part of that kind and index, a new one if there is none.
    fn part(&mut self, kind: PartKind, index: u64, counters: &mut Counters) -> AnswerResult<&mut Part> {
        let place = match self.parts.iter().position(|part| part.kind == kind && part.index == index) {
            Some(place) => place,
            None => {
                counters.part()?;
                let start = match kind {
                    PartKind::Summary | PartKind::Reasoning => u64::from(counters.next_reasoning()),
                    _ => counters.characters(),
                };
                self.parts.push(Part { kind, index, start, id: self.id.clone() });
                self.parts.len() - 1
            }
        };
        self.parts.get_mut(place).ok_or_else(|| AnswerFault::malformed("too many parts"))
    }
}

/// Announces a call.
fn call(
    item: Raw<'_>,
    kind: ToolKind,
    names: &ToolNames,
    counters: &mut Counters,
    sink: &mut impl AnswerSink,
) -> AnswerResult<Kind> {
    let text = |name: &[u8]| item.member(name).and_then(EscapedText::filled);
    let name = text(b"name").ok_or_else(|| AnswerFault::malformed("a call without a name"))?;
    let index = counters.next_call()?;
    let id = match text(b"call_id") {
        Some(id) => fitting_call_id(&id, CLIENT_IDS),
        // The meter gives the call an id that no other answer has.
        None => EscapedText::plain(""),
    };
    sink.event(AnswerEvent::ToolCallStarted { choice: 0, call: index, id, name: names.original(&name), kind })?;
    Ok(Kind::Call { index })
}

fn hand_on(
    item: Kind,
    part: &mut Part,
    text: EscapedText<'_>,
    counters: &mut Counters,
    sink: &mut impl AnswerSink,
) -> AnswerResult {
    let (index, id) = (u32::try_from(part.start).unwrap_or(u32::MAX), part.id.take());
    let reasoning = |kind: ReasoningKind, text| {
        let state = ReasoningState { id, ..ReasoningState::shown(ReasoningFormat::Responses, kind, text) };
        AnswerEvent::Reasoning { choice: 0, index, state }
    };
    match (part.kind, item) {
        (PartKind::Text, _) => {
            counters.text(text.characters());
            sink.event(AnswerEvent::Text { choice: 0, text })
        }
        (PartKind::Refusal, _) => sink.event(AnswerEvent::Refusal { choice: 0, text }),
        (PartKind::Summary, _) => sink.event(reasoning(ReasoningKind::Summary, text)),
        (PartKind::Reasoning, _) => sink.event(reasoning(ReasoningKind::Text, text)),
        (PartKind::Arguments, Kind::Call { index }) => {
            sink.event(AnswerEvent::ToolCallArguments { choice: 0, call: index, text })
        }
        (PartKind::Arguments, _) => Ok(()),
    }
}

fn finish_image(item: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
    let Some(data) = item.member(b"result").and_then(EscapedText::filled) else {
        return Ok(());
    };
    let format = item.member(b"output_format").and_then(Raw::text);
    let media_type = match format.as_deref() {
        Some("jpeg") => "image/jpeg",
        Some("webp") => "image/webp",
        _ => "image/png",
    };
    sink.event(AnswerEvent::Image { choice: 0, media_type: EscapedText::plain(media_type), data })
}

/// The citation in the form of chat. `start`: where the part begins in the text of the answer.
fn url_citation(annotation: Raw<'_>, start: u64) -> Option<BytesMut> {
    if annotation.kind().as_deref() != Some("url_citation") {
        return None;
    }
    let url = annotation.member(b"url").and_then(Raw::filled_string)?;
    let title = annotation.member(b"title").and_then(Raw::filled_string).unwrap_or(url);
    let mut json = BytesMut::from(&b"{\"type\":\"url_citation\",\"url_citation\":{\"url\":"[..]);
    push!(json; url.bytes(), br#","title":"#, title.bytes());
    for name in [&b"start_index"[..], b"end_index"] {
        if let Some(index) = annotation.member(name).and_then(Raw::count) {
            push_count(&mut json, name, start.saturating_add(index));
        }
    }
    json.put_slice(b"}}");
    Some(json)
}
