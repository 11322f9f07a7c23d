//! `GET /health/calibration`: how well predictions held over the last hour.

use std::{sync::Arc, time::Duration};

use actix_web::HttpResponse;
use pointsman_actors::{actors::provider_health::ReadCalibrations, stats::Calibrations};

use super::{answer::uncached, calibration_view::CalibrationsBody};
use crate::{
    api::auth::Authorized,
    base::{clock, error::ApiError},
    config::Scope,
    state::{ask::ask, gateway::Worker},
};

/// Shows every endpoint that can be called, every provider, and all together.
///
/// # Errors
/// 403 without the scope `read`, 503 when the owner of the statistics does not answer in time.
pub(crate) async fn show(Authorized(caller): Authorized, worker: Worker) -> Result<HttpResponse, ApiError> {
    caller.require(Scope::Read)?;
    worker.shared.event_batchers.flush();
    let calibrations = read(&worker, Duration::ZERO).await?;
    let body = CalibrationsBody::new(&worker.setup.catalog, &calibrations);
    Ok(uncached(&body))
}

/// How predictions held; what was summed up to `patience` ago will do.
///
/// # Errors
/// 503 when the owner of the statistics does not answer in time.
pub(crate) async fn read(worker: &Worker, patience: Duration) -> Result<Arc<Calibrations>, ApiError> {
    let question = ReadCalibrations { now: clock::now(), patience };
    let calibrations = ask(&worker.shared.control.health(), question).await?;
    // For the moment in which a new configuration is taken over: positions in it mean something else.
    let known = calibrations.catalog_version == worker.setup.version;
    Ok(if known { calibrations } else { Arc::default() })
}
