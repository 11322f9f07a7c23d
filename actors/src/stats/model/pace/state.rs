//! What of the decode model survives a restart.

use serde::{Deserialize, Serialize};

use super::PaceModel;
use crate::{
    domain::Tick,
    stats::model::saved::{ImplausibleValue, Restart, idle, ln_mean, trusted, weight, within},
};

/// No squared deviation per observation is larger.
const LARGEST: f64 = 1e3;

/// Mean, weights and squared deviations as they were.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ThroughputState {
    mean: f64,
    weight: f64,
    standing: f64,
    deviation: f64,
    hidden: f64,
    /// Seconds since the last observation.
    idle_s: f64,
}

impl PaceModel {
    /// What a later process should know; nothing when nothing was observed.
    pub(crate) fn export(&self, now: Tick) -> Option<ThroughputState> {
        let PaceModel { mean, weight, standing, deviation, hidden, surprise: _, at } = *self;
        Some(ThroughputState { mean, weight, standing, deviation, hidden, idle_s: now.seconds_since(at?) })
    }

    /// The model as it was, resting on fewer observations.
    pub(crate) fn restored(state: ThroughputState, restart: Restart) -> Result<PaceModel, ImplausibleValue> {
        let ThroughputState { mean, weight: w, standing, deviation, hidden, idle_s } = state;
        let share = trusted(weight(w)?);
        let deviation = share * within(deviation, LARGEST * w.max(1.0))?;
        let at = Some(restart.moment(idle(idle_s)?));
        // A release that did not keep it apart wrote none.
        let standing = weight(standing)?.max(w);
        let hidden = within(hidden, 1.0)?;
        Ok(PaceModel { mean: ln_mean(mean)?, weight: share * w, standing, deviation, hidden, surprise: 0.0, at })
    }
}
