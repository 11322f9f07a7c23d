//! What of the decode model survives a restart.

use serde::{Deserialize, Serialize};

use super::Throughput;
use crate::stats::state::{Absurd, ln_mean, trusted, weight, within};

/// No squared deviation per observation is larger.
const LARGEST: f64 = 1e3;

/// Mean, weight and squared deviations as they were.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::stats) struct ThroughputState {
    mean: f64,
    weight: f64,
    deviation: f64,
}

impl Throughput {
    /// What a later process should know; nothing when nothing was observed.
    pub(in crate::stats) fn export(&self) -> Option<ThroughputState> {
        let Throughput { mean, weight, deviation } = *self;
        (weight > 0.0).then_some(ThroughputState { mean, weight, deviation })
    }

    /// The model as it was, resting on fewer observations.
    pub(in crate::stats) fn restored(state: ThroughputState) -> Result<Throughput, Absurd> {
        let ThroughputState { mean, weight: w, deviation } = state;
        let share = trusted(weight(w)?);
        let deviation = share * within(deviation, LARGEST * w.max(1.0))?;
        Ok(Throughput { mean: ln_mean(mean)?, weight: share * w, deviation })
    }
}
