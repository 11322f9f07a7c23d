//! What must hold of a body before any of its fields is read.
//!
//! The parser behind the fields skips what it is not asked for without looking at depth or at the
//! halves of surrogate pairs, and it expects valid UTF-8. So those three are settled here, over the
//! bytes, before it starts. Whether the text is JSON at all is the parser's to say.

use std::str;

use memchr::memchr2;

use super::fault::{broken_at, not_json};
use crate::domain::Invalid;

/// Openings are counted in blocks of this many bytes: few enough to stop early, enough to vectorise.
const BLOCK: usize = 4096;

/// The body as text: valid UTF-8, nested at most `max_depth` deep, without half a surrogate pair.
///
/// # Errors
/// The 400 for the first of these that does not hold, with line and column.
pub(super) fn text(body: &[u8], max_depth: usize) -> Result<&str, Invalid> {
    let text = str::from_utf8(body).map_err(|fault| broken_at(body, fault.valid_up_to(), "invalid UTF-8"))?;
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

/// The 400 for a body that is no object: not JSON at all, or JSON of another type.
pub(super) fn object(text: &str) -> Result<(), Invalid> {
    let first = text.bytes().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(b'{') {
        return Ok(());
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
    // `[` and `{` differ in one bit, so one comparison finds both.
    let openings = |block: &[u8]| block.iter().filter(|byte| **byte | 0x20 == b'{').count();
    let mut found = 0;
    body.chunks(BLOCK).any(|block| {
        found += openings(block);
        found > most
    })
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
    while let Some(skipped) = body.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += skipped;
        if body.get(at) == Some(&b'"') {
            return at;
        }
        at += 2;
    }
    body.len()
}

/// The position of the first `\u` escape that is half of a pair and stands alone.
fn lone_surrogate(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(skipped) = body.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += skipped;
        at += match utf16_unit(body, at) {
            Some(0xD800..=0xDBFF) if matches!(utf16_unit(body, at + 6), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => return Some(at),
            // Every other escape is at least two bytes; what follows `\u` holds no backslash.
            _ => 2,
        };
    }
    None
}

/// The unit that a `\uXXXX` at this position stands for; `None` when there is no such escape.
fn utf16_unit(body: &[u8], at: usize) -> Option<u16> {
    let escape = body.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    let digits = str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
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
