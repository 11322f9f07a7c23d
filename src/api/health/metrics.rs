//! `GET /metrics`: Prometheus text format 0.0.4.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, http::header};
use pointsman_actors::ledger::CountRecords;
use pointsman_base::clock;
use pointsman_config::Scope;
use pointsman_domain::{Catalog, Endpoint, Provider};
use pointsman_routing::stats::LiveView;

use super::{
    calibration_metrics, ledger_health, quality, routing_memory, shadows, slo_metrics, spend_pace, splits,
    stores_health,
};
use crate::{
    access::budget::BudgetReading,
    api::admin::accounts,
    base::{
        error::ApiError,
        events::{LimitedHolder, MOST_KEYS, ScrapedValues, labels},
    },
    state::{ask::ask, gateway::Worker, setup::Setup},
};

/// Reachability of the listener that serves the page.
#[derive(Debug, Clone, Copy)]
pub struct Exposure {
    /// Whether only this machine can reach the listener.
    pub loopback: bool,
}

/// Shows all metrics. Needs a key with the scope `read`, except on a loopback listener.
///
/// # Errors
/// 404 when metrics are switched off, 401 and 403 without a sufficient key, 500 when the encoder fails.
pub async fn show(worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (shared, setup) = (&worker.shared, &worker.setup);
    if !setup.config.metrics.enabled {
        return Err(ApiError::unknown_path("/metrics"));
    }
    if !request.app_data::<Exposure>().is_some_and(|exposure| exposure.loopback) {
        setup.keys.caller(request.headers())?.require(Scope::Read)?;
    }
    let depths = &shared.actors.event_batchers.depths;
    // Read before the ledger is asked, because the ledger answers only after it has handled these batches.
    let (health_depth, ledger_depth) = (depths.health.get(), depths.ledger.get());
    if let Some(records) = ledger_records(&worker, CountRecords { now_ms: clock::unix_millis() }).await {
        shared.process.metrics.observe_ledger(records);
    }
    let mut others = calibration_metrics::read(&worker).await;
    others.extend(slo_metrics::read(&worker));
    others.extend(spend_pace::families(&worker));
    others.extend(splits::families(&worker));
    others.extend(shadows::families(&worker));
    others.extend(quality::families(&worker).await);
    others.extend(routing_memory::families(&worker));
    others.extend(ledger_health::families(&worker));
    others.extend(stores_health::families(&worker));
    let live = setup.published.live.view(clock::now());
    let callers = setup.keys.callers();
    shared.process.metrics.name_keys(callers.iter().map(|caller| (caller.id, Arc::clone(&caller.key.name))));
    let (accounts, teams) = (shared.access.registry.account_names(), accounts::team_names(&worker));
    let (holders, now_ms) = (&shared.access.registry.holders, clock::unix_millis());
    let keys = callers.iter().map(|caller| (&*caller.key.name, caller.state.budget.read(now_ms)));
    let accounts = accounts.iter().map(|(number, name)| (&**name, holders.account(*number).budget.read(now_ms)));
    let teams = teams.iter().map(|name| (&**name, holders.team(name).budget.read(now_ms)));
    let scraped = ScrapedValues {
        in_flight: setup.admission.in_flight(),
        most_in_flight: setup.config.limits.concurrency,
        waiting: shared.access.waiting.count(),
        health_depth,
        ledger_depth,
        dropped_events: shared.actors.event_batchers.dropped(),
        live_renderings: shared.records.live.renderings(),
        dropped_records: shared.actors.event_batchers.dropped_records(),
        load: setup.admission.load().read(),
        most_buffered_bytes: setup.config.limits.buffered_bytes,
        silence: silence(&setup.catalog, &live),
        providers: setup.provider_concurrency().collect(),
        budgets: limited("key", keys).chain(limited("account", accounts)).chain(limited("team", teams)).collect(),
        price_ages: price_ages(setup),
    };
    let text = shared.process.metrics.render(&scraped, &others).map_err(|_| ApiError::internal())?;
    Ok(HttpResponse::Ok().insert_header((header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")).body(text))
}

/// Number of records: on disk with a durable ledger, else in memory. `None` if the ledger does not answer.
async fn ledger_records(worker: &Worker, question: CountRecords) -> Option<usize> {
    let recent = ask(&worker.shared.actors.control.ledger(), question).await.ok()?;
    match &worker.shared.records.ledger {
        Some(ledger) => ledger.entries().size().ok().and_then(|size| usize::try_from(size.entries).ok()),
        None => Some(recent),
    }
}

/// Labels of the endpoints of enabled providers, and whether each is silent now.
fn silence<'c>(catalog: &'c Catalog, live: &LiveView) -> Vec<([&'c str; 2], bool)> {
    let is_on = |endpoint: &Endpoint| catalog.provider_of(endpoint).is_some_and(Provider::is_on);
    let enabled = (0_u32..).zip(&catalog.endpoints).filter(|(_, endpoint)| is_on(endpoint));
    enabled.map(|(index, endpoint)| (labels(catalog, endpoint), live.endpoint(index).silent)).collect()
}

/// Kind, name, dollars left and limit of each holder of a limit on spending, of as many of each kind as have labels.
fn limited<'h>(
    kind: &'static str,
    holders: impl Iterator<Item = (&'h str, BudgetReading)>,
) -> impl Iterator<Item = LimitedHolder<'h>> {
    holders.take(MOST_KEYS).filter_map(move |(name, reading)| {
        let (limit, left) = reading.limit.zip(reading.available)?;
        Some(LimitedHolder { kind, name, left: left.to_f64(), limit: limit.amount.to_f64() })
    })
}

/// Slug of each enabled provider with dated prices, and the age of the oldest in seconds.
pub(crate) fn price_ages(setup: &Setup) -> Vec<(&str, f64)> {
    let today = clock::today();
    let providers = (0_u32..).zip(&setup.catalog.providers).filter(|(_, provider)| provider.is_on());
    let dated = providers.filter_map(|(index, provider)| {
        let date = setup.config.price_dates.get(&index)?;
        Some((provider.slug.as_str(), (today - *date).num_seconds().max(0) as f64))
    });
    dated.collect()
}
