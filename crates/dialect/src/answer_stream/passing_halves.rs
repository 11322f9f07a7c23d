//! Halves of characters in events that pass as they came.

use std::fmt::Write as _;

use crate::{json::Raw, neutral::lone_halves_replaced, openai::SplitHalves};

/// The API that the events belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventApi {
    Messages,
    Responses,
    Completion,
}

/// The halves that wait for the other half, of the events of one stream.
#[derive(Debug, Default)]
pub(super) struct PassingHalves(SplitHalves);

/// A text in an event that may go on in a later one.
struct Piece<'a> {
    text: Raw<'a>,
    /// Which text it belongs to. Begins with the block, item or choice that has it, and a slash.
    place: String,
    /// An event that says U+FFFD in its place.
    lost: String,
}

impl PassingHalves {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The data of an event of this kind in which every character is whole.
    pub(super) fn mended(&mut self, api: EventApi, kind: &str, data: &str, event: Raw<'_>) -> String {
        let (mut out, mut at) = (String::with_capacity(data.len() + 16), 0);
        for Piece { text, place, lost } in pieces(api, kind, event) {
            let start = (text.bytes().as_ptr() as usize).saturating_sub(data.as_ptr() as usize) + 1;
            out.push_str(&lone_halves_replaced(data.get(at..start).unwrap_or_default()));
            self.0.text(text.inner_text(), &place, || lost, &mut out);
            at = start + text.inner().len();
        }
        out.push_str(&lone_halves_replaced(data.get(at..).unwrap_or_default()));
        out
    }

    /// The data of the events that go before an event of this kind, because it ends texts that end with half a character.
    pub(super) fn ended_by(&mut self, api: EventApi, kind: &str, event: Raw<'_>) -> Vec<String> {
        let ends_all = matches!(kind, "message_delta" | "message_stop" | "error")
            || matches!(kind, "response.completed" | "response.incomplete" | "response.failed");
        let ends_one = kind == "content_block_stop" || kind.ends_with(".done");
        let of = owner(api, event);
        // Providers name an item by its place in some events and by its id in others.
        let is_place = |owner: &str| owner.bytes().all(|byte| byte.is_ascii_digit());
        self.0.ended(|place| {
            let owner = place.split('/').next().unwrap_or_default();
            ends_all || (ends_one && (owner == of || is_place(owner) != is_place(of)))
        })
    }

    /// The data of the events that go before the end of the stream.
    pub(super) fn ended(&mut self) -> Vec<String> {
        self.0.ended(|_| true)
    }
}

/// The block or item that an event is about.
fn owner<'a>(api: EventApi, event: Raw<'a>) -> &'a str {
    let [index, place, item] = event.pick([b"index", b"output_index", b"item_id"]);
    match api {
        EventApi::Messages => index,
        _ => place.or(item),
    }
    .map_or("", Raw::written)
}

/// The texts of an event that may go on in later events, in the order in which they stand in it.
fn pieces<'a>(api: EventApi, kind: &str, event: Raw<'a>) -> Vec<Piece<'a>> {
    match api {
        EventApi::Messages => {
            (kind == "content_block_delta").then(|| of_message(event)).flatten().into_iter().collect()
        }
        EventApi::Responses => {
            kind.ends_with(".delta").then(|| of_response(kind, event)).flatten().into_iter().collect()
        }
        EventApi::Completion => of_completion(event),
    }
}

fn of_message(event: Raw<'_>) -> Option<Piece<'_>> {
    let delta = event.member(b"delta")?;
    let (name, text) = delta
        .members()
        .find(|(key, value)| matches!(&*key.name(), b"text" | b"thinking" | b"partial_json") && value.is_string())?;
    let (index, name) = (owner(EventApi::Messages, event), name.written());
    let kind = lone_halves_replaced(delta.member(b"type").map_or("null", Raw::written));
    let lost = format!(
        "{{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{{\"type\":{kind},{name}:\"\u{fffd}\"}}}}"
    );
    Some(Piece { text, place: format!("{index}/{name}"), lost })
}

fn of_response<'a>(kind: &str, event: Raw<'a>) -> Option<Piece<'a>> {
    let text = event.member(b"delta").filter(|delta| delta.is_string())?;
    let mut lost = format!("{{\"type\":\"{kind}\"");
    for (key, value) in event.members() {
        let value = match &*key.name() {
            b"type" | b"sequence_number" | b"obfuscation" => continue,
            b"delta" => "\"\u{fffd}\"",
            b"logprobs" => "[]",
            _ => value.written(),
        };
        let _ = write!(lost, ",{}:{}", lone_halves_replaced(key.written()), lone_halves_replaced(value));
    }
    lost.push('}');
    let [content, summary] = event.pick([b"content_index", b"summary_index"]).map(|part| part.map_or("", Raw::written));
    Some(Piece { text, place: format!("{}/{kind}/{content}/{summary}", owner(EventApi::Responses, event)), lost })
}

/// A text that ends in this chunk goes on in none.
fn of_completion(event: Raw<'_>) -> Vec<Piece<'_>> {
    let mut head = String::new();
    for (key, value) in event.members() {
        if matches!(&*key.name(), b"id" | b"object" | b"created" | b"model") {
            let _ = write!(head, "{}:{},", key.written(), lone_halves_replaced(value.written()));
        }
    }
    let choices = event.elements_of(b"choices").enumerate();
    let goes_on = |choice: &Raw<'_>| choice.member(b"finish_reason").is_none_or(Raw::is_null);
    choices
        .filter(|(_, choice)| goes_on(choice))
        .filter_map(|(count, choice)| {
            let text = choice.member(b"text").filter(|text| text.is_string())?;
            let index = choice.member(b"index").and_then(Raw::count).unwrap_or(count as u64);
            let lost = format!(
                "{{{head}\"choices\":[{{\"text\":\"\u{fffd}\",\"index\":{index},\"logprobs\":null,\"finish_reason\":null}}]}}"
            );
            Some(Piece { text, place: format!("{index}/"), lost })
        })
        .collect()
}
