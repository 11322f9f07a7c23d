//! The slow statistics of one endpoint, and what each event does to them.
//!
//! Three rules carry the rest: a failure never teaches a latency, a 429 or a caller's mistake never looks like
//! a fault, and a request that was given up teaches only that the endpoint is slower than expected, and only
//! when it is known to have been alive meanwhile.

pub(crate) mod state;

use std::time::Duration;

use super::{
    errors::ErrorClass,
    figures::{Averages, LastError, Tally},
    windows::Windows,
};
use crate::domain::{EndpointEvent, EventKind, Failure, GateEvent, RoutingPolicy, Tick};
use crate::stats::model::{
    estimates::Estimates,
    failure_effect::FailureEffect,
    failures::FailureModel,
    latency::{Fit, LatencyModel, Sample},
    pace::PaceModel,
    prior::Prior,
    siblings::Measured,
    tail::TailTracker,
};

/// A request given up after this age would have taken a bit longer.
const CENSORED: f64 = 1.3;
/// A plain answer teaches the first token only if that was predicted to be more than this share of it.
const PLAIN_FIRST_SHARE: f64 = 0.25;

/// The slow statistics of one endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndpointStatistics {
    first_token: LatencyModel,
    throughput: PaceModel,
    outcomes: FailureModel,
    /// When the latest of the requests began that gave a sign of life.
    heard: Option<Tick>,
    consecutive: u32,
    /// Of the total time, and of the first token.
    tail: TailTracker,
    first_tail: TailTracker,
    windows: Windows,
    averages: Averages,
    last_error: Option<LastError>,
}

/// A whole answer, as its event tells it.
#[derive(Debug, Clone, Copy)]
struct Answer {
    streamed: bool,
    first_token: f64,
    total: f64,
    prompt_tokens: f64,
    /// Output tokens that the answer shows.
    tokens: f64,
    /// Share of all output tokens that it does not show.
    hidden_share: f64,
}

impl EndpointStatistics {
    /// What was measured of it, as it is believed at `now`.
    pub(crate) fn measured(&self, now: Tick, policy: &RoutingPolicy) -> Measured {
        Measured {
            first_token: self.first_token.measured(now, &policy.stats),
            per_token: self.throughput.measured(),
            failure: self.outcomes.rate(),
        }
    }

    /// What a snapshot says about it at `now`.
    pub(crate) fn estimates(&self, now: Tick, prior: Prior, policy: &RoutingPolicy) -> Estimates {
        let (failures, successes) = self.outcomes.read(now, policy.stats.half_life, prior.failure);
        Estimates {
            fit: self.first_token.fit(now, prior, &policy.stats),
            weight: self.first_token.weight(now, &policy.stats),
            age: self.first_token.observed().map_or(f64::INFINITY, |observed| now.seconds_since(observed)),
            per_token: self.throughput.mean(prior.per_token),
            pace_weight: self.throughput.weight(now, &policy.stats),
            shown: self.throughput.shown(),
            per_token_variance: self.throughput.variance(),
            tail: self.tail.get(),
            first_tail: self.first_tail.get(),
            failures,
            successes,
            usual_failure: prior.failure,
        }
    }

    /// Takes in one event.
    pub(crate) fn apply(&mut self, event: &EndpointEvent, prior: Prior, policy: &RoutingPolicy) {
        match &event.kind {
            EventKind::Dispatched => {}
            EventKind::FirstToken { prompt_tokens } => self.first_token(event, *prompt_tokens, prior, policy),
            EventKind::Completed {
                streamed,
                first_token,
                total,
                prompt_tokens,
                completion_tokens,
                hidden_tokens,
                ..
            } => {
                let answer = Answer {
                    streamed: *streamed,
                    first_token: first_token.as_secs_f64(),
                    total: total.as_secs_f64(),
                    prompt_tokens: f64::from(*prompt_tokens),
                    tokens: f64::from(completion_tokens.saturating_sub(*hidden_tokens)),
                    hidden_share: f64::from(*hidden_tokens) / f64::from((*completion_tokens).max(1)),
                };
                self.completed(event, answer, prior, policy);
            }
            EventKind::Failed { failure, had_content } => self.failed(event, failure, *had_content, prior, policy),
            EventKind::Cancelled { had_content: true } => {}
            EventKind::Cancelled { had_content: false } => self.censored(event, prior, policy),
        }
    }

    fn first_token(&mut self, event: &EndpointEvent, prompt_tokens: u32, prior: Prior, policy: &RoutingPolicy) {
        let seconds = event.at.seconds_since(event.dispatched).max(1e-6);
        let sample = Sample { prompt_tokens: f64::from(prompt_tokens), ..sample(event, libm::log(seconds)) };
        if self.first_token.observed().is_some() {
            let expected = self.fit(event, prior, policy).expected(f64::from(event.in_flight), sample.prompt_tokens);
            self.first_tail.observe(sample.ln_seconds - expected);
        }
        self.first_token.observe(sample, prior, &policy.stats);
        self.heard = self.heard.max(Some(event.dispatched));
        self.windows.first_token(event.at, seconds);
        self.averages.first_token.observe(seconds);
    }

    fn completed(&mut self, event: &EndpointEvent, answer: Answer, prior: Prior, policy: &RoutingPolicy) {
        self.learn_tail(event, answer, prior, policy);
        if answer.streamed {
            self.learn_stream(event, answer, prior, policy);
        } else {
            self.learn_plain(event, answer, prior, policy);
        }
        self.throughput.observe_hidden(answer.hidden_share);
        self.outcomes.succeed(event.at, policy.stats.half_life);
        if event.gate == GateEvent::Recovered {
            self.outcomes.recover();
        }
        self.heard = self.heard.max(Some(event.dispatched));
        self.consecutive = 0;
        self.averages.total.observe(answer.total);
        let decode = if answer.streamed { answer.total - answer.first_token } else { answer.total };
        let rate = (answer.tokens >= 2.0 && decode >= 0.001).then(|| answer.tokens / decode);
        if let Some(rate) = rate {
            self.averages.throughput.observe(rate);
        }
        self.windows.success(event.at, answer.total, rate);
    }

    fn learn_stream(&mut self, event: &EndpointEvent, answer: Answer, prior: Prior, policy: &RoutingPolicy) {
        let decode = answer.total - answer.first_token;
        if answer.tokens < 2.0 || decode < 0.001 {
            return;
        }
        let load = self.fit(event, prior, policy).load(f64::from(event.in_flight));
        let ln_seconds = libm::log(decode / answer.tokens) - load;
        self.throughput.observe(ln_seconds, answer.tokens, event.at, &policy.stats);
    }

    /// A plain answer shows only its total: the surprise is split in proportion to the prediction.
    fn learn_plain(&mut self, event: &EndpointEvent, answer: Answer, prior: Prior, policy: &RoutingPolicy) {
        let (first, decode) = self.predicted(event, answer, prior, policy);
        let predicted = first + decode;
        if predicted <= 0.0 || answer.total <= 0.0 {
            return;
        }
        let ln_ratio = libm::log(answer.total / predicted);
        if first > PLAIN_FIRST_SHARE * predicted {
            let ln_first = libm::log(first) + ln_ratio;
            let sample = Sample { prompt_tokens: answer.prompt_tokens, ..sample(event, ln_first) };
            self.first_token.observe(sample, prior, &policy.stats);
        }
        self.throughput.observe_plain(ln_ratio, decode / predicted, prior.per_token, event.at, &policy.stats);
    }

    /// Moves the 95th percentile of the total time. A stream's own first token came before and is taken out of the
    /// prediction again.
    fn learn_tail(&mut self, event: &EndpointEvent, answer: Answer, prior: Prior, policy: &RoutingPolicy) {
        let (mut first, decode) = self.predicted(event, answer, prior, policy);
        if answer.streamed {
            let fit = self.fit(event, prior, policy);
            let (ln_first, in_flight) = (libm::log(answer.first_token.max(1e-6)), f64::from(event.in_flight));
            let without = self.first_token.intercept_without(&fit, ln_first, in_flight, answer.prompt_tokens);
            first *= libm::exp(without - fit.intercept);
        }
        if self.first_token.observed().is_some() {
            self.tail.observe(libm::log(answer.total / (first + decode)));
        }
    }

    fn failed(
        &mut self,
        event: &EndpointEvent,
        failure: &Failure,
        had_content: bool,
        prior: Prior,
        policy: &RoutingPolicy,
    ) {
        if let Some(class) = ErrorClass::of(failure.kind, failure.status) {
            self.windows.error(event.at, class);
            self.last_error = Some(LastError { at: event.at, kind: failure.kind, status: failure.status });
        }
        let verdict = FailureEffect::of(failure);
        if !verdict.is_failure() {
            return;
        }
        self.outcomes.fail(event.at, policy.stats.half_life);
        self.consecutive = self.consecutive.saturating_add(1);
        if verdict == FailureEffect::Late && !had_content {
            self.censored(event, prior, policy);
        }
    }

    /// A request was given up without an answer. It would have taken longer than that, which is news only if it
    /// is longer than expected and if a later request was answered meanwhile: a hang is a failure, also while earlier
    /// answers are still under way, and an impatient client must not teach a slow endpoint to look fast. As of a plain
    /// answer, the first token has its share of the surprise, and none where it was but a small part of what was expected.
    fn censored(&mut self, event: &EndpointEvent, prior: Prior, policy: &RoutingPolicy) {
        if event.predicted.first_token_p50 <= PLAIN_FIRST_SHARE * event.expected {
            return;
        }
        // The prompt is in what was expected at dispatch; here it is left out of both sides.
        let here = self.fit(event, prior, policy).expected(f64::from(event.in_flight), 0.0);
        let expected = libm::log(event.expected).max(here);
        let age = libm::log(CENSORED * event.at.seconds_since(event.dispatched));
        if age > expected && self.heard > Some(event.dispatched) {
            let sample = Sample { guessed: true, ..sample(event, here + age - expected) };
            self.first_token.observe(sample, prior, &policy.stats);
        }
    }

    fn fit(&self, event: &EndpointEvent, prior: Prior, policy: &RoutingPolicy) -> Fit {
        self.first_token.fit(event.at, prior, &policy.stats)
    }

    /// Expected seconds to the first token and for the rest, of such an answer.
    fn predicted(&self, event: &EndpointEvent, answer: Answer, prior: Prior, policy: &RoutingPolicy) -> (f64, f64) {
        let (fit, in_flight) = (self.fit(event, prior, policy), f64::from(event.in_flight));
        let first = libm::exp(fit.expected(in_flight, answer.prompt_tokens));
        (first, answer.tokens * libm::exp(self.throughput.mean(prior.per_token) + fit.load(in_flight)))
    }

    /// What figures are made from.
    pub(crate) fn tally(&self, now: Tick) -> Tally {
        Tally {
            minutes: self.windows.minutes(now),
            half_hour: self.windows.half_hour(now),
            day: self.windows.day(now),
            averages: [self.averages.total.get(), self.averages.first_token.get(), self.averages.throughput.get()],
            last_error: self.last_error,
            consecutive_failures: self.consecutive,
        }
    }
}

/// What an event shows of the first token, but for its prompt.
fn sample(event: &EndpointEvent, ln_seconds: f64) -> Sample {
    Sample { ln_seconds, in_flight: event.in_flight, prompt_tokens: 0.0, at: event.at, guessed: false }
}

/// Seconds that figures look back.
pub(crate) const WINDOW: Duration = Duration::from_secs(Windows::SECONDS);
