//! `GET /admin/verdict`: one sentence about the gateway, the worst thing first, and everything else that needs attention.

use actix_web::HttpResponse;

use super::{
    budget_notices::ShortBudget,
    series,
    status::StatusBody,
    verdict_view::{Situation, VerdictBody},
};
use crate::{
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        health::{ledger_health::LedgerHealthBody, metrics::price_ages, routing_memory::RoutingMemoryBody, stats},
        models::measurements::Measurements,
    },
    base::error::ApiError,
    state::{gateway::Worker, setup::Setup},
};

/// Age of prices above which they are told, seconds.
const OLD_PRICES: f64 = 90.0 * 86_400.0;

/// Shows the verdict.
///
/// # Errors
/// None: a part that does not answer is in the verdict.
pub(crate) async fn show(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: VerdictBody::now(&worker).await }))
}

impl VerdictBody {
    /// The verdict now.
    pub(crate) async fn now(worker: &Worker) -> VerdictBody {
        VerdictBody::new(&situation(worker).await)
    }
}

async fn situation(worker: &Worker) -> Situation {
    let status = StatusBody::now(worker).await;
    let (ledger, memory) = (LedgerHealthBody::now(worker), RoutingMemoryBody::now(worker));
    // Without an answer the actor is named as silent.
    let measurements = Measurements::now(worker).await.ok();
    let (endpoints, down, degraded) =
        measurements.map(|measurements| endpoints(worker, &measurements)).unwrap_or_default();
    let reload = status.config.last_reload;
    let (config_faults, pending) = reload.map(|it| (it.faults, it.restart_pending)).unwrap_or_default();
    let replicas = worker.shared.replicas.as_ref();
    let stores = replicas.map(|it| [("postgres", it.postgres()), ("redis", it.redis())]);
    let stores = stores.iter().flatten().filter_map(|(name, store)| Some((*name, store.as_ref()?)));
    let away = stores.clone().filter(|(_, store)| store.away_since_ms.is_some());
    let refusing = stores.filter(|(_, store)| !store.refused_commands.is_empty() || store.refused_rows > 0);
    let restarted = status.actors.iter().filter(|actor| actor.restarts > 0);
    Situation {
        draining: worker.shared.is_draining(),
        silent_actors: status.actors.iter().filter(|actor| !actor.ok).map(|actor| actor.name).collect(),
        restarted_actors: restarted.map(|actor| (actor.name, actor.restarts)).collect(),
        endpoints,
        down,
        degraded,
        config_version: status.config.version,
        config_faults,
        restart_pending: pending.into_iter().map(|pending| pending.key).collect(),
        ledger_failing: ledger.since.filter(|_| ledger.state == "degraded"),
        ledger_in_memory: ledger.state == "memory",
        dropped: status.dropped_events + status.dropped_records,
        memory_failing: memory.last_error.filter(|_| memory.state == "failing"),
        memory_not_restored: memory.not_restored,
        old_prices: old_prices(&worker.setup),
        stores_away: away.map(|(name, _)| name).collect(),
        stores_refusing: refusing.map(|(name, _)| name).collect(),
        short_budgets: ShortBudget::all(worker),
        shedding: worker.setup.admission.load().read().shedding,
        calls: series::totals(worker).await.ok(),
    }
}

/// Providers with old prices, but for those that are played.
fn old_prices(setup: &Setup) -> Vec<String> {
    let is_real = |slug: &str| {
        setup.catalog.providers.iter().any(|provider| provider.slug.as_str() == slug && !provider.simulated)
    };
    let old = price_ages(setup).into_iter().filter(|(slug, age)| *age > OLD_PRICES && is_real(slug));
    old.map(|(slug, _)| slug.to_owned()).collect()
}

/// Number of enabled endpoints, and the names of those that are down and degraded.
fn endpoints(worker: &Worker, measurements: &Measurements) -> (usize, Vec<String>, Vec<String>) {
    let snapshot = worker.setup.published.snapshot();
    let bodies = stats::endpoint_bodies(&snapshot, measurements, None);
    let named = |state: &str| {
        let found = bodies.iter().filter(|endpoint| endpoint.measured.state == state);
        found.map(|endpoint| format!("{} at {}", endpoint.model, endpoint.provider_name)).collect()
    };
    (bodies.len(), named("down"), named("degraded"))
}
