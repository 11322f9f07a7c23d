//! Checks of the bytes of a body before its fields are read: UTF-8, nesting depth and surrogate pairs.
//!
//! The JSON parser expects valid UTF-8 and skips unused values without checking depth or surrogate pairs. So these
//! three are checked first. Whether the text is JSON is checked by the parser.

use std::str;

use memchr::{memchr2, memchr2_iter, memmem};

use super::fault::{broken_at, not_json};
use crate::domain::Invalid;

/// The body as text: valid UTF-8, nested at most `max_depth` deep, without half a surrogate pair.
///
/// # Errors
/// The 400 for the first of these that does not hold, with line and column.
pub(super) fn text(body: &[u8], max_depth: usize) -> Result<&str, Invalid> {
    let text = utf8(body)?;
    if openings_exceed(body, max_depth)
        && let Some(at) = too_deep(body, max_depth)
    {
        let what = format!("nesting deeper than {max_depth} levels");
        return Err(broken_at(body, at, &what));
    }
    match lone_surrogate(body) {
        Some(at) => Err(broken_at(body, at, "half of a surrogate pair")),
        None => Ok(text),
    }
}

/// The body as UTF-8. The vectorised check does not say where a fault is: that is looked up only then.
fn utf8(body: &[u8]) -> Result<&str, Invalid> {
    simdutf8::basic::from_utf8(body)
        .or_else(|_| str::from_utf8(body).map_err(|fault| broken_at(body, fault.valid_up_to(), "invalid UTF-8")))
}

/// The 400 for a body that is no object: not JSON at all, or JSON of another type.
pub(super) fn object(text: &str) -> Result<(), Invalid> {
    let first = text.bytes().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(b'{') {
        return Ok(());
    }
    if first.is_none() {
        return Err(super::fault::empty());
    }
    Err(match valid(text) {
        Ok(()) => super::fault::not_an_object(),
        Err(invalid) => invalid,
    })
}

/// Whether the whole text is one JSON value, looked at on its own after a field was refused: a body that is
/// no JSON is told so, whatever else is wrong with it.
pub(super) fn valid(text: &str) -> Result<(), Invalid> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop).map_err(|fault| not_json(&fault))
}

/// Whether there are more opening brackets than the depth allows: if not, no nesting can be too deep.
/// Brackets inside strings count as well, so this may say yes to a flat body, never no to a deep one.
fn openings_exceed(body: &[u8], most: usize) -> bool {
    memchr2_iter(b'{', b'[', body).nth(most).is_some()
}

/// Where the nesting first exceeds `max_depth`.
fn too_deep(body: &[u8], max_depth: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = body.get(at) {
        match byte {
            b'"' => at = string_end(body, at + 1),
            b'{' | b'[' => {
                depth += 1;
                if depth > max_depth {
                    return Some(at);
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The position of the quote that ends a string, for the position after its first quote.
fn string_end(body: &[u8], mut at: usize) -> usize {
    while let Some(found) = quote_or_backslash(body, at) {
        if body.get(found) == Some(&b'"') {
            return found;
        }
        at = found + 2;
    }
    body.len()
}

/// The next quote or backslash. Text in JSON has an escape every few words, so the first bytes are looked at
/// eight at a time; only then is it worth setting up a search that strides through an image.
fn quote_or_backslash(body: &[u8], mut at: usize) -> Option<usize> {
    const WORDS: usize = 4;
    for _ in 0..WORDS {
        let Some(word) = body.get(at..).and_then(|rest| rest.first_chunk::<8>()) else { break };
        let word = u64::from_le_bytes(*word);
        let hits = bytes_equal(word, b'"') | bytes_equal(word, b'\\');
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    body.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)).map(|skipped| at + skipped)
}

/// The high bit of each byte that equals `byte`; bits above the lowest one that is set may be wrong.
fn bytes_equal(word: u64, byte: u8) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let zero_where_equal = word ^ (ONES * u64::from(byte));
    zero_where_equal.wrapping_sub(ONES) & !zero_where_equal & (ONES << 7)
}

/// The position of the first `\u` escape that is half of a pair and stands alone.
fn lone_surrogate(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(skipped) = body.get(at..).and_then(|rest| memmem::find(rest, b"\\u")) {
        at += skipped;
        if is_escaped(body, at) {
            at += 2;
            continue;
        }
        // Text written in ASCII has one after another: those need no new search.
        while let Some(unit) = utf16_unit(body, at) {
            at += match unit {
                0xD800..=0xDBFF if matches!(utf16_unit(body, at + 6), Some(0xDC00..=0xDFFF)) => 12,
                0xD800..=0xDFFF => return Some(at),
                _ => 6,
            };
        }
        // What is left is no whole escape; the parser will say so, or it was skipped above.
        at += usize::from(body.get(at) == Some(&b'\\')) * 2;
    }
    None
}

/// Whether the backslash at this position is itself escaped: an odd number of them stands before it.
fn is_escaped(body: &[u8], at: usize) -> bool {
    let before = body.get(..at).unwrap_or_default();
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The unit that a `\uXXXX` at this position stands for; `None` when there is no such escape.
fn utf16_unit(body: &[u8], at: usize) -> Option<u16> {
    let [b'\\', b'u', digits @ ..] = body.get(at..)?.first_chunk::<6>()? else { return None };
    digits.iter().try_fold(0, |unit: u16, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &[u8]) -> String {
        text(body, 4).map(str::to_owned).expect_err("must be refused").message
    }

    #[test]
    fn depth_is_counted_outside_strings_only() {
        assert!(text(br#"{"a":[[["]]]]{{{{[[[[\"[[[["]]]}"#, 4).is_ok());
        assert_eq!(
            refused(br#"{"a":[[[[1]]]]}"#),
            "Request body is not valid JSON: nesting deeper than 4 levels at line 1 column 9."
        );
    }

    #[test]
    fn siblings_do_not_add_up() {
        assert!(text(br#"[[],[],[],[],[],[],[],[{}]]"#, 4).is_ok());
    }

    #[test]
    fn a_pair_of_surrogates_passes_and_half_a_pair_does_not() {
        for good in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\\\\ud83d \u00e9""#, r#""\u"#, r#""\uzzzz""#] {
            assert!(text(good.as_bytes(), 4).is_ok(), "{good}");
        }
        for bad in [r#""\ud83d""#, r#""\ude00""#, r#""\\\ud83d\n""#, r#""\ud83d\ud83d""#, r#""\uDBFFx""#] {
            assert!(refused(bad.as_bytes()).contains("surrogate"), "{bad}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_located() {
        assert_eq!(
            refused(b"{\n\"a\": \"\xff\"}"),
            "Request body is not valid JSON: invalid UTF-8 at line 2 column 7."
        );
    }
}
