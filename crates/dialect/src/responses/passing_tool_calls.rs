//! The calls of functions in a stream of the Responses API that passes as it came: their arguments become one object.
//!
//! What is held back of a call's arguments goes into an event of its own before the event that ends them, so that a client
//! that joins the pieces has what that event says. All later events then have higher numbers than at the provider.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hasher as _},
};

use bytes::{Bytes, BytesMut};

use super::splice::{settle_arguments, settle_call};
use crate::{
    json::{Raw, Splice, object, push_count, push_member},
    neutral::ToolArguments,
};

/// Most calls whose arguments are followed.
const MAX_CALLS: usize = 1_024;
/// Most bytes that are held of all calls which hold much. What is held of a call beyond passes as it came.
const MAX_HELD: usize = 1024 * 1024;
/// A call that holds more holds much.
const MUCH_HELD: usize = 4 * 1024;
/// The event with a piece of the arguments.
pub(crate) const DELTA: &str = "response.function_call_arguments.delta";

const DONE: &str = "response.function_call_arguments.done";
const ITEM_DONE: &str = "response.output_item.done";

/// The calls whose arguments have begun.
#[derive(Debug, Default)]
pub(crate) struct PassingToolCalls {
    calls: Vec<PassingToolCall>,
    /// What is passed on of the last piece.
    passed: BytesMut,
    /// How many events were added so far.
    added: u64,
}

#[derive(Debug)]
struct PassingToolCall {
    name: ToolCallIdentity,
    /// Until they end.
    arguments: Option<ToolArguments>,
}

/// What an event says of the call that it is about. Providers leave out either, and some give an item another id in every
/// event.
#[derive(Debug, Clone, Copy)]
struct ToolCallIdentity {
    /// A hash of the item's id.
    item: Option<u64>,
    /// The place in the output.
    place: Option<u64>,
}

impl ToolCallIdentity {
    fn read(event: Raw<'_>, item: Option<Raw<'_>>) -> ToolCallIdentity {
        let item = item.and_then(Raw::filled_string).map(|id| {
            let mut hasher = DefaultHasher::new();
            hasher.write(id.inner());
            hasher.finish()
        });
        ToolCallIdentity { item, place: event.member(b"output_index").and_then(Raw::count) }
    }

    /// Whether nothing that both have tells this one from the other.
    fn may_be(self, other: ToolCallIdentity) -> bool {
        (self.item.is_none() || other.item.is_none()) && (self.place.is_none() || other.place.is_none())
    }
}

/// What becomes of an event.
#[derive(Debug, Default)]
pub(crate) struct PassingEvent {
    /// The data of a [`DELTA`] that goes before it.
    pub(crate) delta: Option<Bytes>,
    /// Its data, if they change.
    pub(crate) data: Option<Bytes>,
}

impl PassingToolCalls {
    /// Takes an event of this kind.
    pub(crate) fn event<'a>(&mut self, kind: &str, data: &'a str, event: Raw<'a>) -> PassingEvent {
        match kind {
            DELTA => PassingEvent { delta: None, data: self.piece(data, event) },
            DONE => PassingEvent {
                delta: self.end_arguments(event),
                data: spliced(data, |splice| settle_arguments(event.member(b"arguments")?, splice)),
            },
            ITEM_DONE => match event.member(b"item") {
                Some(item) => PassingEvent {
                    delta: self.end_item(event, item),
                    data: spliced(data, |splice| settle_call(item, splice)),
                },
                None => PassingEvent::default(),
            },
            _ => PassingEvent::default(),
        }
    }

    fn much_held(&self) -> usize {
        let held = self.calls.iter().filter_map(|call| call.arguments.as_ref()).map(ToolArguments::held_bytes);
        held.filter(|held| *held > MUCH_HELD).sum()
    }

    /// How much higher the numbers of the events are than at the provider.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// Another event was added.
    pub(crate) fn note_added(&mut self) {
        self.added += 1;
    }

    /// The data of an event with the number that it has for the client. Unchanged if it has none, or no event was added.
    pub(crate) fn renumbered<'a>(&self, data: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        if self.added == 0 {
            return data;
        }
        let renumbered = std::str::from_utf8(&data).ok().and_then(|text| {
            let number = object(text).ok()?.member(b"sequence_number")?;
            let mut splice = Splice::new(text);
            splice.replace(number, number.count()?.saturating_add(self.added).to_string().as_bytes());
            Some(splice.finish())
        });
        renumbered.map_or(data, |renumbered| Cow::Owned(renumbered.to_vec()))
    }

    /// The data with what is passed on of a piece, if that is not all of it.
    fn piece(&mut self, data: &str, event: Raw<'_>) -> Option<Bytes> {
        let piece = event.member(b"delta").filter(|piece| piece.is_string())?;
        let name = ToolCallIdentity::read(event, event.member(b"item_id"));
        let open = self.find(name).filter(|call| self.calls.get(*call).is_some_and(|call| call.arguments.is_some()));
        let at = open.or_else(|| self.begin(name, Some(ToolArguments::object())))?;
        let call = self.calls.get_mut(at)?.arguments.as_mut()?;
        self.passed.clear();
        call.piece(piece.inner(), &mut self.passed);
        if call.held_bytes() > MUCH_HELD && self.much_held() > MAX_HELD {
            self.calls.get_mut(at)?.arguments.as_mut()?.end(false, &mut self.passed);
        }
        if *self.passed == *piece.inner() {
            return None;
        }
        let mut splice = Splice::new(data);
        splice.replace(piece, &[b"\"", &self.passed[..], b"\""].concat());
        Some(splice.finish())
    }

    /// The data of an event with what no piece had of the arguments that end here.
    fn end_arguments(&mut self, done: Raw<'_>) -> Option<Bytes> {
        self.passed.clear();
        let item = done.member(b"item_id");
        let name = ToolCallIdentity::read(done, item);
        let mut call = match self.find(name) {
            Some(known) => self.calls.get_mut(known)?.arguments.take()?,
            None => {
                self.begin(name, None)?;
                // The provider sent no pieces: all arguments go out as one.
                let arguments = done.member(b"arguments").filter(|arguments| arguments.is_string());
                let mut call = ToolArguments::object();
                call.piece(arguments.map(Raw::inner).unwrap_or_default(), &mut self.passed);
                call
            }
        };
        call.end(true, &mut self.passed);
        self.delta(done, item)
    }

    /// The same before the end of an item, if nothing has ended its arguments.
    fn end_item(&mut self, done: Raw<'_>, item: Raw<'_>) -> Option<Bytes> {
        item.member(b"type").filter(|kind| kind.inner() == b"function_call")?;
        self.passed.clear();
        let id = item.member(b"id");
        let known = self.find(ToolCallIdentity::read(done, id))?;
        self.calls.get_mut(known)?.arguments.take()?.end(false, &mut self.passed);
        self.delta(done, id)
    }

    /// The last call that this names: by its item, else by its place, else the last one that it may be.
    fn find(&self, name: ToolCallIdentity) -> Option<usize> {
        let last = |is_it: &dyn Fn(ToolCallIdentity) -> bool| self.calls.iter().rposition(|call| is_it(call.name));
        last(&|call| name.item.is_some() && call.item == name.item)
            .or_else(|| last(&|call| name.place.is_some() && call.place == name.place))
            .or_else(|| last(&|call| call.may_be(name)))
    }

    fn begin(&mut self, name: ToolCallIdentity, arguments: Option<ToolArguments>) -> Option<usize> {
        let place = self.calls.len();
        (place < MAX_CALLS).then(|| self.calls.push(PassingToolCall { name, arguments }))?;
        Some(place)
    }

    /// The data of an event with what is passed on, which goes before `next`.
    fn delta(&mut self, next: Raw<'_>, item: Option<Raw<'_>>) -> Option<Bytes> {
        if self.passed.is_empty() {
            return None;
        }
        let mut data = BytesMut::from(&b"{\"type\":\""[..]);
        push!(data; DELTA.as_bytes(), br#"""#);
        let [number, place] = next.pick([b"sequence_number", b"output_index"]);
        if let Some(number) = number.and_then(Raw::count) {
            push_count(&mut data, b"sequence_number", number.saturating_add(self.added));
        }
        for (name, value) in [(&b"item_id"[..], item), (b"output_index", place)] {
            if let Some(value) = value {
                push_member(&mut data, name, value.bytes());
            }
        }
        push!(data; br#","delta":""#, self.passed, br#""}"#);
        self.added += 1;
        Some(data.freeze())
    }
}

/// The data with the changes of `change`; `None` if it makes none.
fn spliced<'a>(data: &'a str, change: impl FnOnce(&mut Splice<'a>) -> Option<()>) -> Option<Bytes> {
    let mut splice = Splice::new(data);
    change(&mut splice)?;
    Some(splice.finish())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn delta(piece: &str, more: Value) -> Value {
        with(json!({"type": DELTA, "delta": piece}), more)
    }

    fn done(arguments: &str, more: Value) -> Value {
        with(json!({"type": DONE, "arguments": arguments}), more)
    }

    fn item_done(arguments: &str, id: &str, more: Value) -> Value {
        let item = json!({"type": "function_call", "id": id, "arguments": arguments});
        with(json!({"type": ITEM_DONE, "item": item}), more)
    }

    fn with(mut event: Value, more: Value) -> Value {
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    }

    /// The pieces that a client joins, by the id of their item.
    fn joined(events: &[Value]) -> BTreeMap<String, String> {
        let (mut calls, mut joined) = (PassingToolCalls::default(), BTreeMap::<String, String>::new());
        for event in events {
            let text = event.to_string();
            let passing = calls.event(event["type"].as_str().unwrap(), &text, object(&text).unwrap());
            let data = passing.data.unwrap_or_else(|| text.clone().into());
            for event in passing.delta.into_iter().chain([data]) {
                let event: Value = serde_json::from_slice(&event).unwrap();
                if event["type"] == DELTA {
                    let id = event["item_id"].as_str().unwrap_or_default().to_owned();
                    *joined.entry(id).or_default() += event["delta"].as_str().unwrap();
                }
            }
        }
        joined
    }

    #[test]
    fn arguments_go_out_once_however_events_name_their_call() {
        let (a, x) = (r#"{"a":1}"#, json!({"item_id": "x"}));
        let (at, of) = (json!({"output_index": 1}), json!({"item_id": "x", "output_index": 1}));
        for (name, other) in [(&x, &of), (&of, &x), (&of, &of), (&of, &at), (&x, &at)] {
            for events in [
                vec![delta(a, name.clone()), done(a, other.clone())],
                vec![delta(a, name.clone()), done(a, other.clone()), done(a, other.clone())],
                vec![delta(a, name.clone()), item_done(a, "x", at.clone()), done(a, other.clone())],
            ] {
                assert_eq!(joined(&events), BTreeMap::from([("x".into(), a.into())]), "{events:?}");
            }
        }
        for events in [
            vec![delta(a, json!({})), done(a, at.clone())],
            vec![done(a, at.clone()), done(a, at.clone())],
            vec![delta(a, at.clone()), done(a, json!({})), done(a, at)],
        ] {
            assert_eq!(joined(&events), BTreeMap::from([(String::new(), a.into())]), "{events:?}");
        }
    }

    #[test]
    fn calls_are_told_from_each_other_by_their_items_and_places() {
        let (a, b) = (r#"{"a":1}"#, r#"{"b":2}"#);
        let name = |id: &str, place: u64| json!({"item_id": id, "output_index": place});
        let item = |id: &str| json!({"item_id": id});
        let expected = BTreeMap::from([("x".to_owned(), a.to_owned()), ("y".to_owned(), b.to_owned())]);
        for [x, y] in [[name("x", 0), name("y", 1)], [item("x"), item("y")], [name("x", 0), item("y")]] {
            let pieces = |text: &str, name: &Value| {
                let (first, second) = text.split_at(3);
                [delta(first, name.clone()), delta(second, name.clone())]
            };
            let ([x1, x2], [y1, y2]) = (pieces(a, &x), pieces(b, &y));
            let (x3, y3) = (done(a, x), done(b, y));
            let events = [x1, y1, x2, y2, x3.clone(), y3.clone()];
            assert_eq!(joined(&events), expected, "{events:?}");
            assert_eq!(joined(&[x3, y3]), expected, "no pieces");
        }
    }

    #[test]
    fn what_is_held_of_all_calls_is_bounded() {
        let (first, long) = (r#"{"a":1}"#, "x".repeat(60 * 1024));
        let mut calls = PassingToolCalls::default();
        for place in 0..100 {
            for piece in [format!("{first}{{\"a\":\""), long.clone()] {
                let text = delta(&piece, json!({"output_index": place})).to_string();
                calls.event(DELTA, &text, object(&text).unwrap());
                assert!(calls.much_held() <= MAX_HELD);
            }
        }
    }
}
