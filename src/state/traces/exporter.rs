//! The thread that sends spans: gathers them into batches and posts these with the OTLP exporter of OpenTelemetry.
//!
//! The exporter encodes, compresses, and repeats a call once where its protocol asks for it. Beneath it is the HTTP client
//! that calls providers, so that there is no second one in the binary and no second TLS stack.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::{Key, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter as _},
};
use pointsman_config::TracesConfig;
use pointsman_domain::Generation;
use pointsman_transport::PostClient;
use rustls::ClientConfig;
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep_until, timeout},
};

use super::{NamesOf, spans};
use crate::base::{
    build,
    events::{SpanCounts, SpanLoss},
};

/// Name of the service, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` say otherwise.
const SERVICE: &str = "pointsman";
/// Timeout of a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Shortest time between two warnings about the collector.
const QUIET: Duration = Duration::from_secs(60);
/// Time for what waits when the gateway is dropped without being closed.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What the thread works with.
pub(super) struct Exporter {
    pub(super) config: TracesConfig,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) counts: SpanCounts,
    pub(super) names: Arc<OnceLock<NamesOf>>,
    /// Distinguishes this process from its replicas.
    pub(super) instance: u64,
}

impl Exporter {
    /// Runs until the gateway asks it to stop or is gone.
    pub(super) fn run(self, records: mpsc::Receiver<Arc<Generation>>, asked: oneshot::Receiver<Duration>) {
        match actix_rt::Runtime::new() {
            Ok(runtime) => runtime.block_on(self.follow(records, asked)),
            Err(error) => log::error!(event = "traces"; "no traces are sent: {error}"),
        }
    }

    async fn follow(self, mut records: mpsc::Receiver<Arc<Generation>>, mut asked: oneshot::Receiver<Duration>) {
        let batches = self.config.batches;
        let mut outgoing = match Outgoing::new(&self) {
            Ok(outgoing) => outgoing,
            Err(why) => {
                log::error!(event = "traces"; "no traces are sent: {why}");
                return;
            }
        };
        let limit = loop {
            // What comes next: a record, the end of the wait for one, or the end of all.
            let due = outgoing.since.map(|since| since + batches.delay);
            let next = tokio::select! {
                biased;
                limit = &mut asked => break limit.unwrap_or(LAST_WORDS),
                record = records.recv() => match record {
                    Some(record) => Some(record),
                    None => break LAST_WORDS,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => None,
            };
            let is_due = next.is_none();
            if let Some(record) = next {
                outgoing.add(&record);
            }
            if is_due || outgoing.spans.len() >= batches.size {
                // A collector that hangs must not keep the process from ending.
                tokio::select! {
                    biased;
                    limit = &mut asked => break limit.unwrap_or(LAST_WORDS),
                    () = outgoing.send() => (),
                }
            }
        };
        outgoing.finish(&mut records, limit, batches.size).await;
    }
}

/// The spans of the next batch, and the exporter.
struct Outgoing {
    exporter: SpanExporter,
    counts: SpanCounts,
    names: Arc<OnceLock<NamesOf>>,
    spans: Vec<SpanData>,
    /// When the oldest of them was added.
    since: Option<Instant>,
    warned: Option<Instant>,
    collector: String,
}

impl Outgoing {
    fn new(thread: &Exporter) -> Result<Outgoing, String> {
        let collector = thread.config.collector.as_ref().map(ToString::to_string).unwrap_or_default();
        let client = PostClient::new(&collector, &thread.tls, CONNECT).map_err(|fault| fault.to_string())?;
        let (calls, queue) = mpsc::channel(1);
        actix_rt::spawn(answer_calls(client, queue, thread.config.batches.timeout));
        let retries = RetryPolicy::recommended().with_max_retries(1);
        let exporter = SpanExporter::builder().with_http().with_http_client(ExportQueue(calls));
        let exporter = exporter.with_endpoint(&collector).with_protocol(Protocol::HttpBinary);
        let mut exporter = exporter.with_retry_policy(retries).build().map_err(|error| error.to_string())?;
        exporter.set_resource(&resource(thread.instance));
        let (counts, names) = (thread.counts.clone(), Arc::clone(&thread.names));
        Ok(Outgoing { exporter, counts, names, spans: Vec::new(), since: None, warned: None, collector })
    }

    fn add(&mut self, record: &Generation) {
        self.since.get_or_insert_with(Instant::now);
        let names = self.names.get().map(|names| names(record.owner, record.key)).unwrap_or_default();
        spans::add(record, &names, &mut self.spans);
    }

    /// Sends the batch. What the collector does not accept is lost.
    async fn send(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        let spans = self.take();
        let mut batch = Batch { spans: spans.len(), counts: &self.counts, is_accepted: false };
        let Err(error) = self.exporter.export(spans).await else {
            batch.is_accepted = true;
            return;
        };
        let now = Instant::now();
        if self.warned.is_none_or(|warned| now.duration_since(warned) >= QUIET) {
            self.warned = Some(now);
            log::warn!(event = "traces"; "spans are lost: {}: {error}", self.collector);
        }
    }

    fn take(&mut self) -> Vec<SpanData> {
        self.since = None;
        std::mem::take(&mut self.spans)
    }

    /// Sends what waits, for `limit` at most, in batches of `size`. The rest is lost.
    async fn finish(mut self, records: &mut mpsc::Receiver<Arc<Generation>>, limit: Duration, size: usize) {
        records.close();
        let all = async {
            while let Ok(record) = records.try_recv() {
                self.add(&record);
                if self.spans.len() >= size {
                    self.send().await;
                }
            }
            self.send().await;
        };
        let _ = timeout(limit, all).await;
        let mut left = self.spans.len();
        while let Ok(record) = records.try_recv() {
            left += spans::count(&record);
        }
        self.counts.dropped(left, SpanLoss::Collector);
    }
}

/// A batch on its way. Counted as lost when it is dropped before the collector has accepted it.
struct Batch<'c> {
    /// Their number.
    spans: usize,
    counts: &'c SpanCounts,
    is_accepted: bool,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        match self.is_accepted {
            true => self.counts.sent(self.spans),
            false => self.counts.dropped(self.spans, SpanLoss::Collector),
        }
    }
}

/// What all spans have in common.
fn resource(instance: u64) -> Resource {
    let standard = Resource::builder().build();
    let is_unset = |key: &'static str| standard.get_ref(&Key::new(key)).is_none();
    let named = standard.get(&Key::new("service.name")).map(|name| name.to_string());
    let mut builder = Resource::builder();
    if named.is_none_or(|name| name.starts_with("unknown_service")) {
        builder = builder.with_service_name(SERVICE);
    }
    for (key, value) in
        [("service.version", build::VERSION.to_owned()), ("service.instance.id", format!("{instance:016x}"))]
    {
        if is_unset(key) {
            builder = builder.with_attribute(KeyValue::new(key, value));
        }
    }
    builder.build()
}

/// Takes requests from the exporter to the HTTP client, which cannot leave its task.
#[derive(Debug)]
struct ExportQueue(mpsc::Sender<QueuedExport>);

#[derive(Debug)]
struct QueuedExport {
    request: Request<Bytes>,
    answer: oneshot::Sender<Result<Response<Bytes>, HttpError>>,
}

#[async_trait::async_trait]
impl HttpClient for ExportQueue {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (answer, answered) = oneshot::channel();
        self.0.send(QueuedExport { request, answer }).await?;
        answered.await?
    }
}

/// Ends with the exporter.
async fn answer_calls(client: PostClient, mut queue: mpsc::Receiver<QueuedExport>, limit: Duration) {
    while let Some(QueuedExport { request, mut answer }) = queue.recv().await {
        let called = tokio::select! {
            called = call(&client, request, limit) => called,
            // The exporter gave up; the connection is closed.
            () = answer.closed() => continue,
        };
        let _ = answer.send(called);
    }
}

async fn call(client: &PostClient, request: Request<Bytes>, limit: Duration) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = request.into_parts();
    let headers: Vec<_> = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let answer = client.post(&headers, body, Instant::now() + limit).await.map_err(|error| error.to_string())?;
    let mut response = Response::builder().status(answer.status);
    if let Some(wait) = answer.retry_after {
        response = response.header("retry-after", wait);
    }
    Ok(response.body(answer.body)?)
}
