//! Calibration of predictions: predicted against actual values.
//!
//! The events of an attempt carry its [`Prediction`]. Calibration changes no prediction and no choice; it is
//! reported at `/health/calibration` and in metrics. Predictions without any measurement are only counted.
//!
//! Errors are logarithms of actual over predicted: 0.1 is about ten percent slower than predicted, -0.1 ten percent
//! faster; twice as slow weighs as much as twice as fast.

use std::time::Duration;

use pointsman_domain::{EndpointEvent, EndpointId, EventKind, Prediction, Tick};

use super::{
    histogram::Histogram,
    ring::{Merge, Ring},
};

use crate::stats::model::failure_effect::FailureEffect;

/// Number and duration of the time slots: together an hour.
const SPANS: usize = 6;
const SPAN: Duration = Duration::from_secs(600);

/// Calibration of every endpoint and provider, by position in the catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibrations {
    /// Version of that catalog.
    pub catalog_version: u64,
    /// All endpoints together.
    pub overall: Calibration,
    /// By endpoint.
    pub endpoints: Vec<EndpointCalibration>,
    /// By provider, over all of its endpoints.
    pub providers: Vec<Calibration>,
}

/// Calibration of one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointCalibration {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Its calibration.
    pub calibration: Calibration,
}

/// Calibration over the last hour.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Calibration {
    /// Seconds to the first token of streams.
    pub first_token: Accuracy,
    /// Seconds to the last byte, predicted for the actual number of output tokens. [`Calibration::output_tokens`]
    /// covers their number.
    pub total: Accuracy,
    /// Output tokens, without a percentile.
    pub output_tokens: Accuracy,
    /// Dollars of complete answers.
    pub cost: CostAccuracy,
    /// Failures of the endpoint, of attempts that ended with such a failure or a complete answer. 429s, mistakes of
    /// clients and account faults are not predicted and not counted.
    pub failures: FailureAccuracy,
    /// Completed attempts that were predicted from priors alone. They count nowhere else.
    pub unmeasured: u64,
}

impl Calibration {
    /// Window of the calibration.
    pub const WINDOW: Duration = Duration::from_secs(SPAN.as_secs() * SPANS as u64);
}

/// Accuracy of one kind of prediction. Errors are ln(actual ÷ predicted median); `None` without samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Accuracy {
    /// Predictions with an actual value.
    pub samples: u64,
    /// Median absolute error.
    pub median_error: Option<f64>,
    /// Median error: above 0 if actual values exceed predictions.
    pub bias: Option<f64>,
    /// Share within the predicted 95th percentile; `None` if none is predicted.
    pub within_p95: Option<f64>,
}

/// Accuracy of predicted cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CostAccuracy {
    /// Answers with a cost.
    pub error: Accuracy,
    /// Sum of predicted dollars.
    pub predicted: f64,
    /// Sum of actual dollars.
    pub actual: f64,
}

/// Accuracy of predicted failure probabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FailureAccuracy {
    /// Attempts with a success or a counted failure.
    pub attempts: u64,
    /// Expected failures: the sum of the predicted probabilities.
    pub expected: f64,
    /// Actual failures.
    pub seen: u64,
    /// Brier score: the mean of (probability − outcome)². 0 is perfect, 0.25 is a constant probability of one half.
    /// `None` without attempts.
    pub brier: Option<f64>,
}

/// Calibration counts of one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Calibrator(Ring<CalibrationCounts, SPANS>);

impl Default for Calibrator {
    fn default() -> Calibrator {
        Calibrator(Ring::new(SPAN))
    }
}

impl Calibrator {
    /// Compares the prediction with the event.
    pub(crate) fn judge(&mut self, event: &EndpointEvent) {
        let ends = match event.kind {
            EventKind::FirstToken { .. } => false,
            EventKind::Completed { .. } => true,
            EventKind::Failed { failure, .. } if FailureEffect::of(&failure).is_failure() => true,
            EventKind::Dispatched | EventKind::Failed { .. } | EventKind::Cancelled { .. } => return,
        };
        let predicted = event.predicted;
        if predicted == Prediction::NONE {
            return;
        }
        let Some(counts) = self.0.slot(event.at) else { return };
        if !predicted.measured {
            counts.unmeasured += u64::from(ends);
            return;
        }
        match event.kind {
            EventKind::FirstToken { .. } => counts.first_token(event),
            EventKind::Completed { total, completion_tokens, hidden_tokens, cost, .. } => {
                // Predicted rates refer to shown tokens.
                let shown = f64::from(completion_tokens.saturating_sub(hidden_tokens));
                counts.answered(&predicted, total.as_secs_f64(), shown, cost);
                counts.ended(predicted.failure, 0.0);
            }
            _ => counts.ended(predicted.failure, 1.0),
        }
    }

    /// Sum over the hour before `now`.
    pub(crate) fn sum(&self, now: Tick) -> CalibrationCounts {
        self.0.sum(now)
    }
}

/// Counts of one time slot.
#[derive(Debug, Clone, Default)]
pub(crate) struct CalibrationCounts {
    first_token: Ratios,
    total: Ratios,
    output_tokens: Ratios,
    cost: Ratios,
    predicted_cost: f64,
    actual_cost: f64,
    attempts: u64,
    expected_failures: f64,
    failures: u64,
    squares: f64,
    unmeasured: u64,
}

impl CalibrationCounts {
    fn first_token(&mut self, event: &EndpointEvent) {
        let seconds = event.at.seconds_since(event.dispatched);
        let Prediction { first_token_p50, first_token_p95, .. } = event.predicted;
        self.first_token.record(seconds / first_token_p50);
        self.first_token.bound(seconds <= first_token_p95);
    }

    fn answered(&mut self, predicted: &Prediction, seconds: f64, tokens: f64, cost: Option<f64>) {
        let median = predicted.first_token_p50 + tokens / predicted.tokens_per_second.max(1e-9);
        let margin = predicted.total_p95 / predicted.total_p50;
        self.total.record(seconds / median);
        self.total.bound(seconds <= median * margin);
        let expected = (predicted.total_p50 - predicted.first_token_p50) * predicted.tokens_per_second;
        // An image or an empty answer has no output tokens.
        if tokens > 0.0 {
            self.output_tokens.record(tokens / expected);
        }
        let Some(cost) = cost else { return };
        if cost > 0.0 {
            self.cost.record(cost / predicted.cost);
        }
        self.predicted_cost += predicted.cost;
        self.actual_cost += cost;
    }

    fn ended(&mut self, probability: f64, outcome: f64) {
        self.attempts += 1;
        self.expected_failures += probability;
        self.failures += u64::from(outcome > 0.5);
        self.squares += (probability - outcome) * (probability - outcome);
    }

    pub(crate) fn summary(&self) -> Calibration {
        Calibration {
            first_token: self.first_token.summary(),
            total: self.total.summary(),
            output_tokens: self.output_tokens.summary(),
            cost: CostAccuracy { error: self.cost.summary(), predicted: self.predicted_cost, actual: self.actual_cost },
            failures: FailureAccuracy {
                attempts: self.attempts,
                expected: self.expected_failures,
                seen: self.failures,
                brier: (self.attempts > 0).then(|| self.squares / self.attempts as f64),
            },
            unmeasured: self.unmeasured,
        }
    }
}

impl Merge for CalibrationCounts {
    fn merge(&mut self, other: &CalibrationCounts) {
        self.first_token.merge(&other.first_token);
        self.total.merge(&other.total);
        self.output_tokens.merge(&other.output_tokens);
        self.cost.merge(&other.cost);
        self.predicted_cost += other.predicted_cost;
        self.actual_cost += other.actual_cost;
        self.attempts += other.attempts;
        self.expected_failures += other.expected_failures;
        self.failures += other.failures;
        self.squares += other.squares;
        self.unmeasured += other.unmeasured;
    }
}

/// Ratios of actual to predicted values.
#[derive(Debug, Clone, Default)]
struct Ratios {
    ratios: Histogram,
    /// Each ratio or its inverse, whichever is above 1.
    distances: Histogram,
    within_p95: u64,
    bounded: u64,
}

impl Ratios {
    fn record(&mut self, ratio: f64) {
        if ratio.is_finite() && ratio > 0.0 {
            self.ratios.record(ratio);
            self.distances.record(ratio.max(1.0 / ratio));
        }
    }

    fn bound(&mut self, within: bool) {
        self.bounded += 1;
        self.within_p95 += u64::from(within);
    }

    fn merge(&mut self, other: &Ratios) {
        self.ratios.merge(&other.ratios);
        self.distances.merge(&other.distances);
        self.within_p95 += other.within_p95;
        self.bounded += other.bounded;
    }

    fn summary(&self) -> Accuracy {
        Accuracy {
            samples: self.ratios.count(),
            median_error: self.distances.quantile(0.5).map(libm::log),
            bias: self.ratios.quantile(0.5).map(libm::log),
            within_p95: (self.bounded > 0).then(|| self.within_p95 as f64 / self.bounded as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_domain::{Failure, FailureKind, GateEvent};

    const PREDICTED: Prediction = Prediction {
        first_token_p50: 0.5,
        first_token_p95: 1.0,
        tokens_per_second: 100.0,
        total_p50: 1.5,
        total_p95: 3.0,
        cost: 0.001,
        failure: 0.1,
        measured: true,
    };

    fn at(seconds: f64) -> Tick {
        Tick((seconds * 1e6) as u64)
    }

    fn event(predicted: Prediction, now: f64, after: f64, kind: EventKind) -> EndpointEvent {
        let (at, dispatched) = (at(now), at(now - after));
        let gate = GateEvent::Unmoved;
        EndpointEvent { endpoint: EndpointId(1), at, dispatched, in_flight: 1, predicted, expected: 0.5, gate, kind }
    }

    fn completed(total: f64, completion_tokens: u32, cost: f64) -> EventKind {
        let total = Duration::from_secs_f64(total);
        EventKind::Completed {
            streamed: true,
            first_token: total / 2,
            total,
            prompt_tokens: 10,
            completion_tokens,
            max_tokens: None,
            prompt_ratio: None,
            hidden_tokens: 0,
            cost: Some(cost),
        }
    }

    fn failed(kind: FailureKind) -> EventKind {
        EventKind::Failed { failure: Failure::of(kind), had_content: false }
    }

    /// Calibration after these events, one a second: (prediction, seconds since dispatch, kind).
    fn judged(events: impl IntoIterator<Item = (Prediction, f64, EventKind)>) -> Calibration {
        let mut calibrator = Calibrator::default();
        for (second, (predicted, after, kind)) in (100_u32..).zip(events) {
            calibrator.judge(&event(predicted, f64::from(second), after, kind));
        }
        calibrator.sum(at(200.0)).summary()
    }

    fn near(value: Option<f64>, expected: f64, by: f64) {
        assert!((value.unwrap() - expected).abs() <= by, "{value:?}, not {expected}");
    }

    #[test]
    fn first_tokens_are_held_against_their_median_and_their_95th_percentile() {
        let token = |after| (PREDICTED, after, EventKind::FirstToken { prompt_tokens: 1 });
        let first = judged([token(0.25), token(0.5), token(1.0), token(2.0)]).first_token;
        assert_eq!((first.samples, first.within_p95), (4, Some(0.75)));
        near(first.median_error, std::f64::consts::LN_2, 0.05);
        near(judged([token(1.0)]).first_token.bias, std::f64::consts::LN_2, 0.05);
        near(judged([token(0.25)]).first_token.bias, -std::f64::consts::LN_2, 0.05);
    }

    #[test]
    fn the_total_is_judged_for_the_tokens_that_came_and_the_tokens_for_themselves() {
        // 250 tokens at 100 tokens a second take 3 s, the first 0.5 s included; 100 tokens were expected.
        let all = judged([(PREDICTED, 3.0, completed(3.0, 250, 0.0025))]);
        near(all.total.median_error, 0.0, 0.05);
        assert_eq!(all.total.within_p95, Some(1.0));
        near(all.output_tokens.bias, 2.5_f64.ln(), 0.05);
        near(all.cost.error.bias, 2.5_f64.ln(), 0.05);
        assert_eq!((all.cost.predicted, all.cost.actual, all.output_tokens.within_p95), (0.001, 0.0025, None));
        // Its 95th percentile is twice the median, as that of the published total.
        let slow = judged([(PREDICTED, 6.1, completed(6.1, 250, 0.0)), (PREDICTED, 5.9, completed(5.9, 250, 0.0))]);
        assert_eq!((slow.total.within_p95, slow.cost.error.samples), (Some(0.5), 0));
    }

    #[test]
    fn only_failures_of_the_endpoint_count() {
        let ends = [
            completed(1.0, 10, 0.0),
            failed(FailureKind::Server),
            failed(FailureKind::RateLimited),
            failed(FailureKind::BadRequest),
            failed(FailureKind::Auth),
            EventKind::Cancelled { had_content: false },
            EventKind::Dispatched,
        ];
        let failures = judged(ends.map(|end| (PREDICTED, 1.0, end))).failures;
        assert_eq!((failures.attempts, failures.seen), (2, 1));
        assert!((failures.expected - 0.2).abs() < 1e-12);
        near(failures.brier, (0.01 + 0.81) / 2.0, 1e-12);
    }

    #[test]
    fn predictions_from_priors_are_only_counted_and_missing_ones_are_ignored() {
        let guess = Prediction { measured: false, ..PREDICTED };
        let token = EventKind::FirstToken { prompt_tokens: 1 };
        let all = judged([
            (guess, 9.0, token),
            (guess, 9.0, completed(9.0, 10, 1.0)),
            (Prediction::NONE, 9.0, token),
            (Prediction::NONE, 9.0, completed(9.0, 10, 1.0)),
        ]);
        assert_eq!(all, Calibration { unmeasured: 1, ..Calibration::default() });
    }

    #[test]
    fn calibration_covers_one_hour() {
        let mut calibrator = Calibrator::default();
        calibrator.judge(&event(PREDICTED, 100.0, 1.0, completed(1.0, 10, 0.0)));
        assert_eq!(calibrator.sum(at(3500.0)).summary().total.samples, 1);
        assert_eq!(calibrator.sum(at(3700.0)).summary(), Calibration::default());
    }

    #[test]
    fn ratios_that_are_not_positive_numbers_are_left_out() {
        let mut ratios = Ratios::default();
        [1e300, 1e-300, 0.0, f64::NAN, f64::INFINITY, -1.0].into_iter().for_each(|ratio| ratios.record(ratio));
        assert_eq!(ratios.summary().samples, 2);
    }

    #[test]
    fn the_median_of_spread_errors_is_right_within_a_percent() {
        let mut ratios = Ratios::default();
        (1..2000).for_each(|i| ratios.record((f64::from(i) / 1000.0 - 0.8).exp()));
        near(ratios.summary().bias, 0.2, 0.01);
        near(ratios.summary().median_error, 0.5, 0.01);
    }
}
