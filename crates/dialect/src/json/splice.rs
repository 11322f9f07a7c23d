//! A JSON text of which a few stretches are replaced or cut; every other byte stays as it is.

use std::ops::Range;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{JsonFault, Raw, push_string};

/// What becomes of a member or an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpliceAction {
    Kept,
    Cut,
}

/// A text of which some stretches are replaced, from the front to the back.
pub(crate) struct Splice<'a> {
    text: &'a [u8],
    out: BytesMut,
    /// Up to where the text is written or cut.
    at: usize,
}

impl<'a> Splice<'a> {
    /// A text that nothing is changed of yet.
    pub(crate) fn new(text: &'a str) -> Splice<'a> {
        Splice { text: text.as_bytes(), out: BytesMut::with_capacity(text.len() + 64), at: 0 }
    }

    /// Visits the members of an object in order, and cuts those that `visit` says, each with one comma.
    pub(crate) fn members(
        &mut self,
        object: Raw<'a>,
        mut visit: impl FnMut(Raw<'a>, Raw<'a>, &mut Splice<'a>) -> SpliceAction,
    ) {
        self.retain(object.members(), |(key, value), splice| visit(key, value, splice));
    }

    /// Visits the elements of an array in order, and cuts those that `visit` says, each with one comma.
    pub(crate) fn elements(&mut self, array: Raw<'a>, mut visit: impl FnMut(Raw<'a>, &mut Splice<'a>) -> SpliceAction) {
        self.retain(array.elements().map(|element| (element, element)), |(element, _), splice| visit(element, splice));
    }

    /// Visits what stands from the first to the second of each pair.
    fn retain(
        &mut self,
        entries: impl Iterator<Item = (Raw<'a>, Raw<'a>)>,
        mut visit: impl FnMut((Raw<'a>, Raw<'a>), &mut Splice<'a>) -> SpliceAction,
    ) {
        let mut entries = entries.peekable();
        let mut has_kept = false;
        // Where a cut begins: behind the last entry that is kept, or before the first that is cut.
        let mut kept_end = None;
        while let Some((first, last)) = entries.next() {
            let Range { start, .. } = self.span(first);
            let Range { end, .. } = self.span(last);
            if visit((first, last), self) == SpliceAction::Kept {
                has_kept = true;
                kept_end = Some(end);
                continue;
            }
            match (has_kept, entries.peek()) {
                (true, _) => self.cut(kept_end.unwrap_or(start)..end),
                (false, Some((next, _))) => self.cut(start..self.span(*next).start),
                (false, None) => self.cut(start..end),
            }
            kept_end = Some(end);
        }
    }

    /// Replaces a value.
    pub(crate) fn replace(&mut self, value: Raw<'a>, with: &[u8]) {
        let span = self.span(value);
        self.cut(span);
        self.out.put_slice(with);
    }

    /// Adds members before all others of an object, of which nothing may have been visited: JSON without a comma at its end.
    pub(crate) fn add_first(&mut self, object: Raw<'a>, members: &[u8]) {
        let start = self.span(object).start + 1;
        self.cut(start..start);
        self.out.put_slice(members);
        if object.is_filled() {
            self.out.put_u8(b',');
        }
    }

    /// The whole text with its changes.
    pub(crate) fn finish(mut self) -> Bytes {
        self.out.put_slice(self.text.get(self.at..).unwrap_or_default());
        self.out.freeze()
    }

    /// Writes everything before the stretch and leaves the stretch out.
    fn cut(&mut self, span: Range<usize>) {
        self.out.put_slice(self.text.get(self.at..span.start).unwrap_or_default());
        self.at = self.at.max(span.end);
    }

    /// Where a value stands in the text.
    fn span(&self, value: Raw<'a>) -> Range<usize> {
        let start = (value.bytes().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + value.bytes().len()
    }
}

/// The text as a JSON object.
///
/// # Errors
/// When it is anything else.
pub(crate) fn object(text: &str) -> Result<Raw<'_>, JsonFault> {
    Raw::whole(text).and_then(|value| if value.is_object() { Ok(value) } else { Err(JsonFault::Invalid) })
}

/// The same of a text that was checked before, or written by the gateway.
///
/// # Errors
/// When it is no object.
pub(crate) fn checked_object(text: &str) -> Result<Raw<'_>, JsonFault> {
    let text = text.trim_matches([' ', '\n', '\r', '\t']);
    if text.starts_with('{') && text.ends_with('}') { Ok(Raw::new(text, 0)) } else { Err(JsonFault::Invalid) }
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> BytesMut {
    let mut out = BytesMut::new();
    push_string(&mut out, text);
    out
}

/// The object with one more member before the others; the name must need no escaping.
pub(crate) fn with_first_member(object: &[u8], name: &[u8], value: &[u8]) -> Bytes {
    with_first_members(object, &[b"\"", name, b"\":", value].concat())
}

/// The object with members before the others: JSON without a comma at its end.
pub(crate) fn with_first_members(object: &[u8], members: &[u8]) -> Bytes {
    let start = memchr::memchr(b'{', object).map_or(0, |brace| brace + 1);
    let (before, after) = object.split_at_checked(start).unwrap_or((object, b""));
    let is_empty = after.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}');
    let parts: [&[u8]; 4] = [before, members, if is_empty { b"" } else { b"," }, after];
    Bytes::from(parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_elements_take_one_comma_with_them_and_everything_else_stays() {
        for (text, expected) in [
            ("[1 , 0, 2]", "[1, 2]"),
            ("[0, 1]", "[1]"),
            ("[ 0 ]", "[  ]"),
            ("[1,0]", "[1]"),
            ("[0,0 ,1, 0,0,2 ]", "[1,2 ]"),
        ] {
            let mut splice = Splice::new(text);
            let array = Raw::whole(text).unwrap();
            splice.elements(
                array,
                |element, _| if element.bytes() == b"0" { SpliceAction::Cut } else { SpliceAction::Kept },
            );
            assert_eq!(splice.finish(), expected, "{text}");
        }
    }

    #[test]
    fn a_first_member_has_a_comma_only_before_others() {
        assert_eq!(with_first_member(b" { }", b"a", b"1"), " {\"a\":1 }");
        assert_eq!(with_first_member(b"{\"b\":2}", b"a", b"1"), "{\"a\":1,\"b\":2}");
    }
}
