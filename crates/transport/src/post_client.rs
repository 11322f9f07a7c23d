//! Posts to one address: spans to a collector, alerts to a receiver.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use actix_http::{
    HttpMessage as _, Method, Uri,
    header::{ACCEPT_ENCODING, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT},
};
use awc::{Client, ClientResponse};
use bytes::Bytes;
use rustls::ClientConfig;
use tokio::time::timeout_at;

use super::{
    body::{BodyBounds, UpstreamBody},
    connection::{Connection, ConnectionFault},
    connector::Connector,
    failure::{self, UpstreamError},
    http_client,
    keep_alive::KeepAlive,
    request,
    retry_after::retry_after,
};

/// Most bytes of an answer. It is read only to use the connection again.
const MAX_ANSWER: usize = 64 * 1024;
/// How long the connection is kept: less than most servers do.
const KEEP_ALIVE: KeepAlive = KeepAlive { idle: Duration::from_secs(55), lifetime: Duration::from_secs(3600) };

/// Calls one address from one thread. Redirects are not followed.
pub struct PostClient {
    client: Client,
    connection: Connection,
    uri: Uri,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostAnswer {
    /// Its status.
    pub status: u16,
    /// Its header `retry-after`, as text.
    pub retry_after: Option<String>,
    /// Its body.
    pub body: Bytes,
}

impl PostClient {
    /// A client that posts to `url`, without an open connection.
    ///
    /// # Errors
    /// When `url` is not an absolute `http` or `https` URL with a host.
    pub fn new(url: &str, tls: &Arc<ClientConfig>, connect: Duration) -> Result<PostClient, ConnectionFault> {
        let connection = Connection::new(url)?;
        // A connection drops the slash at the end of its path, which may matter to the receiver.
        let path = url.split('?').next().unwrap_or_default();
        let uri = connection.uri(if path.ends_with('/') { "/" } else { "" })?;
        let client = http_client::build(Connector::new(&connection, tls, connect, KEEP_ALIVE));
        Ok(PostClient { client, connection, uri })
    }

    /// Posts `body` with further `headers`, and reads the answer, until `deadline`. Headers that are none are left out.
    ///
    /// # Errors
    /// When no regular answer arrives in time. Any status is an answer.
    pub async fn post(
        &self,
        headers: &[(&str, &[u8])],
        body: Bytes,
        deadline: Instant,
    ) -> Result<PostAnswer, UpstreamError> {
        let mut response = self.send(headers, body, deadline).await?;
        let bounds = BodyBounds { deadline, idle: None, size: MAX_ANSWER };
        let announced = http_client::announced_length(response.headers());
        let body = UpstreamBody::new(response.take_payload(), announced, bounds).collect().await?;
        let wait = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        Ok(PostAnswer { status: response.status().as_u16(), retry_after: wait.map(str::to_owned), body })
    }

    /// Posts `body` with further `headers`, and gives the status of the answer and the wait that it asks for. Its body is not
    /// read: the connection is closed.
    ///
    /// # Errors
    /// When no regular head of an answer arrives until `deadline`.
    pub async fn tell(
        &self,
        headers: &[(&str, &[u8])],
        body: Bytes,
        deadline: Instant,
    ) -> Result<(u16, Option<Duration>), UpstreamError> {
        let answer = self.send(headers, body, deadline).await?;
        Ok((answer.status().as_u16(), retry_after(answer.headers(), SystemTime::now())))
    }

    /// Posts `body` and waits for the head of the answer until `deadline`.
    async fn send(
        &self,
        headers: &[(&str, &[u8])],
        body: Bytes,
        deadline: Instant,
    ) -> Result<ClientResponse, UpstreamError> {
        let mut request = self.client.request(Method::POST, self.uri.clone());
        let map = request.headers_mut();
        add(map, headers);
        map.insert(HOST, HeaderValue::from_str(&self.connection.authority).map_err(|_| unusable())?);
        map.insert(USER_AGENT, HeaderValue::from_static(request::AGENT));
        map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let sent = timeout_at(deadline.into(), request.send_body(body)).await;
        let sent = sent.map_err(|_| UpstreamError::timeout("no head in time"))?;
        sent.map_err(|error| failure::of_send(&error))
    }
}

fn add(map: &mut HeaderMap, headers: &[(&str, &[u8])]) {
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value)) {
            map.insert(name, value);
        }
    }
}

fn unusable() -> UpstreamError {
    UpstreamError::new(pointsman_domain::FailureKind::Connect, "address: no host")
}
