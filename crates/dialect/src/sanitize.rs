//! Cleaning of ids, model names, finish reasons and error texts from providers, for logs and records.
//!
//! They are untrusted: control characters and keys are removed and the length is limited. Content of answers is not
//! cleaned.

use std::borrow::Cow;

/// Longest id, name or reason that is kept, in characters.
pub(crate) const NAME_CHARS: usize = 200;
/// Longest error text that is kept, in characters.
pub(crate) const ERROR_CHARS: usize = 2_000;
/// Longest name of an error in the log, in characters.
const NAME_FOR_LOG_CHARS: usize = 64;
/// Shortest run of characters after `sk-` that is treated as a key.
const KEY_CHARS: usize = 8;

/// A code or type of an error as a log may show it: a name. `None` if it is text, which may quote a prompt.
pub(crate) fn name_for_log(text: &str) -> Option<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    (text.len() <= NAME_FOR_LOG_CHARS && text.chars().all(is_name) && clean(text, NAME_CHARS) == text).then_some(text)
}

/// The error of an upstream for the log: its type, and not its message, which may quote a prompt.
pub(crate) fn reported_error(kind: &str) -> String {
    let name = name_for_log(kind).filter(|name| !name.is_empty()).map(|name| format!(" [{name}]")).unwrap_or_default();
    format!("the upstream reported an error{name}")
}

/// `text` without control characters and with keys replaced by `***`, cut at `limit` characters.
pub(crate) fn clean(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit && is_plain(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let visible: String = text.chars().filter(|c| !c.is_control()).collect();
    let blotted = blot_keys(&visible);
    Cow::Owned(blotted.chars().take(limit).collect())
}

/// Whether there is certainly nothing to clean. A fast check, because most names are plain.
fn is_plain(bytes: &[u8]) -> bool {
    let has_odd = bytes.iter().fold(false, |odd, byte| odd | !(0x20..0x7f).contains(byte));
    let ends_key_mark = |dash: usize| bytes.get(..dash).is_some_and(|before| before.ends_with(b"sk"));
    !has_odd && !memchr::memchr_iter(b'-', bytes).any(ends_key_mark)
}

fn blot_keys(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("sk-") {
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').unwrap_or(after.len());
        let (run, tail) = after.split_at_checked(end).unwrap_or((after, ""));
        kept.push_str(before);
        kept.push_str("sk-");
        // `risk-averse` is a word, not a key.
        let inside_word = before.ends_with(|c: char| c.is_ascii_alphanumeric());
        kept.push_str(if run.len() >= KEY_CHARS && !inside_word { "***" } else { run });
        rest = tail;
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_go_and_the_length_is_bounded() {
        assert_eq!(clean("chatcmpl-1", NAME_CHARS), "chatcmpl-1");
        assert_eq!(clean("a\r\nb\u{0}\u{85}c\u{1b}[0m", NAME_CHARS), "abc[0m");
        assert_eq!(clean(&"é".repeat(300), NAME_CHARS).chars().count(), NAME_CHARS);
    }

    #[test]
    fn what_looks_like_a_key_is_blotted_out() {
        assert_eq!(clean("bad key sk-proj-0123456789abc!", ERROR_CHARS), "bad key sk-***!");
        assert_eq!(clean("sk-\u{0}0123456789", ERROR_CHARS), "sk-***");
        assert_eq!(clean("a risk-assessment, sk-1", ERROR_CHARS), "a risk-assessment, sk-1");
    }
}
