//! How the transport's tests call a scripted upstream, and how they put what came back into one line.

use std::{
    cell::Cell,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use pointsman_base::secret::Secret;
use pointsman_domain::Dialect;
use pointsman_transport::{
    Connection, Phases, Redactor, TransportLimits, UpstreamClient, UpstreamError, UpstreamRequest, UpstreamResponse,
    client_config,
};
use rustls::ClientConfig;

use crate::scripted::{Script, Upstream};

/// Longer than any test should take, shorter than anybody's patience.
pub(crate) const AMPLE: Duration = Duration::from_secs(60);

/// Reading the system's roots takes longer than most of these tests.
static TLS: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| client_config(None).unwrap());

/// A client without credentials for `base_url`, with the usual limits.
pub(crate) fn client(base_url: &str) -> UpstreamClient {
    client_of(Connection::new(base_url).unwrap())
}

/// A client for `connection`, which trusts what the system trusts.
pub(crate) fn client_of(connection: Connection) -> UpstreamClient {
    client_within(connection, limits())
}

/// The same with limits of its own.
pub(crate) fn client_within(connection: Connection, limits: TransportLimits) -> UpstreamClient {
    let redactor = Arc::new(Redactor::new(connection.secret().cloned()));
    UpstreamClient::new(&connection, &TLS, limits, redactor)
}

/// The usual limits, but for the body of a refusal: some tests wait for one that never comes.
pub(crate) fn limits() -> TransportLimits {
    TransportLimits { refusal_body: Duration::from_millis(500), ..TransportLimits::default() }
}

/// A client with a bearer token for `base_url`.
pub(crate) fn client_with_secret(base_url: &str, secret: &str) -> UpstreamClient {
    client_of(Connection::new(base_url).unwrap().with_bearer(Secret::from(secret)).unwrap())
}

/// A plain call with this body and all the time in the world.
pub(crate) fn plain(body: impl Into<Bytes>) -> UpstreamRequest {
    let body: Bytes = body.into();
    UpstreamRequest {
        path: "/chat/completions".into(),
        headers: Vec::new(),
        dialect: Dialect::OpenAi,
        prompt_tokens: 0,
        model: "acme-1".into(),
        body: body.into(),
        streamed: false,
        deadline: Instant::now() + AMPLE,
        head_timeout: AMPLE,
    }
}

/// The same, asking for a stream.
pub(crate) fn streamed(body: impl Into<Bytes>) -> UpstreamRequest {
    UpstreamRequest { streamed: true, ..plain(body) }
}

/// Sends a call that is answered, and says how far its last connection came on the way.
pub(crate) async fn timed(client: &UpstreamClient, call: UpstreamRequest) -> (UpstreamResponse, Phases) {
    let phases = Cell::new(Phases::default());
    let answer = client.send_observed(call, |noted| phases.set(noted)).await.unwrap();
    (answer, phases.get())
}

/// Sends a call and says in one line how it went: the body, or the failure, and what had come before it.
pub(crate) async fn outcome(client: &UpstreamClient, call: UpstreamRequest) -> String {
    let whole = !call.streamed;
    match client.send(call).await {
        Err(error) => failure(&error),
        Ok(answer) if whole => match answer.body.collect().await {
            Ok(body) => text(&body),
            Err(error) => failure(&error),
        },
        Ok(answer) => read(answer).await,
    }
}

async fn read(mut answer: UpstreamResponse) -> String {
    let mut came = Vec::new();
    while let Some(item) = answer.body.next().await {
        match item {
            Ok(bytes) => came.extend_from_slice(&bytes),
            Err(error) if came.is_empty() => return failure(&error),
            Err(error) => return format!("{} after '{}'", failure(&error), text(&came)),
        }
    }
    text(&came)
}

/// A failure's word, and its status if it has one.
pub(crate) fn failure(error: &UpstreamError) -> String {
    match error.failure.status {
        Some(status) => format!("{} {status}", error.failure.kind.as_str()),
        None => error.failure.kind.as_str().to_owned(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Asks an upstream that plays `script`, plain and streamed; both must come to the same, but for what a stream had
/// given before it failed (`plain after 'text'`).
#[track_caller]
pub(crate) fn check(script: &Script, expected: &str) -> impl Future<Output = ()> {
    let (script, expected, caller) = (script.clone(), expected.to_owned(), std::panic::Location::caller());
    async move {
        for call in [plain("{}"), streamed("{}")] {
            let wanted = if call.streamed { &expected } else { expected.split(" after ").next().unwrap() };
            let upstream = Upstream::start([script.clone()]);
            let came = outcome(&client(&upstream.url("/v1")), call.clone()).await;
            assert_eq!(came, wanted, "streamed: {}, at {caller}", call.streamed);
            assert_eq!(upstream.connections(), 1, "a fresh connection's failure is never retried, at {caller}");
        }
    }
}

/// A script that reads a request, sends `answer` and closes.
pub(crate) fn saying(answer: &str) -> Script {
    Script::new().request().send(answer).fin()
}

/// A whole regular answer.
pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
