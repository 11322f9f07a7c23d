//! What of failures and successes survives a restart.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Counts, FailureModel};
use crate::{
    domain::Tick,
    stats::model::saved::{ImplausibleValue, Restart, idle, trusted, weight},
};

/// Counts as they were when the last was added.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OutcomesState {
    failures: f64,
    successes: f64,
    /// Seconds since the last was added.
    idle_s: f64,
}

impl FailureModel {
    /// What a later process should know; nothing when nothing was counted.
    pub(crate) fn export(&self, now: Tick, half_life: Duration) -> Option<OutcomesState> {
        // What was believed survives, be it usual or recent; suspicion does not. It has faded up to now already.
        let FailureModel { recent: _, lasting: _, suspects: _, suspicion: _, believed: _, at } = *self;
        let (failures, successes) = self.counted(now, half_life);
        at.map(|_| OutcomesState { failures, successes, idle_s: 0.0 })
    }

    /// The counts in the same proportion, but fewer.
    pub(crate) fn restored(state: OutcomesState, restart: Restart) -> Result<FailureModel, ImplausibleValue> {
        let OutcomesState { failures, successes, idle_s } = state;
        let share = trusted(weight(failures)? + weight(successes)?);
        let at = Some(restart.moment(idle(idle_s)?));
        let counts = Counts { failures: share * failures, successes: share * successes };
        Ok(FailureModel { recent: counts, lasting: counts, at, ..FailureModel::default() })
    }
}
