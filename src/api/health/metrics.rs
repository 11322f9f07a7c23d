//! `GET /metrics`: Prometheus text format 0.0.4.

use std::{collections::BTreeMap, sync::Arc};

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
    access::{budget::BudgetReading, keys::Caller},
    api::admin::accounts,
    base::{
        error::ApiError,
        events::{Families, MOST_KEYS, labels},
        log_output,
    },
    state::{
        ask::ask,
        gateway::{Shared, Worker},
        setup::Setup,
    },
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
    let callers = setup.keys.callers();
    shared.process.metrics.name_keys(callers.iter().map(|caller| (caller.id, Arc::clone(&caller.key.name))));
    let own = Families::of(|families| {
        add_load(families, &worker);
        add_depths(families, [("health", health_depth), ("ledger", ledger_depth)]);
        add_providers(families, setup);
        add_budgets(families, &worker, &callers);
    });
    let text = shared.process.metrics.render(&[own, others].concat()).map_err(|_| ApiError::internal())?;
    Ok(HttpResponse::Ok().insert_header((header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")).body(text))
}

fn add_load(families: &mut Families, worker: &Worker) {
    let (Shared { actors, access, records, .. }, Setup { config, admission, .. }) = (&*worker.shared, &*worker.setup);
    let (load, events) = (admission.load().read(), &actors.event_batchers);
    families.gauge("in_flight_requests", "Inference calls in progress", admission.in_flight().into());
    let most = config.limits.concurrency.unwrap_or(0);
    families.gauge("concurrency_limit", "Most inference calls in progress; 0: no limit", most.into());
    let waiting = "Calls that wait for an endpoint to take requests again";
    families.gauge("waiting_calls", waiting, access.waiting.count() as f64);
    let bytes = "Buffered bytes of answers and of request bodies, counted three times each";
    families.gauge("buffered_body_bytes", bytes, load.buffered_bytes as f64);
    families.gauge("buffered_body_limit_bytes", "Most of these bytes", config.limits.buffered_bytes as f64);
    families.gauge("client_connections", "Client connections", load.connections as f64);
    let dropped = "Statistics events dropped because an event buffer was full";
    families.counter("dropped_events_total", dropped, events.dropped() as f64);
    let renderings = "Renderings of the live feed, each for all its subscribers";
    families.counter("live_renderings_total", renderings, records.live.renderings() as f64);
    let lines = "Log lines dropped because their writer was behind";
    families.counter("log_lines_dropped_total", lines, log_output::dropped() as f64);
    let dropped = "Records of generations dropped because an event buffer was full";
    families.counter("dropped_records_total", dropped, events.dropped_records() as f64);
    let shed = load.shed.map(|(reason, count)| ([reason.as_str()], count as f64));
    let help = "Calls refused because a limit of the gateway was reached";
    families.counters("shed_requests_total", help, ["reason"], shed);
}

fn add_depths(families: &mut Families, depths: [(&str, usize); 2]) {
    let help = "Batches waiting in the mailbox of a control actor";
    families.gauges("mailbox_depth", help, ["actor"], depths.map(|(actor, depth)| ([actor], depth as f64)));
}

fn add_providers(families: &mut Families, setup: &Setup) {
    let silence = silence(&setup.catalog, &setup.published.live.view(clock::now()));
    let help = "1 while an endpoint counts as silent because of its unanswered requests";
    let silence = silence.into_iter().map(|(labels, is_silent)| (labels, f64::from(u8::from(is_silent))));
    families.gauges("endpoint_silent", help, ["provider", "model"], silence);
    let places = || setup.provider_concurrency();
    let most = places().map(|(provider, _, most)| ([provider], most as f64));
    families.gauges("provider_places", "Concurrency limit of a provider", ["provider"], most);
    let taken = places().map(|(provider, taken, _)| ([provider], taken as f64));
    families.gauges("provider_places_taken", "Calls in progress at a provider", ["provider"], taken);
    let ages = price_ages(setup).into_iter().map(|(provider, age)| ([provider], age));
    families.gauges("price_age_seconds", "Age of the oldest dated price of a provider", ["provider"], ages);
}

fn add_budgets(families: &mut Families, worker: &Worker, callers: &[Arc<Caller>]) {
    let registry = &worker.shared.access.registry;
    let (holders, now_ms) = (&registry.holders, clock::unix_millis());
    let keys = callers.iter().map(|caller| (caller.key.name.to_string(), caller.state.budget.read(now_ms)));
    add_budgets_of(families, ("key", "a"), keys);
    let accounts = registry.account_names().into_iter();
    let accounts = accounts.map(|(number, name)| (name, holders.account(number).budget.read(now_ms)));
    add_budgets_of(families, ("account", "an"), accounts);
    let teams = accounts::team_names(worker).into_iter();
    add_budgets_of(
        families,
        ("team", "a"),
        teams.map(|name| (name.to_string(), holders.team(&name).budget.read(now_ms))),
    );
}

/// Limit and rest of each holder of a limit on spending, of as many as have labels.
fn add_budgets_of(
    families: &mut Families,
    (kind, article): (&str, &str),
    holders: impl Iterator<Item = (String, BudgetReading)>,
) {
    let limited = holders.take(MOST_KEYS).filter_map(|(name, reading)| {
        let (limit, left) = reading.limit.zip(reading.available)?;
        Some((([name.clone()], limit.amount.to_f64()), ([name], left.to_f64())))
    });
    let (limits, left): (Vec<_>, Vec<_>) = limited.unzip();
    let help = format!("Limit on the spending of {article} {kind} in its period");
    families.gauges(&format!("{kind}_budget_usd"), &help, [kind], limits);
    let help = "What is left of it; reserved amounts are not";
    families.gauges(&format!("{kind}_budget_left_usd"), help, [kind], left);
}

/// Number of records: on disk with a durable ledger, else in memory. `None` if the ledger does not answer.
async fn ledger_records(worker: &Worker, question: CountRecords) -> Option<usize> {
    let recent = ask(&worker.shared.actors.control.ledger(), question).await.ok()?;
    match &worker.shared.records.ledger {
        Some(ledger) => ledger.entries().size().ok().and_then(|size| usize::try_from(size.entries).ok()),
        None => Some(recent),
    }
}

/// Labels of the endpoints of enabled providers, and whether each is silent now. Variants share labels: silent if one of
/// them is.
fn silence<'c>(catalog: &'c Catalog, live: &LiveView) -> BTreeMap<[&'c str; 2], bool> {
    let is_on = |endpoint: &Endpoint| catalog.provider_of(endpoint).is_some_and(Provider::is_on);
    let mut silence = BTreeMap::new();
    for (index, endpoint) in (0_u32..).zip(&catalog.endpoints).filter(|(_, endpoint)| is_on(endpoint)) {
        *silence.entry(labels(catalog, endpoint)).or_default() |= live.endpoint(index).silent;
    }
    silence
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
