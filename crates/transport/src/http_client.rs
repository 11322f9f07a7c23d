//! The awc client below every call to a provider, and the headers of its answers that all callers check.

use std::time::Instant;

use actix_http::{
    Method, Uri,
    body::None as NoBody,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT},
};
use awc::{Client, ClientResponse};
use bytes::Bytes;
use tokio::time::timeout_at;

use super::{
    awc_connector::AwcConnector,
    connection::Connection,
    connector::Connector,
    failure::{self, UpstreamError},
    request,
};

/// An awc client that opens its connections with `connector` and keeps them open as that one says.
pub(super) fn build(connector: Connector) -> Client {
    AwcConnector::new(connector).client()
}

/// Sends one call on a connection of its own and waits for the head until `deadline`.
pub(super) async fn call(
    (client, connection): (&Client, &Connection),
    (method, uri): (Method, Uri),
    headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    body: Option<Bytes>,
    deadline: Instant,
) -> Result<ClientResponse, UpstreamError> {
    let mut request = client
        .request(method, uri)
        .force_close()
        .insert_header((HOST, connection.authority.as_str()))
        .insert_header((USER_AGENT, request::AGENT))
        .insert_header((ACCEPT_ENCODING, "identity"));
    for header in headers {
        request = request.insert_header(header);
    }
    let sending = match body {
        Some(body) => request.send_body(body),
        None => request.send_body(NoBody::new()),
    };
    let sent = timeout_at(deadline.into(), sending).await;
    sent.map_err(|_| UpstreamError::timeout("no head in time"))?.map_err(|error| failure::of_send(&error))
}

/// Whether a body has no content encoding.
pub(super) fn is_identity(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).all(|value| {
        let encoding = value.as_bytes().trim_ascii();
        encoding.is_empty() || encoding.eq_ignore_ascii_case(b"identity")
    })
}

/// `content-length` in bytes. The guard has checked that it is a single number.
pub(super) fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}
