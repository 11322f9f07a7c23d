//! A cursor over JSON text that checks the grammar at every step.

use super::raw::Raw;

/// Deepest nesting inside a skipped value.
const MAX_DEPTH: u32 = 128;
/// Strings up to this length are searched word by word, longer ones in blocks.
const SHORT_BYTES: usize = 32;

/// Why a text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonFault {
    /// The text ends inside a value and is valid so far.
    Truncated,
    /// The text is not JSON, whatever follows.
    Invalid,
    /// The nesting is deeper than the limit.
    TooDeep,
}

/// A position in a JSON text. Every step checks the grammar, so the text before the position is valid.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor before the first byte of `text`.
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { bytes: text.as_bytes(), at: 0 }
    }

    /// A cursor before a value that another cursor has checked.
    pub(crate) fn over(value: Raw<'a>) -> Cursor<'a> {
        Cursor { bytes: value.bytes(), at: 0 }
    }

    /// A cursor behind the opening bracket of a value that another cursor has checked.
    pub(super) fn inside(value: Raw<'a>) -> Cursor<'a> {
        Cursor { bytes: value.bytes(), at: 1 }
    }

    /// Position in bytes.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Start position of a value returned by this cursor.
    pub(crate) fn offset_of(&self, value: Raw<'_>) -> usize {
        (value.bytes().as_ptr() as usize).saturating_sub(self.bytes.as_ptr() as usize)
    }

    /// The next byte that is not white space, without passing it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8, JsonFault> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(&byte) => return Ok(byte),
                None => return Err(JsonFault::Truncated),
            }
        }
    }

    /// Passes `byte`, which must come next.
    #[inline]
    pub(crate) fn pass_byte(&mut self, byte: u8) -> Result<(), JsonFault> {
        if self.peek()? != byte {
            return Err(JsonFault::Invalid);
        }
        self.at += 1;
        Ok(())
    }

    /// The next key of the object whose brace was passed, or `None` behind its end. `first` starts out true.
    pub(crate) fn key(&mut self, first: &mut bool) -> Result<Option<Raw<'a>>, JsonFault> {
        if !self.more(b'}', first)? {
            return Ok(None);
        }
        let key = self.string()?;
        self.pass_byte(b':')?;
        Ok(Some(key))
    }

    /// Whether the array whose bracket was passed has another element; passes its comma or its end.
    pub(crate) fn element(&mut self, first: &mut bool) -> Result<bool, JsonFault> {
        self.more(b']', first)
    }

    /// Passes any value.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<Raw<'a>, JsonFault> {
        if self.peek()? == b'"' {
            return self.string();
        }
        let start = self.at;
        self.pass(0)?;
        Ok(self.since(start))
    }

    /// What was passed since `start`, as one value.
    #[inline]
    pub(crate) fn since(&self, start: usize) -> Raw<'a> {
        Raw::new(self.bytes.get(start..self.at).unwrap_or_default(), 0)
    }

    /// Passes a string.
    pub(crate) fn string(&mut self) -> Result<Raw<'a>, JsonFault> {
        self.pass_byte(b'"')?;
        let start = self.at - 1;
        let mut overhead = 0;
        loop {
            self.at += plain_run(self.bytes.get(self.at..).unwrap_or_default());
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => overhead += self.escape()?,
                Some(_) => return Err(JsonFault::Invalid),
                None => return Err(JsonFault::Truncated),
            }
        }
        self.at += 1;
        Ok(Raw::new(self.bytes.get(start..self.at).unwrap_or_default(), overhead))
    }

    /// Checks that nothing but white space is left.
    pub(crate) fn end(&mut self) -> Result<(), JsonFault> {
        match self.peek() {
            Err(JsonFault::Truncated) => Ok(()),
            _ => Err(JsonFault::Invalid),
        }
    }

    #[inline]
    fn more(&mut self, close: u8, first: &mut bool) -> Result<bool, JsonFault> {
        let byte = self.peek()?;
        if byte == close {
            self.at += 1;
            return Ok(false);
        }
        if !std::mem::replace(first, false) {
            self.pass_byte(b',')?;
        }
        Ok(true)
    }

    /// Skips an escape. Returns how many bytes it is longer than the text it stands for.
    fn escape(&mut self) -> Result<usize, JsonFault> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(1)
            }
            Some(b'u') => self.unicode_escape(),
            Some(_) => Err(JsonFault::Invalid),
            None => Err(JsonFault::Truncated),
        }
    }

    fn unicode_escape(&mut self) -> Result<usize, JsonFault> {
        let mut code = 0_u32;
        for offset in 2..6 {
            let digit = self.bytes.get(self.at + offset).ok_or(JsonFault::Truncated)?;
            code = code * 16 + char::from(*digit).to_digit(16).ok_or(JsonFault::Invalid)?;
        }
        self.at += 6;
        // Half of a surrogate pair stands for two of its four bytes.
        let bytes = match code {
            0..0x80 => 1,
            0x80..0x800 | 0xd800..0xe000 => 2,
            _ => 3,
        };
        Ok(6 - bytes)
    }

    fn pass(&mut self, depth: u32) -> Result<(), JsonFault> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' | b'[' if depth >= MAX_DEPTH => Err(JsonFault::TooDeep),
            b'{' => self.pass_object(depth),
            b'[' => self.pass_array(depth),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(JsonFault::Invalid),
        }
    }

    fn pass_object(&mut self, depth: u32) -> Result<(), JsonFault> {
        self.at += 1;
        let mut first = true;
        while self.key(&mut first)?.is_some() {
            self.pass(depth + 1)?;
        }
        Ok(())
    }

    fn pass_array(&mut self, depth: u32) -> Result<(), JsonFault> {
        self.at += 1;
        let mut first = true;
        while self.element(&mut first)? {
            self.pass(depth + 1)?;
        }
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), JsonFault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(if word.starts_with(rest) { JsonFault::Truncated } else { JsonFault::Invalid })
    }

    fn number(&mut self) -> Result<(), JsonFault> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(if rest.is_empty() { JsonFault::Truncated } else { JsonFault::Invalid });
        }
        self.at += count;
        Ok(())
    }
}

/// Number of bytes before the first quote, backslash or control character.
#[inline]
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    // Most strings are short and followed by more of the document: eight bytes at a time find their end. What
    // goes on is worth larger steps.
    let (mut run, mut rest) = (0, bytes);
    while let Some((word, tail)) = rest.split_first_chunk::<8>() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return run + (special.trailing_zeros() / 8) as usize;
        }
        run += 8;
        rest = tail;
        if run == SHORT_BYTES {
            run += plain_blocks(rest);
            rest = bytes.get(run..).unwrap_or_default();
        }
    }
    run + rest.iter().take_while(|byte| !is_special(**byte)).count()
}

/// Number of bytes before the 64-byte block that contains the first special byte.
#[inline(never)]
fn plain_blocks(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<64>();
    // Without an early exit in the inner loop the compiler vectorises the comparison.
    let is_plain = |block: &&[u8; 64]| !block.iter().fold(false, |special, byte| special | is_special(*byte));
    blocks.iter().take_while(is_plain).count() * 64
}

fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < b' '
}

/// The high bit of each byte that is a quote, a backslash or below a space. Bits above the lowest may be false.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let quotes = zeros(word ^ (ONES * u64::from(b'"')));
    let backslashes = zeros(word ^ (ONES * u64::from(b'\\')));
    let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    quotes | backslashes | controls
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pass(text: &str) -> Result<(), JsonFault> {
        let mut cursor = Cursor::new(text);
        cursor.value()?;
        cursor.end()
    }

    #[test]
    fn what_is_json_passes_and_what_is_not_is_refused() {
        for good in ["null", " [1, -0.5e+3, {}] ", r#"{"a":{"b":["\u00e9\n", true]}}"#, r#""\ud83d""#, "0", "[]"] {
            assert_eq!(pass(good), Ok(()), "{good}");
        }
        for bad in
            ["[1,]", "{,}", "{\"a\":1,}", "01", "1.", "+1", "[1 2]", "\"\n\"", r#""\x""#, "nul!", "{} x", "{1:2}"]
        {
            assert!(matches!(pass(bad), Err(JsonFault::Invalid | JsonFault::Truncated)), "{bad}");
        }
    }

    #[test]
    fn a_text_that_merely_ends_too_early_is_told_from_a_wrong_one() {
        let whole = r#"{"a":[1,2.5,"x\u00e9"],"b":{"c":null}}"#;
        for end in 0..whole.len() {
            assert_eq!(pass(whole.get(..end).unwrap()), Err(JsonFault::Truncated), "cut at {end}");
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        assert_eq!(pass(&"[".repeat(100_000)), Err(JsonFault::TooDeep));
        assert_eq!(pass(&("[".repeat(100) + &"]".repeat(100))), Ok(()));
    }

    proptest! {
        #[test]
        fn agrees_with_serde_about_what_is_json(text in r#"[\[\]{}:,"\\ntu0-9eE.+\-a-f \n]{0,24}|(\{"a":[0-9]{1,3}(\.[0-9]{0,2})?,?"?b?"?:?\[?(true|nul|"x\\?"?)?\]?\})"#) {
            let ours = pass(&text);
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        }

        #[test]
        fn finds_the_first_special_byte(
            mut bytes in prop::collection::vec(0x5d_u8.., 0..400),
            special in any::<(prop::sample::Index, u8)>(),
        ) {
            if let Some(byte) = bytes.get_mut(special.0.index(400)) {
                *byte = special.1;
            }
            let plain = bytes.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)).unwrap_or(bytes.len());
            prop_assert_eq!(plain_run(&bytes), plain);
        }
    }
}
