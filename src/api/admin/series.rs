//! `GET /admin/series`: calls, cost, tokens and times to the first output of the last hour or day, in slots of time.

use std::{collections::BTreeMap, sync::Arc};

use actix_web::{HttpRequest, HttpResponse};
use pointsman_actors::ledger::{
    ReadSeries,
    series::{GroupBy, SeriesRange, Slot, Subject},
};
use pointsman_base::clock;
use pointsman_dialect::shown;
use pointsman_domain::{Invalid, InvalidReason};

use super::series_view::{SeriesBody, Totals};
use crate::{
    api::{answer::uncached, auth::Administrator, generations::generation_list::key_name, query_parameters},
    base::error::ApiError,
    state::{
        ask::ask,
        gateway::{GatewayView, Worker},
    },
};

/// Values of `span`, in milliseconds.
const SPANS: [(&str, i64); 2] = [("1h", HOUR_MS), ("24h", 24 * HOUR_MS)];
/// Milliseconds of an hour.
pub(crate) const HOUR_MS: i64 = 3_600_000;

/// Values of `by`.
const GROUPS: [(&str, GroupBy); 4] =
    [("all", GroupBy::All), ("endpoint", GroupBy::Endpoint), ("provider", GroupBy::Provider), ("key", GroupBy::Key)];

/// Shows the series of `by` (default `all`) over `span` (default `1h`).
///
/// # Errors
/// 400 for another value, and for a day of endpoints, of which only one hour is kept; 503 when the ledger does not answer.
pub(crate) async fn show(_: Administrator, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (mut span_ms, mut by) = (HOUR_MS, GroupBy::All);
    for (name, value) in query_parameters::pairs(request.query_string(), &["span", "by"])? {
        match name.as_str() {
            "span" => span_ms = one_of("span", &value, SPANS)?,
            _ => by = one_of("by", &value, GROUPS)?,
        }
    }
    let range = read(&worker, by, span_ms).await?.ok_or_else(|| {
        let message = "Of endpoints, one hour is kept: 'span' must be 1h with by=endpoint.";
        ApiError::invalid(Invalid::field(InvalidReason::InvalidValue, "span", message).allowing(["1h"]))
    })?;
    Ok(uncached(&SeriesBody::new(&range, |owner, key| key_name(&worker, owner, key))))
}

/// The sums of all calls in the last minute that is complete, and in the last hour.
///
/// # Errors
/// 503 when the ledger does not answer in time.
pub(crate) async fn totals(worker: &GatewayView) -> Result<(Totals, Totals), ApiError> {
    let (_, slots) = minutes(worker, HOUR_MS).await?;
    let minute = slots.iter().rev().skip(1).take(1);
    Ok((Totals::sum(minute), Totals::sum(&slots)))
}

/// When the slots of all calls within `span_ms` begin, in Unix milliseconds, and the slots: one per minute, oldest first,
/// the last one unfinished.
///
/// # Errors
/// 503 when the ledger does not answer in time.
pub(crate) async fn minutes(worker: &GatewayView, span_ms: i64) -> Result<(i64, Vec<Slot>), ApiError> {
    let range = read(worker, GroupBy::All, span_ms).await?;
    Ok(range.map_or_else(Default::default, |range| {
        (range.start_ms, range.series.into_iter().next().map(|(_, slots)| slots).unwrap_or_default())
    }))
}

/// What each endpoint did within the last hour: the sums by model and slug of the provider.
///
/// # Errors
/// 503 when the ledger does not answer in time.
pub(crate) async fn endpoint_totals(worker: &GatewayView) -> Result<EndpointTotals, ApiError> {
    let range = read(worker, GroupBy::Endpoint, HOUR_MS).await?;
    let sums = range.into_iter().flat_map(|range| range.series).filter_map(|(subject, slots)| match subject {
        Subject::Endpoint { model, provider } => Some(((model, provider), Totals::sum(&slots))),
        _ => None,
    });
    Ok(sums.collect())
}

/// Sums by model and slug of the provider.
pub(crate) type EndpointTotals = BTreeMap<(Arc<str>, Arc<str>), Totals>;

/// The series now, calls included that have just ended.
async fn read(worker: &GatewayView, by: GroupBy, span_ms: i64) -> Result<Option<SeriesRange>, ApiError> {
    worker.shared.actors.event_batchers.flush();
    ask(&worker.shared.actors.control.ledger(), ReadSeries { by, span_ms, now_ms: clock::unix_millis() }).await
}

fn one_of<T: Copy, const N: usize>(param: &str, value: &str, known: [(&'static str, T); N]) -> Result<T, ApiError> {
    let found = known.iter().find(|(name, _)| *name == value);
    found
        .map(|(_, meant)| *meant)
        .ok_or_else(|| ApiError::invalid(Invalid::none_of(param, &shown(value), &known.map(|(name, _)| name))))
}
