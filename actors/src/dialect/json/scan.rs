use std::borrow::Cow;

/// How deep values may nest inside the member that is being passed over.
const MAX_DEPTH: u32 = 128;

/// Why a text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonFault {
    /// It ends before its value does: the beginning is sound.
    Truncated,
    /// No continuation could make it JSON.
    Invalid,
    /// Nested deeper than anything sensible.
    TooDeep,
}

/// One checked value, as the bytes it was written in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a> {
    bytes: &'a [u8],
    text_bytes: usize,
    escaped: bool,
}

impl<'a> Raw<'a> {
    /// The value as it was written, quotes included.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// UTF-8 bytes of the text a string stands for, escapes resolved; 0 for everything else.
    pub(crate) fn text_bytes(self) -> usize {
        self.text_bytes
    }

    pub(crate) fn is_null(self) -> bool {
        self.bytes == b"null"
    }

    pub(crate) fn is_string(self) -> bool {
        self.bytes.first() == Some(&b'"')
    }

    pub(crate) fn is_object(self) -> bool {
        self.bytes.first() == Some(&b'{')
    }

    pub(crate) fn is_array(self) -> bool {
        self.bytes.first() == Some(&b'[')
    }

    /// Whether it is a string, array or object with something in it.
    pub(crate) fn is_filled(self) -> bool {
        match self.bytes.first() {
            Some(b'"') => self.text_bytes > 0,
            Some(b'[' | b'{') => self.inner().iter().any(|byte| !byte.is_ascii_whitespace()),
            _ => false,
        }
    }

    /// A string that is not empty.
    pub(crate) fn filled_string(self) -> Option<Raw<'a>> {
        (self.is_string() && self.text_bytes > 0).then_some(self)
    }

    /// What stands between quotes or brackets, as it was written.
    pub(crate) fn inner(self) -> &'a [u8] {
        self.bytes.get(1..self.bytes.len().saturating_sub(1)).unwrap_or_default()
    }

    /// The text of a string; `None` for anything else and for a lone surrogate.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        if !self.is_string() {
            return None;
        }
        if !self.escaped {
            return std::str::from_utf8(self.inner()).ok().map(Cow::Borrowed);
        }
        serde_json::from_slice::<String>(self.bytes).ok().map(Cow::Owned)
    }

    /// The name an object's key stands for, so that `"\u0069d"` is `id`.
    pub(crate) fn name(self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.inner());
        }
        self.text().map_or(Cow::Borrowed(self.inner()), |text| Cow::Owned(text.into_owned().into_bytes()))
    }

    /// Keys and values of an object; nothing for anything else.
    pub(crate) fn members(self) -> Members<'a> {
        let cursor = self.is_object().then_some(Cursor { bytes: self.bytes, at: 1 });
        Members { cursor, first: true }
    }

    /// The value of an object's member, the last if there are several.
    pub(crate) fn member(self, name: &[u8]) -> Option<Raw<'a>> {
        self.members().filter(|(key, _)| *key.name() == *name).last().map(|(_, value)| value)
    }

    /// Elements of an array; nothing for anything else.
    pub(crate) fn elements(self) -> Elements<'a> {
        let cursor = self.is_array().then_some(Cursor { bytes: self.bytes, at: 1 });
        Elements { cursor, first: true }
    }

    /// A whole number from 0 to `u32::MAX`, also written as `12.0`.
    pub(crate) fn count(self) -> Option<u64> {
        if self.bytes.len() <= 10 && self.bytes.iter().all(u8::is_ascii_digit) {
            let value = self.bytes.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
            return (value <= u64::from(u32::MAX)).then_some(value);
        }
        let value: f64 = std::str::from_utf8(self.bytes).ok()?.parse().ok()?;
        let whole = value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value);
        whole.then_some(value as u64)
    }
}

/// A place in a JSON text. Every step checks the grammar, so what was passed over is valid.
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

    /// How many bytes were passed.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Where in the cursor's text a value that it handed out begins.
    pub(crate) fn offset_of(&self, value: Raw<'_>) -> usize {
        (value.bytes.as_ptr() as usize).saturating_sub(self.bytes.as_ptr() as usize)
    }

    /// The next byte that is not white space, without passing it.
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
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), JsonFault> {
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
        self.expect(b':')?;
        Ok(Some(key))
    }

    /// Whether the array whose bracket was passed has another element; passes its comma or its end.
    pub(crate) fn element(&mut self, first: &mut bool) -> Result<bool, JsonFault> {
        self.more(b']', first)
    }

    /// Passes any value.
    pub(crate) fn value(&mut self) -> Result<Raw<'a>, JsonFault> {
        if self.peek()? == b'"' {
            return self.string();
        }
        let start = self.at;
        self.pass(0)?;
        Ok(self.since(start))
    }

    /// What was passed since `start`, as one value.
    pub(crate) fn since(&self, start: usize) -> Raw<'a> {
        Raw { bytes: self.bytes.get(start..self.at).unwrap_or_default(), text_bytes: 0, escaped: false }
    }

    /// Passes a string.
    pub(crate) fn string(&mut self) -> Result<Raw<'a>, JsonFault> {
        self.expect(b'"')?;
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
        let bytes = self.bytes.get(start..self.at).unwrap_or_default();
        let text_bytes = bytes.len().saturating_sub(2 + overhead);
        Ok(Raw { bytes, text_bytes, escaped: overhead > 0 })
    }

    /// Checks that nothing but white space is left.
    pub(crate) fn end(&mut self) -> Result<(), JsonFault> {
        match self.peek() {
            Err(JsonFault::Truncated) => Ok(()),
            _ => Err(JsonFault::Invalid),
        }
    }

    fn more(&mut self, close: u8, first: &mut bool) -> Result<bool, JsonFault> {
        let byte = self.peek()?;
        if byte == close {
            self.at += 1;
            return Ok(false);
        }
        if !std::mem::replace(first, false) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    /// Passes an escape; says how many bytes it takes beyond those it stands for.
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

/// The members of a checked object.
#[derive(Debug)]
pub(crate) struct Members<'a> {
    cursor: Option<Cursor<'a>>,
    first: bool,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Raw<'a>, Raw<'a>);

    fn next(&mut self) -> Option<(Raw<'a>, Raw<'a>)> {
        // A fault cannot come: whatever made the value has checked it.
        let cursor = self.cursor.as_mut()?;
        let key = cursor.key(&mut self.first).ok()??;
        Some((key, cursor.value().ok()?))
    }
}

/// The elements of a checked array.
#[derive(Debug)]
pub(crate) struct Elements<'a> {
    cursor: Option<Cursor<'a>>,
    first: bool,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        let cursor = self.cursor.as_mut()?;
        cursor.element(&mut self.first).ok().filter(|more| *more)?;
        cursor.value().ok()
    }
}

/// How many bytes come before the first quote, backslash or control character.
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    let mut at = 0;
    // Eight bytes at a time: most strings are followed by more of the document, so the slow tail is rare.
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let special = special_bytes(u64::from_le_bytes(*chunk));
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let tail = bytes.get(at..).unwrap_or_default();
    at + tail.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)).count()
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

    #[test]
    fn text_is_measured_with_escapes_resolved() {
        let mut cursor = Cursor::new(r#""a\n\u00e9\ud83d\ude00\u4f60" "#);
        let raw = cursor.string().unwrap();
        assert_eq!(raw.text().unwrap(), "a\né😀你");
        assert_eq!(raw.text_bytes(), "a\né😀你".len());
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

    proptest! {
        #[test]
        fn agrees_with_serde_about_what_is_json(text in r#"[\[\]{}:,"\\ntu0-9eE.+\-a-f \n]{0,24}|(\{"a":[0-9]{1,3}(\.[0-9]{0,2})?,?"?b?"?:?\[?(true|nul|"x\\?"?)?\]?\})"#) {
            let ours = pass(&text);
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        }

        #[test]
        fn finds_the_first_special_byte(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let plain = bytes.iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f)).unwrap_or(bytes.len());
            prop_assert_eq!(plain_run(&bytes), plain);
        }
    }
}
