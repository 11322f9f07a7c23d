//! The HTTP/1.1 client below every call: heads of requests, connections that are kept, and the headers of answers that all
//! callers check.

use std::{
    future::poll_fn,
    io::Write as _,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use actix_http::{
    Method, Uri,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT},
};
use bytes::Bytes;
use pointsman_domain::FailureKind;
use rustls::ClientConfig;
use tokio::time::timeout_at;

use super::{
    body::{BodyBounds, UpstreamBody},
    connection::{Connection, ConnectionFault},
    connector::Connector,
    exchange::{self, Answer, IdleConnections, exchange},
    failure::{self, SendFault, UpstreamError},
    keep_alive::KeepAlive,
};

/// Value of `user-agent`.
const AGENT: &str = concat!("pointsman/", env!("CARGO_PKG_VERSION"));

/// Room behind a head for its last lines and for the body of most requests.
const ROOM: usize = 2048;

/// Opens connections to one address and keeps them for later calls. Clones share them. Not `Send`.
#[derive(Clone)]
pub(super) struct HttpClient {
    connector: Connector,
    idle: IdleConnections,
}

/// The head of a request, without the length of its body.
pub(super) struct RequestHead {
    line: String,
    headers: HeaderMap,
    /// Line and headers as they are sent.
    written: Vec<u8>,
}

impl HttpClient {
    /// A client without open connections.
    pub(super) fn new(
        connection: &Connection,
        tls: &Arc<ClientConfig>,
        connect: Duration,
        keep_alive: KeepAlive,
    ) -> HttpClient {
        HttpClient { connector: Connector::new(connection, tls, connect, keep_alive), idle: Rc::default() }
    }

    /// Sends a request and waits for the head of its answer. `fresh`: on a new connection, even if one is kept.
    ///
    /// Dropping the future, or the body of the answer before its end, closes the connection.
    ///
    /// # Errors
    /// See [`SendFault`].
    pub(super) async fn send(&self, head: Vec<u8>, body: [Bytes; 2], fresh: bool) -> Result<Answer, SendFault> {
        let kept = poll_fn(|cx| Poll::Ready(if fresh { None } else { exchange::poll_idle(&self.idle, cx) }));
        let connection = match kept.await {
            Some(connection) => connection,
            None => self.connector.open().await.map_err(SendFault::Connect)?,
        };
        exchange(connection, head, body, Rc::clone(&self.idle)).await.map_err(SendFault::Exchange)
    }

    /// Sends a request and waits for the head of its answer until `deadline`.
    ///
    /// # Errors
    /// When no regular head arrives in time.
    pub(super) async fn call(
        &self,
        head: &RequestHead,
        body: Option<Bytes>,
        deadline: Instant,
    ) -> Result<Answer, UpstreamError> {
        let head = head.with(&HeaderMap::new(), body.as_ref().map(Bytes::len));
        let sent = self.send(head, [body.unwrap_or_default(), Bytes::new()], false);
        let sent = timeout_at(deadline.into(), sent).await;
        sent.map_err(|_| UpstreamError::timeout("no head in time"))?.map_err(|fault| failure::of_send(&fault))
    }
}

impl RequestHead {
    /// The head of a request to the path and query of `uri`. `close`: the connection is not used again.
    ///
    /// # Errors
    /// When the host is no header value.
    pub(super) fn new(
        connection: &Connection,
        (method, uri): (&Method, &Uri),
        mut headers: HeaderMap,
        close: bool,
    ) -> Result<RequestHead, ConnectionFault> {
        headers.insert(HOST, HeaderValue::from_str(&connection.authority).map_err(|_| ConnectionFault::Host)?);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if !headers.contains_key(USER_AGENT) {
            headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let close = if close { "connection: close\r\n" } else { "" };
        let line = format!("{method} {path} HTTP/1.1\r\n{close}");
        let written = written(&line, headers.iter());
        Ok(RequestHead { line, headers, written })
    }

    /// The head as it is sent, but for its empty line. `extra` headers take the place of those with the same names.
    pub(super) fn with(&self, extra: &HeaderMap, length: Option<usize>) -> Vec<u8> {
        let mut head = if extra.is_empty() {
            let mut head = Vec::with_capacity(self.written.len() + ROOM);
            head.extend_from_slice(&self.written);
            head
        } else {
            let kept = self.headers.iter().filter(|(name, _)| !extra.contains_key(*name));
            written(&self.line, kept.chain(extra.iter()))
        };
        if let Some(length) = length {
            // Writing into a vector cannot fail.
            let _ = write!(head, "content-length: {length}\r\n");
        }
        head
    }
}

/// The line of a request and its headers, without those that say how the request is framed.
fn written<'a>(line: &str, headers: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>) -> Vec<u8> {
    let mut head = line.as_bytes().to_vec();
    let is_framing = |name: &HeaderName| matches!(name.as_str(), "connection" | "content-length" | "transfer-encoding");
    for (name, value) in headers.filter(|(name, _)| !is_framing(name)) {
        head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    head
}

impl Answer {
    /// The body, within `bounds`.
    pub(super) fn into_body(self, bounds: BodyBounds) -> UpstreamBody {
        UpstreamBody::new(self.body, announced_length(&self.headers), bounds)
    }
}

/// Makes one call with these headers on a connection of its own, and waits for the head of the answer until `deadline`.
///
/// # Errors
/// When no regular head arrives in time.
pub(super) async fn call_once(
    (connection, tls, connect): (&Connection, &Arc<ClientConfig>, Duration),
    request: (&Method, &Uri),
    headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    body: Option<Bytes>,
    deadline: Instant,
) -> Result<Answer, UpstreamError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(name, value);
    }
    let head = RequestHead::new(connection, request, map, true)
        .map_err(|fault| UpstreamError::new(FailureKind::Connect, format!("address: {fault}")))?;
    HttpClient::new(connection, tls, connect, KeepAlive::NEVER).call(&head, body, deadline).await
}

/// Whether a body has no content encoding.
pub(super) fn is_identity(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).all(|value| {
        let encoding = value.as_bytes().trim_ascii();
        encoding.is_empty() || encoding.eq_ignore_ascii_case(b"identity")
    })
}

/// `content-length` in bytes. The guard has checked that it is a single number.
fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_the_call_replaces_that_of_the_connection_and_none_frames_the_body() {
        let connection = Connection::new("http://h:81/v1").unwrap();
        let named = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let headers: HeaderMap = [named("x-a", "1"), named("content-length", "9")].into_iter().collect();
        let extra: HeaderMap = [named("x-a", "2"), named("transfer-encoding", "chunked")].into_iter().collect();
        let uri = connection.uri("/chat").unwrap();
        let head = RequestHead::new(&connection, (&Method::POST, &uri), headers, true).unwrap();

        for (extra, expected) in [(HeaderMap::new(), "x-a: 1\r\n"), (extra, "x-a: 2\r\n")] {
            let written = String::from_utf8(head.with(&extra, Some(3))).unwrap();
            assert!(written.starts_with("POST /v1/chat HTTP/1.1\r\nconnection: close\r\n"), "{written}");
            assert!(written.ends_with("content-length: 3\r\n"), "{written}");
            assert_eq!(
                (written.matches("x-a").count(), written.matches("content-length").count()),
                (1, 1),
                "{written}"
            );
            assert!(written.contains(expected) && !written.contains("chunked"), "{written}");
        }
    }
}
