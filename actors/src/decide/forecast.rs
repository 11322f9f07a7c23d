//! What to expect of an endpoint for one request.
//!
//! Made from a candidate's recorded [`ScoreInputs`] and nothing else that is not policy, so that a replay of the
//! record finds the same bits.

use super::{
    approx,
    noise::{self, NoiseDraw},
};
use crate::{
    domain::{Objective, Prediction, RoutingPolicy, ScoreInputs},
    stats::{Curve, EndpointStats, Evidence, FailureModel, Uncertainty, UncertaintyModel},
};

/// A late endpoint will be this much later still (ln) ...
const STILL_LATER: f64 = 0.3;
/// ... and that much is known about it, in observations.
const LATE_WEIGHT: f64 = 4.0;
/// Load (ln) from which a request delays those behind it.
const QUEUEING: f64 = 0.05;
/// Share of its uncertainty that `cheapest` and `reliable` explore.
const TIMID: f64 = 0.3;
/// No answer is expected sooner, seconds ...
const LEAST_TIME: f64 = 1e-9;
/// ... or with less spread, ln.
const LEAST_SIGMA: f64 = 1e-3;

/// The constants of one decision's predictions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForecastRules {
    uncertainty: UncertaintyModel,
    /// Share of the uncertainty that is explored.
    doubt: f64,
    streamed: bool,
    queueing: bool,
    /// Seconds after which an attempt is given up.
    clock: f64,
    /// ln of the seconds beyond which an answer is too slow. That, and how sure it is how often an endpoint fails, matters to
    /// `reliable` alone.
    ln_slow: Option<f64>,
}

impl ForecastRules {
    pub(crate) fn of(policy: &RoutingPolicy, objective: Objective, streamed: bool) -> ForecastRules {
        let swift = matches!(objective, Objective::Fastest | Objective::Balanced);
        let reliable = objective == Objective::Reliable;
        // What is measured is the first content, so its clock is the one that can run out.
        let clock = if streamed { policy.clocks.first_content } else { policy.clocks.total }.as_secs_f64().max(1e-3);
        ForecastRules {
            uncertainty: UncertaintyModel::of(policy),
            doubt: if swift { 1.0 } else { TIMID },
            streamed,
            queueing: swift,
            clock,
            ln_slow: reliable.then(|| libm::log(policy.reliable_slow.as_secs_f64().max(1e-3))),
        }
    }

    /// Whether it matters how likely an answer is too slow.
    pub(crate) fn minds_slowness(&self) -> bool {
        self.ln_slow.is_some()
    }

    /// What the noise may doubt: what is published of the endpoint, unless requests there are late.
    fn uncertainty(&self, inputs: &ScoreInputs) -> Uncertainty {
        self.uncertainty.uncertainty(&Evidence {
            variance: inputs.variance,
            weight: if inputs.late > 0.0 { inputs.weight.max(LATE_WEIGHT) } else { inputs.weight },
            successes: inputs.successes,
            age: inputs.age,
            pace_variance: inputs.pace_variance,
            pace_weight: inputs.pace_weight,
            failures: inputs.failures,
            usual_failure: inputs.usual_failure,
        })
    }

    /// The probability that the clock runs out on what takes so many seconds.
    fn runs_out(&self, waited: f64, curve: &Curve) -> f64 {
        if self.is_far_from_clock(waited, curve) {
            return 0.0;
        }
        if waited >= self.clock * curve.far {
            return 1.0;
        }
        noise::normal_share(libm::log(waited / self.clock) / curve.sigma)
    }

    #[inline]
    fn is_far_from_clock(&self, waited: f64, curve: &Curve) -> bool {
        waited * curve.far <= self.clock
    }
}

/// Variances of ln of the two parts of an answer: up to its first token, and from there on.
#[derive(Debug, Clone, Copy)]
struct Variances {
    first_token: f64,
    generation: f64,
}

impl Variances {
    fn of(inputs: &ScoreInputs) -> Variances {
        Variances { first_token: inputs.variance, generation: inputs.pace_variance + inputs.output_variance }
    }

    /// Variance of ln of what a whole answer takes, of whose two parts these are the means: where one of them is a share of
    /// it, the whole has that share of its ln.
    #[inline]
    fn of_whole(self, first_token: f64, generation: f64) -> f64 {
        let sum = (first_token + generation).max(LEAST_TIME);
        let parts = first_token * first_token * self.first_token + generation * generation * self.generation;
        parts / (sum * sum)
    }
}

/// What a score is made from, with noise or without.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PointForecast {
    /// Mean seconds to the first token.
    pub first_token: f64,
    /// Seconds from the first token to the last.
    pub generation: f64,
    /// Probability that the attempt fails or runs out of time.
    pub failure: f64,
}

/// What to expect, in seconds and probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Forecast {
    /// ln by which load stretches it.
    pub load: f64,
    /// Median time to the first token.
    pub first_token: f64,
    /// With noise.
    pub noisy: PointForecast,
    /// Without.
    pub calm: PointForecast,
    /// Probability that the answer is too slow; 0 where that does not count.
    pub slow: f64,
    /// What the prompt cache takes off the mean time to the first token, already taken off.
    pub saved: f64,
    /// Share by which it delays the requests behind it.
    pub queueing: f64,
}

impl Forecast {
    /// The forecast under such a doubt.
    pub(crate) fn of(inputs: &ScoreInputs, curve: &Curve, rules: &ForecastRules, doubt: Option<NoiseDraw>) -> Forecast {
        let fails = FailureModel::probability(inputs.failures, inputs.successes, inputs.usual_failure);
        let calm = Forecast::under(&LoadEffect::of(inputs), inputs, curve, rules, |waited| {
            failure(fails, rules.runs_out(waited, curve), inputs.floor)
        });
        let forecast = doubt.map_or(calm, |doubt| calm.doubted(rules, doubt, rules.uncertainty(inputs)));
        forecast.with_slowness(inputs, rules)
    }

    /// The same but for slowness, unless there is more to it: load beyond the knee, requests that are late, a clock that may
    /// run out. Of most endpoints there is not, and then this costs less: it is arithmetic from one end to the other, without
    /// a call around which all figures at hand would have to be put aside.
    #[inline(always)]
    pub(crate) fn at_ease(
        inputs: &ScoreInputs,
        stats: &EndpointStats,
        rules: &ForecastRules,
        doubt: impl FnOnce() -> Option<NoiseDraw>,
    ) -> Option<Forecast> {
        if LoadEffect::is_in(inputs) {
            return None;
        }
        let mut far_from_clock = false;
        let calm = Forecast::under(&LoadEffect::NONE, inputs, &stats.curve, rules, |waited| {
            far_from_clock = rules.is_far_from_clock(waited, &stats.curve);
            stats.failure
        });
        if !far_from_clock {
            return None;
        }
        Some(match doubt() {
            Some(doubt) => calm.doubted(rules, doubt, stats.uncertainty),
            None => calm,
        })
    }

    /// The forecast under a strain. `failure` gives the probability that the attempt fails, from the seconds that the clock
    /// sees.
    #[inline(always)]
    fn under(
        strain: &LoadEffect,
        inputs: &ScoreInputs,
        curve: &Curve,
        rules: &ForecastRules,
        failure: impl FnOnce(f64) -> f64,
    ) -> Forecast {
        let slowed = strain.stretch * strain.lateness;
        let cached = f64::from(inputs.cached_tokens.min(inputs.prompt_tokens));
        let fresh = f64::from(inputs.prompt_tokens) - cached;
        let median = (curve.first_token + curve.prompt_token * fresh) * slowed;
        let first_token = median * curve.mean;
        let generation = inputs.output_tokens * inputs.shown * curve.per_token * strain.stretch;
        let waited = if rules.streamed { median } else { first_token + generation };
        let calm = PointForecast { first_token, generation, failure: failure(waited) };
        Forecast {
            load: strain.load,
            first_token: median,
            noisy: calm,
            calm,
            slow: 0.0,
            saved: if cached > 0.0 { curve.prompt_token * cached * slowed * curve.mean } else { 0.0 },
            queueing: if rules.queueing && strain.load > QUEUEING { inputs.load_exponent } else { 0.0 },
        }
    }

    /// The same under such a doubt of what is so uncertain.
    #[inline(always)]
    fn doubted(self, rules: &ForecastRules, doubt: NoiseDraw, uncertainty: Uncertainty) -> Forecast {
        Forecast { noisy: self.calm.doubted(rules, doubt, uncertainty), ..self }
    }

    /// The same with how likely its answer is too slow, where that matters. Noise doubts how long it takes, not that: it is a
    /// matter of how much that varies from one answer to the next.
    #[inline(always)]
    pub(crate) fn with_slowness(self, inputs: &ScoreInputs, rules: &ForecastRules) -> Forecast {
        let Some(ln_slow) = rules.ln_slow else { return self };
        let PointForecast { first_token, generation, .. } = self.calm;
        let variance = Variances::of(inputs).of_whole(first_token, generation);
        let ln_median = approx::ln((first_token + generation).max(LEAST_TIME)) - 0.5 * variance;
        let slow = approx::normal_share((ln_median - ln_slow) / variance.sqrt().max(LEAST_SIGMA));
        Forecast { slow, ..self }
    }

    /// Seconds until a sign of life is expected. Lateness is left out: what others wait for must not teach the
    /// next request patience.
    #[inline]
    pub(crate) fn expected(&self, inputs: &ScoreInputs, rules: &ForecastRules) -> f64 {
        self.first_token / slowdown(inputs.late) + if rules.streamed { 0.0 } else { self.calm.generation }
    }

    /// Standard deviation of ln of that. A plain answer shows itself when it is whole: how long it is and how fast it
    /// was generated is unknown, too.
    #[inline]
    pub(crate) fn spread(&self, inputs: &ScoreInputs, curve: &Curve, rules: &ForecastRules) -> f64 {
        if rules.streamed {
            return curve.sigma;
        }
        Variances::of(inputs).of_whole(self.calm.first_token, self.calm.generation).sqrt().max(curve.sigma)
    }

    /// What the request costs in seconds, those it delays included, without noise.
    pub(crate) fn calm_time(&self) -> f64 {
        let own = self.calm.first_token + self.calm.generation;
        own + self.queueing * own
    }

    /// The same, were nothing cached: what others are compared with must not depend on who holds the cache.
    pub(crate) fn uncached_time(&self) -> f64 {
        let own = self.calm.first_token + self.saved + self.calm.generation;
        own + self.queueing * own
    }

    /// What is published: no noise, nobody else's delay.
    #[inline]
    pub(crate) fn published(&self, inputs: &ScoreInputs, stats: &EndpointStats) -> Prediction {
        let total = self.first_token + self.calm.generation;
        let shown = inputs.output_tokens * inputs.shown;
        let generated = shown > 0.0;
        let (tokens, seconds) = if generated { (shown, self.calm.generation) } else { (1.0, stats.curve.per_token) };
        Prediction {
            first_token_p50: self.first_token,
            first_token_p95: self.first_token * stats.first_token_p95,
            tokens_per_second: tokens / seconds.max(1e-9 * tokens),
            total_p50: total,
            total_p95: total * stats.total_p95,
            cost: inputs.cost,
            failure: self.calm.failure,
            measured: inputs.weight > 0.0,
        }
    }
}

impl PointForecast {
    #[inline(always)]
    fn doubted(self, rules: &ForecastRules, doubt: NoiseDraw, uncertainty: Uncertainty) -> PointForecast {
        let stretch = |z: f64, sigma: f64| noise::stretch(rules.doubt * z * sigma);
        let doubts_failure = rules.ln_slow.is_some();
        PointForecast {
            first_token: self.first_token * stretch(doubt.first_token, uncertainty.first_token),
            generation: self.generation * stretch(doubt.pace, uncertainty.pace),
            failure: if doubts_failure { self.doubted_failure(doubt, uncertainty) } else { self.failure },
        }
    }

    #[inline(always)]
    fn doubted_failure(self, doubt: NoiseDraw, uncertainty: Uncertainty) -> f64 {
        (self.failure * noise::stretch(doubt.failure * uncertainty.failure)).min(1.0)
    }
}

/// What stretches an answer.
struct LoadEffect {
    /// ln by which load does.
    load: f64,
    /// Times by which load does.
    stretch: f64,
    /// Times by which the first token is later, because others still wait for theirs.
    lateness: f64,
}

impl LoadEffect {
    const NONE: LoadEffect = LoadEffect { load: 0.0, stretch: 1.0, lateness: 1.0 };

    fn of(inputs: &ScoreInputs) -> LoadEffect {
        let in_flight = f64::from(inputs.in_flight) + 1.0;
        let overload = in_flight > inputs.knee;
        let load = if overload { inputs.load_exponent * libm::log(in_flight / inputs.knee) } else { 0.0 };
        let stretch = if overload { libm::exp(load) } else { 1.0 };
        LoadEffect { load, stretch, lateness: slowdown(inputs.late) }
    }

    /// Whether there is any.
    fn is_in(inputs: &ScoreInputs) -> bool {
        f64::from(inputs.in_flight) + 1.0 > inputs.knee || inputs.late > 0.0
    }
}

/// The probability that the attempt fails or runs out of time.
#[inline(always)]
fn failure(fails: f64, runs_out: f64, floor: f64) -> f64 {
    let failure = fails + (1.0 - fails) * runs_out;
    if failure > floor { failure } else { floor }
}

/// By how much unanswered requests stretch the first token.
fn slowdown(late: f64) -> f64 {
    if late > 0.0 { libm::exp(late + STILL_LATER) } else { 1.0 }
}

/// Whether unanswered requests may tell anything. One alone has to be later than each of two.
#[inline]
pub(crate) fn is_evidence([first, _]: [f64; 2], curve: &Curve) -> bool {
    first > curve.late_together
}

/// The surprise (ln) of the most overdue unanswered request, if it is evidence: one that is very late, or two
/// that are late.
pub(crate) fn lateness([first, second]: [f64; 2], curve: &Curve) -> f64 {
    let evidence = first > curve.late_alone || (first > curve.late_together && second > curve.late_together);
    if evidence { libm::log(first) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: ScoreInputs = ScoreInputs {
        intercept: -1.0,
        load_exponent: 1.0,
        knee: 4.0,
        variance: 0.25,
        prompt_slope: 0.0,
        prompt_tokens: 1000,
        cached_tokens: 0,
        weight: 10.0,
        per_token: -4.0,
        pace_variance: 0.04,
        pace_weight: 10.0,
        shown: 1.0,
        failures: 0.0,
        successes: 10.0,
        usual_failure: 0.01,
        age: 0.0,
        in_flight: 0,
        late: 0.0,
        output_tokens: 100.0,
        output_variance: 0.2,
        cost: 0.01,
        floor: 0.0,
        expected: 0.4,
        spread: 0.5,
        tier: 0,
        until: crate::domain::Tick(0),
    };

    fn forecast(inputs: ScoreInputs, z: f64) -> Forecast {
        under(inputs, Objective::Fastest, NoiseDraw { first_token: z, ..NoiseDraw::default() })
    }

    fn under(inputs: ScoreInputs, objective: Objective, doubt: NoiseDraw) -> Forecast {
        let curve = Curve::of(inputs.intercept, inputs.variance, inputs.per_token, inputs.prompt_slope);
        let rules = ForecastRules::of(&RoutingPolicy::default(), objective, true);
        Forecast::of(&inputs, &curve, &rules, Some(doubt))
    }

    #[test]
    fn up_to_the_knee_load_costs_nothing_and_beyond_it_stretches_everything() {
        let idle = forecast(INPUTS, 0.0);
        let at_knee = forecast(ScoreInputs { in_flight: 3, ..INPUTS }, 0.0);
        let beyond = forecast(ScoreInputs { in_flight: 7, ..INPUTS }, 0.0);
        assert_eq!(idle, at_knee);
        assert!((beyond.first_token / idle.first_token - 2.0).abs() < 1e-12);
        assert!((beyond.calm.generation / idle.calm.generation - 2.0).abs() < 1e-12);
        assert!(
            (beyond.calm_time() / (beyond.calm.first_token + beyond.calm.generation) - 2.0).abs() < 1e-12,
            "those behind it"
        );
    }

    #[test]
    fn the_mean_lies_above_the_median_by_half_the_variance() {
        let idle = forecast(INPUTS, 0.0);
        assert!((idle.calm.first_token / idle.first_token - 0.125_f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn noise_is_wider_the_less_and_the_longer_ago_it_was_measured() {
        let spread = |inputs| forecast(inputs, 1.0).noisy.first_token / forecast(inputs, 0.0).noisy.first_token;
        let known = spread(INPUTS);
        assert!(spread(ScoreInputs { weight: 0.0, ..INPUTS }) > known);
        assert!(spread(ScoreInputs { age: 600.0, ..INPUTS }) > known);
        assert_eq!(spread(ScoreInputs { age: 600.0, ..INPUTS }), spread(ScoreInputs { age: f64::INFINITY, ..INPUTS }));
        assert!(
            spread(ScoreInputs { late: 1.0, weight: 0.0, ..INPUTS }) < spread(ScoreInputs { weight: 0.0, ..INPUTS })
        );
    }

    #[test]
    fn late_requests_are_evidence_one_at_2_5_sigma_or_two_at_2() {
        let curve = Curve::of(0.0, 0.25, -4.0, 0.0);
        let sigmas = |s: f64| (s * 0.5).exp();
        let cases =
            [([2.4, 0.0], false), ([2.6, 0.0], true), ([2.1, 2.1], true), ([2.1, 1.9], false), ([1.9, 1.9], false)];
        for ([first, second], evidence) in cases {
            assert_eq!(lateness([sigmas(first), sigmas(second)], &curve) > 0.0, evidence, "{first} {second}");
        }
        assert!((lateness([8.0, 0.0], &curve) - 8.0_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn what_others_wait_for_teaches_the_next_request_no_patience() {
        let (calm, late) = (INPUTS, ScoreInputs { late: 3.0, ..INPUTS });
        let rules = |streamed| ForecastRules::of(&RoutingPolicy::default(), Objective::Fastest, streamed);
        let expected = |inputs, streamed| forecast(inputs, 0.0).expected(&inputs, &rules(streamed));
        assert!((expected(calm, true) - expected(late, true)).abs() < 1e-12);
        assert!((expected(calm, false) - expected(calm, true) - 100.0 * (-4.0_f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn an_endpoint_that_outlasts_the_clock_counts_as_failing() {
        assert!(forecast(INPUTS, 0.0).calm.failure < 0.01);
        let at_clock = forecast(ScoreInputs { intercept: 60.0_f64.ln(), ..INPUTS }, 0.0).calm.failure;
        assert!((at_clock - 0.5).abs() < 0.01, "{at_clock}");
        assert!((forecast(ScoreInputs { intercept: 9.0, ..INPUTS }, 0.0).calm.failure - 1.0).abs() < 1e-12);
    }

    #[test]
    fn reliable_knows_how_likely_a_slow_answer_is() {
        let slow = |inputs, objective| under(inputs, objective, NoiseDraw::default()).slow;
        assert!(slow(INPUTS, Objective::Fastest).abs() < 1e-12, "only where it counts");
        let alone = slow(INPUTS, Objective::Reliable);
        assert!(alone > 0.1 && alone < 0.95, "{alone}");
        assert!(slow(ScoreInputs { in_flight: 7, ..INPUTS }, Objective::Reliable) > alone, "load included");
        assert!(slow(ScoreInputs { output_tokens: 10.0, ..INPUTS }, Objective::Reliable) < alone);
    }

    #[test]
    fn an_answer_that_comes_whole_is_waited_for_with_all_that_is_unknown_of_it() {
        let spread = |streamed, first: f64, variance| {
            let inputs = ScoreInputs { variance: first, output_variance: variance, ..INPUTS };
            let rules = ForecastRules::of(&RoutingPolicy::default(), Objective::Fastest, streamed);
            let curve = Curve::of(inputs.intercept, inputs.variance, inputs.per_token, inputs.prompt_slope);
            forecast(inputs, 0.0).spread(&inputs, &curve, &rules)
        };
        assert!((spread(true, 0.25, 1.0) - 0.5).abs() < 1e-12);
        assert!(spread(false, 0.04, 1.0) > spread(false, 0.04, 0.1));
        assert!(spread(false, 0.04, 0.1) >= 0.2);
    }

    #[test]
    fn each_estimate_has_a_doubt_of_its_own() {
        let calm = forecast(INPUTS, 0.0);
        let pace = under(INPUTS, Objective::Fastest, NoiseDraw { pace: 1.0, ..NoiseDraw::default() }).noisy;
        assert!(pace.generation > calm.calm.generation && pace.first_token == calm.calm.first_token);
        let fails = |inputs, objective| under(inputs, objective, NoiseDraw { failure: 1.0, ..NoiseDraw::default() });
        let unknown = fails(ScoreInputs { successes: 0.0, ..INPUTS }, Objective::Reliable);
        let known = fails(ScoreInputs { successes: 400.0, failures: 10.0, ..INPUTS }, Objective::Reliable);
        let factor = |forecast: Forecast| forecast.noisy.failure / forecast.calm.failure;
        assert!(factor(unknown) > factor(known) && factor(known) > 1.0);
        assert!((factor(fails(INPUTS, Objective::Cheapest)) - 1.0).abs() < 1e-12, "reliable alone explores failure");
    }

    #[test]
    fn the_floor_of_a_gate_that_is_not_open_counts_at_least() {
        assert!((forecast(ScoreInputs { floor: 0.5, ..INPUTS }, 0.0).calm.failure - 0.5).abs() < 1e-12);
    }
}
