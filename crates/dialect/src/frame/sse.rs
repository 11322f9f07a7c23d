//! Splits a byte stream into server-sent events, independent of where reads split it.
//!
//! Lines end in LF, CR or CRLF; data may span lines. Comments and the fields `id` and `retry` are ignored; of `event`
//! only the name `error` matters. The content of events is read in [`crate::openai`].

use std::borrow::Cow;

use bytes::{Buf as _, BytesMut};
use memchr::memchr2;

use super::{EventTooLong, StreamEvent};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits reads into events. Holds at most one unfinished event, bounded by the limit.
#[derive(Debug)]
pub struct SseSplitter {
    pending: BytesMut,
    search: Search,
    max_event_bytes: usize,
    begun: bool,
}

impl SseSplitter {
    /// A splitter at the beginning of a stream.
    pub fn new(max_event_bytes: usize) -> SseSplitter {
        SseSplitter { pending: BytesMut::new(), search: Search::default(), max_event_bytes, begun: false }
    }

    /// Processes one read and calls `on_event` for each complete event, in order. Complete events are processed in
    /// place; only an unfinished end is copied.
    ///
    /// # Errors
    /// When an event is too long, or with the first error of `on_event`.
    pub fn push<E: From<EventTooLong>>(
        &mut self,
        bytes: &[u8],
        on_event: impl FnMut(StreamEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.begun && self.pending.is_empty() {
            let used = self.search.events(bytes, self.max_event_bytes, on_event)?;
            self.pending.extend_from_slice(bytes.get(used..).unwrap_or_default());
            return Ok(());
        }
        self.pending.extend_from_slice(bytes);
        if self.begun || self.begin() {
            let used = self.search.events(&self.pending, self.max_event_bytes, on_event)?;
            self.pending.advance(used);
        }
        Ok(())
    }

    /// The unfinished event at the end of the stream, if it has data.
    pub fn unfinished(&self) -> Option<StreamEvent<'_>> {
        read_event(&self.pending)
    }

    /// Drops a byte order mark; false while the bytes so far could still become one.
    fn begin(&mut self) -> bool {
        if self.pending.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&self.pending) {
            return false;
        }
        if self.pending.starts_with(BYTE_ORDER_MARK) {
            self.pending.advance(BYTE_ORDER_MARK.len());
        }
        self.begun = true;
        true
    }
}

/// Search position in the unfinished event, so that no byte is searched twice.
#[derive(Debug, Clone, Copy, Default)]
struct Search {
    /// Where the current line begins.
    line: usize,
    /// Up to where it was searched.
    at: usize,
    /// Whether the last byte was a CR that may be half of a CRLF.
    after_cr: bool,
}

impl Search {
    /// Calls `on_event` for every complete event of `bytes`. Returns their length.
    fn events<E: From<EventTooLong>>(
        &mut self,
        bytes: &[u8],
        max_event_bytes: usize,
        mut on_event: impl FnMut(StreamEvent<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut start = 0;
        while let Some(end) = self.blank_line(bytes) {
            if end - start > max_event_bytes {
                return Err(EventTooLong.into());
            }
            if let Some(event) = read_event(bytes.get(start..end).unwrap_or_default()) {
                on_event(event)?;
            }
            start = end;
        }
        if bytes.len() - start > max_event_bytes {
            return Err(EventTooLong.into());
        }
        self.line -= start;
        self.at -= start;
        Ok(start)
    }

    /// The end of the next blank line.
    fn blank_line(&mut self, bytes: &[u8]) -> Option<usize> {
        loop {
            if self.after_cr
                && let Some(&next) = bytes.get(self.at)
            {
                self.after_cr = false;
                let rest_of_crlf = usize::from(next == b'\n');
                self.at += rest_of_crlf;
                self.line += rest_of_crlf;
            }
            let Some(length) = memchr2(b'\n', b'\r', bytes.get(self.at..).unwrap_or_default()) else {
                self.at = bytes.len();
                return None;
            };
            let is_blank = self.at + length == self.line;
            let terminator = self.at + length;
            self.after_cr = bytes.get(terminator) == Some(&b'\r');
            self.at = terminator + 1;
            self.line = self.at;
            if is_blank {
                return Some(self.at);
            }
        }
    }
}

/// Parses the lines of one event.
fn read_event(bytes: &[u8]) -> Option<StreamEvent<'_>> {
    let mut data: Option<Cow<'_, [u8]>> = None;
    let mut is_error = false;
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let (line, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        rest = tail.get(1..).unwrap_or_default();
        match split_field(line) {
            (b"data", value) => match &mut data {
                None => data = Some(Cow::Borrowed(value)),
                Some(lines) => {
                    lines.to_mut().push(b'\n');
                    lines.to_mut().extend_from_slice(value);
                }
            },
            (b"event", value) => is_error = value == b"error",
            _ => {}
        }
    }
    (data.is_some() || is_error).then(|| StreamEvent { data: data.unwrap_or_default(), is_error })
}

/// Name and value of a line. A comment has the empty name; so does an empty line.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    let Some(colon) = memchr::memchr(b':', line) else { return (line, b"") };
    let (name, value) = line.split_at_checked(colon).unwrap_or((line, b""));
    let value = value.get(1..).unwrap_or_default();
    (name, value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct TooLong;

    impl From<EventTooLong> for TooLong {
        fn from(_: EventTooLong) -> TooLong {
            TooLong
        }
    }

    fn split<'a>(reads: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Result<Vec<String>, TooLong> {
        let mut splitter = SseSplitter::new(limit);
        let mut events = Vec::new();
        for read in reads {
            splitter.push(read, |event| {
                let name = if event.is_error { "error: " } else { "" };
                events.push(format!("{name}{}", String::from_utf8_lossy(&event.data)));
                Ok::<(), TooLong>(())
            })?;
        }
        if let Some(event) = splitter.unfinished() {
            events.push(format!("cut: {}", String::from_utf8_lossy(&event.data)));
        }
        Ok(events)
    }

    fn check(stream: &str, events: &[&str]) {
        assert_eq!(split([stream.as_bytes()], 1_000).unwrap(), events, "{stream:?} whole");
        let bytes = stream.as_bytes().chunks(1);
        assert_eq!(split(bytes, 1_000).unwrap(), events, "{stream:?} byte by byte");
    }

    #[test]
    fn lines_end_in_lf_cr_or_crlf() {
        check("data: a\n\ndata: b\n\n", &["a", "b"]);
        check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check("data: a\r\rdata: b\r\r", &["a", "b"]);
        check("data: a\n\r\ndata: b\r\n\ndata: c\r\n\rdata: d\n\n", &["a", "b", "c", "d"]);
    }

    #[test]
    fn data_lines_are_joined_and_lose_one_space() {
        check("data: {\ndata:  1}\n\n", &["{\n 1}"]);
        check("data:a\n\ndata:\n\ndata\n\n", &["a", "", ""]);
    }

    #[test]
    fn comments_other_fields_and_a_byte_order_mark_are_passed_over() {
        check("\u{feff}: hello\n\nid: 7\nretry: 10\nevent: chunk\ndata: a\n: within\n\n\n\nnonsense\n\n", &["a"]);
    }

    #[test]
    fn an_event_named_error_is_known_as_one() {
        check("event: error\ndata: boom\n\nevent: error\n\ndata: a\n\n", &["error: boom", "error: ", "a"]);
    }

    #[test]
    fn an_event_cut_by_the_end_is_told_apart() {
        check("data: a\n\ndata: b\n", &["a", "cut: b"]);
        check("data: a\n\ndata: [DO", &["a", "cut: [DO"]);
        check("data: a\n\n: bye", &["a"]);
    }

    #[test]
    fn an_event_may_be_as_long_as_the_limit_and_no_longer() {
        let stream = b"data: 123456\n\n";
        assert_eq!(split([stream.as_slice()], stream.len()).unwrap(), ["123456"]);
        assert_eq!(split([stream.as_slice()], stream.len() - 1), Err(TooLong));
        assert_eq!(split(stream.chunks(1), stream.len() - 1), Err(TooLong));
        assert_eq!(split([b": never ending".as_slice()], 5), Err(TooLong));
    }

    proptest! {
        #[test]
        fn reads_may_split_anywhere(
            lines in prop::collection::vec("(data: ?|event: |: |id: )?[a-zé😀]{0,6}(\n|\r|\r\n){1,3}", 0..12),
            cuts in prop::collection::vec(0_usize..200, 0..12),
        ) {
            let stream = lines.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let reads = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
            prop_assert_eq!(split(reads, 1_000).unwrap(), split([stream.as_slice()], 1_000).unwrap());
        }
    }
}
