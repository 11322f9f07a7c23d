//! Reads large values of any type in one pass.
//!
//! A [`ValueVisitor`] says what to do for the JSON types it expects; every other type falls to
//! [`ValueVisitor::other`]. Wrapped in [`VisitorSeed`] it can be handed to the parser wherever a value stands, so the
//! prompt goes by once, borrowed, and nothing of it is kept but numbers and positions.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::json_type::JsonType;
use crate::domain::Invalid;

/// Handles a value of each JSON type.
pub(super) trait ValueVisitor<'a>: Sized {
    /// Result of the visit.
    type Out;

    /// The value has a type for which nothing else is said. Arrays and objects were skipped before.
    fn other<E: Error>(self, got: JsonType) -> Result<Self::Out, E>;

    /// The value is null.
    fn null<E: Error>(self) -> Result<Self::Out, E> {
        self.other(JsonType::Null)
    }

    /// The value is a string, which reads so.
    fn text<E: Error>(self, _text: &str) -> Result<Self::Out, E> {
        self.other(JsonType::Text)
    }

    /// The value is an array.
    fn array<A: SeqAccess<'a>>(self, mut items: A) -> Result<Self::Out, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        self.other(JsonType::Array)
    }

    /// The value is an object.
    fn object<A: MapAccess<'a>>(self, mut members: A) -> Result<Self::Out, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.other(JsonType::Object)
    }
}

/// Makes a [`ValueVisitor`] readable by the parser.
pub(super) struct VisitorSeed<S>(pub(super) S);

impl<'a, S: ValueVisitor<'a>> DeserializeSeed<'a> for VisitorSeed<S> {
    type Value = S::Out;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<S::Out, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a, S: ValueVisitor<'a>> Visitor<'a> for VisitorSeed<S> {
    type Value = S::Out;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<S::Out, E> {
        self.0.null()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<S::Out, E> {
        self.0.other(JsonType::Bool)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<S::Out, E> {
        self.0.other(JsonType::Number)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<S::Out, E> {
        self.0.other(JsonType::Number)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<S::Out, E> {
        self.0.other(JsonType::Number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<S::Out, E> {
        self.0.text(text)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, items: A) -> Result<S::Out, A::Error> {
        self.0.array(items)
    }

    fn visit_map<A: MapAccess<'a>>(self, members: A) -> Result<S::Out, A::Error> {
        self.0.object(members)
    }
}

/// Stops the parser because of a mistake in a value. The mistake is stored in `slot`; the error of the parser has no
/// information.
pub(super) fn stop<E: Error>(slot: &mut Option<Invalid>, invalid: Invalid) -> E {
    *slot = Some(invalid);
    E::custom("refused")
}

/// Type of a value, and its length if it is a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextLength {
    /// A string of that many bytes of UTF-8, escapes resolved.
    Text(usize),
    /// Anything else.
    Other(JsonType),
}

/// Measures a value.
pub(super) struct LengthVisitor;

impl ValueVisitor<'_> for LengthVisitor {
    type Out = TextLength;

    fn text<E: Error>(self, text: &str) -> Result<TextLength, E> {
        Ok(TextLength::Text(text.len()))
    }

    fn other<E: Error>(self, got: JsonType) -> Result<TextLength, E> {
        Ok(TextLength::Other(got))
    }
}

/// The known names of an object that were read so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SeenKeys(u32);

impl SeenKeys {
    /// Notes a name by its position; false when it was met before.
    pub(super) fn first_time(&mut self, position: u8) -> bool {
        let bit = 1_u32.checked_shl(u32::from(position)).unwrap_or(0);
        let first = self.0 & bit == 0;
        self.0 |= bit;
        first
    }
}
