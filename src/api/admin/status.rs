//! `GET /admin/status`: everything about the state of the process that is not for strangers.

use std::time::Instant;

use actix::{Actor, Addr, Handler, Message, dev::ToEnvelope};
use actix_web::HttpResponse;
use futures_util::future::join_all;
use pointsman_actors::actors::{catalog::CurrentCatalog, ledger::CountRecords, provider_health::Ping, router};
use serde::Serialize;

use super::config::ConfigBody;
use crate::{
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        health::ProcessBody,
    },
    base::{clock, error::ApiError},
    state::{ask::ask, gateway::Worker},
};

/// Shows the process, its configuration, its actors and its bulkheads.
///
/// # Errors
/// None of its own: what does not answer is shown as such.
pub(crate) async fn show(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    let body = StatusBody {
        process: ProcessBody::now(&worker),
        config: ConfigBody::now(&worker),
        actors: actors(&worker).await,
        in_flight: worker.setup.admission.in_flight(),
        concurrency: worker.setup.config.limits.concurrency,
        dropped_events: worker.shared.event_batchers.dropped(),
        dropped_records: worker.shared.event_batchers.dropped_records(),
        providers: places(&worker),
    };
    Ok(uncached(&Data { data: body }))
}

#[derive(Serialize)]
struct StatusBody<'a> {
    #[serde(flatten)]
    process: ProcessBody,
    config: ConfigBody,
    actors: Vec<ActorBody>,
    in_flight: u32,
    concurrency: Option<u32>,
    dropped_events: u64,
    dropped_records: u64,
    providers: Vec<PlacesBody<'a>>,
}

/// One actor, or the routers of all workers.
#[derive(Serialize)]
struct ActorBody {
    name: &'static str,
    ok: bool,
    /// How long it took to answer, milliseconds.
    answered_in_ms: Option<f64>,
    /// How often it was replaced because it had panicked.
    restarts: u64,
    /// Batches that wait in its mailbox, where they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    mailbox: Option<usize>,
}

/// Where one provider is called, and its places.
#[derive(Serialize)]
struct PlacesBody<'a> {
    slug: &'a str,
    /// Host and port; `null` for one that is simulated.
    address: Option<String>,
    taken: usize,
    most: usize,
}

async fn actors(worker: &Worker) -> Vec<ActorBody> {
    let (control, depths) = (&worker.shared.control, &worker.shared.event_batchers.depths);
    let (health_waits, ledger_waits) = (depths.health.get(), depths.ledger.get());
    let routers = worker.shared.routers.all();
    let routers = join_all(routers.iter().map(|router| timed(router, router::Ping)));
    let (catalog, health, ledger) = (control.catalog(), control.health(), control.ledger());
    let (catalog, health, ledger, routers) = futures_util::join!(
        timed(&catalog, CurrentCatalog),
        timed(&health, Ping),
        timed(&ledger, CountRecords { now_ms: clock::unix_millis() }),
        routers,
    );
    let slowest = routers.into_iter().try_fold(0.0, |slowest: f64, took| took.map(|took| slowest.max(took)));
    let actor = |name, took: Option<f64>, mailbox| {
        let restarts = worker.shared.metrics.replacements(name);
        ActorBody { name, ok: took.is_some(), answered_in_ms: took, restarts, mailbox }
    };
    vec![
        actor("catalog", catalog, None),
        actor("health", health, Some(health_waits)),
        actor("ledger", ledger, Some(ledger_waits)),
        actor("router", slowest, None),
    ]
}

/// How long the answer took, milliseconds; `None` when there was none.
async fn timed<A, Q>(actor: &Addr<A>, question: Q) -> Option<f64>
where
    A: Actor + Handler<Q>,
    A::Context: ToEnvelope<A, Q>,
    Q: Message + Send + 'static,
    Q::Result: Send,
{
    let asked = Instant::now();
    ask(actor, question).await.ok()?;
    Some((asked.elapsed().as_secs_f64() * 1e6).round() / 1e3)
}

fn places(worker: &Worker) -> Vec<PlacesBody<'_>> {
    let configured = &worker.setup.config.providers;
    let address = |slug: &str| {
        let url = &configured.iter().find(|provider| provider.slug.as_str() == slug)?.base_url;
        Some(format!("{}:{}", url.host(), url.port()))
    };
    let places = worker.setup.provider_concurrency();
    places.map(|(slug, taken, most)| PlacesBody { slug, address: address(slug), taken, most }).collect()
}
