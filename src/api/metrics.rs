//! `GET /metrics`: Prometheus text format 0.0.4.

use actix_web::{HttpRequest, HttpResponse, http::header};
use actix_web_lab::extract::LocalData;
use pointsman_actors::ledger::CountRecords;

use crate::{ask::ask, config::Scope, error::ApiError, gateway::Worker};

/// Shows all counters. Open to anybody while the gateway listens on loopback only; else for keys with the scope `read`.
///
/// # Errors
/// 404 where metrics are switched off, 401 and 403 for a reader without the right, 500 when the encoder fails.
pub async fn show(worker: LocalData<Worker>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let shared = &worker.shared;
    if !shared.config.metrics.enabled {
        return Err(ApiError::unknown_path());
    }
    if !shared.config.server.is_loopback() {
        shared.keys.caller(&request)?.require(Scope::Read)?;
    }
    let records = ask(&shared.control.ledger, CountRecords).await.unwrap_or_default();
    shared.metrics.ledger_records.set(i64::try_from(records).unwrap_or(i64::MAX));
    shared.metrics.in_flight.set(i64::from(shared.admission.in_flight()));
    shared.metrics.dropped_events.set(i64::try_from(shared.news_room.dropped()).unwrap_or(i64::MAX));
    let depths = &shared.news_room.depths;
    for (actor, depth) in [("health", &depths.health), ("ledger", &depths.ledger)] {
        let waiting = i64::try_from(depth.get()).unwrap_or(i64::MAX);
        shared.metrics.mailbox_depth.with_label_values(&[actor]).set(waiting);
    }
    let text = shared.metrics.render().map_err(|_| ApiError::internal())?;
    Ok(HttpResponse::Ok().insert_header((header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")).body(text))
}
