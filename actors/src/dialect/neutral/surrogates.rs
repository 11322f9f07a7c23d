//! Pieces of a text whose escaped surrogate pairs are split between pieces.

use crate::dialect::{
    json::Raw,
    neutral::{EscapedText, is_high_surrogate},
};

/// Length of the escape `\ud83d`.
const ESCAPE: usize = 6;

/// Holds the first half of a pair at the end of a piece back until the next piece. Nothing is lost or changed: the pieces
/// together are what the upstream sent.
#[derive(Debug, Default)]
pub(crate) struct SplitPairs {
    held: Option<[u8; ESCAPE]>,
}

impl SplitPairs {
    /// What may be passed on of a piece, which must be a JSON string; `None` for no text at all.
    pub(crate) fn piece<'a>(&mut self, piece: Raw<'a>) -> Option<EscapedText<'a>> {
        self.escaped(EscapedText::of(piece)?)
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

    /// What is still held at the end of the text.
    pub(crate) fn rest(&mut self) -> Option<EscapedText<'static>> {
        self.held.take().map(|held| text(&held).into_owned())
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
    use crate::dialect::json::Cursor;

    fn pieces(pieces: &[&str]) -> Vec<String> {
        let mut pairs = SplitPairs::default();
        let mut out: Vec<String> = Vec::new();
        for piece in pieces {
            let quoted = format!("\"{piece}\"");
            let text = pairs.piece(Cursor::new(&quoted).value().unwrap());
            out.extend(text.map(|text| String::from_utf8(text.bytes().to_vec()).unwrap()));
        }
        out.extend(pairs.rest().map(|text| String::from_utf8(text.bytes().to_vec()).unwrap()));
        out
    }

    /// D124.
    #[test]
    fn a_lone_surrogate_at_the_end_of_a_piece_joins_with_the_next_piece() {
        assert_eq!(pieces(&[r"x\ud83d", r"\ude00y"]), ["x", r"\ud83d\ude00y"]);
        assert_eq!(pieces(&[r"\uD83D", "", r"\uDE00"]), [r"\uD83D", r"\uDE00"].concat().split('|').collect::<Vec<_>>());
    }

    #[test]
    fn what_only_looks_like_a_surrogate_and_what_stays_alone_is_not_lost() {
        assert_eq!(pieces(&[r"x\\ud83d", "y"]), [r"x\\ud83d", "y"]);
        assert_eq!(pieces(&[r"x\ud83d"]), ["x", r"\ud83d"]);
        assert_eq!(pieces(&[r"\\\ud83d", "y"]), [r"\\", r"\ud83dy"]);
    }
}
