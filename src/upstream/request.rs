//! What goes out: the frozen head of a call, and large bodies in slices.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use actix_http::{
    body::{BodySize, MessageBody},
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT},
};
use awc::{Client, FrozenClientRequest};
use bytes::Bytes;

use super::connection::{Connection, ConnectionFault};

/// Who we are.
pub(super) const AGENT: &str = concat!("pointsman/", env!("CARGO_PKG_VERSION"));

/// awc copies what it is given into its write buffer before it writes: larger bodies are given piece by piece, so
/// that this copy stays small. Most bodies go whole, in one write with their head.
const SLICE: usize = 128 * 1024;

/// The head of every call to `path`, made once.
pub(super) fn freeze(
    client: &Client,
    connection: &Connection,
    path: &str,
    streamed: bool,
    close: bool,
) -> Result<FrozenClientRequest, ConnectionFault> {
    let mut request = client.post(connection.uri(path)?);
    if close {
        request = request.force_close();
    }
    let host = HeaderValue::from_str(&connection.authority).map_err(|_| ConnectionFault::Host)?;
    let accept = if streamed { "text/event-stream" } else { "application/json" };
    let headers = request.headers_mut();
    for (name, value) in &connection.headers {
        headers.append(name.clone(), value.clone());
    }
    // Ours last: whoever configures a user agent of their own gets it, everything else is not theirs to change.
    if !headers.contains_key(USER_AGENT) {
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    }
    headers.insert(HOST, host);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some((name, value)) = connection.credentials()? {
        headers.insert(name, value);
    }
    request.freeze().map_err(|error| ConnectionFault::Url(error.to_string()))
}

/// Sends `body` after the frozen head.
pub(super) fn send(request: &FrozenClientRequest, body: Bytes) -> awc::SendClientRequest {
    if body.len() <= SLICE { request.send_body(body) } else { request.send_body(Slices(body)) }
}

/// A body of known length, given away in slices.
struct Slices(Bytes);

impl MessageBody for Slices {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.0.len() as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.0.len().min(SLICE);
        Poll::Ready(Some(Ok(self.0.split_to(length))))
    }
}
