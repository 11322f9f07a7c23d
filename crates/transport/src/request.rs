//! Requests to a provider: the frozen head of a call, and bodies of two parts.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use actix_http::{
    body::{BodySize, MessageBody},
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT},
};
use awc::{Client, FrozenClientRequest};
use bytes::Bytes;
use pointsman_dialect::{SentBody, UpstreamHeaders};

use super::connection::{Connection, ConnectionFault};

/// What the paths of Bedrock's calls begin with.
pub(super) const BEDROCK_PATH: &str = "/model/";

/// Value of `user-agent`.
pub(super) const AGENT: &str = concat!("pointsman/", env!("CARGO_PKG_VERSION"));

/// Makes the head of all calls to `path`.
pub(super) fn freeze(
    client: &Client,
    connection: &Connection,
    path: &str,
    streamed: bool,
) -> Result<FrozenClientRequest, ConnectionFault> {
    let mut request = client.post(connection.uri(path)?);
    let host = HeaderValue::from_str(&connection.authority).map_err(|_| ConnectionFault::Host)?;
    // Bedrock frames its streams in another way, and chooses it by the path.
    let accept = match (streamed, path.starts_with(BEDROCK_PATH)) {
        (false, _) => "application/json",
        (true, false) => "text/event-stream",
        (true, true) => "application/vnd.amazon.eventstream",
    };
    let headers = request.headers_mut();
    for (name, value) in &connection.headers {
        headers.append(name.clone(), value.clone());
    }
    // These overwrite configured headers, except for the user agent.
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

/// Sends `body` after the frozen head, with further `headers`.
pub(super) fn send(
    request: &FrozenClientRequest,
    body: &SentBody,
    headers: &UpstreamHeaders,
) -> awc::SendClientRequest {
    let [first, rest] = body.parts().clone();
    if headers.is_empty() {
        return if rest.is_empty() { request.send_body(first) } else { request.send_body(Parts([first, rest])) };
    }
    let mut extra = HeaderMap::new();
    for (name, value) in headers {
        if let (Ok(name), Ok(mut value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            value.set_sensitive(matches!(name.as_str(), "authorization" | "x-amz-security-token"));
            extra.insert(name, value);
        }
    }
    let request = request.extra_headers(extra);
    if rest.is_empty() { request.send_body(first) } else { request.send_body(Parts([first, rest])) }
}

/// A body of known length: one part after the other.
struct Parts([Bytes; 2]);

impl MessageBody for Parts {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.0.iter().map(|part| part.len() as u64).sum())
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let left = self.0.iter_mut().find(|part| !part.is_empty());
        Poll::Ready(left.map(|part| Ok(std::mem::take(part))))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn both_parts_of_a_body_leave_one_after_the_other() {
        for (first, rest) in [("{\"model\":1", "}"), ("", "{}"), ("{}", ""), ("", "")] {
            let mut body = Parts([first.into(), rest.into()]);
            assert_eq!(body.size(), BodySize::Sized((first.len() + rest.len()) as u64));
            let mut sent = Vec::new();
            while let Poll::Ready(Some(Ok(part))) =
                Pin::new(&mut body).poll_next(&mut Context::from_waker(Waker::noop()))
            {
                assert!(!part.is_empty());
                sent.extend_from_slice(&part);
            }
            assert_eq!(sent, [first.as_bytes(), rest.as_bytes()].concat());
        }
    }
}
