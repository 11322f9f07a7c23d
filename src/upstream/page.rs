//! Reads one page of a gateway for the command line: one request, with the key, without redirects.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix_http::{HttpMessage as _, Method};
use bytes::Bytes;
use pointsman_actors::domain::FailureKind;
use rustls::ClientConfig;

use super::{
    body::{BodyBounds, UpstreamBody},
    connection::Connection,
    connector::Connector,
    failure::UpstreamError,
    http_client,
    idle::KeepAlive,
};

/// Most bytes of a page.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Status and body of the page at `path`, read within `timeout`.
///
/// # Errors
/// When no regular answer arrives in time: of the kind `Connect` when the gateway was not reached. Any status is an answer.
pub async fn read_page(
    connection: &Connection,
    tls: &Arc<ClientConfig>,
    path: &str,
    timeout: Duration,
) -> Result<(u16, Bytes), UpstreamError> {
    call_page(connection, tls, (Method::GET, path), None, timeout).await
}

/// Status and body of the answer to a call with `body` as JSON; without one the page is only read.
///
/// # Errors
/// As [`read_page`].
pub async fn call_page(
    connection: &Connection,
    tls: &Arc<ClientConfig>,
    (method, path): (Method, &str),
    body: Option<Bytes>,
    timeout: Duration,
) -> Result<(u16, Bytes), UpstreamError> {
    let deadline = Instant::now() + timeout;
    let failed = |why: String| UpstreamError::new(FailureKind::Connect, why);
    let uri = connection.uri(path).map_err(|fault| failed(fault.to_string()))?;
    let connector = Connector::new(connection, tls, timeout, KeepAlive::NEVER);
    let credentials = connection.credentials().map_err(|fault| failed(fault.to_string()))?;
    let client = http_client::build(connector);
    let mut response = if method == Method::GET {
        http_client::get(&client, connection, uri, "application/json", credentials, deadline).await?
    } else {
        let body = body.unwrap_or_default();
        http_client::call(&client, connection, (method, uri), body, credentials, deadline).await?
    };
    let bounds = BodyBounds { deadline, idle: None, size: MAX_BYTES };
    let announced = http_client::announced_length(response.headers());
    let body = UpstreamBody::new(response.take_payload(), announced, bounds).collect().await?;
    Ok((response.status().as_u16(), body))
}
