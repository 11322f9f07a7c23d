//! `GET /health/calibration`: accuracy of the predictions of the last hour.

use std::{sync::Arc, time::Duration};

use actix_web::HttpResponse;
use pointsman_actors::provider_health::ReadCalibrations;
use pointsman_base::clock;
use pointsman_routing::stats::Calibrations;

use super::calibration_view::CalibrationsBody;
use crate::{
    api::{answer::uncached, auth::Reader},
    base::error::ApiError,
    state::{ask::ask, gateway::GatewayView},
};

/// Shows the accuracy per enabled endpoint, per enabled provider, and overall.
///
/// # Errors
/// 403 without the scope `read`, 503 when the statistics actor does not answer in time.
pub(crate) async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    by.worker.shared.actors.event_batchers.flush();
    let calibrations = read(&by.worker, Duration::ZERO).await?;
    let body = CalibrationsBody::new(&by.worker.setup.catalog, &calibrations);
    Ok(uncached(&body))
}

/// Reads the calibrations; they may be up to `max_age` old.
///
/// # Errors
/// 503 when the statistics actor does not answer in time.
pub(crate) async fn read(worker: &GatewayView, max_age: Duration) -> Result<Arc<Calibrations>, ApiError> {
    let question = ReadCalibrations { now: clock::now(), patience: max_age };
    let calibrations = ask(&worker.shared.actors.control.health(), question).await?;
    // While a new configuration takes effect, the versions can differ. Positions are valid in one version only.
    let is_current = calibrations.catalog_version == worker.setup.version;
    Ok(if is_current { calibrations } else { Arc::default() })
}
