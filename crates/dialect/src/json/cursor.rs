//! A cursor over JSON text that checks the grammar at every step.

use memchr::memchr2;
use wide::u8x16;

use super::raw::Raw;

/// Deepest nesting of a text whose limit is not given.
pub(crate) const MAX_DEPTH: usize = 128;

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

/// A value and those of several of its members.
pub(crate) type Picked<'a, const N: usize> = (Raw<'a>, [Option<Raw<'a>>; N]);

/// A position in a JSON text. Every step checks the grammar, so the text before the position is valid.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// How many more brackets may be opened inside each other.
    depth_left: usize,
    /// Whether an escape was half of a surrogate pair.
    has_lone_surrogate: bool,
}

impl<'a> Raw<'a> {
    /// The only value of a text.
    ///
    /// # Errors
    /// When the text is not JSON, or more stands behind the value.
    pub(crate) fn whole(text: &'a str) -> Result<Raw<'a>, JsonFault> {
        let mut cursor = Cursor::new(text);
        let value = cursor.value()?;
        cursor.end().map(|()| value)
    }

    /// The only value of a text that may be none.
    pub(crate) fn whole_of(text: &'a [u8]) -> Option<Raw<'a>> {
        Raw::whole(std::str::from_utf8(text).ok()?).ok()
    }
}

impl<'a> Cursor<'a> {
    /// A cursor before the first byte of `text`.
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        Cursor::within(text, MAX_DEPTH)
    }

    /// A cursor before the first byte of `text`, which may be nested at most `max_depth` deep.
    pub(crate) fn within(text: &'a str, max_depth: usize) -> Cursor<'a> {
        Cursor { text, at: 0, depth_left: max_depth, has_lone_surrogate: false }
    }

    /// A cursor before a value that another cursor has checked.
    pub(crate) fn over(value: Raw<'a>) -> Cursor<'a> {
        Cursor::within(value.written(), usize::MAX)
    }

    /// A cursor behind the opening bracket of a value that another cursor has checked.
    pub(super) fn inside(value: Raw<'a>) -> Cursor<'a> {
        Cursor { at: 1, ..Cursor::over(value) }
    }

    /// Whether an escape so far was half of a surrogate pair, which stands for no character.
    pub(crate) fn has_lone_surrogate(&self) -> bool {
        self.has_lone_surrogate
    }

    #[inline]
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Position in bytes.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Start position of a value returned by this cursor.
    pub(crate) fn offset_of(&self, value: Raw<'_>) -> usize {
        (value.bytes().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    /// The next byte that is not white space, without passing it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8, JsonFault> {
        loop {
            match self.byte(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(byte) => return Ok(byte),
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
        let key = self.name()?;
        self.pass_byte(b':')?;
        Ok(Some(key))
    }

    /// Passes a string that is usually short.
    #[inline]
    fn name(&mut self) -> Result<Raw<'a>, JsonFault> {
        self.short_string().map_or_else(|| self.string(), Ok)
    }

    /// Passes a string of less than sixteen bytes without escapes, as most keys are. `None` for any other, which is not passed.
    #[inline]
    fn short_string(&mut self) -> Option<Raw<'a>> {
        let text = self.rest().strip_prefix(b"\"")?;
        let special = special_bytes(u8x16::new(*text.first_chunk()?));
        let length = special.trailing_zeros() as usize;
        if special == 0 || text.get(length) != Some(&b'"') {
            return None;
        }
        let start = self.at;
        self.at += length + 2;
        Some(self.since(start))
    }

    /// Whether the array whose bracket was passed has another element; passes its comma or its end.
    pub(crate) fn element(&mut self, first: &mut bool) -> Result<bool, JsonFault> {
        self.more(b']', first)
    }

    /// Passes the array that comes next: `read` passes each element, which it gets with its position. Gives their number, or the
    /// value that stands there instead of an array.
    pub(crate) fn each_element<E: From<JsonFault>>(
        &mut self,
        mut read: impl FnMut(&mut Cursor<'a>, usize) -> Result<(), E>,
    ) -> Result<Result<usize, Raw<'a>>, E> {
        if self.peek()? != b'[' {
            return Ok(Err(self.value()?));
        }
        self.enter()?;
        let (mut first, mut count) = (true, 0);
        while self.element(&mut first)? {
            read(self, count)?;
            count += 1;
        }
        self.leave();
        Ok(Ok(count))
    }

    /// Passes the object that comes next: `read` gets each key, and passes its value. Gives the value that stands there instead
    /// of an object, if one does.
    pub(crate) fn each_member<E: From<JsonFault>>(
        &mut self,
        mut read: impl FnMut(&mut Cursor<'a>, Raw<'a>) -> Result<(), E>,
    ) -> Result<Option<Raw<'a>>, E> {
        if self.peek()? != b'{' {
            return Ok(Some(self.value()?));
        }
        self.enter()?;
        let mut first = true;
        while let Some(key) = self.key(&mut first)? {
            read(self, key)?;
        }
        self.leave();
        Ok(None)
    }

    /// Passes any value. Of an object gives the values of several members, the last of each name.
    pub(crate) fn pick<const N: usize>(&mut self, names: [&[u8]; N]) -> Result<Picked<'a, N>, JsonFault> {
        self.peek()?;
        let (start, mut found) = (self.at, [None; N]);
        let other = self.each_member(|cursor, key| {
            let (name, value) = (key.name(), cursor.value()?);
            let wanted = names.iter().zip(&mut found).filter(|(wanted, _)| ***wanted == *name);
            wanted.for_each(|(_, found)| *found = Some(value));
            Ok::<(), JsonFault>(())
        })?;
        Ok((other.unwrap_or_else(|| self.since(start)), found))
    }

    /// Passes any value.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<Raw<'a>, JsonFault> {
        if self.peek()? == b'"' {
            return self.name();
        }
        let start = self.at;
        self.pass()?;
        Ok(self.since(start))
    }

    /// Passes a value that another cursor has checked: of an object or array only quotes and brackets are looked at.
    #[inline]
    pub(super) fn checked_value(&mut self) -> Option<Raw<'a>> {
        if !matches!(self.peek().ok()?, b'{' | b'[') {
            return self.value().ok();
        }
        let start = self.at;
        self.at += nested_length(self.rest());
        Some(self.since(start))
    }

    /// What was passed since `start`, as one value.
    #[inline]
    pub(crate) fn since(&self, start: usize) -> Raw<'a> {
        Raw::new(self.text.get(start..self.at).unwrap_or_default(), 0)
    }

    /// Passes a string.
    pub(crate) fn string(&mut self) -> Result<Raw<'a>, JsonFault> {
        self.pass_byte(b'"')?;
        let start = self.at - 1;
        let overhead = self.behind_quote()?;
        Ok(Raw::new(self.text.get(start..self.at).unwrap_or_default(), overhead))
    }

    /// Passes the rest of a string. Returns how many bytes its escapes are longer than the text they stand for.
    fn behind_quote(&mut self) -> Result<usize, JsonFault> {
        let bytes = self.text.as_bytes();
        let (mut start, mut overhead) = (self.at, 0);
        while let Some(block) = bytes.get(start..).and_then(|left| left.first_chunk()) {
            let mut special = special_in_block(block);
            let mut next = start + BLOCK;
            while special != 0 {
                let at = special.trailing_zeros() as usize;
                match (block.get(at), block.get(at + 1)) {
                    (Some(b'"'), _) => {
                        self.at = start + at + 1;
                        return Ok(overhead);
                    }
                    (Some(b'\\'), Some(escaped)) if is_short_escape(*escaped) => {
                        overhead += 1;
                        special &= !(0b11 << at);
                    }
                    // It may reach beyond the block.
                    (Some(b'\\'), _) => {
                        self.at = start + at;
                        overhead += self.escape()?;
                        next = next.max(self.at);
                        special &= u64::MAX.checked_shl((self.at - start) as u32).unwrap_or(0);
                    }
                    _ => return Err(JsonFault::Invalid),
                }
            }
            start = next;
        }
        self.at = start;
        loop {
            self.at += plain_run(self.rest());
            match self.byte(self.at) {
                Some(b'"') => break,
                Some(b'\\') => overhead += self.escape()?,
                Some(_) => return Err(JsonFault::Invalid),
                None => return Err(JsonFault::Truncated),
            }
        }
        self.at += 1;
        Ok(overhead)
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

    /// Passes the opening bracket that comes next.
    fn enter(&mut self) -> Result<(), JsonFault> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(JsonFault::TooDeep)?;
        self.at += 1;
        Ok(())
    }

    /// The closing bracket of what was entered last was passed.
    fn leave(&mut self) {
        self.depth_left += 1;
    }

    /// Skips an escape. Returns how many bytes it is longer than the text it stands for.
    fn escape(&mut self) -> Result<usize, JsonFault> {
        match self.byte(self.at + 1) {
            Some(b'u') => self.unicode_escape(),
            Some(escaped) if is_short_escape(escaped) => {
                self.at += 2;
                Ok(1)
            }
            Some(_) => Err(JsonFault::Invalid),
            None => Err(JsonFault::Truncated),
        }
    }

    fn unicode_escape(&mut self) -> Result<usize, JsonFault> {
        let unit = self.utf16_unit()?;
        let bytes = match unit {
            0..0x80 => 1,
            0x80..0x800 => 2,
            0xd800..0xdc00 if self.low_surrogate_follows() => {
                self.at += 6;
                return Ok(12 - 4);
            }
            _ => {
                self.has_lone_surrogate |= (0xd800..0xe000).contains(&unit);
                3
            }
        };
        Ok(6 - bytes)
    }

    /// Passes `\uXXXX`. Returns the number.
    fn utf16_unit(&mut self) -> Result<u32, JsonFault> {
        let mut unit = 0_u32;
        for offset in 2..6 {
            let digit = self.byte(self.at + offset).ok_or(JsonFault::Truncated)?;
            unit = unit * 16 + char::from(digit).to_digit(16).ok_or(JsonFault::Invalid)?;
        }
        self.at += 6;
        Ok(unit)
    }

    /// Whether the second half of a surrogate pair comes next.
    fn low_surrogate_follows(&self) -> bool {
        let mut ahead = self.clone();
        self.rest().starts_with(b"\\u") && matches!(ahead.utf16_unit(), Ok(0xdc00..0xe000))
    }

    fn pass(&mut self) -> Result<(), JsonFault> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' => self.pass_object(),
            b'[' => self.pass_array(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(JsonFault::Invalid),
        }
    }

    fn pass_object(&mut self) -> Result<(), JsonFault> {
        self.enter()?;
        let mut first = true;
        while self.key(&mut first)?.is_some() {
            self.pass()?;
        }
        self.leave();
        Ok(())
    }

    fn pass_array(&mut self) -> Result<(), JsonFault> {
        self.enter()?;
        let mut first = true;
        while self.element(&mut first)? {
            self.pass()?;
        }
        self.leave();
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), JsonFault> {
        let rest = self.rest();
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(if word.starts_with(rest) { JsonFault::Truncated } else { JsonFault::Invalid })
    }

    fn number(&mut self) -> Result<(), JsonFault> {
        if self.byte(self.at) == Some(b'-') {
            self.at += 1;
        }
        if self.byte(self.at) == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte(self.at) == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.byte(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let rest = self.rest();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(if rest.is_empty() { JsonFault::Truncated } else { JsonFault::Invalid });
        }
        self.at += count;
        Ok(())
    }
}

/// Length of the object or array at the start of checked text.
fn nested_length(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at += rest_of_string(bytes.get(at..).unwrap_or_default()),
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => break,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    at
}

/// Length of the rest of a checked string, its closing quote included.
fn rest_of_string(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        // Names end within a block.
        at += match rest.first_chunk::<16>().map(|block| plain_run(block)) {
            Some(16) => memchr2(b'"', b'\\', rest).unwrap_or(rest.len()),
            Some(short) => short,
            None => plain_run(rest),
        };
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') => return at + 1,
            Some(_) => at += 1,
            None => return at,
        }
    }
}

/// Number of bytes before the first quote, backslash or control character.
#[inline]
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    let (blocks, tail) = bytes.as_chunks();
    for (index, block) in blocks.iter().enumerate() {
        let special = special_bytes(u8x16::new(*block));
        if special != 0 {
            return index * 16 + special.trailing_zeros() as usize;
        }
    }
    blocks.len() * 16 + tail.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | ..b' ')).count()
}

/// Bytes of a string that are looked at together.
const BLOCK: usize = 64;

/// One bit for each byte that makes an escape with the backslash before it.
const SHORT_ESCAPES: u128 =
    1 << b'"' | 1 << b'\\' | 1 << b'/' | 1 << b'b' | 1 << b'f' | 1 << b'n' | 1 << b'r' | 1 << b't';

/// Whether a byte behind a backslash makes an escape of these two. Without a branch: nobody can predict the next escape of a text.
#[inline]
const fn is_short_escape(byte: u8) -> bool {
    byte < 128 && SHORT_ESCAPES >> byte & 1 == 1
}

/// The same for a block.
#[inline]
fn special_in_block(block: &[u8; BLOCK]) -> u64 {
    let (quarters, _) = block.as_chunks();
    quarters.iter().rev().fold(0, |bits, quarter| bits << 16 | u64::from(special_bytes(u8x16::new(*quarter))))
}

/// One bit for each byte that is a quote, a backslash or a control character.
#[inline]
fn special_bytes(block: u8x16) -> u32 {
    // This bit changes a quote into a space and a space into a quote, and leaves control characters what they are.
    let swapped = block ^ u8x16::splat(b'"' ^ b' ');
    let quotes_and_controls = swapped.simd_eq(swapped.min(u8x16::splat(b' ')));
    let backslashes = block.simd_eq(u8x16::splat(b'\\'));
    (quotes_and_controls | backslashes).to_bitmask()
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
        let shallow = r#"[{"a":[1]},[[2]],{}]"#;
        assert!(Cursor::within(shallow, 3).value().is_ok(), "siblings do not add up");
        assert_eq!(Cursor::within(shallow, 2).value().map(|_| ()), Err(JsonFault::TooDeep));
    }

    #[test]
    fn half_a_surrogate_pair_is_noticed_wherever_it_stands() {
        let has_half = |text: &str| {
            let mut cursor = Cursor::new(text);
            cursor.value().map(|_| cursor.has_lone_surrogate())
        };
        for good in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#"["\\\\ud83d \u00e9"]"#] {
            assert_eq!(has_half(good), Ok(false), "{good}");
        }
        for bad in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83d\ud83d""#, r#"{"\uDBFFx":1}"#, r#""\ud83d\n""#] {
            assert_eq!(has_half(bad), Ok(true), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_serde_about_what_is_json(text in r#"[\[\]{}:,"\\ntu0-9eE.+\-a-f \n]{0,24}|(\{"a":[0-9]{1,3}(\.[0-9]{0,2})?,?"?b?"?:?\[?(true|nul|"x\\?"?)?\]?\})"#) {
            let ours = pass(&text);
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        }

        #[test]
        fn agrees_with_serde_about_long_strings(
            pieces in prop::collection::vec(
                prop_oneof![
                    8 => "[a-zé ]{0,40}",
                    8 => r#"\\["\\/bfnrt]|\\u[0-9a-c][0-9a-f]{3}|\\ud83d\\ude00"#,
                    1 => r#"\\x|"|\\ud83d|[\x00-\x1f]"#,
                ],
                0..12,
            )
        ) {
            let text = format!("\"{}\"", pieces.concat());
            let mut cursor = Cursor::new(&text);
            let ours = cursor.value().ok().filter(|_| cursor.end().is_ok());
            let theirs = serde_json::from_str::<String>(&text).ok();
            // Half of a surrogate pair is JSON, but no text for serde.
            if !cursor.has_lone_surrogate() {
                prop_assert_eq!(ours.map(Raw::text_bytes), theirs.as_ref().map(String::len));
                let text = ours.and_then(Raw::text);
                prop_assert_eq!(text.as_deref(), theirs.as_deref());
            }
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
