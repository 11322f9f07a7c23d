//! Sends one request to a provider and accepts only a regular 200.

use std::{
    cell::RefCell,
    pin::pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use actix_http::{
    HttpMessage as _, StatusCode,
    header::{CONTENT_TYPE, HeaderMap},
};
use awc::{Client, ClientResponse, FrozenClientRequest, SendClientRequest};
use bytes::Bytes;
use pointsman_dialect::{Doubt, RefusedAttempt, SentBody, UpstreamHeaders};
use pointsman_domain::{Dialect, Evidence, FailureKind, ServiceName};
use pointsman_routing::stats::QuotaReport;
use rustls::ClientConfig;
use tokio::time::timeout_at;

use super::{
    body::{BodyBounds, UpstreamBody},
    connection::Connection,
    connection_events::{ConnectionEvents, EVENTS, ObservedSend, Phases},
    connector::Connector,
    error_response,
    failure::{self, UpstreamError},
    http_client,
    image_fetcher::ImageFetcher,
    keep_alive::KeepAlive,
    mask::Mask,
    objection,
    rate_limits::quota,
    redact::Redactor,
    request, token,
};

/// Most bytes that are read of an error body.
const REFUSAL_LIMIT: usize = 64 * 1024;

/// Longest body whose connection is not reset because of its length, in bytes: it fits into the buffers of a socket.
const LARGE_BODY: usize = 256 * 1024;

/// Limits of the transport. Those of a single call are in [`UpstreamRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportLimits {
    /// Timeout for name resolution, TCP and TLS handshake together.
    pub connect: Duration,
    /// Longest idle time of a connection. Less than the minute after which most servers close theirs.
    pub keep_alive: Duration,
    /// Longest age of a connection, so that a change of the provider's address takes effect.
    pub lifetime: Duration,
    /// Longest pause in a stream. A backstop: the caller has a timeout for content. A plain answer has only the deadline,
    /// because some servers send its head long before its body.
    pub idle: Duration,
    /// Most bytes of a plain answer.
    pub max_body: usize,
    /// Timeout for an error body; its status is known already.
    pub refusal_body: Duration,
}

impl Default for TransportLimits {
    fn default() -> TransportLimits {
        TransportLimits {
            connect: Duration::from_secs(2),
            keep_alive: Duration::from_secs(55),
            lifetime: Duration::from_secs(3600),
            idle: Duration::from_secs(60),
            max_body: 32 * 1024 * 1024,
            refusal_body: Duration::from_secs(1),
        }
    }
}

/// One request to a provider.
#[derive(Debug, Clone)]
pub struct UpstreamRequest {
    /// Appended to the base address, such as `/chat/completions`.
    pub path: Arc<str>,
    /// Upstream name of the model, which refusals may repeat.
    pub model: Arc<str>,
    /// Estimated tokens of the prompt, for refusals that name a limit.
    pub prompt_tokens: u32,
    /// JSON body.
    pub body: SentBody,
    /// Headers of this call alone.
    pub headers: UpstreamHeaders,
    /// Wire format, in which errors are read.
    pub dialect: Dialect,
    /// Whether an event stream is requested.
    pub streamed: bool,
    /// End of the time for the whole answer.
    pub deadline: Instant,
    /// Timeout for the head, including the connection.
    pub head_timeout: Duration,
}

/// A regular 200 whose body is not read yet.
#[derive(Debug)]
pub struct UpstreamResponse {
    /// The body.
    pub body: UpstreamBody,
    /// Prompt tokens that a header names, as only Amazon's have it.
    pub input_tokens: Option<u64>,
    /// The service tier that a header names, as only Google's have it.
    pub service_tier: Option<ServiceName>,
    /// Remaining quota that the provider reported.
    pub quota: QuotaReport,
}

/// Calls one provider from one worker.
///
/// Not `Send`: each worker makes its own. Never shared between providers, not even between two at the same host, so that an
/// irregular answer of one cannot affect the other.
pub struct UpstreamClient {
    connection: Connection,
    tls: Arc<ClientConfig>,
    limits: TransportLimits,
    redactor: Arc<Redactor>,
    mask: Option<Rc<Mask>>,
    client: Client,
    fetcher: ImageFetcher,
    /// Frozen request heads by path, and whether a stream is requested. A list, because there are only a few.
    frozen: RefCell<Vec<(Arc<str>, bool, FrozenClientRequest)>>,
}

impl UpstreamClient {
    /// A client without open connections.
    pub fn new(
        connection: &Connection,
        tls: &Arc<ClientConfig>,
        limits: TransportLimits,
        redactor: Arc<Redactor>,
    ) -> UpstreamClient {
        UpstreamClient::renewed(None, connection, tls, limits, redactor)
    }

    /// As [`UpstreamClient::new`], but with the open connections of `before`, a client of the same provider, if address and
    /// transport are the same. Key and headers may differ.
    pub fn renewed(
        before: Option<&UpstreamClient>,
        connection: &Connection,
        tls: &Arc<ClientConfig>,
        limits: TransportLimits,
        redactor: Arc<Redactor>,
    ) -> UpstreamClient {
        let same = before.filter(|before| before.has_same_transport(connection, tls, &limits));
        let open = || {
            let keep_alive = KeepAlive { idle: limits.keep_alive, lifetime: limits.lifetime };
            http_client::build(Connector::new(connection, tls, limits.connect, keep_alive))
        };
        let client = same.map_or_else(open, |before| before.client.clone());
        UpstreamClient {
            connection: connection.clone(),
            tls: Arc::clone(tls),
            limits,
            redactor,
            mask: Mask::new(connection.secret()).map(Rc::new),
            client,
            fetcher: ImageFetcher::new(connection, tls, limits.connect),
            frozen: RefCell::default(),
        }
    }

    /// Whether a client with these settings would open the same connections.
    fn has_same_transport(&self, connection: &Connection, tls: &Arc<ClientConfig>, limits: &TransportLimits) -> bool {
        let pool = |limits: &TransportLimits| (limits.connect, limits.keep_alive, limits.lifetime);
        self.connection.is_same_address(connection)
            && (connection.server_name.is_none() || Arc::ptr_eq(&self.tls, tls))
            && pool(&self.limits) == pool(limits)
    }

    /// Sends one request, over a kept connection if one is clean. It is sent once: after the first byte the provider may already
    /// work on it, and would be paid twice.
    ///
    /// Dropping the future, or the returned body, closes the connection.
    ///
    /// # Errors
    /// Anything but a regular 200: see [`UpstreamError`].
    pub async fn send(&self, call: UpstreamRequest) -> Result<UpstreamResponse, UpstreamError> {
        self.send_observed(call, |_| ()).await
    }

    /// As [`UpstreamClient::send`]. Calls `observe` with the phases of each send, also when the future is dropped.
    ///
    /// # Errors
    /// Anything but a regular 200: see [`UpstreamError`].
    pub async fn send_observed(
        &self,
        mut call: UpstreamRequest,
        observe: impl Fn(Phases),
    ) -> Result<UpstreamResponse, UpstreamError> {
        let started = Instant::now();
        let head_deadline = call.deadline.min(started + call.head_timeout);
        let times = (started, head_deadline);
        let Some(account) = &self.connection.service_account else {
            if let Some(signer) = &self.connection.signer {
                let signed = signer.sign(&self.connection.signed_address(&call.path), &call.body, SystemTime::now());
                let signed = signed.map_err(UpstreamError::without_credentials)?;
                call.headers.extend(signed.into_iter().map(|(name, value)| (name.into(), value)));
            }
            let response = self.exchange(&call, times, &observe).await?;
            return self.answer(response, &call).await;
        };
        let headers = call.headers.len();
        let mut token = token::token(account, &self.tls, head_deadline).await?;
        call.headers.push(("authorization".into(), format!("Bearer {}", token.expose())));
        let mut response = self.exchange(&call, times, &observe).await?;
        // A token can be withdrawn before its end: then another one is tried, once.
        if response.status() == StatusCode::UNAUTHORIZED {
            account.forget(&token);
            token = token::token(account, &self.tls, head_deadline).await?;
            call.headers.truncate(headers);
            call.headers.push(("authorization".into(), format!("Bearer {}", token.expose())));
            response = self.exchange(&call, times, &observe).await?;
        }
        self.answer(response, &call).await
    }

    /// Sends the call and waits for the head.
    async fn exchange(
        &self,
        call: &UpstreamRequest,
        (started, head_deadline): (Instant, Instant),
        observe: &impl Fn(Phases),
    ) -> Result<ClientResponse, UpstreamError> {
        let sent = timeout_at(head_deadline.into(), self.sending(call)?);
        let sending = pin!(EVENTS.scope(ConnectionEvents::default(), sent));
        let mut observed = ObservedSend { sending, started, observe };
        let outcome = observed.sending.as_mut().await;
        let events = observed.take();
        let error = match outcome {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => failure::of_send(&error),
            Err(_) => UpstreamError::timeout("no head in time"),
        };
        Err(if events.is_written() { doubted(error, call) } else { error })
    }

    async fn answer(
        &self,
        response: ClientResponse,
        call: &UpstreamRequest,
    ) -> Result<UpstreamResponse, UpstreamError> {
        if response.status() == StatusCode::OK {
            let answer = accept(response, call, self.bounds(call), self.mask.clone());
            answer.map_err(|error| doubted(error, call))
        } else {
            Err(self.refuse(response, call).await)
        }
    }

    /// The path of a call to `model`, whose usual path is `path`.
    pub fn path_for(&self, path: Arc<str>, model: &str) -> Arc<str> {
        self.connection.path_for(path, model)
    }

    /// The bytes of an image that the provider's answer links to, at most `max_bytes`, until `deadline`.
    ///
    /// # Errors
    /// When the host of the link is neither the provider's own nor listed, or its answer is not complete.
    pub async fn fetch_image(&self, link: &str, deadline: Instant, max_bytes: usize) -> Result<Bytes, UpstreamError> {
        self.fetcher.fetch(link, deadline, max_bytes).await
    }

    /// Most bytes of a plain answer.
    pub fn max_body(&self) -> usize {
        self.limits.max_body
    }

    /// Whether calls to this provider carry a `traceparent`.
    pub fn forwards_traceparent(&self) -> bool {
        self.connection.forwards_traceparent
    }

    fn bounds(&self, call: &UpstreamRequest) -> BodyBounds {
        let idle = call.streamed.then_some(self.limits.idle);
        BodyBounds { deadline: call.deadline, idle, size: self.limits.max_body }
    }

    /// The send of a call, not yet begun.
    fn sending(&self, call: &UpstreamRequest) -> Result<SendClientRequest, UpstreamError> {
        let mut frozen = self.frozen.borrow_mut();
        let known = frozen.iter().find(|(path, streamed, _)| *streamed == call.streamed && *path == call.path);
        if let Some((_, _, request)) = known {
            return Ok(request::send(request, &call.body, &call.headers));
        }
        let request = request::freeze(&self.client, &self.connection, &call.path, call.streamed)
            .map_err(|fault| UpstreamError::new(FailureKind::Connect, format!("address: {fault}")))?;
        let sending = request::send(&request, &call.body, &call.headers);
        frozen.push((Arc::clone(&call.path), call.streamed, request));
        Ok(sending)
    }

    async fn refuse(&self, mut response: ClientResponse, call: &UpstreamRequest) -> UpstreamError {
        let status = response.status().as_u16();
        let body = match status {
            400..=599 => {
                let deadline = call.deadline.min(Instant::now() + self.limits.refusal_body);
                let bounds = BodyBounds { deadline, idle: None, size: REFUSAL_LIMIT };
                UpstreamBody::new(response.take_payload(), None, bounds).collect_available().await
            }
            // The body of a redirect is not used, and a 204 or 304 has none.
            _ => bytes::BytesMut::new(),
        };
        let refused = RefusedAttempt {
            dialect: call.dialect,
            status,
            amazon_type: None,
            names_a_wait: false,
            model: &call.model,
            request: &call.body,
            prompt_tokens: call.prompt_tokens,
            limit: None,
        };
        let error = error_response::classify(refused, response.headers(), &body, SystemTime::now(), &self.redactor);
        UpstreamError { objection: objection::of(call.dialect, status, &body, &call.body), ..error }
    }
}

impl std::fmt::Debug for UpstreamClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamClient").field("connection", &self.connection).finish_non_exhaustive()
    }
}

/// A failure of a request that may have caused it.
fn doubted(mut error: UpstreamError, call: &UpstreamRequest) -> UpstreamError {
    let failure = &mut *error.failure;
    failure.evidence = Doubt::of_request(&call.body).weigh(failure.kind, failure.evidence);
    // Many servers end the connection of a body that is too large for them before they have read it.
    if failure.kind == FailureKind::Reset && failure.evidence == Evidence::None && call.body.len() > LARGE_BODY {
        failure.evidence = Evidence::OF_ONE_CALLER;
    }
    error
}

/// Accepts a 200 whose body has no encoding and is not a web page.
fn accept(
    mut response: ClientResponse,
    call: &UpstreamRequest,
    bounds: BodyBounds,
    mask: Option<Rc<Mask>>,
) -> Result<UpstreamResponse, UpstreamError> {
    let malformed = |why: &str| UpstreamError::new(FailureKind::Malformed, why).with_status(200);
    if !http_client::is_identity(response.headers()) {
        return Err(malformed("an encoded body, though none was requested"));
    }
    if is_web_page(response.headers()) {
        return Err(malformed("a web page instead of an answer"));
    }
    let announced = http_client::announced_length(response.headers());
    let body = UpstreamBody::new(response.take_payload(), announced, bounds).masked(mask);
    let quota = quota(response.headers(), SystemTime::now);
    let input_tokens = call.path.starts_with(request::BEDROCK_PATH).then(|| input_tokens(response.headers())).flatten();
    let service_tier = match call.dialect {
        Dialect::Gemini => service_tier(response.headers()),
        _ => None,
    };
    Ok(UpstreamResponse { body, input_tokens, service_tier, quota })
}

fn input_tokens(headers: &HeaderMap) -> Option<u64> {
    headers.get("x-amzn-bedrock-input-token-count")?.to_str().ok()?.trim().parse().ok()
}

fn service_tier(headers: &HeaderMap) -> Option<ServiceName> {
    ServiceName::parse(headers.get("x-gemini-service-tier")?.to_str().ok()?.trim())
}

/// Whether the body is an HTML page, probably the error page of a proxy. Other content types are ignored: they are often wrong.
fn is_web_page(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(|value| value.as_bytes()).unwrap_or_default();
    let media = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    [&b"text/html"[..], b"application/xhtml+xml"].iter().any(|page| media.eq_ignore_ascii_case(page))
}
