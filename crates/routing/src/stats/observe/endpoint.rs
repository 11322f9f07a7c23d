//! Statistics of one endpoint, and the effect of each event.
//!
//! Three rules: a failure is not a latency observation. A 429 or a mistake of the client is not a failure. A request
//! that was given up shows only that the endpoint is slower than expected, and only if the endpoint was answering
//! meanwhile.

pub(crate) mod state;

use pointsman_domain::{EndpointEvent, EventKind, Failure, GateEvent, RoutingPolicy, Tick};

use super::{
    errors::ErrorClass,
    figures::{Averages, FigureSums, LastError},
    windows::Windows,
};

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

/// A request that was given up counts as this multiple of its age.
const CENSORED: f64 = 1.3;
/// A plain answer trains the latency model only if the first token is predicted to be more than this share of it.
const PLAIN_FIRST_SHARE: f64 = 0.25;

/// Statistics of one endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndpointStatistics {
    /// Whether anything was ever observed. Without, the estimates follow from the prior alone.
    pub(crate) is_observed: bool,
    first_token: LatencyModel,
    throughput: PaceModel,
    outcomes: FailureModel,
    /// Latest dispatch time of a request that gave a sign of life.
    heard: Option<Tick>,
    consecutive: u32,
    /// Tails of the total time and of the time to the first token.
    tail: TailTracker,
    first_tail: TailTracker,
    windows: Windows,
    averages: Averages,
    last_error: Option<LastError>,
}

/// A complete answer.
#[derive(Debug, Clone, Copy)]
struct Answer {
    streamed: bool,
    first_token: f64,
    total: f64,
    prompt_tokens: f64,
    /// Output tokens shown.
    tokens: f64,
    /// Share of the output tokens not shown.
    hidden_share: f64,
}

impl EndpointStatistics {
    /// Measured estimates at `now`, for the priors of siblings.
    pub(crate) fn measured(&self, now: Tick, policy: &RoutingPolicy) -> Measured {
        if !self.is_observed {
            return Measured::default();
        }
        Measured {
            first_token: self.first_token.measured(now, &policy.stats),
            per_token: self.throughput.measured(),
            failure: self.outcomes.rate(),
        }
    }

    /// Estimates at `now`, for a snapshot.
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

    /// Adds an event.
    pub(crate) fn apply(&mut self, event: &EndpointEvent, prior: Prior, policy: &RoutingPolicy) {
        self.is_observed = true;
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
        let predicted = self.predicted(event, answer, prior, policy);
        self.learn_tail(event, answer, predicted, prior, policy);
        if answer.streamed {
            self.learn_stream(event, answer, prior, policy);
        } else {
            self.learn_plain(event, answer, predicted, prior, policy);
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

    /// A plain answer shows only its total time: the residual is split in proportion to the prediction.
    fn learn_plain(
        &mut self,
        event: &EndpointEvent,
        answer: Answer,
        (first, decode): (f64, f64),
        prior: Prior,
        policy: &RoutingPolicy,
    ) {
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

    /// Updates the tail of the total time. A stream's own first token is already in the latency model and is removed
    /// from the prediction.
    fn learn_tail(
        &mut self,
        event: &EndpointEvent,
        answer: Answer,
        (mut first, decode): (f64, f64),
        prior: Prior,
        policy: &RoutingPolicy,
    ) {
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
        let effect = FailureEffect::of(failure);
        if !effect.is_failure() {
            return;
        }
        self.outcomes.fail(event.at, policy.stats.half_life);
        self.consecutive = self.consecutive.saturating_add(1);
        if effect == FailureEffect::Late && !had_content {
            self.censored(event, prior, policy);
        }
    }

    /// Adds a request that was given up without an answer, as an observation of a longer time. It counts only if that
    /// is longer than expected and a later request gave a sign of life: otherwise the endpoint hangs, which is a
    /// failure, and an impatient client must not make a slow endpoint look fast. A plain answer counts only if the
    /// first token is a large part of its expected time.
    fn censored(&mut self, event: &EndpointEvent, prior: Prior, policy: &RoutingPolicy) {
        if event.predicted.first_token_p50 <= PLAIN_FIRST_SHARE * event.expected {
            return;
        }
        // The prompt is part of the expected time at dispatch; it is left out of both sides here.
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

    /// Predicted seconds to the first token and from there to the end.
    fn predicted(&self, event: &EndpointEvent, answer: Answer, prior: Prior, policy: &RoutingPolicy) -> (f64, f64) {
        let (fit, in_flight) = (self.fit(event, prior, policy), f64::from(event.in_flight));
        let first = libm::exp(fit.expected(in_flight, answer.prompt_tokens));
        (first, answer.tokens * libm::exp(self.throughput.mean(prior.per_token) + fit.load(in_flight)))
    }

    /// Inputs of the figures.
    pub(crate) fn sums(&self, now: Tick) -> FigureSums {
        let [minutes, half_hour, day] = self.windows.sums(now);
        FigureSums {
            minutes,
            half_hour,
            day,
            averages: [self.averages.total.get(), self.averages.first_token.get(), self.averages.throughput.get()],
            last_error: self.last_error,
            consecutive_failures: self.consecutive,
        }
    }
}

/// Observation of an event, without its prompt.
fn sample(event: &EndpointEvent, ln_seconds: f64) -> Sample {
    Sample { ln_seconds, in_flight: event.in_flight, prompt_tokens: 0.0, at: event.at, guessed: false }
}
