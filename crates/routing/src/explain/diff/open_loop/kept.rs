//! Recorded figures of the endpoints of which too little has happened again so far.
//!
//! At the beginning of the records the statistics know nothing, while those that decided knew what had happened before. An
//! endpoint keeps its recorded figures until what has happened again weighs nearly as much as what was known.

use std::collections::HashMap;

use pointsman_domain::{Candidate, Decision, EndpointId, ScoreInputs};

use super::super::pool::with_recorded_times;
use crate::stats::{Curve, EndpointStats};

/// Share of the recorded weight from which on an estimate of its own replaces the recorded one.
const ENOUGH: f64 = 0.8;
/// Difference of ln seconds up to which the times of an endpoint that was never measured count as the same.
const SAME_PRIOR: f64 = 0.05;

/// Recorded figures by endpoint.
#[derive(Default)]
pub(super) struct KeptFigures(HashMap<EndpointId, Kept>);

struct Kept {
    inputs: ScoreInputs,
    /// Ratios of the 95th percentile to the median: of the first token, and of the total time.
    tails: [f64; 2],
    /// Whether times, and failures, are estimated again.
    has_times: bool,
    has_failures: bool,
}

impl Kept {
    fn new(candidate: &Candidate) -> Kept {
        Kept { inputs: candidate.inputs, tails: tails(candidate), has_times: false, has_failures: false }
    }
}

fn tails(candidate: &Candidate) -> [f64; 2] {
    let predicted = &candidate.predicted;
    let ratio = |p95: f64, p50: f64| if p50 > 0.0 { p95 / p50 } else { 1.0 };
    [ratio(predicted.first_token_p95, predicted.first_token_p50), ratio(predicted.total_p95, predicted.total_p50)]
}

impl KeptFigures {
    /// Takes the figures of a decision.
    pub(super) fn learn(&mut self, decision: &Decision) {
        for candidate in decision.plan().chain(&decision.rivals) {
            let kept = self.0.entry(candidate.endpoint).or_insert_with(|| Kept::new(candidate));
            (kept.inputs, kept.tails) = (candidate.inputs, tails(candidate));
        }
    }

    /// Compares what is known again of an endpoint with what was known of it.
    pub(super) fn judge(&mut self, stats: &EndpointStats) {
        let Some(kept) = self.0.get_mut(&stats.facts.id) else { return };
        let (own, inputs) = (&stats.estimates, &kept.inputs);
        kept.has_times |= match inputs.weight > 0.0 {
            true => own.weight >= ENOUGH * inputs.weight,
            false => (own.fit.intercept - inputs.intercept).abs() <= SAME_PRIOR,
        };
        kept.has_failures |= own.failures + own.successes >= ENOUGH * (inputs.failures + inputs.successes);
    }

    /// Whether times and failures of an endpoint are estimated again.
    pub(super) fn is_estimated(&self, endpoint: EndpointId) -> bool {
        self.0.get(&endpoint).is_some_and(|kept| kept.has_times && kept.has_failures)
    }

    /// Puts the recorded figures in the place of those that are not estimated again yet.
    pub(super) fn put_into(&self, stats: &mut EndpointStats) {
        let Some(kept) = self.0.get(&stats.facts.id) else { return };
        let inputs = &kept.inputs;
        if !kept.has_failures {
            let estimates = &mut stats.estimates;
            (estimates.failures, estimates.successes) = (inputs.failures, inputs.successes);
            estimates.usual_failure = inputs.usual_failure;
        }
        if !kept.has_times {
            stats.estimates = with_recorded_times(&stats.estimates, inputs, false);
            stats.curve = Curve::new(inputs.intercept, inputs.variance, inputs.per_token, inputs.prompt_slope);
            [stats.first_token_p95, stats.total_p95] = kept.tails;
        }
    }
}
