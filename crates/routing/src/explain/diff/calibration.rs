//! Measured against predicted, by endpoint: a model that errs alike on both sides of a comparison cancels, one that errs on one
//! side is corrected.

use std::collections::HashMap;

use pointsman_domain::{AttemptRecord, Candidate, EndpointId, Failure, FailureKind, Generation};

use super::units::{count, dollars_of, from_nano, nano, pico};
use crate::stats::FailureEffect;

/// Observations that the factor 1 counts for.
const PRIOR: f64 = 30.0;

/// What endpoints measured beside what was predicted of them. Sums of integers, so that no order of records changes a bit.
#[derive(Debug, Clone, Default)]
pub struct Calibration(HashMap<EndpointId, Sums>);

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Answers with a price: their number, picodollars measured and predicted.
    costs: (u64, i128, i128),
    /// Logarithms of measured by predicted seconds, in billionths: to the first token, and to the end.
    first_token: (u64, i128),
    total: (u64, i128),
    /// Attempts with an outcome, failures, and predicted failures in trillionths.
    failures: (u64, u64, i128),
}

/// What predictions for an endpoint are multiplied by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Factors {
    pub cost: f64,
    pub first_token: f64,
    pub total: f64,
    pub failure: f64,
}

impl Factors {
    const NONE: Factors = Factors { cost: 1.0, first_token: 1.0, total: 1.0, failure: 1.0 };
}

impl Calibration {
    /// Counts the attempts of a generation.
    pub fn add(&mut self, generation: &Generation) {
        let decision = &generation.decision;
        for attempt in &generation.attempts {
            let candidate = decision.plan().find(|candidate| candidate.index == attempt.endpoint);
            if let Some(candidate) = candidate {
                self.0.entry(candidate.endpoint).or_default().add(generation, attempt, candidate);
            }
        }
    }

    /// Adds what another part of the records gave.
    pub fn merge(&mut self, other: &Calibration) {
        for (endpoint, sums) in &other.0 {
            self.0.entry(*endpoint).or_default().merge(sums);
        }
    }

    pub(super) fn factors(&self, endpoint: EndpointId) -> Factors {
        self.0.get(&endpoint).map_or(Factors::NONE, Sums::factors)
    }
}

impl Sums {
    fn add(&mut self, generation: &Generation, attempt: &AttemptRecord, candidate: &Candidate) {
        let predicted = &candidate.predicted;
        let outcome = attempt.error_type.as_deref();
        if outcome.is_some_and(|outcome| !counts_as_failure(outcome)) {
            return;
        }
        let (attempts, failures, expected) = self.failures;
        self.failures =
            (attempts + 1, failures + u64::from(outcome.is_some()), expected + i128::from(pico(predicted.failure)));
        if outcome.is_some() || !attempt.served {
            return;
        }
        if let Some(cost) = attempt.cost.filter(|_| !attempt.estimated && predicted.cost > 0.0) {
            let (answers, measured, expected) = self.costs;
            let measured = measured + i128::from(pico(dollars_of(cost)));
            self.costs = (answers + 1, measured, expected + i128::from(pico(predicted.cost)));
        }
        let first_token = attempt.first_token_ms.filter(|_| generation.streamed);
        add_ratio(&mut self.first_token, first_token, predicted.first_token_p50);
        add_ratio(&mut self.total, Some(attempt.duration_ms), predicted.total_p50);
    }

    fn merge(&mut self, other: &Sums) {
        let (answers, measured, expected) = other.costs;
        self.costs = (self.costs.0 + answers, self.costs.1 + measured, self.costs.2 + expected);
        self.first_token = (self.first_token.0 + other.first_token.0, self.first_token.1 + other.first_token.1);
        self.total = (self.total.0 + other.total.0, self.total.1 + other.total.1);
        let (attempts, failures, expected) = other.failures;
        self.failures = (self.failures.0 + attempts, self.failures.1 + failures, self.failures.2 + expected);
    }

    fn factors(&self) -> Factors {
        let (answers, measured, expected) = self.costs;
        let (attempts, failures, expected_failures) = self.failures;
        let failures = i128::from(failures) * 1_000_000_000_000;
        Factors {
            cost: shrunk(answers, measured, expected),
            first_token: of_logarithms(self.first_token),
            total: of_logarithms(self.total),
            failure: shrunk(attempts, failures, expected_failures),
        }
    }
}

/// Whether the prediction is about such an outcome: not about faults of the request, limits, and attempts that were given up.
fn counts_as_failure(outcome: &str) -> bool {
    let kind = FailureKind::ALL.into_iter().find(|kind| kind.as_str() == outcome);
    kind.is_some_and(|kind| FailureEffect::of(&Failure::of(kind)).is_failure())
}

fn add_ratio((count, sum): &mut (u64, i128), measured_ms: Option<u64>, predicted: f64) {
    if let Some(measured) = measured_ms.filter(|ms| *ms > 0 && predicted > 0.0) {
        *count += 1;
        *sum += i128::from(nano(libm::log(measured as f64 / 1e3 / predicted)));
    }
}

/// Measured by predicted, drawn to 1.
fn shrunk(observations: u64, measured: i128, predicted: i128) -> f64 {
    if predicted <= 0 {
        return 1.0;
    }
    let observations = count(observations);
    (observations * (measured as f64 / predicted as f64) + PRIOR) / (observations + PRIOR)
}

/// The same of the mean of logarithms.
fn of_logarithms((observations, sum): (u64, i128)) -> f64 {
    libm::exp(from_nano(sum) / (count(observations) + PRIOR))
}
