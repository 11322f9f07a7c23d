//! One attempt: send a request to a provider, accept only a regular 200.

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
use awc::{Client, ClientResponse, FrozenClientRequest};
use bytes::Bytes;
use pointsman_actors::{domain::FailureKind, stats::QuotaReport};
use rustls::ClientConfig;
use tokio::time::timeout_at;

use super::{
    body::{BodyBounds, UpstreamBody},
    connection::Connection,
    connector::Connector,
    failure::{self, UpstreamError},
    fetch::ImageFetcher,
    http_client,
    idle::KeepAlive,
    mask::Mask,
    probe::{PROBE, Phases, Probe, ProbedSend},
    rate_limits::quota,
    redact::Redactor,
    refusal, request,
};

/// Most that is read of the body of a refusal.
const REFUSAL_LIMIT: usize = 64 * 1024;

/// Bounds of the transport; those of a single call stand in [`Call`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportLimits {
    /// Name resolution, TCP and TLS handshake together.
    pub connect: Duration,
    /// How long an unused connection is kept. Below the minute after which most servers close theirs.
    pub keep_alive: Duration,
    /// How long any connection is kept, so that a provider's change of address is followed.
    pub lifetime: Duration,
    /// How long a stream may be silent. A backstop: what counts as content, and how long none may come, is known
    /// further up. A plain answer has the deadline only, because some servers send its head long before its body.
    pub idle: Duration,
    /// Most bytes of a plain answer.
    pub max_body: usize,
    /// How long the body of a refusal may take; its status is known already.
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

/// One question to a provider.
#[derive(Debug, Clone)]
pub struct Call {
    /// Appended to the base address, such as `/chat/completions`.
    pub path: &'static str,
    /// JSON.
    pub body: Bytes,
    /// Whether an event stream is asked for.
    pub streamed: bool,
    /// When the whole answer must have arrived.
    pub deadline: Instant,
    /// How long the head may take, connecting included.
    pub head_timeout: Duration,
}

/// A regular 200 whose body is on its way.
#[derive(Debug)]
pub struct UpstreamAnswer {
    /// The body.
    pub body: UpstreamBody,
    /// What the provider says is left of its limits.
    pub quota: QuotaReport,
}

/// Calls one provider from one worker.
///
/// Holds `Rc`s: made where it is used, in the worker's own thread. Never shared between providers, not even between
/// two at the same host, so that an irregular answer of one cannot touch the other.
pub struct UpstreamClient {
    connection: Connection,
    tls: Arc<ClientConfig>,
    limits: TransportLimits,
    redactor: Arc<Redactor>,
    mask: Option<Rc<Mask>>,
    pooled: Client,
    /// awc cannot be told to bypass its pool: this client has none worth the name.
    fresh: Client,
    fetcher: ImageFetcher,
    /// The frozen heads; a handful, so a list.
    prepared: RefCell<Vec<Rc<Prepared>>>,
}

struct Prepared {
    path: &'static str,
    streamed: bool,
    pooled: FrozenClientRequest,
    fresh: FrozenClientRequest,
}

/// A failed try, and whether a fresh connection may save the attempt: nothing was sent, so nobody can have begun.
struct FailedSend {
    error: UpstreamError,
    stale: bool,
}

impl UpstreamClient {
    /// A client without open connections.
    #[must_use]
    pub fn new(
        connection: &Connection,
        tls: &Arc<ClientConfig>,
        limits: TransportLimits,
        redactor: Arc<Redactor>,
    ) -> UpstreamClient {
        UpstreamClient::renewed(None, connection, tls, limits, redactor)
    }

    /// As [`UpstreamClient::new`], but with the open connections of `before`, a client of the same provider, if they
    /// lead to the same place over the same transport. Key, headers and all else may differ.
    #[must_use]
    pub fn renewed(
        before: Option<&UpstreamClient>,
        connection: &Connection,
        tls: &Arc<ClientConfig>,
        limits: TransportLimits,
        redactor: Arc<Redactor>,
    ) -> UpstreamClient {
        let same = before.filter(|before| before.leads_to(connection, tls, &limits));
        let (pooled, fresh) = match same {
            Some(before) => (before.pooled.clone(), before.fresh.clone()),
            None => {
                let keeping = KeepAlive { idle: limits.keep_alive, lifetime: limits.lifetime };
                let fresh = http_client::build(Connector::new(connection, tls, limits.connect, KeepAlive::NEVER));
                (http_client::build(Connector::new(connection, tls, limits.connect, keeping)), fresh)
            }
        };
        UpstreamClient {
            connection: connection.clone(),
            tls: Arc::clone(tls),
            limits,
            redactor,
            mask: Mask::of(connection.secret()).map(Rc::new),
            pooled,
            fresh,
            fetcher: ImageFetcher::new(connection, tls, limits.connect),
            prepared: RefCell::new(Vec::new()),
        }
    }

    /// Whether its open connections are what a client with these settings would open.
    fn leads_to(&self, connection: &Connection, tls: &Arc<ClientConfig>, limits: &TransportLimits) -> bool {
        let pool = |limits: &TransportLimits| (limits.connect, limits.keep_alive, limits.lifetime);
        self.connection.is_same_place(connection)
            && (connection.server_name.is_none() || Arc::ptr_eq(&self.tls, tls))
            && pool(&self.limits) == pool(limits)
    }

    /// Asks once. Where a kept connection turns out to be closed before any byte of the request was written to it, a
    /// fresh one is taken within the same attempt. Once a byte has left, nothing is ever sent again: the provider may
    /// be at work, and would be paid twice.
    ///
    /// Dropping the future, or the body it gave, closes the connection.
    ///
    /// # Errors
    /// Whatever is not a regular 200: see [`UpstreamError`].
    pub async fn send(&self, call: Call) -> Result<UpstreamAnswer, UpstreamError> {
        self.send_observed(call, |_| ()).await
    }

    /// As [`UpstreamClient::send`]; `note` hears how far each connection came, also when the future is dropped.
    ///
    /// # Errors
    /// Whatever is not a regular 200: see [`UpstreamError`].
    pub async fn send_observed(&self, call: Call, note: impl Fn(Phases)) -> Result<UpstreamAnswer, UpstreamError> {
        let begun = Instant::now();
        let clock = call.deadline.min(begun + call.head_timeout);
        let prepared = self.prepare(call.path, call.streamed)?;
        let first = attempt(&prepared.pooled, call.body.clone(), (begun, clock), &note).await;
        let sent = match first {
            Err(failed) if failed.stale => attempt(&prepared.fresh, call.body.clone(), (begun, clock), &note).await,
            sent => sent,
        };
        let response = sent.map_err(|failed| failed.error)?;
        if response.status() == StatusCode::OK {
            accept(response, self.bounds(&call), self.mask.clone())
        } else {
            Err(self.refuse(response, &call).await)
        }
    }

    /// The bytes of an image that the provider answered with a link to, at most `most`, until `deadline`.
    ///
    /// # Errors
    /// When the link leads to a host that is neither the provider's own nor listed, or no whole answer comes from there.
    pub async fn fetch_image(&self, link: &str, deadline: Instant, most: usize) -> Result<Bytes, UpstreamError> {
        self.fetcher.fetch(link, deadline, most).await
    }

    fn bounds(&self, call: &Call) -> BodyBounds {
        let idle = call.streamed.then_some(self.limits.idle);
        BodyBounds { deadline: call.deadline, idle, size: self.limits.max_body }
    }

    fn prepare(&self, path: &'static str, streamed: bool) -> Result<Rc<Prepared>, UpstreamError> {
        let mut prepared = self.prepared.borrow_mut();
        if let Some(known) = prepared.iter().find(|known| known.streamed == streamed && known.path == path) {
            return Ok(Rc::clone(known));
        }
        let freeze = |client: &Client, close: bool| {
            request::freeze(client, &self.connection, path, streamed, close)
                .map_err(|fault| UpstreamError::new(FailureKind::Connect, format!("address: {fault}")))
        };
        let (pooled, fresh) = (freeze(&self.pooled, false)?, freeze(&self.fresh, true)?);
        let new = Rc::new(Prepared { path, streamed, pooled, fresh });
        prepared.push(Rc::clone(&new));
        Ok(new)
    }

    async fn refuse(&self, mut response: ClientResponse, call: &Call) -> UpstreamError {
        let status = response.status().as_u16();
        let body = match status {
            400..=599 => {
                let deadline = call.deadline.min(Instant::now() + self.limits.refusal_body);
                let bounds = BodyBounds { deadline, idle: None, size: REFUSAL_LIMIT };
                UpstreamBody::new(response.take_payload(), None, bounds).salvage().await
            }
            // A redirect's body has nothing to say to us, and a 204 or 304 has none.
            _ => bytes::BytesMut::new(),
        };
        refusal::judge(status, response.headers(), &body, SystemTime::now(), &self.redactor)
    }
}

impl std::fmt::Debug for UpstreamClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamClient").field("connection", &self.connection).finish_non_exhaustive()
    }
}

/// One request on one connection, until the head is here.
async fn attempt(
    request: &FrozenClientRequest,
    body: Bytes,
    (begun, clock): (Instant, Instant),
    note: &impl Fn(Phases),
) -> Result<ClientResponse, FailedSend> {
    let sending = pin!(PROBE.scope(Probe::default(), timeout_at(clock.into(), request::send(request, body))));
    let mut watched = ProbedSend { sending, begun, note };
    let outcome = watched.sending.as_mut().await;
    let probe = watched.take();
    let error = match outcome {
        Ok(Ok(response)) => return Ok(response),
        Ok(Err(error)) => failure::of_send(&error),
        Err(_) => UpstreamError::timeout("no head in time"),
    };
    let stale = error.failure.kind == FailureKind::Reset && !probe.is_fresh() && !probe.is_written();
    Err(FailedSend { error, stale })
}

/// Takes a 200 whose head promises a body we can read.
fn accept(
    mut response: ClientResponse,
    bounds: BodyBounds,
    mask: Option<Rc<Mask>>,
) -> Result<UpstreamAnswer, UpstreamError> {
    let malformed = |why: &str| UpstreamError::new(FailureKind::Malformed, why).with_status(200);
    if !http_client::is_identity(response.headers()) {
        return Err(malformed("an encoded body, though none was asked for"));
    }
    if is_web_page(response.headers()) {
        return Err(malformed("a web page instead of an answer"));
    }
    let announced = http_client::announced_length(response.headers());
    let body = UpstreamBody::new(response.take_payload(), announced, bounds).masked(mask);
    let quota = quota(response.headers(), SystemTime::now);
    Ok(UpstreamAnswer { body, quota })
}

/// Whether the body is some proxy's idea of an error. What else a head says of its body is often wrong, and so not asked.
fn is_web_page(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map(|value| value.as_bytes()).unwrap_or_default();
    let media = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    [&b"text/html"[..], b"application/xhtml+xml"].iter().any(|page| media.eq_ignore_ascii_case(page))
}
