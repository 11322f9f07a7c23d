//! One call of a gateway or provider for the command line: a connection for one request, with the key, without redirects.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use actix_http::{
    HttpMessage as _, Method,
    header::{ACCEPT, CONTENT_TYPE, DATE, HeaderName, HeaderValue},
};
use awc::ClientResponse;
use bytes::Bytes;
use pointsman_domain::FailureKind;
use rustls::ClientConfig;

use super::{
    body::{BodyBounds, UpstreamBody},
    connection::{Connection, ConnectionFault},
    connector::Connector,
    failure::UpstreamError,
    http_client,
    keep_alive::KeepAlive,
    token,
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

/// A page of a provider.
#[derive(Debug, Clone)]
pub struct ProviderPage {
    /// Status of the answer.
    pub status: u16,
    /// The provider's clock, from the header `date`.
    pub date: Option<SystemTime>,
    /// The error that Amazon names in the header `x-amzn-errortype`.
    pub amazon_error: Option<String>,
    /// The body.
    pub body: Bytes,
}

/// The page of a provider at `path`, asked for with its key and its configured headers.
///
/// # Errors
/// As [`read_page`].
pub async fn read_provider_page(
    connection: &Connection,
    tls: &Arc<ClientConfig>,
    path: &str,
    timeout: Duration,
) -> Result<ProviderPage, UpstreamError> {
    let headers = connection.headers.iter().cloned();
    provider_page(send(connection, tls, (Method::GET, path), headers, None, timeout).await?).await
}

/// The list of models of a provider whose calls are signed, asked for with a signature.
///
/// # Errors
/// As [`read_page`].
pub async fn read_signed_list(
    connection: &Connection,
    tls: &Arc<ClientConfig>,
    timeout: Duration,
) -> Result<ProviderPage, UpstreamError> {
    let failed = |why: String| UpstreamError::new(FailureKind::Auth, why);
    let signer = connection.signer.as_ref().ok_or_else(|| failed("its calls are not signed".to_owned()))?;
    let (list, path) = connection.model_list().map_err(|fault| failed(fault.to_string()))?;
    let signature =
        signer.sign_read(&list.signed_address(path), SystemTime::now()).map_err(|why| failed(why.into()))?;
    let header = |(name, value): (&'static str, String)| {
        HeaderValue::try_from(value).map(|value| (HeaderName::from_static(name), value))
    };
    let headers = signature.into_iter().map(header).collect::<Result<Vec<_>, _>>();
    let headers = headers.map_err(|error| failed(error.to_string()))?;
    provider_page(send(&list, tls, (Method::GET, path), headers, None, timeout).await?).await
}

/// Exchanges the account of a provider that is called with tokens for one, which is dropped.
///
/// # Errors
/// When the token endpoint gives none within `timeout`.
pub async fn try_service_account(
    connection: &Connection,
    tls: &Arc<ClientConfig>,
    timeout: Duration,
) -> Result<(), UpstreamError> {
    match &connection.service_account {
        Some(account) => token::token(account, tls, Instant::now() + timeout).await.map(drop),
        None => Err(UpstreamError::new(FailureKind::Auth, "it is not called with tokens".to_owned())),
    }
}

async fn provider_page((mut response, deadline): SentCall) -> Result<ProviderPage, UpstreamError> {
    let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let date = text(DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok());
    let amazon_error = text("x-amzn-errortype").map(str::to_owned);
    let status = response.status().as_u16();
    Ok(ProviderPage { status, date, amazon_error, body: read_body(&mut response, deadline).await? })
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
    let body = (method != Method::GET).then(|| body.unwrap_or_default());
    let (mut response, deadline) = send(connection, tls, (method, path), [], body, timeout).await?;
    Ok((response.status().as_u16(), read_body(&mut response, deadline).await?))
}

/// A response whose body is not read yet, and the deadline for it.
type SentCall = (ClientResponse, Instant);

/// Sends one call, and waits for the head of its answer.
async fn send(
    connection: &Connection,
    tls: &Arc<ClientConfig>,
    (method, path): (Method, &str),
    headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    body: Option<Bytes>,
    timeout: Duration,
) -> Result<SentCall, UpstreamError> {
    let deadline = Instant::now() + timeout;
    let failed = |fault: ConnectionFault| UpstreamError::new(FailureKind::Connect, fault.to_string());
    let uri = connection.uri(path).map_err(failed)?;
    let credentials = connection.credentials().map_err(failed)?;
    let client = http_client::build(Connector::new(connection, tls, timeout, KeepAlive::NEVER));
    let json = HeaderValue::from_static("application/json");
    let of_body = body.as_ref().map(|_| (CONTENT_TYPE, json.clone()));
    let headers = [(ACCEPT, json)].into_iter().chain(of_body).chain(headers).chain(credentials);
    let sent = http_client::call((&client, connection), (method, uri), headers, body, deadline).await;
    sent.map(|response| (response, deadline))
}

async fn read_body(response: &mut ClientResponse, deadline: Instant) -> Result<Bytes, UpstreamError> {
    let bounds = BodyBounds { deadline, idle: None, size: MAX_BYTES };
    let announced = http_client::announced_length(response.headers());
    UpstreamBody::new(response.take_payload(), announced, bounds).collect().await
}
