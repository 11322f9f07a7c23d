//! Saved state of the failure model.

use std::time::Duration;

use pointsman_domain::Tick;
use serde::{Deserialize, Serialize};

use super::{Counts, FailureModel};
use crate::stats::model::saved::{ImplausibleValue, Restart, idle, trusted, weight};

/// Counts as of the last addition.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OutcomesState {
    failures: f64,
    successes: f64,
    /// Seconds since the last addition.
    idle_s: f64,
}

impl FailureModel {
    /// State for a later process; `None` without counts.
    pub(crate) fn export(&self, now: Tick, half_life: Duration) -> Option<OutcomesState> {
        // Counts survive; the odds of trouble do not.
        let FailureModel { recent: _, lasting: _, suspects: _, suspicion: _, believed: _, at } = *self;
        let (failures, successes) = self.counted(now, half_life);
        at.map(|_| OutcomesState { failures, successes, idle_s: 0.0 })
    }

    /// The counts, scaled down.
    pub(crate) fn restored(state: OutcomesState, restart: Restart) -> Result<FailureModel, ImplausibleValue> {
        let OutcomesState { failures, successes, idle_s } = state;
        let share = trusted(weight(failures)? + weight(successes)?);
        let at = Some(restart.time_of(idle(idle_s)?));
        let counts = Counts { failures: share * failures, successes: share * successes };
        Ok(FailureModel { recent: counts, lasting: counts, at, ..FailureModel::default() })
    }
}
