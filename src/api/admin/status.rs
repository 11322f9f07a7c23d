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
    state::{
        ask::ask,
        gateway::{GatewayView, Worker},
    },
};

/// Shows the process, its configuration, its actors, and the concurrency limits of providers.
///
/// # Errors
/// None: an actor that does not answer is shown with `ok: false`.
pub(crate) async fn show(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: StatusBody::now(&worker).await }))
}

/// State of the process.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct StatusBody<'a> {
    #[serde(flatten)]
    pub(crate) process: ProcessBody,
    /// State of the configuration.
    pub(crate) config: ConfigBody,
    /// The actors of the gateway.
    pub(crate) actors: Vec<ActorBody>,
    /// Calls in progress that count against the limits: for generations, previews and counts of tokens.
    pub(crate) in_flight: u32,
    /// Most calls in progress at once (`limits.concurrency`); `null` without a limit.
    pub(crate) concurrency: Option<u32>,
    /// Observations of attempts that were lost since the start because there was no room for them. The statistics lack
    /// them.
    pub(crate) dropped_events: u64,
    /// Records that were lost on the way to the ledger since the start because there was no room for them.
    pub(crate) dropped_records: u64,
    /// Inference calls that were refused since the start before an endpoint was called, by the reason of the error, the
    /// most frequent first. They have no records.
    pub(crate) refused: Vec<RefusedBody>,
    /// The enabled providers.
    pub(crate) providers: Vec<ProviderBody<'a>>,
}

impl StatusBody<'_> {
    /// The state now.
    pub(crate) async fn now(worker: &GatewayView) -> StatusBody<'_> {
        StatusBody {
            process: ProcessBody::now(worker),
            config: ConfigBody::now(worker),
            actors: actors(worker).await,
            in_flight: worker.setup.admission.in_flight(),
            concurrency: worker.setup.config.limits.concurrency,
            dropped_events: worker.shared.actors.event_batchers.dropped(),
            dropped_records: worker.shared.actors.event_batchers.dropped_records(),
            refused: RefusedBody::all(worker),
            providers: providers(worker),
        }
    }
}

/// How often calls were refused for one reason.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct RefusedBody {
    /// Reason of the error, as `error.metadata.reason` has it.
    pub(crate) reason: String,
    /// Number of calls since the start.
    pub(crate) count: u64,
}

impl RefusedBody {
    /// The reasons that calls were refused for.
    pub(crate) fn all(worker: &GatewayView) -> Vec<RefusedBody> {
        let refused = worker.shared.process.metrics.refused().into_iter();
        let mut all: Vec<_> = refused.map(|(reason, count)| RefusedBody { reason, count }).collect();
        all.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.reason.cmp(&other.reason)));
        all
    }
}

/// One actor, or the routers of all workers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ActorBody {
    /// `router` stands for the routing of all workers together.
    #[cfg_attr(test, schemars(extend("enum" = ["catalog", "health", "ledger", "router"])))]
    pub(crate) name: &'static str,
    /// Whether it answered a question in time.
    pub(crate) ok: bool,
    /// Milliseconds until it answered, with three decimals; of `router` those of the slowest worker. `null` without an
    /// answer.
    pub(crate) answered_in_ms: Option<f64>,
    /// Times that it was replaced after a panic since the start.
    pub(crate) restarts: u64,
    /// Batches that wait in its mailbox; only of `health` and `ledger`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mailbox: Option<usize>,
}

/// Address, key, prices, concurrency limit and breakers of one provider.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ProviderBody<'a> {
    /// Slug of the provider: its name in the configuration, in requests and in filters.
    pub(crate) slug: &'a str,
    /// Host and port; `null` for a simulated provider.
    pub(crate) address: Option<String>,
    /// Requests to the provider in progress: permits of its concurrency limit in use, also above `most` after the limit
    /// was lowered.
    pub(crate) taken: usize,
    /// The concurrency limit of the provider.
    pub(crate) most: usize,
    /// The environment variable or the file that holds the provider's key; `null` for a provider without one.
    pub(crate) key_from: Option<&'a str>,
    /// Day on which the oldest of its prices was read, such as `2026-11-20`; `null` where none says so.
    pub(crate) oldest_price_date: Option<String>,
    /// The circuit breakers of the provider that moved in the last hour.
    pub(crate) breakers: Vec<BreakerBody>,
}

async fn actors(worker: &GatewayView) -> Vec<ActorBody> {
    let (control, depths) = (&worker.shared.actors.control, &worker.shared.actors.event_batchers.depths);
    let (health_waits, ledger_waits) = (depths.health.get(), depths.ledger.get());
    let routers = worker.shared.actors.routers.all();
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
        let restarts = worker.shared.process.metrics.replacements(name);
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

fn providers(worker: &GatewayView) -> Vec<ProviderBody<'_>> {
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
