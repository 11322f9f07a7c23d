//! Frames as Amazon's streams have them.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use serde_json::{Value, json};

/// A frame with an event.
pub(crate) fn frame(kind: &str, payload: &Value) -> Vec<u8> {
    message(&[(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")], payload)
}

/// A frame with an error.
pub(crate) fn exception(kind: &str, text: &str) -> Vec<u8> {
    message(&[(":exception-type", kind), (":message-type", "exception")], &json!({"message": text}))
}

fn message(headers: &[(&str, &str)], payload: &Value) -> Vec<u8> {
    let message = headers.iter().fold(Message::new(payload.to_string()), |message, (name, value)| {
        message.add_header(Header::new((*name).to_owned(), HeaderValue::String((*value).to_owned().into())))
    });
    let mut bytes = Vec::new();
    write_message_to(&message, &mut bytes).unwrap();
    bytes
}

/// The answer to a streamed call, whose body is these frames.
pub(crate) fn answer_of(frames: &[Vec<u8>]) -> Vec<u8> {
    let body = frames.concat();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ncontent-length: ";
    [format!("{head}{}\r\n\r\n", body.len()).as_bytes(), &body].concat()
}
