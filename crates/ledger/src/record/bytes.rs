//! Values as bytes: whole numbers in as few bytes as they need, floats as their bits, texts and lists after their length.

use std::{borrow::Cow, fmt, str, sync::Arc, time::Duration};

/// Why bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable {
    /// How many bytes were read before.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.what)
    }
}

/// Bytes being read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// The complaint that `what` is wrong here.
    pub(super) const fn fault(&self, what: &'static str) -> Unreadable {
        Unreadable { at: self.at, what }
    }

    pub(super) fn slice(&mut self, length: usize) -> Result<&'a [u8], Unreadable> {
        let end = self.at.checked_add(length);
        let slice = end.and_then(|end| self.bytes.get(self.at..end)).ok_or(self.fault("the record ends too early"))?;
        self.at += length;
        Ok(slice)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let short = self.fault("the record ends too early");
        self.slice(N)?.try_into().map_err(|_| short)
    }

    /// Checks that nothing is left.
    pub(super) fn end(&self) -> Result<(), Unreadable> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.fault("the record does not end here")) }
    }

    /// The length of a list or text: no longer than what is left.
    fn length(&mut self) -> Result<usize, Unreadable> {
        let length = usize::try_from(u64::take(self)?).unwrap_or(usize::MAX);
        if length > self.bytes.len() - self.at {
            return Err(self.fault("the record ends too early"));
        }
        Ok(length)
    }

    fn text(&mut self) -> Result<&'a str, Unreadable> {
        let length = self.length()?;
        let fault = self.fault("no UTF-8");
        str::from_utf8(self.slice(length)?).map_err(|_| fault)
    }
}

/// A value of a record.
pub(super) trait Stored: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads what [`Stored::put`] wrote.
    fn take(from: &mut Reader<'_>) -> Result<Self, Unreadable>;
}

/// Seven bits a byte, the lowest first.
macro_rules! whole_number {
    ($($number:ty),*) => {$(
        impl Stored for $number {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                let mut rest = *self;
                while rest >= 0x80 {
                    out.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                out.push(rest as u8);
            }

            fn take(from: &mut Reader<'_>) -> Result<$number, Unreadable> {
                let mut number: $number = 0;
                for shift in (0..<$number>::BITS).step_by(7) {
                    let [byte] = from.array()?;
                    let bits = <$number>::from(byte & 0x7f);
                    if (bits << shift) >> shift != bits {
                        break;
                    }
                    number |= bits << shift;
                    if byte < 0x80 {
                        return Ok(number);
                    }
                }
                Err(from.fault("a number is too large"))
            }
        }
    )*};
}

whole_number!(u16, u32, u64, u128);

/// With the sign in the lowest bit.
macro_rules! signed_number {
    ($($number:ty as $unsigned:ty),*) => {$(
        impl Stored for $number {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                (self.wrapping_shl(1) ^ (self >> (<$number>::BITS - 1))).cast_unsigned().put(out);
            }

            fn take(from: &mut Reader<'_>) -> Result<$number, Unreadable> {
                let number = <$unsigned>::take(from)?;
                Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
            }
        }
    )*};
}

signed_number!(i32 as u32, i64 as u64, i128 as u128);

impl Stored for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<bool, Unreadable> {
        match from.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(from.fault("neither true nor false")),
        }
    }
}

impl Stored for f64 {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bits().to_le_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<f64, Unreadable> {
        Ok(f64::from_bits(u64::from_le_bytes(from.array()?)))
    }
}

macro_rules! text {
    ($($text:ty),*) => {$(
        impl Stored for $text {
            fn put(&self, out: &mut Vec<u8>) {
                (self.len() as u64).put(out);
                out.extend_from_slice(self.as_bytes());
            }

            fn take(from: &mut Reader<'_>) -> Result<$text, Unreadable> {
                from.text().map(Into::into)
            }
        }
    )*};
}

text!(String, Box<str>, Arc<str>);

impl Stored for Cow<'static, str> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Result<Cow<'static, str>, Unreadable> {
        String::take(from).map(Cow::Owned)
    }
}

impl<T: Stored> Stored for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Option<T>, Unreadable> {
        if bool::take(from)? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Vec<T>, Unreadable> {
        let length = from.length()?;
        (0..length).map(|_| T::take(from)).collect()
    }
}

impl<T: Stored> Stored for Arc<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Arc<T>, Unreadable> {
        T::take(from).map(Arc::new)
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<(A, B), Unreadable> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

impl<const N: usize> Stored for [f64; N] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<[f64; N], Unreadable> {
        let mut values = [0.0; N];
        for value in &mut values {
            *value = f64::take(from)?;
        }
        Ok(values)
    }
}

impl Stored for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_secs().put(out);
        self.subsec_nanos().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Duration, Unreadable> {
        let (seconds, nanos) = (u64::take(from)?, u32::take(from)?);
        if nanos < 1_000_000_000 { Ok(Duration::new(seconds, nanos)) } else { Err(from.fault("no time span")) }
    }
}

impl Stored for chrono::NaiveDate {
    fn put(&self, out: &mut Vec<u8>) {
        self.to_epoch_days().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<chrono::NaiveDate, Unreadable> {
        chrono::NaiveDate::from_epoch_days(i32::take(from)?).ok_or(from.fault("no date"))
    }
}

/// A struct, field after field. It must name all of them.
macro_rules! stored_struct {
    ($($name:ident { $($field:ident),* $(,)? })*) => {$(
        impl $crate::record::bytes::Stored for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($crate::record::bytes::Stored::put($field, out);)*
            }

            fn take(
                from: &mut $crate::record::bytes::Reader<'_>,
            ) -> Result<$name, $crate::record::bytes::Unreadable> {
                $(let $field = $crate::record::bytes::Stored::take(from)?;)*
                Ok($name { $($field),* })
            }
        }

        #[cfg(test)]
        impl $crate::record::dice::Any for $name {
            fn any(dice: &mut $crate::record::dice::Dice) -> $name {
                $(let $field = $crate::record::dice::Any::any(dice);)*
                $name { $($field),* }
            }
        }
    )*};
}

/// An enum: the number of the variant, then what it holds. A number is never given to another variant.
macro_rules! stored_enum {
    ($($name:ident { $($number:literal => $variant:ident $(($held:ident))? $({ $($field:ident),* })?),* $(,)? })*) => {$(
        impl $crate::record::bytes::Stored for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant $(($held))? $({ $($field),* })? => {
                        out.push($number);
                        $($crate::record::bytes::Stored::put($held, out);)?
                        $($($crate::record::bytes::Stored::put($field, out);)*)?
                    })*
                }
            }

            fn take(
                from: &mut $crate::record::bytes::Reader<'_>,
            ) -> Result<$name, $crate::record::bytes::Unreadable> {
                match from.array()? {
                    $([$number] => {
                        $(let $held = $crate::record::bytes::Stored::take(from)?;)?
                        $($(let $field = $crate::record::bytes::Stored::take(from)?;)*)?
                        Ok($name::$variant $(($held))? $({ $($field),* })?)
                    })*
                    _ => Err(from.fault(concat!("an unknown ", stringify!($name)))),
                }
            }
        }

        #[cfg(test)]
        impl $crate::record::dice::Any for $name {
            fn any(dice: &mut $crate::record::dice::Dice) -> $name {
                match dice.of(&[$($number),*]) {
                    $($number => {
                        $(let $held = $crate::record::dice::Any::any(dice);)?
                        $($(let $field = $crate::record::dice::Any::any(dice);)*)?
                        $name::$variant $(($held))? $({ $($field),* })?
                    })*
                    number => panic!("{number} is not among the variants"),
                }
            }
        }
    )*};
}

pub(super) use {stored_enum, stored_struct};
