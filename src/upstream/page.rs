//! Reads one page of a gateway for the command line: one request, with the key, without redirects.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix_http::{
    HttpMessage as _,
    body::None as NoBody,
    header::{ACCEPT, ACCEPT_ENCODING, HOST, USER_AGENT},
};
use bytes::Bytes;
use pointsman_actors::domain::FailureKind;
use rustls::ClientConfig;
use tokio::time::timeout_at;

use super::{
    body::{BodyBounds, UpstreamBody},
    connection::Connection,
    connector::Connector,
    failure::{self, UpstreamError},
    http_client,
    idle::KeepAlive,
    request,
};

/// Most bytes of a page.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Status and body of the page at `path`, read within `timeout`.
///
/// # Errors
/// When no regular answer arrives in time. Any status is an answer.
pub async fn read_page(
    connection: &Connection,
    tls: &Arc<ClientConfig>,
    path: &str,
    timeout: Duration,
) -> Result<(u16, Bytes), UpstreamError> {
    let deadline = Instant::now() + timeout;
    let failed = |why: String| UpstreamError::new(FailureKind::Connect, why);
    let uri = connection.uri(path).map_err(|fault| failed(fault.to_string()))?;
    let connector = Connector::new(connection, tls, timeout, KeepAlive::NEVER);
    let mut request = http_client::build(connector)
        .get(uri)
        .force_close()
        .insert_header((HOST, connection.authority.as_str()))
        .insert_header((USER_AGENT, request::AGENT))
        .insert_header((ACCEPT, "application/json"))
        .insert_header((ACCEPT_ENCODING, "identity"));
    if let Some(credentials) = connection.credentials().map_err(|fault| failed(fault.to_string()))? {
        request = request.insert_header(credentials);
    }
    let sent = timeout_at(deadline.into(), request.send_body(NoBody::new())).await;
    let sent = sent.map_err(|_| UpstreamError::timeout("no answer in time"))?;
    let mut response = sent.map_err(|error| failure::of_send(&error))?;
    let bounds = BodyBounds { deadline, idle: None, size: MAX_BYTES };
    let announced = http_client::announced_length(response.headers());
    let body = UpstreamBody::new(response.take_payload(), announced, bounds).collect().await?;
    Ok((response.status().as_u16(), body))
}
