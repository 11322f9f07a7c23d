//! Reads large values of any type in one pass.
//!
//! A [`ValueVisitor`] says what to do for the JSON types it expects; every other type falls to
//! [`ValueVisitor::other`]. [`visit`] hands it the value at a cursor, so the prompt goes by once, as slices of the body,
//! and nothing of it is kept but numbers and positions. Escapes are measured, not resolved.

use pointsman_domain::Invalid;

use super::json_type::JsonType;
use crate::json::{Cursor, JsonFault, Raw};

/// Reading stopped: at text that is no JSON, or at a mistake, which is stored elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stopped;

impl From<JsonFault> for Stopped {
    fn from(_: JsonFault) -> Stopped {
        Stopped
    }
}

/// Handles a value of each JSON type.
pub(super) trait ValueVisitor<'a>: Sized {
    /// Result of the visit.
    type Out;

    /// The value has a type for which nothing else is said. Arrays and objects were skipped before.
    fn other(self, got: JsonType) -> Result<Self::Out, Stopped>;

    /// The value is null.
    fn null(self) -> Result<Self::Out, Stopped> {
        self.other(JsonType::Null)
    }

    /// The value is this string.
    fn text(self, _text: Raw<'a>) -> Result<Self::Out, Stopped> {
        self.other(JsonType::Text)
    }

    /// The value is an array. Reads it to its end.
    fn array(self, mut items: ArrayReader<'_, 'a>) -> Result<Self::Out, Stopped> {
        while items.next(Skip)?.is_some() {}
        self.other(JsonType::Array)
    }

    /// The value is an object. Reads it to its end.
    fn object(self, mut members: ObjectReader<'_, 'a>) -> Result<Self::Out, Stopped> {
        while members.key()?.is_some() {
            members.raw()?;
        }
        self.other(JsonType::Object)
    }
}

/// Hands the value that comes next to a visitor.
pub(super) fn visit<'a, V: ValueVisitor<'a>>(cursor: &mut Cursor<'a>, visitor: V) -> Result<V::Out, Stopped> {
    match cursor.peek()? {
        b'"' => visitor.text(cursor.string()?),
        b'{' => {
            cursor.enter()?;
            visitor.object(ObjectReader { cursor, first: true })
        }
        b'[' => {
            cursor.enter()?;
            visitor.array(ArrayReader { cursor, first: true })
        }
        _ => match JsonType::of(cursor.value()?) {
            JsonType::Null => visitor.null(),
            kind => visitor.other(kind),
        },
    }
}

/// The members of an object, read one by one: a key, then its value.
pub(super) struct ObjectReader<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    first: bool,
}

impl<'a> ObjectReader<'_, 'a> {
    /// The next key; `None` at the end of the object.
    pub(super) fn key(&mut self) -> Result<Option<Raw<'a>>, Stopped> {
        let key = self.cursor.key(&mut self.first)?;
        if key.is_none() {
            self.cursor.leave();
        }
        Ok(key)
    }

    /// Where the value of the key begins.
    pub(super) fn start(&mut self) -> Result<usize, Stopped> {
        self.cursor.peek()?;
        Ok(self.cursor.at())
    }

    /// Where the value of the key ends, once it was read.
    pub(super) fn at(&self) -> usize {
        self.cursor.at()
    }

    /// Hands the value of the key to a visitor.
    pub(super) fn value<V: ValueVisitor<'a>>(&mut self, visitor: V) -> Result<V::Out, Stopped> {
        visit(self.cursor, visitor)
    }

    /// The value of the key as it is written.
    pub(super) fn raw(&mut self) -> Result<Raw<'a>, Stopped> {
        Ok(self.cursor.value()?)
    }
}

/// The elements of an array, read one by one.
pub(super) struct ArrayReader<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    first: bool,
}

impl<'a> ArrayReader<'_, 'a> {
    /// Hands the next element to a visitor; `None` at the end of the array.
    pub(super) fn next<V: ValueVisitor<'a>>(&mut self, visitor: V) -> Result<Option<V::Out>, Stopped> {
        if self.cursor.element(&mut self.first)? {
            return visit(self.cursor, visitor).map(Some);
        }
        self.cursor.leave();
        Ok(None)
    }
}

/// Skips a value.
struct Skip;

impl ValueVisitor<'_> for Skip {
    type Out = ();

    fn other(self, _: JsonType) -> Result<(), Stopped> {
        Ok(())
    }
}

/// Stops reading because of a mistake in a value, which is stored in `slot`.
pub(super) fn stop(slot: &mut Option<Invalid>, invalid: Invalid) -> Stopped {
    *slot = Some(invalid);
    Stopped
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

    fn text(self, text: Raw<'_>) -> Result<TextLength, Stopped> {
        Ok(TextLength::Text(text.text_bytes()))
    }

    fn other(self, got: JsonType) -> Result<TextLength, Stopped> {
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
