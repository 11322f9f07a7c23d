//! The calls of functions in a stream of the Responses API that passes as it came: their arguments become one object.
//!
//! What is held back of a call's arguments goes into an event of its own before the event that ends them, so that a client
//! that joins the pieces has what that event says. All later events then have higher numbers than at the provider.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::splice::{settle_arguments, settle_call};
use crate::{
    json::{Raw, Splice, object, push_member, push_u64},
    neutral::CallArguments,
};

/// Most calls whose arguments are followed at a time.
const MAX_CALLS: usize = 1_024;
/// The event with a piece of the arguments.
pub(crate) const DELTA: &str = "response.function_call_arguments.delta";

const DONE: &str = "response.function_call_arguments.done";
const ITEM_DONE: &str = "response.output_item.done";

/// The calls whose arguments have begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct PassingCalls {
    /// By their places in the output.
    open: Vec<(u64, CallArguments)>,
    /// What is passed on of the last piece.
    passed: BytesMut,
    /// How many events were added so far.
    added: u64,
}

/// What becomes of an event.
#[derive(Debug, Default)]
pub(crate) struct PassingEvent {
    /// The data of a [`DELTA`] that goes before it.
    pub(crate) delta: Option<Bytes>,
    /// Its data, if they change.
    pub(crate) data: Option<Bytes>,
}

impl PassingCalls {
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

    /// How much higher the numbers of the events are than at the provider.
    pub(crate) fn added(&self) -> u64 {
        self.added
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
        let place = place_of(event);
        if !self.open.iter().any(|(at, _)| *at == place) && self.open.len() < MAX_CALLS {
            self.open.push((place, CallArguments::object()));
        }
        let (_, call) = self.open.iter_mut().find(|(at, _)| *at == place)?;
        self.passed.clear();
        call.piece(piece.inner(), &mut self.passed);
        if *self.passed == *piece.inner() {
            return None;
        }
        let mut splice = Splice::new(data);
        splice.replace(piece, &[b"\"", &self.passed[..], b"\""].concat());
        Some(splice.finish())
    }

    /// The data of an event with what no piece had of the arguments that end here.
    fn end_arguments(&mut self, done: Raw<'_>) -> Option<Bytes> {
        let mut call = self.close(done).unwrap_or_else(|| {
            let mut call = CallArguments::object();
            let arguments = done.member(b"arguments").filter(|arguments| arguments.is_string());
            // The pieces of a provider that sends none.
            self.passed.clear();
            call.piece(arguments.map(Raw::inner).unwrap_or_default(), &mut self.passed);
            call
        });
        call.end(true, &mut self.passed);
        self.delta(done, done.member(b"item_id"))
    }

    /// The same before the end of an item, if nothing has ended its arguments.
    fn end_item(&mut self, done: Raw<'_>, item: Raw<'_>) -> Option<Bytes> {
        self.close(done)?.end(false, &mut self.passed);
        self.delta(done, item.member(b"id"))
    }

    /// The call of this event, which is followed no longer. Nothing is passed on yet.
    fn close(&mut self, event: Raw<'_>) -> Option<CallArguments> {
        self.passed.clear();
        let place = place_of(event);
        let known = self.open.iter().position(|(at, _)| *at == place)?;
        Some(self.open.swap_remove(known).1)
    }

    /// The data of an event with what is passed on, which goes before `next`.
    fn delta(&mut self, next: Raw<'_>, item: Option<Raw<'_>>) -> Option<Bytes> {
        if self.passed.is_empty() {
            return None;
        }
        let mut data = BytesMut::from(&b"{\"type\":\""[..]);
        data.put_slice(DELTA.as_bytes());
        data.put_u8(b'"');
        let [number, place] = next.pick([b"sequence_number", b"output_index"]);
        if let Some(number) = number.and_then(Raw::count) {
            push_member(&mut data, b"sequence_number", b"");
            push_u64(&mut data, number.saturating_add(self.added));
        }
        for (name, value) in [(&b"item_id"[..], item), (b"output_index", place)] {
            if let Some(value) = value {
                push_member(&mut data, name, value.bytes());
            }
        }
        push_member(&mut data, b"delta", b"\"");
        data.put_slice(&self.passed);
        data.put_slice(b"\"}");
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

fn place_of(event: Raw<'_>) -> u64 {
    event.member(b"output_index").and_then(Raw::count).unwrap_or(0)
}
