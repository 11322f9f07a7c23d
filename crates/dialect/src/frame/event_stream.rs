//! Splits a byte stream into the frames of `application/vnd.amazon.eventstream`, independent of where reads split it.
//!
//! A frame is its length, the length of its headers, a checksum of both, headers, payload, and a checksum of everything
//! before. After a frame that is not valid there is no way to find the next one.

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;
use bytes::{Buf as _, Bytes, BytesMut};

use super::EventTooLong;

/// Length, length of the headers, checksum of both, and the checksum at the end.
const MIN_FRAME: usize = 16;

/// A frame is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadFrame;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// An event.
    Event,
    /// An error, after which the stream ends.
    Exception,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Event or exception.
    pub kind: FrameKind,
    /// Type of the event or the exception, or the code of an error.
    pub name: String,
    /// The payload, or the message of an error. Not yet known to be UTF-8.
    pub payload: Bytes,
}

/// Splits reads into frames. Holds at most one unfinished frame, bounded by the limit.
#[derive(Debug)]
pub struct EventStreamSplitter {
    pending: BytesMut,
    max_frame_bytes: usize,
}

impl EventStreamSplitter {
    /// A splitter at the beginning of a stream.
    pub fn new(max_frame_bytes: usize) -> EventStreamSplitter {
        EventStreamSplitter { pending: BytesMut::new(), max_frame_bytes }
    }

    /// Processes one read and calls `on_frame` for each complete frame, in order.
    ///
    /// # Errors
    /// When a frame is too long or not valid, or with the first error of `on_frame`. A length is judged before the frame is
    /// buffered.
    pub fn push<E: From<EventTooLong> + From<BadFrame>>(
        &mut self,
        bytes: &[u8],
        mut on_frame: impl FnMut(Frame) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pending.extend_from_slice(bytes);
        while let Some(length) = self.announced_length() {
            if length > self.max_frame_bytes {
                return Err(EventTooLong.into());
            }
            if length < MIN_FRAME {
                return Err(BadFrame.into());
            }
            if self.pending.len() < length {
                break;
            }
            let frame = self.pending.split_to(length).freeze();
            let message = read_message_from(frame).map_err(|_| BadFrame)?;
            on_frame(Frame::read(&message).ok_or(BadFrame)?)?;
        }
        Ok(())
    }

    /// Whether the stream ended within a frame.
    pub fn is_cut(&self) -> bool {
        !self.pending.is_empty()
    }

    fn announced_length(&self) -> Option<usize> {
        let mut length = self.pending.get(..4)?;
        usize::try_from(length.get_u32()).ok()
    }
}

impl Frame {
    /// The frame of a message; `None` without the headers that every frame has.
    fn read(message: &Message) -> Option<Frame> {
        let header = |name: &str| {
            let header = message.headers().iter().find(|header| header.name().as_str() == name)?;
            header.value().as_string().ok().map(|value| value.as_str())
        };
        let payload = message.payload().clone();
        let (kind, name) = match header(":message-type")? {
            "event" => (FrameKind::Event, header(":event-type")?),
            "exception" => (FrameKind::Exception, header(":exception-type")?),
            "error" => {
                let payload = Bytes::copy_from_slice(header(":error-message").unwrap_or_default().as_bytes());
                return Some(Frame { kind: FrameKind::Exception, name: header(":error-code")?.to_owned(), payload });
            }
            _ => return None,
        };
        Some(Frame { kind, name: name.to_owned(), payload })
    }
}

#[cfg(test)]
mod tests {
    use aws_smithy_eventstream::frame::write_message_to;
    use aws_smithy_types::event_stream::{Header, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    /// The published examples: a piece of text, and an exception.
    const DELTA: &str = "0000009f00000057c37babff0b3a6576656e742d74797065070011636f6e74656e74426c6f636b44656c74610d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d747970650700056576656e747b22636f6e74656e74426c6f636b496e646578223a302c2264656c7461223a7b2274657874223a224869227d2c2270223a2261626364227df2ace5ff";
    const EXCEPTION: &str = "00000090000000618e91a9b70f3a657863657074696f6e2d747970650700137468726f74746c696e67457863657074696f6e0d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d74797065070009657863657074696f6e7b226d657373616765223a22546f6f206d616e79207265717565737473227de67f8005";

    #[derive(Debug, PartialEq)]
    enum Fault {
        TooLong,
        Bad,
    }

    impl From<EventTooLong> for Fault {
        fn from(_: EventTooLong) -> Fault {
            Fault::TooLong
        }
    }

    impl From<BadFrame> for Fault {
        fn from(_: BadFrame) -> Fault {
            Fault::Bad
        }
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
        digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
    }

    /// The frames so far, and whether the stream ended within one.
    type Split = (Vec<(FrameKind, String, String)>, Result<bool, Fault>);

    fn split<'a>(reads: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Split {
        let mut splitter = EventStreamSplitter::new(limit);
        let mut frames = Vec::new();
        for read in reads {
            let pushed = splitter.push(read, |frame| {
                frames.push((frame.kind, frame.name, String::from_utf8(frame.payload.to_vec()).unwrap()));
                Ok(())
            });
            if let Err(fault) = pushed {
                return (frames, Err(fault));
            }
        }
        (frames, Ok(splitter.is_cut()))
    }

    fn message(headers: &[(&str, &str)], payload: &str) -> Vec<u8> {
        let message = Message::new(payload.as_bytes().to_vec());
        let message = headers.iter().fold(message, |message, (name, value)| {
            message.add_header(Header::new((*name).to_owned(), HeaderValue::String((*value).to_owned().into())))
        });
        let mut out = Vec::new();
        write_message_to(&message, &mut out).unwrap();
        out
    }

    #[test]
    fn the_published_frames_decode_at_every_split_position() {
        let stream = [bytes(DELTA), bytes(EXCEPTION)].concat();
        let delta = r#"{"contentBlockIndex":0,"delta":{"text":"Hi"},"p":"abcd"}"#;
        let expected = vec![
            (FrameKind::Event, "contentBlockDelta".to_owned(), delta.to_owned()),
            (FrameKind::Exception, "throttlingException".to_owned(), r#"{"message":"Too many requests"}"#.to_owned()),
        ];
        for at in 0..=stream.len() {
            let (head, tail) = stream.split_at(at);
            assert_eq!(split([head, tail], 1_000), (expected.clone(), Ok(false)), "split at {at}");
        }
        assert_eq!(split(stream.chunks(1), 1_000), (expected, Ok(false)));
    }

    #[test]
    fn one_flipped_bit_anywhere_is_a_bad_frame_or_no_frame_at_all() {
        let good = bytes(DELTA);
        for bit in 0..good.len() * 8 {
            let mut flipped = good.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (frames, end) = split([&flipped[..]], 1_000);
            // A length that grew waits for bytes that never come.
            assert!(frames.is_empty() && end != Ok(false), "bit {bit}: {frames:?} {end:?}");
        }
    }

    #[test]
    fn a_frame_that_announces_more_than_allowed_is_refused_before_it_is_buffered() {
        let announced = 100_000_u32.to_be_bytes();
        assert_eq!(split([&announced[..]], 99_999).1, Err(Fault::TooLong));
        assert_eq!(split([&announced[..]], 100_000).1, Ok(true));
        assert_eq!(split([&15_u32.to_be_bytes()[..]], 100).1, Err(Fault::Bad));
    }

    #[test]
    fn an_error_is_an_exception_with_its_code_and_a_frame_without_a_type_is_bad() {
        let error =
            message(&[(":message-type", "error"), (":error-code", "InternalError"), (":error-message", "No.")], "");
        let expected = vec![(FrameKind::Exception, "InternalError".to_owned(), "No.".to_owned())];
        assert_eq!(split([&error[..]], 1_000), (expected, Ok(false)));
        for headers in [&[][..], &[(":message-type", "event")], &[(":message-type", "other"), (":event-type", "a")]] {
            assert_eq!(split([&message(headers, "{}")[..]], 1_000).1, Err(Fault::Bad), "{headers:?}");
        }
    }

    proptest! {
        #[test]
        fn reads_may_split_anywhere(
            payloads in prop::collection::vec("[a-zé]{0,40}", 0..6), cuts in prop::collection::vec(0_usize..600, 0..12),
        ) {
            let frame = |text: &String| message(&[(":message-type", "event"), (":event-type", "chunk")], text);
            let stream = payloads.iter().map(frame).collect::<Vec<_>>().concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let reads = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
            let (frames, end) = split(reads, 1_000);
            let texts: Vec<String> = frames.into_iter().map(|(_, _, text)| text).collect();
            prop_assert_eq!((texts, end), (payloads, Ok(false)));
        }

        #[test]
        fn any_bytes_end_in_a_fault_or_wait_for_more(
            noise in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..147,
        ) {
            prop_assert!(split([&noise[..]], 1_000).0.is_empty());
            // Behind lengths that are valid, too.
            let mut frame = bytes(DELTA);
            frame.splice(12 + at.min(140)..12 + at.min(140) + noise.len().min(7), noise.iter().take(7).copied());
            prop_assume!(frame != bytes(DELTA));
            prop_assert!(split([&frame[..]], 1_000).0.is_empty());
        }
    }
}
