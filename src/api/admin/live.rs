//! `GET /admin/live`: what happens, as server-sent events. One rendering per second serves all subscribers; without a
//! subscriber nothing is rendered.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderMap},
};
use actix_web_lab::extract::LocalData;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use pointsman_actors::ledger::ReadEnded;
use pointsman_base::clock;
use serde::Serialize;

use super::{
    breakers_view::MoveBody,
    running::RunningBody,
    series,
    series_view::Totals,
    verdict_view::{NoticeBody, Severity, VerdictBody},
};
use crate::{
    api::{
        auth::Administrator, generations::generation_row::GenerationRow, models::measurements::Clocks, number::Dollars,
    },
    base::error::{ApiError, Overload},
    state::{
        ask::ask,
        gateway::{Shared, Worker, WorkerHandle},
        live::Subscription,
    },
};

/// Time between two renderings.
const INTERVAL: Duration = Duration::from_secs(1);
/// Wait of a client that finds no room.
const ROOM_WAIT: Duration = Duration::from_secs(30);
/// First words of a stream: how long a client waits before it comes back.
const HEAD: &str = "retry: 3000\n\n";

/// Streams events: `generation` (a row of `/admin/generations`), `breaker` (one that moved), `notice` (all notices of the verdict, when they change),
/// `config` (the version, when it changes) and `tick` (figures, once a second). `Last-Event-ID` brings back up to 200
/// events. The stream ends at once when the gateway stops, within two seconds after its key was disabled, and for a
/// client that does not keep up.
///
/// # Errors
/// 503 with 32 streams.
pub(crate) async fn show(_: Administrator, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let handle = request.app_data::<LocalData<WorkerHandle>>().ok_or_else(ApiError::internal)?;
    let seen = request.headers().get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let subscription = worker.shared.records.live.subscribe(seen);
    let subscription = subscription.ok_or_else(|| ApiError::overloaded(Overload::LiveStreams, ROOM_WAIT))?;
    if subscription.starts_rendering {
        actix_rt::spawn(render(WorkerHandle::clone(handle)));
    }
    let shared = Arc::clone(&worker.shared);
    let mut response = HttpResponse::Ok();
    response.insert_header((header::CONTENT_TYPE, "text/event-stream; charset=utf-8"));
    response.insert_header((header::CACHE_CONTROL, "no-cache, no-store"));
    response.insert_header(("x-accel-buffering", "no"));
    Ok(response.streaming(frames(subscription, shared, request.headers().clone())))
}

/// The frames of one subscriber, while its key is valid and the gateway runs.
fn frames(
    subscription: Subscription,
    shared: Arc<Shared>,
    headers: HeaderMap,
) -> impl futures_util::Stream<Item = Result<Bytes, ApiError>> {
    let Subscription { mut frames, missed, .. } = subscription;
    let stopped = shared.process.drain.begun();
    let live = stream::poll_fn(move |context| frames.poll_recv(context));
    let admitted = move |_: &Bytes| std::future::ready(shared.setup.load().keys.administrator(&headers).is_ok());
    let first = stream::iter([Bytes::from_static(HEAD.as_bytes())]).chain(stream::iter(missed));
    first.chain(live.take_while(admitted)).take_until(Box::pin(stopped)).map(Ok)
}

/// Figures of a moment.
#[derive(Serialize)]
struct TickBody {
    severity: Severity,
    code: &'static str,
    sentence: String,
    in_flight: u32,
    /// Calls for a generation in progress.
    running: usize,
    /// The last complete minute.
    minute: TotalsBody,
    hour: TotalsBody,
}

#[derive(Serialize)]
struct TotalsBody {
    #[serde(flatten)]
    totals: Totals,
    cost: Dollars,
}

impl TotalsBody {
    const fn new(totals: Totals) -> TotalsBody {
        TotalsBody { totals, cost: Dollars(totals.spent) }
    }
}

#[derive(Serialize)]
struct ConfigBody {
    version: u64,
}

#[derive(Serialize)]
struct NoticesBody<'a> {
    notices: &'a [NoticeBody],
}

/// What has been reported so far.
struct Reported {
    ended: u64,
    breaker_move: u64,
    version: u64,
    notices: Vec<NoticeBody>,
}

/// Renders once a second until nobody listens or the gateway stops.
async fn render(handle: WorkerHandle) {
    let shared = Arc::clone(handle.shared());
    let version = shared.setup.load().version;
    let breaker_move = shared.records.breaker_history.last();
    let mut reported = Reported { ended: newest(&handle.worker()).await, breaker_move, version, notices: Vec::new() };
    loop {
        if shared.is_draining() {
            shared.records.live.end();
            return;
        }
        if !shared.records.live.continues() {
            return;
        }
        // Of the setup in force: a reload may have replaced it.
        let worker = handle.worker();
        let mut events = Vec::new();
        generations(&worker, &mut reported, &mut events).await;
        breaker_moves(&worker, &mut reported, &mut events);
        let verdict = VerdictBody::now(&worker).await;
        if verdict.notices != reported.notices {
            events.extend(event("notice", &NoticesBody { notices: &verdict.notices }));
            reported.notices.clone_from(&verdict.notices);
        }
        let version = worker.setup.version;
        if version != reported.version {
            reported.version = version;
            events.extend(event("config", &ConfigBody { version }));
        }
        let tick = tick(&worker, verdict).await.and_then(|tick| event("tick", &tick)).unwrap_or_default();
        shared.records.live.send(events, &tick);
        actix_rt::time::sleep(INTERVAL).await;
    }
}

/// Number of the generation that ended last.
async fn newest(worker: &Worker) -> u64 {
    ask(&worker.shared.actors.control.ledger(), ReadEnded { after: u64::MAX }).await.map_or(0, |ended| ended.newest)
}

/// The generations that have ended meanwhile; of more than 200 the newest.
async fn generations(worker: &Worker, reported: &mut Reported, events: &mut Vec<String>) {
    worker.shared.actors.event_batchers.flush();
    let Ok(ended) = ask(&worker.shared.actors.control.ledger(), ReadEnded { after: reported.ended }).await else {
        return;
    };
    reported.ended = ended.newest;
    for generation in &ended.generations {
        let names = worker.setup.keys.names_of(generation.owner, generation.key);
        events.extend(event("generation", &GenerationRow::new(generation, &names)));
    }
}

/// The breakers that have moved meanwhile.
fn breaker_moves(worker: &Worker, reported: &mut Reported, events: &mut Vec<String>) {
    let clocks = Clocks { now: clock::now(), unix_millis: clock::unix_millis() };
    for (subject, one) in worker.shared.records.breaker_history.after(reported.breaker_move) {
        reported.breaker_move = one.number;
        events.extend(event("breaker", &MoveBody::new(&subject, &one, clocks)));
    }
}

async fn tick(worker: &Worker, verdict: VerdictBody) -> Option<TickBody> {
    let (minute, hour) = series::totals(worker).await.ok()?;
    let running = RunningBody::now(worker);
    let VerdictBody { severity, code, sentence, .. } = verdict;
    let (minute, hour) = (TotalsBody::new(minute), TotalsBody::new(hour));
    Some(TickBody { severity, code, sentence, in_flight: running.in_flight, running: running.total, minute, hour })
}

/// One event without a number.
fn event(name: &str, body: &impl Serialize) -> Option<String> {
    let json = serde_json::to_string(body).ok()?;
    let mut text = String::with_capacity(json.len() + name.len() + 16);
    write!(text, "event: {name}\ndata: {json}\n\n").ok()?;
    Some(text)
}
