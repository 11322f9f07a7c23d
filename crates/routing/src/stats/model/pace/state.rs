//! Saved state of the pace model.

use pointsman_domain::Tick;
use serde::{Deserialize, Serialize};

use super::PaceModel;
use crate::stats::model::saved::{ImplausibleValue, Restart, idle, ln_mean, trusted, weight, within};

/// Highest plausible squared deviation per observation.
const LARGEST: f64 = 1e3;

/// Mean, weights and squared deviations.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ThroughputState {
    mean: f64,
    weight: f64,
    #[serde(rename = "standing")]
    undecayed_weight: f64,
    deviation: f64,
    hidden: f64,
    /// Seconds since the last observation.
    idle_s: f64,
}

impl PaceModel {
    /// State for a later process; `None` without observations.
    pub(crate) fn export(&self, now: Tick) -> Option<ThroughputState> {
        let PaceModel { mean, weight, undecayed_weight, deviation, hidden, surprise: _, at } = *self;
        Some(ThroughputState { mean, weight, undecayed_weight, deviation, hidden, idle_s: now.seconds_since(at?) })
    }

    /// The model with a lower weight.
    pub(crate) fn restored(state: ThroughputState, restart: Restart) -> Result<PaceModel, ImplausibleValue> {
        let ThroughputState { mean, weight: w, undecayed_weight, deviation, hidden, idle_s } = state;
        let share = trusted(weight(w)?);
        let deviation = share * within(deviation, LARGEST * w.max(1.0))?;
        let at = Some(restart.time_of(idle(idle_s)?));
        let undecayed_weight = weight(undecayed_weight)?.max(w);
        let hidden = within(hidden, 1.0)?;
        Ok(PaceModel {
            mean: ln_mean(mean)?,
            weight: share * w,
            undecayed_weight,
            deviation,
            hidden,
            surprise: 0.0,
            at,
        })
    }
}
