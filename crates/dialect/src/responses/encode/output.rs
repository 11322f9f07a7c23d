//! The items of an answer: their ids, and those that are done.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::{
    answer::{AnswerFault, AnswerResult},
    json::{Comma, push_quoted},
};

/// Most items of an answer.
const MAX_ITEMS: usize = 4_096;
/// Most characters of the response's id in those of its items.
const ID_CHARS: usize = 40;

/// Between prefix and rest of the ids that are made here.
pub(in crate::responses) const GENERATED: &str = "_gen";

pointsman_domain::named! {
    /// How far an item is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum ItemStatus {
        InProgress = "in_progress",
        Completed = "completed",
        Incomplete = "incomplete",
    }
}

/// Place and id of an item.
#[derive(Debug, Clone)]
pub(super) struct ItemHead {
    /// Its index in the output.
    pub(super) place: u64,
    /// Its id, escaped. Providers refuse history whose ids do not begin with the prefix of the item's type.
    id: Vec<u8>,
    /// Whether the id is the upstream's.
    is_native: bool,
}

impl ItemHead {
    /// An id of our own: `msg_gen…`.
    pub(super) fn new(prefix: &str, response: &str, place: u64) -> ItemHead {
        let response = response.strip_prefix("gen-").unwrap_or(response);
        let plain: String = response.chars().filter(char::is_ascii_alphanumeric).take(ID_CHARS).collect();
        ItemHead { place, id: format!("{prefix}{GENERATED}{plain}_{place}").into_bytes(), is_native: false }
    }

    /// The same place with the id of the upstream, escaped.
    pub(super) fn with_id(self, id: &[u8]) -> ItemHead {
        ItemHead { id: id.to_vec(), is_native: true, ..self }
    }

    /// Whether the item may be the one of that id at the upstream.
    pub(super) fn admits(&self, id: &[u8]) -> bool {
        !self.is_native || self.id == id
    }

    /// Appends the id as a string.
    pub(super) fn push_id(&self, out: &mut BytesMut) {
        push_quoted(out, &self.id);
    }

    /// Appends `{"type":…,"id":…`.
    pub(super) fn push(&self, kind: &[u8], out: &mut BytesMut) {
        push!(out; br#"{"type":""#, kind, br#"","id":"#);
        self.push_id(out);
    }
}

/// The items that are done, in their places.
#[derive(Debug)]
pub(super) struct Output {
    /// Empty for an item that is not done.
    items: Vec<Bytes>,
    /// Bytes of content so far.
    bytes: usize,
    max_bytes: usize,
}

impl Output {
    pub(super) fn new(max_bytes: usize) -> Output {
        Output { items: Vec::new(), bytes: 0, max_bytes }
    }

    /// Counts bytes of content.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn charge(&mut self, bytes: usize) -> AnswerResult {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.max_bytes {
            return Err(AnswerFault::malformed("the answer is longer than allowed"));
        }
        Ok(())
    }

    /// The place of the next item.
    ///
    /// # Errors
    /// When there are too many items.
    pub(super) fn reserve(&mut self) -> AnswerResult<u64> {
        if self.items.len() >= MAX_ITEMS {
            return Err(AnswerFault::malformed("too many items"));
        }
        self.items.push(Bytes::new());
        Ok(self.items.len() as u64 - 1)
    }

    /// Keeps an item that is done.
    pub(super) fn put(&mut self, place: u64, item: Bytes) {
        if let Some(slot) = usize::try_from(place).ok().and_then(|place| self.items.get_mut(place)) {
            *slot = item;
        }
    }

    /// Appends the items that are done as an array.
    pub(super) fn push(&self, out: &mut BytesMut) {
        out.put_u8(b'[');
        for item in self.items.iter().filter(|item| !item.is_empty()) {
            push!(out; Comma, item);
        }
        out.put_u8(b']');
    }
}
