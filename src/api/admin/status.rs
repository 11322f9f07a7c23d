//! `GET /admin/status`: state of the process, its configuration, actors and providers.

use std::time::Instant;

use actix::{Actor, Addr, Handler, Message, dev::ToEnvelope};
use actix_web::HttpResponse;
use chrono::NaiveDate;
use futures_util::future::join_all;
use pointsman_actors::{catalog::CurrentCatalog, ledger::CountRecords, provider_health::Ping, router};
use pointsman_base::clock;
use serde::Serialize;

use super::{breakers_view::BreakerBody, config::ConfigBody};
use crate::{
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        health::gateway_health::ProcessBody,
        models::measurements::Clocks,
    },
    base::error::ApiError,
    state::{ask::ask, gateway::Worker},
};

/// Shows the process, its configuration, its actors, and the concurrency limits of providers.
///
/// # Errors
/// None: an actor that does not answer is shown with `ok: false`.
pub(crate) async fn show(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: StatusBody::now(&worker).await }))
}

/// The state of the process.
#[derive(Serialize)]
pub(crate) struct StatusBody<'a> {
    #[serde(flatten)]
    pub(crate) process: ProcessBody,
    pub(crate) config: ConfigBody,
    pub(crate) actors: Vec<ActorBody>,
    pub(crate) in_flight: u32,
    pub(crate) concurrency: Option<u32>,
    pub(crate) dropped_events: u64,
    pub(crate) dropped_records: u64,
    pub(crate) providers: Vec<ProviderBody<'a>>,
}

impl StatusBody<'_> {
    /// The state now.
    pub(crate) async fn now(worker: &Worker) -> StatusBody<'_> {
        StatusBody {
            process: ProcessBody::now(worker),
            config: ConfigBody::now(worker),
            actors: actors(worker).await,
            in_flight: worker.setup.admission.in_flight(),
            concurrency: worker.setup.config.limits.concurrency,
            dropped_events: worker.shared.event_batchers.dropped(),
            dropped_records: worker.shared.event_batchers.dropped_records(),
            providers: providers(worker),
        }
    }
}

/// One actor, or the routers of all workers.
#[derive(Serialize)]
pub(crate) struct ActorBody {
    pub(crate) name: &'static str,
    pub(crate) ok: bool,
    /// Time until the answer, in milliseconds.
    pub(crate) answered_in_ms: Option<f64>,
    /// Replacements after a panic.
    pub(crate) restarts: u64,
    /// Batches in the mailbox, for actors that count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mailbox: Option<usize>,
}

/// Address, key, prices, concurrency limit and breakers of one provider.
#[derive(Serialize)]
pub(crate) struct ProviderBody<'a> {
    pub(crate) slug: &'a str,
    /// Host and port; `null` for a simulated provider.
    pub(crate) address: Option<String>,
    pub(crate) taken: usize,
    pub(crate) most: usize,
    /// The variable or the file that holds the key, which is set; `null` for a provider without one.
    pub(crate) key_from: Option<&'a str>,
    /// When the oldest of its prices was read; `null` where none says so.
    pub(crate) oldest_price_date: Option<String>,
    /// The breakers that moved in the last hour.
    pub(crate) breakers: Vec<BreakerBody>,
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

/// Time until the actor answered, in milliseconds; `None` without an answer.
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

fn providers(worker: &Worker) -> Vec<ProviderBody<'_>> {
    let clocks = Clocks { now: clock::now(), unix_millis: clock::unix_millis() };
    let config = &worker.setup.config;
    let body = |(slug, taken, most)| {
        // Simulated providers have no settings of a connection.
        let connected = config.providers.iter().find(|provider| provider.slug.as_str() == slug);
        let at = worker.setup.catalog.providers.iter().position(|provider| provider.slug.as_str() == slug);
        let at = at.and_then(|at| u32::try_from(at).ok());
        ProviderBody {
            slug,
            address: connected.map(|provider| format!("{}:{}", provider.base_url.host(), provider.base_url.port())),
            taken,
            most,
            key_from: connected.and_then(|provider| provider.key_from.as_deref()),
            oldest_price_date: at.and_then(|at| config.price_dates.get(&at)).map(NaiveDate::to_string),
            breakers: BreakerBody::of_provider(worker, slug, clocks),
        }
    };
    worker.setup.provider_concurrency().map(body).collect()
}
