//! Byte ranges of the body, so that it can be forwarded as slices.

use std::ops::Range;

use crate::json::Raw;

/// A byte range of the body.
pub(super) type ByteSpan = Range<usize>;

/// The text of the body. Finds the byte range of a borrowed value.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyText<'a>(pub(super) &'a str);

impl BodyText<'_> {
    /// Where a value that was borrowed from the body stands in it.
    pub(super) fn span(self, raw: Raw<'_>) -> ByteSpan {
        let piece = raw.written();
        let start = piece.as_ptr().addr().saturating_sub(self.0.as_ptr().addr());
        start..start + piece.len()
    }
}

/// A value that may have to be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    /// The value to replace.
    pub(super) span: ByteSpan,
    /// By what.
    pub(super) want: Replacement,
}

/// Replacement of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replacement {
    /// The role `system`, where the upstream does not know `developer`.
    SystemRole,
    /// The empty text: in the place of a content of an assistant that says nothing.
    EmptyText,
    /// The same value, and an empty `content` behind it: for an assistant that says nothing.
    WithEmptyContent,
    /// The same address as the object that upstreams expect.
    ImageObject,
    /// This integer, which was written with a point or an exponent.
    Integer(i64),
}

/// The end of the value before the name that begins at `next`: white space and the comma left out.
pub(super) fn end_before(text: &[u8], next: usize) -> usize {
    let before = trimmed(text, next);
    let comma = before.checked_sub(1).filter(|last| text.get(*last) == Some(&b','));
    comma.map_or(before, |comma| trimmed(text, comma))
}

/// Where a value begins after its name, which ends at `key_end`.
pub(super) fn value_start(text: &[u8], key_end: usize) -> usize {
    let rest = text.get(key_end..).unwrap_or_default();
    let gap = rest.iter().take_while(|byte| **byte == b':' || is_space(**byte)).count();
    key_end + gap
}

fn trimmed(text: &[u8], end: usize) -> usize {
    let kept = text.get(..end).unwrap_or(text);
    kept.len() - kept.iter().rev().take_while(|byte| is_space(**byte)).count()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_ends_before_the_comma_and_the_space_around_it() {
        let body = br#"{"a" : 1 , "b":2 }"#;
        assert_eq!(end_before(body, 11), 8);
        assert_eq!(end_before(body, body.len() - 1), 16);
        assert_eq!(value_start(body, 4), 7);
    }
}
