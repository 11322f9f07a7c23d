use std::{borrow::Cow, sync::Arc};

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::Usd;

use super::cursor::plain_run;

/// A piece of JSON: bytes as they are, a text as a string, a number in digits.
pub(crate) trait Piece {
    /// Appends it.
    fn push(&self, out: &mut BytesMut);
}

/// The comma before an element or a member, unless it is the first.
pub(crate) struct Comma;

/// A buffer that is there, or borrowed.
pub(crate) trait Buffer {
    fn buffer(&mut self) -> &mut BytesMut;
}

impl Buffer for BytesMut {
    #[inline]
    fn buffer(&mut self) -> &mut BytesMut {
        self
    }
}

macro_rules! pieces {
    ($($($kind:ty),+ => |$piece:ident, $out:ident| $push:expr;)+) => {
        $($(impl Piece for $kind {
            #[inline]
            fn push(&self, $out: &mut BytesMut) {
                let $piece = self;
                $push;
            }
        })+)+
    };
}

pieces! {
    [u8], Bytes, BytesMut, Vec<u8>, Cow<'_, [u8]> => |bytes, out| out.extend_from_slice(bytes);
    str, String, Arc<str>, Cow<'_, str> => |text, out| push_string(out, text);
    u64 => |number, out| push_u64(out, *number);
    Usd => |amount, out| push_usd(out, *amount);
    Comma => |_comma, out| push_comma(out);
}

impl<const N: usize> Piece for [u8; N] {
    #[inline]
    fn push(&self, out: &mut BytesMut) {
        out.extend_from_slice(self);
    }
}

impl<T: Piece + ?Sized> Piece for &T {
    #[inline]
    fn push(&self, out: &mut BytesMut) {
        T::push(self, out);
    }
}

/// Appends `,"name":value`; the name must need no escaping.
pub(crate) fn push_member(out: &mut BytesMut, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":");
    out.extend_from_slice(value);
}

/// Appends `,"name":"text"`; the text is escaped.
pub(crate) fn push_string_member(out: &mut BytesMut, name: &[u8], text: &str) {
    push_member(out, name, b"");
    push_string(out, text);
}

/// Appends an escaped text as a JSON string.
pub(crate) fn push_quoted(out: &mut BytesMut, escaped: &[u8]) {
    out.reserve(escaped.len() + 2);
    out.put_u8(b'"');
    out.put_slice(escaped);
    out.put_u8(b'"');
}

/// Appends `,"name":count`.
pub(crate) fn push_count(out: &mut BytesMut, name: &[u8], count: u64) {
    push_member(out, name, b"");
    push_u64(out, count);
}

/// Appends the comma before an element or a member, unless it is the first.
pub(crate) fn push_comma(out: &mut BytesMut) {
    if !matches!(out.last(), Some(b'[' | b'{')) {
        out.put_u8(b',');
    }
}

/// Appends a name as it is written, quotes included, and its colon. Before it goes a comma, unless it is the first.
pub(crate) fn push_key(out: &mut BytesMut, quoted: &[u8]) {
    push_comma(out);
    out.put_slice(quoted);
    out.put_u8(b':');
}

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_string(out: &mut BytesMut, text: &str) {
    out.put_u8(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, tail) = rest.split_at_checked(plain_run(rest)).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let Some((&special, tail)) = tail.split_first() else { break };
        push_escape(out, special);
        rest = tail;
    }
    out.put_u8(b'"');
}

fn push_escape(out: &mut BytesMut, byte: u8) {
    match byte {
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        _ => {
            let hex = |digit: u8| if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]);
        }
    }
}

/// Appends a whole number.
pub(crate) fn push_u64(out: &mut BytesMut, value: u64) {
    let mut digits = [0_u8; 20];
    out.extend_from_slice(decimal(&mut digits, value));
}

/// Appends an amount as the plain decimal [`Usd`] displays, without going through the formatter when it is
/// below 18,000 dollars.
pub(crate) fn push_usd(out: &mut BytesMut, amount: Usd) {
    const SCALE: u64 = 1_000_000_000_000_000;
    let Ok(femto) = u64::try_from(amount.femto()) else {
        out.extend_from_slice(amount.to_string().as_bytes());
        return;
    };
    push_u64(out, femto / SCALE);
    if femto % SCALE == 0 {
        return;
    }
    // The added unit keeps the leading zeros of the fraction: its place becomes the point.
    let mut fraction = SCALE + femto % SCALE;
    for zeros in [100_000_000, 10_000, 100, 10] {
        while fraction.is_multiple_of(zeros) {
            fraction /= zeros;
        }
    }
    let mut digits = [0_u8; 20];
    out.put_u8(b'.');
    out.extend_from_slice(decimal(&mut digits, fraction).get(1..).unwrap_or_default());
}

fn decimal(digits: &mut [u8; 20], mut value: u64) -> &[u8] {
    let mut start = digits.len();
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
        start = place;
        if value == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}

/// Appends a member with an object of members that each have a comma before them; nothing without any.
pub(crate) fn push_object(out: &mut BytesMut, name: &[u8], members: &[u8]) {
    push_within(out, name, members, [b"{", b"}"]);
}

/// The same with an array of elements.
pub(crate) fn push_array(out: &mut BytesMut, name: &[u8], elements: &[u8]) {
    push_within(out, name, elements, [b"[", b"]"]);
}

fn push_within(out: &mut BytesMut, name: &[u8], inner: &[u8], [open, close]: [&[u8]; 2]) {
    if let Some(inner) = inner.get(1..) {
        push_member(out, name, open);
        out.put_slice(inner);
        out.put_slice(close);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    proptest! {
        #[test]
        fn strings_read_back_as_they_were(text in any::<String>()) {
            let json = written(|out| push_string(out, &text));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }

        #[test]
        fn amounts_are_written_as_the_domain_displays_them(femto in any::<i128>(), small in any::<i64>(), shift in 0..63) {
            for femto in [femto, i128::from(small), i128::from(small >> shift)] {
                let amount = Usd::from_femto(femto);
                prop_assert_eq!(written(|out| push_usd(out, amount)), amount.to_string());
            }
        }

        #[test]
        fn numbers_are_written_in_full(value in any::<u64>()) {
            prop_assert_eq!(written(|out| push_u64(out, value)), value.to_string());
        }
    }
}
