//! A checked JSON value as the slice it was written in.

use std::borrow::Cow;

use memchr::memchr;

/// A text without the mark of its encoding that may stand before it.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// One checked JSON value, as written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a> {
    text: &'a str,
    /// How many bytes a string's escapes are longer than the text they stand for; 0 without escapes.
    overhead: usize,
}

impl<'a> Raw<'a> {
    /// A checked value; `overhead` is the extra length of escapes in a string.
    #[inline]
    pub(super) fn new(text: &'a str, overhead: usize) -> Raw<'a> {
        Raw { text, overhead }
    }

    /// A value that the gateway has written itself. A string has no escapes.
    pub(crate) fn own(text: &'a str) -> Raw<'a> {
        Raw::new(text, 0)
    }

    /// The value as it was written, quotes included.
    pub(crate) fn written(self) -> &'a str {
        self.text
    }

    /// The bytes of the value as it was written, quotes included.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// UTF-8 bytes of the text a string stands for, escapes resolved; 0 for everything else.
    pub(crate) fn text_bytes(self) -> usize {
        if self.is_string() { self.text.len().saturating_sub(2 + self.overhead) } else { 0 }
    }

    pub(crate) fn is_null(self) -> bool {
        self.text == "null"
    }

    pub(crate) fn is_string(self) -> bool {
        self.bytes().first() == Some(&b'"')
    }

    pub(crate) fn is_object(self) -> bool {
        self.bytes().first() == Some(&b'{')
    }

    pub(crate) fn is_array(self) -> bool {
        self.bytes().first() == Some(&b'[')
    }

    /// Whether it is a string, array or object with something in it.
    pub(crate) fn is_filled(self) -> bool {
        match self.bytes().first() {
            Some(b'"') => self.text.len() > 2,
            Some(b'[' | b'{') => self.inner().iter().any(|byte| !byte.is_ascii_whitespace()),
            _ => false,
        }
    }

    /// A string that is not empty.
    pub(crate) fn filled_string(self) -> Option<Raw<'a>> {
        (self.is_string() && self.text.len() > 2).then_some(self)
    }

    /// The bytes between the quotes or brackets, as written.
    #[inline]
    pub(crate) fn inner(self) -> &'a [u8] {
        self.inner_text().as_bytes()
    }

    /// The same as text.
    #[inline]
    pub(crate) fn inner_text(self) -> &'a str {
        self.text.get(1..self.text.len().saturating_sub(1)).unwrap_or_default()
    }

    /// The text of a string, with U+FFFD for a lone surrogate; `None` for anything else.
    #[inline]
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        if !self.is_string() {
            return None;
        }
        if self.overhead == 0 {
            return Some(Cow::Borrowed(self.inner_text()));
        }
        unescaped(self.inner_text(), self.overhead).map(Cow::Owned)
    }

    /// The name an object's key stands for, so that `"\u0069d"` is `id`.
    #[inline]
    pub(crate) fn name(self) -> Cow<'a, [u8]> {
        if self.overhead == 0 { Cow::Borrowed(self.inner()) } else { self.escaped_name() }
    }

    #[cold]
    fn escaped_name(self) -> Cow<'a, [u8]> {
        self.text().map_or(Cow::Borrowed(self.inner()), |text| Cow::Owned(text.into_owned().into_bytes()))
    }

    /// A whole number from 0 to `u32::MAX`, also written as `12.0`.
    pub(crate) fn count(self) -> Option<u64> {
        if self.text.len() <= 10 && self.text.bytes().all(|byte| byte.is_ascii_digit()) {
            let value = self.bytes().iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
            return (value <= u64::from(u32::MAX)).then_some(value);
        }
        let value: f64 = self.text.parse().ok()?;
        let whole = value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value);
        whole.then_some(value as u64)
    }
}

/// What a checked text with escapes stands for, which is so many bytes shorter.
fn unescaped(mut rest: &str, overhead: usize) -> Option<String> {
    let mut text = String::with_capacity(rest.len().saturating_sub(overhead));
    while let Some((plain, escape)) = memchr(b'\\', rest.as_bytes()).and_then(|at| rest.split_at_checked(at)) {
        text.push_str(plain);
        let character = match escape.as_bytes().get(1)? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let units = escape.as_bytes().chunks(6).map_while(unit);
                let character = char::decode_utf16(units).next()?.unwrap_or(char::REPLACEMENT_CHARACTER);
                rest = escape.get(6 * character.len_utf16()..)?;
                text.push(character);
                continue;
            }
            byte => char::from(*byte),
        };
        text.push(character);
        rest = escape.get(2..)?;
    }
    text.push_str(rest);
    Some(text)
}

/// What the inside of a checked string with escapes stands for.
pub(crate) fn without_escapes(inner: &str) -> String {
    unescaped(inner, 0).unwrap_or_default()
}

/// UTF-8 bytes of what the inside of a checked string stands for.
pub(crate) fn length_without_escapes(inner: &str) -> usize {
    let (mut length, mut rest) = (0, inner.as_bytes());
    while let Some((plain, escape)) = memchr(b'\\', rest).and_then(|at| rest.split_at_checked(at)) {
        length += plain.len();
        let mut written = 2;
        if escape.get(1) == Some(&b'u') {
            let units = escape.chunks(6).map_while(unit);
            let character = char::decode_utf16(units).next().map(|read| read.unwrap_or(char::REPLACEMENT_CHARACTER));
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            length += character.len_utf8();
            written = 6 * character.len_utf16();
        } else {
            length += 1;
        }
        rest = escape.get(written..).unwrap_or_default();
    }
    length + rest.len()
}

/// The number of `\uXXXX`.
fn unit(escape: &[u8]) -> Option<u16> {
    let digits = escape.strip_prefix(b"\\u")?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::cursor::Cursor;
    use crate::neutral::lone_halves_replaced;

    #[test]
    fn text_is_measured_with_escapes_resolved() {
        let mut cursor = Cursor::new(r#""a\n\u00e9\ud83d\ude00\u4f60" "#);
        let raw = cursor.string().unwrap();
        assert_eq!(raw.text().unwrap(), "a\né😀你");
        assert_eq!(raw.text_bytes(), "a\né😀你".len());
    }

    proptest! {
        #[test]
        fn escapes_stand_for_what_serde_reads(inner in r#"([a-zé😀 ]|\\[nrtbf/\\"]|\\u[0-9a-fD][0-9a-f]{3}|\\ud83d\\ude0[0-9a-f]){0,12}"#) {
            let written = format!("\"{inner}\"");
            let read = Cursor::new(&written).string().unwrap();
            let expected: String = serde_json::from_str(&lone_halves_replaced(&written)).unwrap();
            prop_assert_eq!(read.text_bytes(), expected.len());
            prop_assert_eq!(super::length_without_escapes(read.inner_text()), expected.len());
            prop_assert_eq!(read.text().unwrap(), expected);
        }
    }

    #[test]
    fn counts_are_whole_and_plausible() {
        let count = |text: &str| Cursor::new(text).value().unwrap().count();
        assert_eq!(count("12"), Some(12));
        assert_eq!(count("12.0"), Some(12));
        for odd in ["-1", "12.5", "99999999999999999999999", "4294967296", "\"12\"", "null", "1e400"] {
            assert_eq!(count(odd), None, "{odd}");
        }
    }
}
