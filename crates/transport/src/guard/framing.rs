//! Takes the content of a response body out of its framing: by length, chunk by chunk, or up to the end of the connection.
//!
//! Pure and incremental. Takes bytes off and never changes them.

use bytes::{Buf as _, Bytes};

use super::fault::Fault;

/// Longest size line of a chunk, extensions included, and longest trailer section.
const MAX_OVERHEAD: usize = 16 * 1024;

/// Most hexadecimal digits of a chunk size: more do not fit a `u64`.
const MAX_SIZE_DIGITS: usize = 16;

/// Framing of a body, and the position in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Framing {
    /// This many bytes are left.
    Length(u64),
    /// Chunks until an empty one.
    Chunked(Chunks),
    /// Until the connection ends. Whether the body is complete cannot be checked.
    UntilClose,
}

impl Framing {
    pub(super) fn chunked() -> Framing {
        Framing::Chunked(Chunks { state: State::Size, remaining: 0, digits: 0, overhead: 0 })
    }

    /// Takes the next piece of the content off `bytes`, and the framing before it. Empty if they hold none.
    pub(super) fn take_content(&mut self, bytes: &mut Bytes) -> Result<Bytes, Fault> {
        let length = match self {
            Framing::Length(remaining) => take(remaining, bytes.len()),
            Framing::UntilClose => bytes.len(),
            Framing::Chunked(chunks) => {
                bytes.advance(chunks.skip(bytes)?);
                chunks.pass(bytes.len())
            }
        };
        Ok(bytes.split_to(length))
    }

    /// Checks that `bytes` are framed as the position says, and takes nothing.
    pub(super) fn check(&self, bytes: &Bytes) -> Result<(), Fault> {
        let (mut ahead, mut bytes) = (self.clone(), bytes.clone());
        while !ahead.take_content(&mut bytes)?.is_empty() {}
        Ok(())
    }

    /// Whether the last byte of the body was taken.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Framing::Length(remaining) => *remaining == 0,
            Framing::Chunked(chunks) => chunks.state == State::Done,
            Framing::UntilClose => false,
        }
    }
}

/// Position in a chunked body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunks {
    state: State,
    /// Bytes left of this chunk, or its size as read so far.
    remaining: u64,
    /// Digits of the size read so far.
    digits: usize,
    /// Bytes read of this size line, or of the trailers.
    overhead: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    SizeSpace,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    LineStart,
    Trailer,
    TrailerLf,
    EndLf,
    Done,
}

impl Chunks {
    /// Number of bytes before the next data.
    fn skip(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        for (position, byte) in bytes.iter().enumerate() {
            if matches!(self.state, State::Data | State::Done) {
                return Ok(position);
            }
            self.step(*byte)?;
        }
        Ok(bytes.len())
    }

    /// Passes data, if the position is in some. Returns how many of the `available` bytes it is.
    fn pass(&mut self, available: usize) -> usize {
        if self.state != State::Data {
            return 0;
        }
        let taken = take(&mut self.remaining, available);
        if self.remaining == 0 {
            self.state = State::DataCr;
        }
        taken
    }

    fn step(&mut self, byte: u8) -> Result<(), Fault> {
        self.overhead += 1;
        if self.overhead > MAX_OVERHEAD {
            return Err(Fault::Chunk("a chunk's size line or the trailers do not end"));
        }
        self.state = match (self.state, byte) {
            (State::Size, _) => return self.size(byte),
            (State::SizeSpace | State::Extension, b'\r') => State::SizeLf,
            (State::SizeSpace, b' ' | b'\t') => State::SizeSpace,
            (State::SizeSpace, b';') => State::Extension,
            (State::Extension, b'\t' | b' '..=b'~' | 0x80..) => State::Extension,
            (State::SizeLf, b'\n') => self.begin(),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => self.next_size(),
            (State::LineStart, b'\r') => State::EndLf,
            (State::Trailer, b'\r') => State::TrailerLf,
            (State::LineStart | State::Trailer, b'\t' | b' '..=b'~' | 0x80..) => State::Trailer,
            (State::TrailerLf, b'\n') => State::LineStart,
            (State::EndLf, b'\n') => State::Done,
            _ => return Err(Fault::Chunk("a chunk is not framed as HTTP says")),
        };
        Ok(())
    }

    fn size(&mut self, byte: u8) -> Result<(), Fault> {
        if let Some(digit) = char::from(byte).to_digit(16) {
            self.digits += 1;
            if self.digits > MAX_SIZE_DIGITS {
                return Err(Fault::Chunk("a chunk's size has too many digits"));
            }
            self.remaining = (self.remaining << 4) | u64::from(digit);
            return Ok(());
        }
        self.state = match byte {
            _ if self.digits == 0 => return Err(Fault::Chunk("a chunk has no size")),
            b'\r' => State::SizeLf,
            b' ' | b'\t' => State::SizeSpace,
            b';' => State::Extension,
            _ => return Err(Fault::Chunk("a chunk's size is not a number")),
        };
        Ok(())
    }

    fn begin(&mut self) -> State {
        self.overhead = 0;
        if self.remaining == 0 { State::LineStart } else { State::Data }
    }

    fn next_size(&mut self) -> State {
        (self.remaining, self.digits, self.overhead) = (0, 0, 0);
        State::Size
    }
}

/// Subtracts up to `available` bytes from `remaining`. Returns how many.
fn take(remaining: &mut u64, available: usize) -> usize {
    let covered = usize::try_from(*remaining).unwrap_or(usize::MAX).min(available);
    *remaining -= covered as u64;
    covered
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The content in `bytes`, taken off.
    fn content(framing: &mut Framing, bytes: &mut Bytes) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::new();
        loop {
            let piece = framing.take_content(bytes)?;
            if piece.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&piece);
        }
    }

    /// What is left of `bytes` after the end of the body; `None` if the body is not complete.
    fn run(mut framing: Framing, bytes: &str) -> Result<Option<String>, Fault> {
        let mut bytes = Bytes::copy_from_slice(bytes.as_bytes());
        content(&mut framing, &mut bytes)?;
        Ok(framing.is_complete().then(|| String::from_utf8(bytes.to_vec()).unwrap()))
    }

    #[track_caller]
    fn check(framing: Framing, bytes: &str, expected: Option<&str>) {
        assert_eq!(run(framing, bytes), Ok(expected.map(str::to_owned)), "{bytes:?}");
    }

    #[track_caller]
    fn chunked(bytes: &str, expected: Option<&str>) {
        check(Framing::chunked(), bytes, expected);
    }

    #[track_caller]
    fn broken(bytes: &str) {
        assert!(run(Framing::chunked(), bytes).is_err(), "{bytes:?} is accepted");
    }

    #[test]
    fn a_body_with_a_length_ends_after_that_many_bytes() {
        check(Framing::Length(5), "hell", None);
        check(Framing::Length(5), "hello", Some(""));
        check(Framing::Length(5), "helloHTTP/1.1", Some("HTTP/1.1"));
        check(Framing::Length(0), "x", Some("x"));
        check(Framing::Length(u64::MAX), "x", None);
        check(Framing::UntilClose, "anything", None);
    }

    #[test]
    fn chunks_end_with_an_empty_one() {
        chunked("5\r\nhello\r\n0\r\n\r\n", Some(""));
        chunked("5\r\nhello\r\n0\r\n\r\nrest", Some("rest"));
        chunked("5\r\nhello\r\n", None);
        chunked("5\r\nhello\r\n0\r\n", None);
        chunked("0\r\n\r\n", Some(""));
        chunked("00a\r\n0123456789\r\n0000\r\n\r\n", Some(""));
    }

    #[test]
    fn extensions_and_trailers_are_skipped() {
        chunked("5;name=\"v\"\r\nhello\r\n0 ;x\r\nx-sum: 1\r\nx-b: é\r\n\r\n", Some(""));
        chunked("5 \t\r\nhello\r\n0\r\nx-sum: 1", None);
    }

    #[test]
    fn wrong_framing_is_an_error() {
        for bytes in ["\r\n", "x\r\n", "-5\r\nhello", "+5\r\nhello", "0x5\r\nhello", "5,5\r\n", "5 5\r\n", " 5\r\n"] {
            broken(bytes);
        }
        for bytes in ["5\nhello", "5\r\nhello!", "5\r\nhello\n", "5\r\nhello\r\r", "5;\u{0}\r\n", "5;\nhello"] {
            broken(bytes);
        }
        for bytes in ["0\r\n\n", "0\r\nx: 1\n\r\n", "0\r\nx: \u{1}\r\n", "0\r\n\rx", "10000000000000000\r\n"] {
            broken(bytes);
        }
        broken(&format!("5;{}", "x".repeat(MAX_OVERHEAD)));
        broken(&format!("0\r\n{}", "x: 1\r\n".repeat(MAX_OVERHEAD / 6 + 1)));
    }

    #[test]
    fn many_chunks_do_not_add_up_to_an_overlong_line() {
        let body = "1\r\nx\r\n".repeat(MAX_OVERHEAD) + "0\r\n\r\n";
        chunked(&body, Some(""));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_end_and_the_same_content(sizes in prop::collection::vec(1usize..40, 0..8), cuts in prop::collection::vec(1usize..9, 1..64)) {
            let mut wire = String::new();
            for size in &sizes {
                wire.push_str(&format!("{size:X}\r\n{}\r\n", "x".repeat(*size)));
            }
            wire.push_str("0\r\n\r\n");
            let whole = wire.len();
            wire.push_str("HTTP/1.1 200 OK");

            let (mut framing, mut at, mut cuts) = (Framing::chunked(), 0, cuts.into_iter().cycle());
            let mut all = Vec::new();
            while !framing.is_complete() {
                let end = (at + cuts.next().unwrap()).min(wire.len());
                let mut read = Bytes::copy_from_slice(&wire.as_bytes()[at..end]);
                all.extend(content(&mut framing, &mut read).unwrap());
                at = end - read.len();
            }
            prop_assert_eq!((at, all), (whole, vec![b'x'; sizes.iter().sum()]));
        }

        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = content(&mut Framing::chunked(), &mut bytes.into());
        }
    }
}
