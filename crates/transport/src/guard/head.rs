//! Reads the head of an answer, and rejects every one that two parsers could read differently. Pure.

use std::mem::MaybeUninit;

use actix_http::{
    StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use bytes::Bytes;

use super::{fault::Fault, framing::Framing};

/// Most bytes of one head; each interim head counts separately.
pub(super) const MAX_HEAD: usize = 64 * 1024;

/// What the parser let through and is no header all the same.
const UNREADABLE: Fault = Fault::Head("a header is none");

/// Most header lines.
const MAX_HEADERS: usize = 96;

/// Result of parsing.
#[derive(Debug)]
pub(super) enum Parsed {
    /// The head is incomplete.
    Partial,
    /// A 1xx head of this many bytes; the answer's own head follows.
    Interim(usize),
    /// The answer's head.
    Final(Head),
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    /// Its bytes, including the empty line.
    pub(super) length: usize,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    /// Whether another request may follow on this connection.
    pub(super) reusable: bool,
}

/// Reads the head at the start of `bytes`.
pub(super) fn parse(bytes: &Bytes) -> Result<Parsed, Fault> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut response, bytes, &mut headers) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => length,
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD => return Ok(Parsed::Partial),
        Ok(_) => return Err(Fault::HeadTooLarge),
        Err(httparse::Error::TooManyHeaders) => return Err(Fault::HeadTooLarge),
        Err(_) => return Err(Fault::Head("the answer is not HTTP/1")),
    };
    let status = StatusCode::from_u16(response.code.unwrap_or_default());
    let status = status.map_err(|_| Fault::Head("the status is no HTTP status"))?;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Fault::SwitchingProtocols);
    }
    if status.is_informational() {
        return Ok(Parsed::Interim(length));
    }
    let (framing, reusable) = read_framing(status.as_u16(), response.version == Some(1), response.headers)?;
    Ok(Parsed::Final(Head { length, status, headers: header_map(bytes, response.headers)?, framing, reusable }))
}

/// The headers as a map. Their values share the memory of `bytes`.
fn header_map(bytes: &Bytes, headers: &[httparse::Header<'_>]) -> Result<HeaderMap, Fault> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for header in headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| UNREADABLE)?;
        let value = HeaderValue::from_maybe_shared(bytes.slice_ref(header.value)).map_err(|_| UNREADABLE)?;
        map.append(name, value);
    }
    Ok(map)
}

/// Framing of the body, and whether another request may follow.
fn read_framing(status: u16, modern: bool, headers: &[httparse::Header<'_>]) -> Result<(Framing, bool), Fault> {
    let framing_headers = FramingHeaders::read(headers)?;
    let framing = match (framing_headers.chunked, framing_headers.length) {
        // RFC 9110 6.4.1: these have no body, whatever the headers say.
        _ if matches!(status, 204 | 304) => Framing::Length(0),
        (true, Some(_)) => return Err(Fault::Head("both content-length and transfer-encoding")),
        (true, None) if !modern => return Err(Fault::Head("transfer-encoding in HTTP/1.0")),
        (true, None) => Framing::chunked(),
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::UntilClose,
    };
    let unbounded = framing == Framing::UntilClose;
    // Other statuses, such as redirects, are not expected from a provider. Their connection is not used again.
    let is_expected = status == 200 || (400..600).contains(&status);
    Ok((framing, is_expected && modern && !unbounded && !framing_headers.close))
}

/// Headers that describe framing and the connection.
#[derive(Default)]
struct FramingHeaders {
    length: Option<u64>,
    chunked: bool,
    /// The connection must not be used again.
    close: bool,
}

impl FramingHeaders {
    fn read(headers: &[httparse::Header<'_>]) -> Result<FramingHeaders, Fault> {
        let mut found = FramingHeaders::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let length = length(header.value).ok_or(Fault::Head("content-length is not a number"))?;
                if found.length.replace(length).is_some() {
                    return Err(Fault::Head("more than one content-length"));
                }
            } else if is("transfer-encoding") {
                if found.chunked || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(Fault::Head("a transfer-encoding other than one 'chunked'"));
                }
                found.chunked = true;
            } else if is("connection") {
                found.close |= has_token(header.value, b"close") || has_token(header.value, b"upgrade");
            } else if is("upgrade") && has_token(header.value, b"websocket") {
                // Such an answer would have no body.
                return Err(Fault::Head("an upgrade that was not requested"));
            }
        }
        Ok(found)
    }
}

/// Digits only: `parse` alone would take a sign.
fn length(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Parsed, Fault> {
        parse(&text.replace('\n', "\r\n").into())
    }

    #[track_caller]
    fn check(head: &str, status: u16, framing: Framing, reusable: bool) {
        let Ok(Parsed::Final(parsed)) = parse_text(head) else { panic!("{head:?} is no head: {:?}", parse_text(head)) };
        assert_eq!((parsed.status.as_u16(), parsed.framing, parsed.reusable), (status, framing, reusable), "{head:?}");
    }

    #[track_caller]
    fn refuse(head: &str, fault: &str) {
        assert_eq!(parse_text(head).err().map(|fault| fault.to_string()).as_deref(), Some(fault), "{head:?}");
    }

    #[test]
    fn regular_answers_are_framed_by_length_or_chunks() {
        check("HTTP/1.1 200 OK\ncontent-length: 12\n\n", 200, Framing::Length(12), true);
        check("HTTP/1.1 200 \nContent-Length: 0012 \n\n", 200, Framing::Length(12), true);
        check("HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\n\n", 200, Framing::chunked(), true);
        check("HTTP/1.1 503 No\ncontent-length: 0\n\n", 503, Framing::Length(0), true);
        check("\n\nHTTP/1.1 200 OK\ncontent-length: 1\n\n", 200, Framing::Length(1), true);
    }

    #[test]
    fn a_connection_is_used_again_only_after_a_plain_http_1_1_answer() {
        check("HTTP/1.1 200 OK\ncontent-length: 1\nconnection: Keep-Alive, CLOSE\n\n", 200, Framing::Length(1), false);
        check("HTTP/1.1 200 OK\ncontent-length: 1\nconnection: upgrade\n\n", 200, Framing::Length(1), false);
        check("HTTP/1.0 200 OK\ncontent-length: 1\nconnection: keep-alive\n\n", 200, Framing::Length(1), false);
        check("HTTP/1.1 307 Go\ncontent-length: 0\nlocation: http://h/\n\n", 307, Framing::Length(0), false);
        check("HTTP/1.1 204 None\n\n", 204, Framing::Length(0), false);
        check("HTTP/1.1 304 Not Modified\ncontent-length: 10\n\n", 304, Framing::Length(0), false);
        check("HTTP/1.1 999 Odd\ncontent-length: 1\n\n", 999, Framing::Length(1), false);
    }

    #[test]
    fn an_answer_without_length_ends_with_the_connection() {
        check("HTTP/1.0 200 OK\n\n", 200, Framing::UntilClose, false);
        check("HTTP/1.1 200 OK\n\n", 200, Framing::UntilClose, false);
        check("\n\nHTTP/1.1 200 OK\n\n", 200, Framing::UntilClose, false);
    }

    #[test]
    fn ambiguous_lengths_are_rejected() {
        for value in ["+5", "-5", "", "5, 5", "5 5", "0x5", "5.0", "99999999999999999999", "five"] {
            refuse(&format!("HTTP/1.1 200 OK\ncontent-length: {value}\n\n"), "content-length is not a number");
        }
        refuse("HTTP/1.1 200 OK\ncontent-length: 5\ncontent-length: 5\n\n", "more than one content-length");
        refuse("HTTP/1.1 200 OK\ncontent-length: 5\nContent-Length: 6\n\n", "more than one content-length");
    }

    #[test]
    fn transfer_encoding_is_one_chunked_or_nothing() {
        let other = "a transfer-encoding other than one 'chunked'";
        for value in ["gzip", "gzip, chunked", "identity", "chunked, chunked", "xchunked", ""] {
            refuse(&format!("HTTP/1.1 200 OK\ntransfer-encoding: {value}\n\n"), other);
        }
        refuse("HTTP/1.1 200 OK\ntransfer-encoding: chunked\ntransfer-encoding: chunked\n\n", other);
        let both = "both content-length and transfer-encoding";
        refuse("HTTP/1.1 200 OK\ncontent-length: 5\ntransfer-encoding: chunked\n\n", both);
        refuse("HTTP/1.1 200 OK\ntransfer-encoding: chunked\ncontent-length: 5\n\n", both);
        refuse("HTTP/1.0 200 OK\ntransfer-encoding: chunked\n\n", "transfer-encoding in HTTP/1.0");
    }

    #[test]
    fn bytes_that_are_no_http_1_head_are_rejected() {
        refuse("SSH-2.0-OpenSSH_9.2\n", "the answer is not HTTP/1");
        refuse("HTTP/2 200 OK\n\n", "the answer is not HTTP/1");
        refuse("HTTP/1.1 20 OK\n\n", "the answer is not HTTP/1");
        refuse("HTTP/1.1 200 OK\ncontent-length : 5\n\n", "the answer is not HTTP/1");
        refuse("HTTP/1.1 200 OK\nx: a\n b\n\n", "the answer is not HTTP/1");
        refuse("HTTP/1.1 099 OK\n\n", "the status is no HTTP status");
        refuse("HTTP/1.1 101 Switching\nupgrade: x\n\n", "status 101, though the request named no other protocol");
        refuse("HTTP/1.1 200 OK\nupgrade: h2c, WebSocket\n\n", "an upgrade that was not requested");
    }

    #[test]
    fn a_head_has_a_size_limit() {
        let line = |length: usize| format!("x: {}\n", "a".repeat(length));
        refuse(&format!("HTTP/1.1 200 OK\n{}\n", line(MAX_HEAD)), "the head is too large");
        refuse(&format!("HTTP/1.1 200 OK\n{}", line(MAX_HEAD)), "the head is too large");
        refuse(&format!("HTTP/1.1 200 OK\n{}\n", line(1).repeat(MAX_HEADERS + 1)), "the head is too large");
        check(&format!("HTTP/1.1 200 OK\n{}\n", line(60_000)), 200, Framing::UntilClose, false);
        check(&format!("HTTP/1.1 200 OK\n{}\n", line(1).repeat(MAX_HEADERS)), 200, Framing::UntilClose, false);
    }

    #[test]
    fn interim_and_partial_heads_are_distinguished() {
        assert!(matches!(parse_text("HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK"), Ok(Parsed::Interim(25))));
        assert!(matches!(parse_text("HTTP/1.1 103 Early Hints\nlink: x\n\n"), Ok(Parsed::Interim(37))));
        assert!(matches!(parse_text("HTTP/1.1 200 OK\n"), Ok(Parsed::Partial)));
        assert!(matches!(parse_text(""), Ok(Parsed::Partial)));
    }
}
