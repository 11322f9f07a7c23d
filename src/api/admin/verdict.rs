//! `GET /admin/verdict`: one sentence about the gateway, the worst thing first, and everything else that needs attention.

use std::time::Duration;

use actix_web::HttpResponse;
use pointsman_base::clock;
use pointsman_domain::{Catalog, Circuit, Endpoint};
use pointsman_routing::stats::{Accuracy, Calibration, Tally, TargetReport};

use super::{
    budget_notices::ShortBudget,
    series::{self, HOUR_MS},
    series_view::Totals,
    status::StatusBody,
    verdict_view::{Situation, VerdictBody},
};
use crate::{
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        condition::Condition,
        health::{
            calibration, ledger_health::LedgerHealthBody, metrics::price_ages, routing_memory::RoutingMemoryBody, slo,
            spend_pace::paces,
        },
        models::measurements::Measurements,
    },
    base::error::ApiError,
    state::{
        alerts::watch::Findings,
        gateway::{GatewayView, Worker},
        setup::Setup,
    },
};

/// Age of prices above which they are told, seconds.
const OLD_PRICES: f64 = 90.0 * 86_400.0;
/// Minutes in which failures that clients saw are counted: five, and the one that runs.
const RECENT_MINUTES: usize = 6;
/// Calibrations up to this old are good enough.
const CALIBRATION_AGE: Duration = Duration::from_secs(10);
/// Share of outcomes within the predicted 95th percentile below which predictions do not hold, and the predictions that it
/// takes to say so: those of the alert rule for Prometheus.
const MIN_WITHIN_P95: f64 = 0.85;
const MIN_PREDICTIONS: u64 = 100;
/// Requests of an hour that it takes to say that a target is missed.
const MIN_TARGET_REQUESTS: u64 = 20;

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

/// What receivers of alerts may have to be told.
pub(crate) async fn findings(view: &GatewayView) -> Findings {
    situation(view).await.findings()
}

async fn situation(worker: &GatewayView) -> Situation {
    let status = StatusBody::now(worker).await;
    let (ledger, memory) = (LedgerHealthBody::now(worker), RoutingMemoryBody::now(worker));
    // Without an answer the actor is named as silent.
    let measurements = Measurements::now(worker).await.ok();
    let endpoints = measurements.map(|measurements| Endpoints::new(worker, &measurements)).unwrap_or_default();
    let slots = series::minutes(worker, HOUR_MS).await.ok().map(|(_, slots)| slots);
    let last = |skipped, minutes| Some(Totals::sum(slots.as_ref()?.iter().rev().skip(skipped).take(minutes)));
    let reload = status.config.last_reload;
    let (config_faults, pending) = reload.map(|it| (it.faults, it.restart_pending)).unwrap_or_default();
    let replicas = worker.shared.records.replicas.as_ref();
    let stores = replicas.map(|it| [("postgres", it.postgres()), ("redis", it.redis())]);
    let stores = stores.iter().flatten().filter_map(|(name, store)| Some((*name, store.as_ref()?)));
    let away = stores.clone().filter(|(_, store)| store.away_since_ms.is_some());
    let refusing = stores.filter(|(_, store)| !store.refused_commands.is_empty() || store.refused_rows > 0);
    let restarted = status.actors.iter().filter(|actor| actor.restarts > 0);
    Situation {
        draining: worker.shared.is_draining(),
        silent_actors: status.actors.iter().filter(|actor| !actor.ok).map(|actor| actor.name).collect(),
        restarted_actors: restarted.map(|actor| (actor.name, actor.restarts)).collect(),
        endpoints: endpoints.enabled,
        down: endpoints.down,
        degraded: endpoints.degraded,
        recovering: endpoints.recovering,
        mispredicted: mispredicted(worker).await,
        missed_targets: missed_targets(worker),
        fallen_canaries: worker.shared.records.canaries.fallen(&worker.setup.catalog),
        exceeded_paces: exceeded_paces(worker),
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
        calls: last(1, 1).zip(last(0, usize::MAX)),
        recent_calls: last(0, RECENT_MINUTES).unwrap_or_default(),
        catalogue: worker
            .shared
            .process
            .reloads
            .status
            .catalogue()
            .filter(|it| clock::unix_millis() - it.at_ms < HOUR_MS),
    }
}

/// Aliases whose ceiling is out of reach.
fn exceeded_paces(worker: &GatewayView) -> Vec<String> {
    let exceeded = paces(worker).into_iter().filter(|paced| paced.pace.is_out_of_reach());
    exceeded.map(|paced| paced.alias.into()).collect()
}

/// Providers with old prices, but for those that are played.
fn old_prices(setup: &Setup) -> Vec<String> {
    let is_real = |slug: &str| {
        setup.catalog.providers.iter().any(|provider| provider.slug.as_str() == slug && !provider.simulated)
    };
    let old = price_ages(setup).into_iter().filter(|(slug, age)| *age > OLD_PRICES && is_real(slug));
    old.map(|(slug, _)| slug.to_owned()).collect()
}

/// The enabled endpoints, as `model at provider`.
#[derive(Default)]
struct Endpoints {
    enabled: usize,
    down: Vec<String>,
    degraded: Vec<String>,
    /// Those that are not down, and whose breaker is not closed.
    recovering: Vec<String>,
}

impl Endpoints {
    fn new(worker: &GatewayView, measurements: &Measurements) -> Endpoints {
        let catalog = &*worker.setup.catalog;
        let mut endpoints = Endpoints::default();
        for (position, endpoint) in (0_u32..).zip(&catalog.endpoints) {
            let Some(name) = name(catalog, endpoint) else { continue };
            endpoints.enabled += 1;
            let measured = measurements.endpoint(catalog, position);
            match measured.condition {
                Condition::Down => endpoints.down.push(name),
                condition => {
                    if measured.live_status.circuit != Circuit::Closed {
                        endpoints.recovering.push(name.clone());
                    }
                    if condition == Condition::Degraded {
                        endpoints.degraded.push(name);
                    }
                }
            }
        }
        endpoints
    }
}

/// The name of an endpoint that is enabled.
fn name(catalog: &Catalog, endpoint: &Endpoint) -> Option<String> {
    let provider = catalog.provider_of(endpoint).filter(|provider| provider.is_on() && !endpoint.disabled)?;
    Some(format!("{} at {}", catalog.model_of(endpoint)?.id, provider.name))
}

/// Endpoints whose outcomes exceed the predicted 95th percentile too often.
async fn mispredicted(worker: &GatewayView) -> Vec<String> {
    let Ok(known) = calibration::read(worker, CALIBRATION_AGE).await else { return Vec::new() };
    let catalog = &*worker.setup.catalog;
    let is_off = |accuracy: &Accuracy| {
        accuracy.samples >= MIN_PREDICTIONS && accuracy.within_p95.is_some_and(|share| share < MIN_WITHIN_P95)
    };
    let off = catalog.endpoints.iter().zip(&known.endpoints).filter(|(_, known)| {
        let Calibration { first_token, total, .. } = &known.calibration;
        is_off(first_token) || is_off(total)
    });
    off.filter_map(|(endpoint, _)| name(catalog, endpoint)).collect()
}

/// Latency targets of which the last hour allows no further miss, and that are still missed too often.
fn missed_targets(worker: &GatewayView) -> Vec<String> {
    let is_missed = |report: &&TargetReport| {
        let [minutes, hour, _] = &report.windows;
        let burns = |window: &Tally| report.burn_rate(window).is_some_and(|rate| rate > 1.0);
        hour.requests() >= MIN_TARGET_REQUESTS && burns(hour) && burns(minutes)
    };
    let reports = slo::reports(worker);
    let missed = reports.iter().filter(is_missed).map(|report| {
        let (percentile, seconds) = (report.percentile.as_str(), report.bound.as_secs_f64());
        format!("{} ({percentile} within {seconds} s)", report.name)
    });
    missed.collect()
}
