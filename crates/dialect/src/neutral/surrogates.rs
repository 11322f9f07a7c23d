//! Escaped surrogate pairs of which a half is missing, or stands in the next piece of the text.

use std::borrow::Cow;

use crate::neutral::{EscapedText, is_high_surrogate, text::is_low_surrogate};

/// Length of the escape `\ud83d`.
const ESCAPE: usize = 6;

/// JSON text in which every half of a pair that stands alone is U+FFFD.
pub(crate) fn lone_halves_replaced(json: &str) -> Cow<'_, str> {
    // Most texts have no such escapes, but many others.
    if memchr::memmem::find(json.as_bytes(), b"\\u").is_none() {
        return Cow::Borrowed(json);
    }
    let (mut out, mut written) = (String::new(), 0);
    while let Some(at) = lone_half(json.as_bytes(), written) {
        out.push_str(json.get(written..at).unwrap_or_default());
        out.push('\u{fffd}');
        written = at + ESCAPE;
    }
    if written == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(json.get(written..).unwrap_or_default());
    Cow::Owned(out)
}

/// Where, from `at` on, the first escape stands that is half of a pair and alone.
pub(super) fn lone_half(json: &[u8], mut at: usize) -> Option<usize> {
    while let Some(found) = memchr::memchr(b'\\', json.get(at..).unwrap_or_default()) {
        at += found;
        let rest = json.get(at..).unwrap_or_default();
        let is_pair = || rest.get(ESCAPE..).is_some_and(is_low_surrogate);
        at += match (is_high_surrogate(rest), is_low_surrogate(rest)) {
            (false, false) => 2,
            (true, _) if is_pair() => 2 * ESCAPE,
            _ => return Some(at),
        };
    }
    None
}

/// The text with U+FFFD in the place of every half of a pair that stands alone.
pub(crate) fn with_whole_pairs(text: EscapedText<'_>) -> EscapedText<'_> {
    if memchr::memchr(b'\\', text.bytes()).is_none() {
        return text;
    }
    match lone_halves_replaced(text.as_str()) {
        Cow::Borrowed(_) => text,
        Cow::Owned(mended) => EscapedText::joining(&[&mended]),
    }
}

/// Holds the first half of a pair at the end of a piece back until the next piece. Nothing is lost: the pieces together are
/// what the upstream sent, but for a half that stays alone at the end.
#[derive(Debug, Default)]
pub(crate) struct SplitPairs {
    held: Option<[u8; ESCAPE]>,
}

impl SplitPairs {
    /// Whether a half is held.
    pub(crate) const fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// What may be passed on of an escaped piece; `None` for no text at all.
    pub(crate) fn escaped<'a>(&mut self, piece: EscapedText<'a>) -> Option<EscapedText<'a>> {
        if piece.is_empty() || (self.held.is_none() && split_half(piece.bytes()).1.is_none()) {
            return (!piece.is_empty()).then_some(piece);
        }
        let before = self.held.take();
        let (whole, half) = split_half(piece.bytes());
        self.held = half;
        let whole = text(whole);
        let joined = match before {
            Some(before) => text(&before).joined(&whole),
            None => whole.into_owned(),
        };
        (!joined.is_empty()).then_some(joined)
    }

    /// What a half becomes that is still held at the end of the text.
    pub(crate) fn rest(&mut self) -> Option<EscapedText<'static>> {
        self.held.take().map(|_| EscapedText::plain("\u{fffd}"))
    }
}

fn text(escaped: &[u8]) -> EscapedText<'_> {
    EscapedText::plain(std::str::from_utf8(escaped).unwrap_or_default())
}

/// Cuts the escape of a first half off the end of an escaped text.
fn split_half(escaped: &[u8]) -> (&[u8], Option<[u8; ESCAPE]>) {
    let Some((before, last)) = escaped.split_last_chunk::<ESCAPE>() else { return (escaped, None) };
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
    // After an odd number of backslashes, the one of the supposed escape is itself escaped.
    if is_high_surrogate(last) && backslashes.is_multiple_of(2) { (before, Some(*last)) } else { (escaped, None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Cursor;

    fn pieces(pieces: &[&str]) -> Vec<String> {
        let mut pairs = SplitPairs::default();
        let mut out: Vec<String> = Vec::new();
        for piece in pieces {
            let quoted = format!("\"{piece}\"");
            let text = pairs.escaped(EscapedText::read(Cursor::new(&quoted).value().unwrap()).unwrap());
            out.extend(text.map(|text| String::from_utf8(text.bytes().to_vec()).unwrap()));
        }
        out.extend(pairs.rest().map(|text| String::from_utf8(text.bytes().to_vec()).unwrap()));
        out
    }

    #[test]
    fn a_lone_surrogate_at_the_end_of_a_piece_joins_with_the_next_piece() {
        assert_eq!(pieces(&[r"x\ud83d", r"\ude00y"]), ["x", r"\ud83d\ude00y"]);
        assert_eq!(pieces(&[r"\uD83D", "", r"\uDE00"]), [r"\uD83D", r"\uDE00"].concat().split('|').collect::<Vec<_>>());
    }

    #[test]
    fn halves_that_stand_alone_are_replaced_and_everything_else_stays() {
        for (text, expected) in [
            (r#"["x\ud83d","\uDE00"]"#, "[\"x\u{fffd}\",\"\u{fffd}\"]"),
            (r#""\ud83d\ud83d\ude00\n""#, "\"\u{fffd}\\ud83d\\ude00\\n\""),
            (r#""\ude00\ud83dx""#, "\"\u{fffd}\u{fffd}x\""),
        ] {
            assert_eq!(lone_halves_replaced(text), expected, "{text}");
        }
        for same in
            [r#"{"a":"\\ud83d \u00e9\ud83d\ude00"}"#, r#""\\\\ude00\"""#, r#""\ud80null""#, r#""\ude0"#, "", "1"]
        {
            assert!(matches!(lone_halves_replaced(same), Cow::Borrowed(text) if text == same), "{same}");
        }
    }

    #[test]
    fn what_only_looks_like_a_surrogate_and_what_stays_alone_is_not_lost() {
        assert_eq!(pieces(&[r"x\\ud83d", "y"]), [r"x\\ud83d", "y"]);
        assert_eq!(pieces(&[r"x\ud83d"]), ["x", "\u{fffd}"]);
        assert_eq!(pieces(&[r"\\\ud83d", "y"]), [r"\\", r"\ud83dy"]);
    }
}
