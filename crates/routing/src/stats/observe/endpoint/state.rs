//! Saved state of an endpoint's statistics.
//!
//! Breakers, runs of failures and windows of figures are not saved: a new process has not observed those minutes.

use std::time::Duration;

use pointsman_domain::Tick;
use serde::{Deserialize, Serialize};

use super::EndpointStatistics;
use crate::stats::model::{
    failures::{FailureModel, state::OutcomesState},
    latency::{LatencyModel, state::FirstTokenState},
    pace::{PaceModel, state::ThroughputState},
    saved::{ImplausibleValue, Restart},
    tail::TailTracker,
};

/// Learned models. Absent ones have no observations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedEndpoint {
    #[serde(skip_serializing_if = "Option::is_none")]
    first_token: Option<FirstTokenState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput: Option<ThroughputState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcomes: Option<OutcomesState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tail: Option<TailTracker>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_tail: Option<TailTracker>,
}

impl EndpointStatistics {
    /// State for a later process; `None` for an unused endpoint.
    pub(crate) fn export(&self, now: Tick, half_life: Duration) -> Option<SavedEndpoint> {
        let EndpointStatistics {
            is_observed: _,
            first_token,
            throughput,
            outcomes,
            tail,
            first_tail,
            heard: _,
            consecutive: _,
            windows: _,
            averages: _,
            last_error: _,
        } = self;
        let state = SavedEndpoint {
            first_token: first_token.export(now),
            throughput: throughput.export(now),
            outcomes: outcomes.export(now, half_life),
            tail: tail.export(),
            first_tail: first_tail.export(),
        };
        (state != SavedEndpoint::default()).then_some(state)
    }

    /// The statistics with lower weights.
    pub(crate) fn restored(state: &SavedEndpoint, restart: Restart) -> Result<EndpointStatistics, ImplausibleValue> {
        let SavedEndpoint { first_token, throughput, outcomes, tail, first_tail } = state;
        let first = |state: &FirstTokenState| LatencyModel::restored(state, restart);
        Ok(EndpointStatistics {
            is_observed: true,
            first_token: first_token.as_ref().map(first).transpose()?.unwrap_or_default(),
            throughput: throughput.map(|state| PaceModel::restored(state, restart)).transpose()?.unwrap_or_default(),
            outcomes: outcomes.map(|state| FailureModel::restored(state, restart)).transpose()?.unwrap_or_default(),
            tail: tail.map(TailTracker::restored).transpose()?.unwrap_or_default(),
            first_tail: first_tail.map(TailTracker::restored).transpose()?.unwrap_or_default(),
            ..EndpointStatistics::default()
        })
    }
}
