//! Decisions: their duration and the endpoints that they left out.

use std::time::Duration;

use pointsman_domain::{ExcludedEndpoint, ExclusionReason};
use prometheus::{Histogram, IntCounter};

use super::{Metrics, instruments::Instruments};

/// Buckets of the histogram for the duration of decisions, in seconds.
const DECISION: [f64; 8] = [0.000_001, 0.000_002, 0.000_005, 0.000_01, 0.000_02, 0.000_05, 0.000_2, 0.001];

/// Series of decisions.
pub(super) struct DecisionMetrics {
    duration: Histogram,
    /// One counter per reason, in the order of their declaration: a decision may exclude hundreds of endpoints.
    excluded: Vec<IntCounter>,
}

impl DecisionMetrics {
    pub(super) fn new(make: &Instruments<'_>) -> Result<DecisionMetrics, prometheus::Error> {
        let excluded = make.counters(
            "excluded_total",
            "Endpoints that decisions left out, by reason; one decision may leave out many",
            &["reason"],
        )?;
        Ok(DecisionMetrics {
            duration: make.times(
                "decision_seconds",
                "Time that a decision took, without the wait for it",
                &DECISION,
            )?,
            excluded: ExclusionReason::ALL.map(|reason| excluded.with_label_values(&[reason.as_str()])).into(),
        })
    }
}

impl Metrics {
    /// A decision was made, or refused because every endpoint was left out: counts it. It took this time, which a refused one
    /// has not, and left out these endpoints.
    pub fn decided(&self, took: Option<Duration>, excluded: &[ExcludedEndpoint]) {
        if let Some(took) = took {
            self.decisions.duration.observe(took.as_secs_f64());
        }
        for excluded in excluded {
            if let Some(counter) = self.decisions.excluded.get(excluded.reason as usize) {
                counter.inc();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_the_counter_at_its_own_position() {
        for (position, reason) in ExclusionReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, position, "{}", reason.as_str());
        }
    }
}
