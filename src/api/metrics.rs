//! `GET /metrics`: Prometheus text format 0.0.4.

use actix_web::{HttpRequest, HttpResponse, http::header};
use pointsman_actors::{actors::ledger::CountRecords, domain::Catalog, stats::LiveView};

use super::{calibration_metrics, ledger_health, memory, slo_metrics};
use crate::{
    base::{
        clock,
        error::ApiError,
        events::{GaugeReadings, labels},
    },
    config::Scope,
    state::{ask::ask, gateway::Worker},
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
        return Err(ApiError::unknown_path());
    }
    if !request.app_data::<Exposure>().is_some_and(|exposure| exposure.loopback) {
        setup.keys.caller(request.headers())?.require(Scope::Read)?;
    }
    let depths = &shared.event_batchers.depths;
    let question = CountRecords { now_ms: clock::unix_millis() };
    shared.metrics.observe(&GaugeReadings {
        in_flight: setup.admission.in_flight(),
        // Read before the ledger is asked, because the ledger answers only after it has handled these batches.
        health_depth: depths.health.get(),
        ledger_depth: depths.ledger.get(),
        ledger_records: ledger_records(&worker, question).await,
        dropped_events: shared.event_batchers.dropped(),
        dropped_records: shared.event_batchers.dropped_records(),
        load: setup.admission.load().read(),
    });
    shared.metrics.observe_concurrency(setup.provider_concurrency());
    let live = setup.published.live.view(clock::now());
    shared.metrics.observe_silence(silence_of_used(&setup.catalog, &live));
    let mut others = calibration_metrics::read(&worker).await;
    others.extend(slo_metrics::read(&worker));
    others.extend(memory::families(&worker));
    others.extend(ledger_health::families(&worker));
    let text = shared.metrics.render(&others).map_err(|_| ApiError::internal())?;
    Ok(HttpResponse::Ok().insert_header((header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")).body(text))
}

/// Number of records: on disk with a durable ledger, else in memory. `None` if the ledger does not answer.
async fn ledger_records(worker: &Worker, question: CountRecords) -> Option<usize> {
    let recent = ask(&worker.shared.control.ledger(), question).await.ok()?;
    match &worker.shared.ledger {
        Some(ledger) => ledger.size().ok().and_then(|size| usize::try_from(size.entries).ok()),
        None => Some(recent),
    }
}

/// Labels of the endpoints that were called since the start, and whether each is silent now.
fn silence_of_used<'c>(catalog: &'c Catalog, live: &'c LiveView) -> impl Iterator<Item = ([&'c str; 2], bool)> {
    let cells = (0_u32..).zip(&catalog.endpoints).map(|(index, endpoint)| (endpoint, live.endpoint(index)));
    cells.filter(|(_, cell)| cell.used).map(|(endpoint, cell)| (labels(catalog, endpoint), cell.silent))
}
