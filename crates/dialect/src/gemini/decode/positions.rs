//! Places in a text: from bytes of UTF-8 to characters.

use crate::neutral::{EscapedText, SplitPairs};

/// Most runs of characters of one width.
const MAX_RUNS: usize = 8_192;

/// The widths of the characters of a text, without the text.
#[derive(Debug, Default)]
pub(super) struct Positions {
    /// Runs of characters that take as many bytes each: how many, and how wide.
    runs: Vec<(u32, u8)>,
    /// Half a character at the end of the text.
    pairs: SplitPairs,
    /// Whether there were too many runs to keep.
    is_lost: bool,
}

impl Positions {
    /// Adds text at the end.
    pub(super) fn push(&mut self, text: &EscapedText<'_>) {
        let Some(text) = self.pairs.escaped(text.borrowed()) else { return };
        if text.bytes().is_ascii() && !text.bytes().contains(&b'\\') {
            return self.extend(text.bytes().len(), 1);
        }
        text.unescaped().chars().for_each(|c| self.extend(1, c.len_utf8()));
    }

    fn extend(&mut self, characters: usize, width: usize) {
        if self.is_lost {
            return;
        }
        let (count, width) = (u32::try_from(characters).unwrap_or(u32::MAX), u8::try_from(width).unwrap_or(u8::MAX));
        if let Some((run, known)) = self.runs.last_mut()
            && *known == width
            && let Some(longer) = run.checked_add(count)
        {
            *run = longer;
        } else if self.runs.len() < MAX_RUNS {
            self.runs.push((count, width));
        } else {
            self.is_lost = true;
        }
    }

    /// How many characters end at or before a byte of the text; all of them, if the text is shorter. `None` if that is not
    /// known any more.
    pub(super) fn characters_before(&self, byte: u64) -> Option<u64> {
        if self.is_lost {
            return None;
        }
        let (mut characters, mut bytes) = (0_u64, 0_u64);
        for (count, width) in &self.runs {
            let (count, width) = (u64::from(*count), u64::from(*width));
            let left = byte.saturating_sub(bytes);
            if left < count * width {
                return Some(characters + left / width);
            }
            (characters, bytes) = (characters + count, bytes + count * width);
        }
        Some(characters)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_become_characters_wherever_the_text_is_cut(pieces in prop::collection::vec("[a-zé😀\n]{0,9}", 0..9)) {
            let mut positions = Positions::default();
            pieces.iter().for_each(|piece| positions.push(&EscapedText::escaping(piece)));
            let text = pieces.concat();
            for (place, (byte, _)) in text.char_indices().enumerate() {
                prop_assert_eq!(positions.characters_before(byte as u64), Some(place as u64));
            }
            prop_assert_eq!(positions.characters_before(u64::MAX), Some(text.chars().count() as u64));
        }
    }

    #[test]
    fn a_character_in_two_pieces_is_one() {
        let mut positions = Positions::default();
        [r"ab\ud83d", r"\ude00cd efg"].iter().for_each(|piece| positions.push(&EscapedText::plain(piece)));
        assert_eq!([2, 6, 8, 12].map(|byte| positions.characters_before(byte)), [2, 3, 5, 9].map(Some));
    }

    #[test]
    fn what_a_hostile_text_takes_is_bounded() {
        let mut positions = Positions::default();
        positions.push(&EscapedText::escaping(&"aé".repeat(10_000)));
        assert!(positions.runs.len() <= MAX_RUNS);
        assert_eq!(positions.characters_before(1), None);
    }
}
