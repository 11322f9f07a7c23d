//! Where a request of HTTP/1 ends: its head, as the HTTP server's own parser reads it, and its body by length or chunks.

use std::mem::MaybeUninit;

use httparse::{Request, Status};

/// Header lines that the HTTP server takes.
const MOST_HEADERS: usize = 96;
/// Bytes of a head that the HTTP server takes.
const LARGEST_HEAD: usize = 128 * 1024;

/// How far a request has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Inside the head; these bytes of it were there.
    Head(Vec<u8>),
    /// Inside a body of which so many bytes are to come.
    Length(u64),
    /// Inside the line that says how long the next chunk is.
    ChunkSize { size: u64, is_over: bool },
    /// Inside a chunk, or the end of its line, of which so many bytes are to come.
    Chunk(u64),
    /// Behind the last chunk.
    Trailer { line_is_empty: bool },
    /// At its end.
    Whole,
    /// It is none: the HTTP server will refuse it, and end the connection.
    Broken,
}

impl Default for Framing {
    fn default() -> Framing {
        Framing::Head(Vec::new())
    }
}

impl Framing {
    /// Whether everything of the request is there.
    pub(crate) fn is_whole(&self) -> bool {
        *self == Framing::Whole
    }

    /// Goes on by these bytes, up to the end of the request: so many of them are its own.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> usize {
        let mut own = 0;
        while let Some(rest @ [byte, ..]) = bytes.get(own..) {
            own += match self {
                Framing::Whole => return own,
                Framing::Broken => rest.len(),
                Framing::Head(_) => self.head(rest),
                Framing::Length(left) => take(left, rest),
                Framing::Chunk(left) => take(left, rest),
                Framing::ChunkSize { .. } | Framing::Trailer { .. } => self.line(*byte),
            };
            match self {
                Framing::Length(0) => *self = Framing::Whole,
                Framing::Chunk(0) => *self = Framing::ChunkSize { size: 0, is_over: false },
                _ => {}
            }
        }
        own
    }

    /// Takes what belongs to the head.
    fn head(&mut self, bytes: &[u8]) -> usize {
        let Framing::Head(seen) = self else { return 0 };
        let before = seen.len();
        // Nearly always the head comes whole, and need not be copied.
        let found = match before {
            0 => Framing::behind_head(bytes),
            _ => {
                seen.extend_from_slice(bytes);
                Framing::behind_head(seen)
            }
        };
        match found {
            Some((length, next)) => {
                *self = next;
                length.saturating_sub(before)
            }
            None if before + bytes.len() > LARGEST_HEAD => {
                *self = Framing::Broken;
                bytes.len()
            }
            None => {
                if before == 0 {
                    seen.extend_from_slice(bytes);
                }
                bytes.len()
            }
        }
    }

    /// The length of the head that `bytes` begin with, and what follows it; nothing while it is not whole.
    fn behind_head(bytes: &[u8]) -> Option<(usize, Framing)> {
        let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        let mut request = Request::new(&mut []);
        let length = match request.parse_with_uninit_headers(bytes, &mut headers) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return None,
            Err(_) => return Some((bytes.len(), Framing::Broken)),
        };
        let mut next = Framing::Whole;
        for header in request.headers.iter() {
            if header.name.eq_ignore_ascii_case("transfer-encoding") {
                return Some((length, Framing::ChunkSize { size: 0, is_over: false }));
            }
            if header.name.eq_ignore_ascii_case("content-length") {
                let text = std::str::from_utf8(header.value).unwrap_or_default().trim();
                next = text.parse().map_or(Framing::Broken, |length| match length {
                    0 => Framing::Whole,
                    _ => Framing::Length(length),
                });
            }
        }
        Some((length, next))
    }

    /// Takes one byte of a line between chunks.
    fn line(&mut self, byte: u8) -> usize {
        match (&mut *self, byte) {
            (Framing::ChunkSize { size: 0, .. }, b'\n') => *self = Framing::Trailer { line_is_empty: true },
            // With the end of its line.
            (Framing::ChunkSize { size, .. }, b'\n') => *self = Framing::Chunk(size.saturating_add(2)),
            (Framing::ChunkSize { size, is_over: is_over @ false }, _) => match char::from(byte).to_digit(16) {
                Some(digit) => *size = size.saturating_mul(16).saturating_add(u64::from(digit)),
                None => *is_over = true,
            },
            (Framing::Trailer { line_is_empty: true }, b'\n') => *self = Framing::Whole,
            (Framing::Trailer { line_is_empty }, b'\n') => *line_is_empty = true,
            (Framing::Trailer { line_is_empty }, _) if byte != b'\r' => *line_is_empty = false,
            _ => {}
        }
        1
    }
}

/// Takes as much of `bytes` as is `left`.
fn take(left: &mut u64, bytes: &[u8]) -> usize {
    let some = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    *left = left.saturating_sub(some as u64);
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: &str = "GET /next HTTP/1.1\r\nhost: x\r\n\r\n";

    /// The end is found there, however the bytes come.
    fn ends_at(request: &str, wanted: usize) {
        let bytes = format!("{request}{NEXT}").into_bytes();
        for piece in [1, 2, 7, bytes.len()] {
            let (mut framing, mut own) = (Framing::default(), 0);
            for part in bytes.chunks(piece) {
                own += framing.advance(part);
            }
            assert_eq!(own, wanted, "in pieces of {piece}: {request:?}");
        }
    }

    #[test]
    fn a_request_ends_behind_its_body_however_it_comes() {
        let post = |more: &str| format!("POST / HTTP/1.1\r\nhost: x\r\n{more}\r\n");
        for request in [
            NEXT.to_owned(),
            NEXT.replace("\r\n", "\n"),
            format!("\r\n\r\n{NEXT}"),
            post("content-length: 0\r\n"),
            format!("{}0123456789", post("Content-Length:  10 \r\n")),
            format!("{}0\r\n\r\n", post("transfer-encoding: chunked\r\n")),
            format!("{}a\r\n0123\r\n\r\n89\r\n00\r\n\r\n", post("Transfer-Encoding: Chunked\r\n")),
            format!("{}00A;x=5\r\n0123456789\r\n0;y\r\nx: 1\r\ny: 2\r\n\r\n", post("transfer-encoding: chunked\r\n")),
        ] {
            ends_at(&request, request.len());
        }
    }

    #[test]
    fn what_is_no_request_is_passed_on_whole() {
        let lines = "x: 1\r\n".repeat(MOST_HEADERS + 1);
        for request in [
            "NOISE\r\n\r\n".to_owned(),
            "POST / HTTP/1.1\r\ncontent-length: 5;x\r\n\r\n".to_owned(),
            format!("GET / HTTP/1.1\r\n{lines}\r\n"),
            format!("GET /{} HTTP/1.1", "a".repeat(LARGEST_HEAD)),
        ] {
            if request.len() < 1000 {
                ends_at(&request, request.len() + NEXT.len());
            }
            let mut framing = Framing::default();
            assert_eq!(framing.advance(request.as_bytes()), request.len());
            assert_eq!(framing, Framing::Broken, "{}", request.len());
        }
    }
}
