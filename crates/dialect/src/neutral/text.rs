//! Text as it stands inside a JSON string.

use std::{borrow::Cow, fmt};

use bytes::BytesMut;

use crate::json::{Piece, Raw, length_without_escapes, push_member, push_quoted, push_string, without_escapes};

/// The inside of a JSON string, escaped, without its quotes. Copied from one dialect to another without unescaping.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct EscapedText<'a>(Cow<'a, str>);

impl Piece for EscapedText<'_> {
    #[inline]
    fn push(&self, out: &mut BytesMut) {
        self.push_quoted(out);
    }
}

impl<'a> EscapedText<'a> {
    /// The text of a JSON string; `None` for any other value.
    pub(crate) fn read(raw: Raw<'a>) -> Option<EscapedText<'a>> {
        raw.is_string().then(|| EscapedText(Cow::Borrowed(raw.inner_text())))
    }

    /// The text of a JSON string that is not empty.
    pub(crate) fn filled(raw: Raw<'a>) -> Option<EscapedText<'a>> {
        raw.filled_string().and_then(EscapedText::read)
    }

    /// Escapes `text`.
    pub(crate) fn escaping(text: &str) -> EscapedText<'a> {
        let mut quoted = BytesMut::with_capacity(text.len() + 2);
        push_string(&mut quoted, text);
        let quoted = std::str::from_utf8(&quoted).unwrap_or_default();
        EscapedText(Cow::Owned(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()))
    }

    /// Text that needs no escaping, such as a constant of letters.
    pub(crate) const fn plain(text: &'a str) -> EscapedText<'a> {
        EscapedText(Cow::Borrowed(text))
    }

    /// The escaped bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The escaped text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// UTF-8 bytes of the text without escapes.
    pub(crate) fn text_bytes(&self) -> usize {
        length_without_escapes(&self.0)
    }

    /// The text as it stands in the source, if it needs no unescaping.
    pub(crate) fn as_plain(&self) -> Option<&'a str> {
        match self.0 {
            Cow::Borrowed(text) if !self.has_escapes() => Some(text),
            _ => None,
        }
    }

    fn has_escapes(&self) -> bool {
        memchr::memchr(b'\\', self.bytes()).is_some()
    }

    /// The text without escapes. An unpaired surrogate becomes U+FFFD.
    pub(crate) fn unescaped(&self) -> Cow<'_, str> {
        if !self.has_escapes() {
            return Cow::Borrowed(&self.0);
        }
        Cow::Owned(without_escapes(&self.0))
    }

    /// Whether there is no text.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is nothing but white space in it.
    pub(crate) fn is_blank(&self) -> bool {
        // Most texts begin with a letter: then nothing is unescaped.
        match self.bytes().first() {
            None => true,
            Some(b' ' | b'\\' | 0x80..) => self.unescaped().trim().is_empty(),
            Some(_) => false,
        }
    }

    /// Number of characters it stands for. One whose first half stands in the piece before is counted there.
    pub(crate) fn characters(&self) -> u64 {
        let count = |text: &str| text.chars().count() as u64;
        if !self.has_escapes() {
            return count(&self.0);
        }
        count(&self.unescaped()).saturating_sub(u64::from(is_low_surrogate(self.bytes())))
    }

    /// Appends the text as a JSON string, quotes included.
    pub(crate) fn push_quoted(&self, out: &mut BytesMut) {
        push_quoted(out, self.bytes());
    }

    /// Appends `,"name":"text"`; the name must need no escaping.
    pub(crate) fn push_member(&self, out: &mut BytesMut, name: &[u8]) {
        push_member(out, name, b"");
        self.push_quoted(out);
    }

    /// The text with `more` behind it.
    pub(crate) fn joined(self, more: &EscapedText<'_>) -> EscapedText<'static> {
        EscapedText(self.0 + &*more.0).into_owned()
    }

    /// Texts one behind the other, as they are written.
    pub(crate) fn joining(texts: &[&str]) -> EscapedText<'a> {
        EscapedText(Cow::Owned(texts.concat()))
    }

    /// The same text, independent of the source.
    pub(crate) fn into_owned(self) -> EscapedText<'static> {
        EscapedText(Cow::Owned(self.0.into_owned()))
    }

    /// A borrow of the same text.
    pub(crate) fn borrowed(&self) -> EscapedText<'_> {
        EscapedText(Cow::Borrowed(&self.0))
    }
}

impl fmt::Debug for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// Whether the bytes begin with the escape of the first half of a surrogate pair.
pub(crate) fn is_high_surrogate(escape: &[u8]) -> bool {
    matches!(escape, [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', third, fourth, ..]
        if third.is_ascii_hexdigit() && fourth.is_ascii_hexdigit())
}

/// Whether the bytes begin with the escape of the second half of a surrogate pair.
pub(super) fn is_low_surrogate(escape: &[u8]) -> bool {
    matches!(escape, [b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F', third, fourth, ..]
        if third.is_ascii_hexdigit() && fourth.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> EscapedText<'_> {
        EscapedText::read(Raw::whole(text).unwrap()).unwrap()
    }

    #[test]
    fn a_text_is_copied_as_it_stands_and_read_without_escapes() {
        let text = quoted(r#""a\né\u00e9\"""#);
        assert_eq!(text.bytes(), r#"a\né\u00e9\""#.as_bytes());
        assert_eq!(text.unescaped(), "a\néé\"");
        let mut out = BytesMut::new();
        text.push_quoted(&mut out);
        assert_eq!(out, r#""a\né\u00e9\"""#.as_bytes());
    }

    #[test]
    fn escaping_and_unescaping_give_the_text_back() {
        for text in ["", "plain", "\"quoted\"\n\t\\", "\u{1}é😀"] {
            assert_eq!(EscapedText::escaping(text).unescaped(), text);
        }
    }

    #[test]
    fn a_lone_surrogate_is_replaced_and_a_pair_is_kept() {
        assert_eq!(quoted(r#""x\ud83dy\n""#).unescaped(), "x\u{fffd}y\n");
        assert_eq!(quoted(r#""\ud83d\ude00\ude00""#).unescaped(), "😀\u{fffd}");
    }

    #[test]
    fn blank_means_nothing_but_white_space_however_it_is_written() {
        assert!(quoted(r#"" \n\t\u0020""#).is_blank());
        assert!(!quoted(r#"" .""#).is_blank());
    }
}
