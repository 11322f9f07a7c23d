//! How well predictions hold: what was expected of an attempt, beside what came of it.
//!
//! An attempt's events carry the [`Prediction`] it was chosen with. Nothing here changes a prediction or a
//! choice; people read it at `/health/calibration` and in metrics. Only predictions that rest on measurements
//! are judged; attempts that were chosen on priors alone are counted apart.
//!
//! Errors are logarithms of actual over predicted: 0.1 is about ten percent too slow, -0.1 ten percent too
//! fast, and twice as slow weighs as much as twice as fast.

use std::time::Duration;

use super::ring::{Merge, Ring};
use crate::domain::{EndpointEvent, EndpointId, EventKind, Prediction, Tick};
use crate::stats::model::failure_effect::FailureEffect;

/// Spans that are kept, and how long each is: together an hour.
const SPANS: usize = 6;
const SPAN: Duration = Duration::from_secs(600);

/// How predictions of every endpoint and provider held, by position in the catalog.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibrations {
    /// The catalog whose positions are meant.
    pub catalog_version: u64,
    /// All endpoints together.
    pub overall: Calibration,
    /// One per endpoint.
    pub endpoints: Vec<EndpointCalibration>,
    /// One per provider: its endpoints together.
    pub providers: Vec<Calibration>,
}

/// How predictions of one endpoint held.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointCalibration {
    /// Which endpoint.
    pub endpoint: EndpointId,
    /// How they held.
    pub calibration: Calibration,
}

/// How predictions held over the last hour.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Calibration {
    /// Seconds to the first token, of streams.
    pub first_token: Accuracy,
    /// Seconds to the last byte, of an answer of as many tokens as it turned out to have: how long an answer
    /// becomes is judged under [`Calibration::output_tokens`].
    pub total: Accuracy,
    /// Output tokens. No 95th percentile of them is predicted.
    pub output_tokens: Accuracy,
    /// Dollars of whole answers.
    pub cost: CostAccuracy,
    /// Failures that say something about the endpoint, among the attempts that ended with such a failure or with
    /// a whole answer. 429s, mistakes of callers and faults of our account are not predicted and not counted.
    pub failures: FailureAccuracy,
    /// Attempts that ended and were chosen on priors alone. They are judged nowhere else.
    pub unmeasured: u64,
}

impl Calibration {
    /// Seconds that it looks back.
    pub const WINDOW: Duration = Duration::from_secs(SPAN.as_secs() * SPANS as u64);
}

/// How one kind of prediction held. Errors are ln(actual ÷ predicted median); `None` without samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Accuracy {
    /// Predictions that could be held against what came of them.
    pub samples: u64,
    /// Median size of the error, whatever its sign.
    pub median_error: Option<f64>,
    /// Median of the error: above 0 when things take longer than predicted.
    pub bias: Option<f64>,
    /// Share that lay within the predicted 95th percentile; `None` where none is predicted.
    pub within_p95: Option<f64>,
}

/// How predicted cost held.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CostAccuracy {
    /// Of answers that cost something.
    pub error: Accuracy,
    /// Dollars that were predicted for whole answers, all together.
    pub predicted: f64,
    /// Dollars they came to.
    pub actual: f64,
}

/// How predicted probabilities of failure held.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FailureAccuracy {
    /// Attempts that ended well or with a failure that counts.
    pub attempts: u64,
    /// Failures to expect of them: the sum of the predicted probabilities.
    pub expected: f64,
    /// Failures that were seen.
    pub seen: u64,
    /// Brier score: the mean of (probability − outcome)², 0 for certainty that is always right, 0.25 for tossing
    /// a coin. `None` without attempts.
    pub brier: Option<f64>,
}

/// What is remembered of one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Calibrator(Ring<Held, SPANS>);

impl Default for Calibrator {
    fn default() -> Calibrator {
        Calibrator(Ring::new(SPAN))
    }
}

impl Calibrator {
    /// Holds what was predicted against what happened.
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
        let Some(held) = self.0.slot(event.at) else { return };
        if !predicted.measured {
            held.unmeasured += u64::from(ends);
            return;
        }
        match event.kind {
            EventKind::FirstToken { .. } => held.first_token(event),
            EventKind::Completed { total, completion_tokens, hidden_tokens, cost, .. } => {
                // Predicted rates count the tokens that an answer shows.
                let shown = f64::from(completion_tokens.saturating_sub(hidden_tokens));
                held.answered(&predicted, total.as_secs_f64(), shown, cost);
                held.ended(predicted.failure, 0.0);
            }
            _ => held.ended(predicted.failure, 1.0),
        }
    }

    /// What the last hour before `now` comes to.
    pub(crate) fn tally(&self, now: Tick) -> Held {
        self.0.sum(now)
    }
}

/// What happened to predictions in one span of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    first_token: Errors,
    total: Errors,
    output_tokens: Errors,
    cost: Errors,
    predicted_cost: f64,
    actual_cost: f64,
    attempts: u64,
    expected_failures: f64,
    failures: u64,
    squares: f64,
    unmeasured: u64,
}

impl Held {
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
        // An image or an empty answer has no tokens: its length is not what was to be guessed.
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

impl Merge for Held {
    fn merge(&mut self, other: &Held) {
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

/// A histogram of ln ratios; nothing is allocated before the first.
#[derive(Debug, Clone, Default)]
struct Errors {
    buckets: Vec<u32>,
    count: u64,
    within_p95: u64,
    bounded: u64,
}

impl Errors {
    /// Buckets below zero, and as many above. Medians are right within half a bucket's width at worst, and much
    /// better where values are spread, because they are interpolated.
    const HALF: usize = 80;
    /// Width of a bucket: five percent.
    const WIDTH: f64 = 0.05;

    fn record(&mut self, ratio: f64) {
        if !(ratio.is_finite() && ratio > 0.0) {
            return;
        }
        if self.buckets.is_empty() {
            self.buckets = vec![0; 2 * Errors::HALF];
        }
        let most = (2 * Errors::HALF - 1) as f64;
        let position = (libm::log(ratio) / Errors::WIDTH + Errors::HALF as f64).clamp(0.0, most);
        if let Some(bucket) = self.buckets.get_mut(position as usize) {
            *bucket = bucket.saturating_add(1);
            self.count += 1;
        }
    }

    fn bound(&mut self, held: bool) {
        self.bounded += 1;
        self.within_p95 += u64::from(held);
    }

    fn merge(&mut self, other: &Errors) {
        if !other.buckets.is_empty() {
            self.buckets.resize(2 * Errors::HALF, 0);
            for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
                *mine = mine.saturating_add(*theirs);
            }
        }
        self.count += other.count;
        self.within_p95 += other.within_p95;
        self.bounded += other.bounded;
    }

    fn summary(&self) -> Accuracy {
        let (below, above) = self.buckets.split_at_checked(Errors::HALF).unwrap_or_default();
        let sizes: Vec<u32> = below.iter().rev().zip(above).map(|(low, high)| low.saturating_add(*high)).collect();
        let start = -(Errors::HALF as f64) * Errors::WIDTH;
        Accuracy {
            samples: self.count,
            median_error: median(&sizes, 0.0),
            bias: median(&self.buckets, start),
            within_p95: (self.bounded > 0).then(|| self.within_p95 as f64 / self.bounded as f64),
        }
    }
}

/// The median of values in buckets of [`Errors::WIDTH`] from `start` on, interpolated; `None` when there are none.
fn median(buckets: &[u32], start: f64) -> Option<f64> {
    let half = buckets.iter().map(|count| f64::from(*count)).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (position, count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
        let count = f64::from(*count);
        if below + count >= half {
            return Some(start + (position as f64 + (half - below) / count) * Errors::WIDTH);
        }
        below += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Failure, FailureKind, GateEvent};

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
        EventKind::Failed { failure: Failure { kind, status: None, retry_after: None }, had_content: false }
    }

    /// What events come to: (predicted, seconds since dispatch, kind), one a second.
    fn judged(events: impl IntoIterator<Item = (Prediction, f64, EventKind)>) -> Calibration {
        let mut calibrator = Calibrator::default();
        for (second, (predicted, after, kind)) in (100_u32..).zip(events) {
            calibrator.judge(&event(predicted, f64::from(second), after, kind));
        }
        calibrator.tally(at(200.0)).summary()
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
        near(judged([token(1.0)]).first_token.bias, std::f64::consts::LN_2, 0.03);
        near(judged([token(0.25)]).first_token.bias, -std::f64::consts::LN_2, 0.03);
    }

    #[test]
    fn the_total_is_judged_for_the_tokens_that_came_and_the_tokens_for_themselves() {
        // 250 tokens in 3 s is what 0.5 s and 100 tokens a second come to; 100 tokens had been expected.
        let all = judged([(PREDICTED, 3.0, completed(3.0, 250, 0.0025))]);
        near(all.total.median_error, 0.0, 0.03);
        assert_eq!(all.total.within_p95, Some(1.0));
        near(all.output_tokens.bias, 2.5_f64.ln(), 0.03);
        near(all.cost.error.bias, 2.5_f64.ln(), 0.03);
        assert_eq!((all.cost.predicted, all.cost.actual, all.output_tokens.within_p95), (0.001, 0.0025, None));
        // Its 95th percentile is twice the median, as that of the published total.
        let slow = judged([(PREDICTED, 6.1, completed(6.1, 250, 0.0)), (PREDICTED, 5.9, completed(5.9, 250, 0.0))]);
        assert_eq!((slow.total.within_p95, slow.cost.error.samples), (Some(0.5), 0));
    }

    #[test]
    fn failures_count_when_they_say_something_about_the_endpoint() {
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
    fn priors_are_counted_apart_and_nothing_is_made_of_no_prediction() {
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
    fn an_hour_later_it_is_forgotten() {
        let mut calibrator = Calibrator::default();
        calibrator.judge(&event(PREDICTED, 100.0, 1.0, completed(1.0, 10, 0.0)));
        assert_eq!(calibrator.tally(at(3500.0)).summary().total.samples, 1);
        assert_eq!(calibrator.tally(at(3700.0)).summary(), Calibration::default());
    }

    #[test]
    fn absurd_ratios_fall_into_the_outer_buckets_or_are_left_out() {
        let mut errors = Errors::default();
        [1e300, 1e-300, 0.0, f64::NAN, f64::INFINITY, -1.0].into_iter().for_each(|ratio| errors.record(ratio));
        assert_eq!(errors.summary().samples, 2);
        near(errors.summary().median_error, 4.0, 0.051);
    }

    #[test]
    fn the_median_of_spread_errors_is_right_within_a_percent() {
        let mut errors = Errors::default();
        (1..2000).for_each(|i| errors.record((f64::from(i) / 1000.0 - 0.8).exp()));
        near(errors.summary().bias, 0.2, 0.01);
        near(errors.summary().median_error, 0.5, 0.01);
    }
}
