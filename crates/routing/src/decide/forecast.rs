//! Forecast of an endpoint for one request.
//!
//! Computed from the recorded [`ScoreInputs`] and the policy alone, so that a replay of the record gives the same
//! bits.

use pointsman_domain::{Objective, Prediction, RoutingPolicy, ScoreInputs};

use super::{
    noise::{self, NoiseDraw},
    objective_profile::{CAUTIOUS_EXPLORATION, ObjectiveProfile},
    uncertainty::{Uncertainty, UncertaintyModel, log_odds, of_log_odds},
};
use crate::stats::{Curve, EndpointStats, FailureModel, load_effect};

/// Lower limit of an expected time, seconds ...
const LEAST_TIME: f64 = 1e-9;
/// ... and of its spread, ln.
const LEAST_SIGMA: f64 = 1e-3;

/// Standard deviations before the time-out from which it cannot matter: a probability of 10⁻³² changes no bit of a failure
/// probability, which holds a prior of at least 10⁻¹⁰.
const CERTAINLY_IN_TIME: f64 = -12.0;

/// Constants of the forecasts of one decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForecastRules {
    uncertainty: UncertaintyModel,
    /// Share of the uncertainty that is explored.
    exploration: f64,
    streamed: bool,
    /// Time-out of an attempt, seconds.
    clock: f64,
    /// ln of the seconds beyond which an answer is too slow. `None` for objectives that ignore this and the uncertainty
    /// of the failure probability.
    ln_slow: Option<f64>,
}

impl ForecastRules {
    pub(crate) fn new(policy: &RoutingPolicy, objective: Objective, streamed: bool) -> ForecastRules {
        let profile = ObjectiveProfile::of(objective);
        // Measured times end with the first content, so its time-out is the relevant one.
        let clock = if streamed { policy.clocks.first_content } else { policy.clocks.total }.as_secs_f64().max(1e-3);
        ForecastRules {
            uncertainty: UncertaintyModel::new(policy, profile.explores_old_pace),
            exploration: profile.exploration,
            streamed,
            clock,
            ln_slow: profile.counts_slow_answers.then(|| libm::log(policy.reliable_slow.as_secs_f64().max(1e-3))),
        }
    }

    /// The scale of the noise.
    pub(crate) fn uncertainty_of(&self, inputs: &ScoreInputs) -> Uncertainty {
        self.uncertainty.of_inputs(inputs)
    }

    /// Probability that an expected wait of this many seconds exceeds the time-out.
    fn runs_out(&self, waited: f64, curve: &Curve) -> f64 {
        let z = libm::log(waited / self.clock) / curve.sigma;
        if z < CERTAINLY_IN_TIME { 0.0 } else { noise::normal_share(z) }
    }

    /// Probability that the whole answer takes longer than the limit of `reliable`; 0 for other objectives. Without
    /// noise: it follows from the variance of answers, not from the uncertainty of their mean.
    fn slow_probability(&self, inputs: &ScoreInputs, noiseless: &PointForecast) -> f64 {
        let Some(ln_slow) = self.ln_slow else { return 0.0 };
        let variance = Variances::new(inputs).of_whole(noiseless.first_token, noiseless.generation);
        let ln_median = libm::log((noiseless.first_token + noiseless.generation).max(LEAST_TIME)) - 0.5 * variance;
        noise::normal_share((ln_median - ln_slow) / variance.sqrt().max(LEAST_SIGMA))
    }
}

/// Variances of ln of the two parts of an answer: until the first token, and from there on.
#[derive(Debug, Clone, Copy)]
struct Variances {
    first_token: f64,
    generation: f64,
}

impl Variances {
    fn new(inputs: &ScoreInputs) -> Variances {
        Variances { first_token: inputs.variance, generation: inputs.pace_variance + inputs.output_variance }
    }

    /// Variance of ln of the total time, given the means of its two parts: each part contributes in proportion to its
    /// squared share.
    fn of_whole(self, first_token: f64, generation: f64) -> f64 {
        let sum = (first_token + generation).max(LEAST_TIME);
        let parts = first_token * first_token * self.first_token + generation * generation * self.generation;
        parts / (sum * sum)
    }
}

/// Inputs of a score, with noise or without.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PointForecast {
    /// Mean seconds to the first token.
    pub first_token: f64,
    /// Seconds from the first token to the last.
    pub generation: f64,
    /// Probability that the attempt fails or times out.
    pub failure: f64,
    /// Probability that its answer is not acceptable; 0 where quality does not count.
    pub loss: f64,
}

/// Forecast in seconds and probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Forecast {
    /// Effect of load on ln seconds.
    pub load: f64,
    /// Median time to the first token.
    pub first_token: f64,
    /// With noise.
    pub noisy: PointForecast,
    /// Without noise.
    pub noiseless: PointForecast,
    /// Probability that the answer is too slow; 0 if the objective ignores that.
    pub slow: f64,
    /// Seconds that the prompt cache saves on the mean time to the first token. Already subtracted.
    pub saved: f64,
}

impl Forecast {
    /// The forecast from recorded inputs, with this noise.
    pub(crate) fn new(
        inputs: &ScoreInputs,
        curve: &Curve,
        rules: &ForecastRules,
        noise: Option<NoiseDraw>,
    ) -> Forecast {
        let load = load_effect(f64::from(inputs.in_flight) + 1.0, inputs.knee, inputs.load_exponent);
        let stretch = match load {
            // Below the knee, as most are.
            0.0 => 1.0,
            load => libm::exp(load),
        };
        let cached = f64::from(inputs.cached_tokens.min(inputs.prompt_tokens));
        let fresh = f64::from(inputs.prompt_tokens) - cached;
        let median = (curve.first_token + curve.prompt_token * fresh) * stretch;
        let first_token = median * curve.mean;
        let generation = inputs.output_tokens * inputs.shown * curve.per_token * stretch;
        let waited = if rules.streamed { median } else { first_token + generation };
        let fails = FailureModel::probability(inputs.failures, inputs.successes, inputs.usual_failure);
        let failure = (fails + (1.0 - fails) * rules.runs_out(waited, curve)).max(inputs.floor);
        let noiseless = PointForecast { first_token, generation, failure, loss: 0.0 };
        let saved = curve.prompt_token * cached * stretch * curve.mean;
        let forecast = Forecast { load, first_token: median, noisy: noiseless, noiseless, slow: 0.0, saved };
        forecast.with_noise_of(inputs, rules, noise)
    }

    /// The same times under other rules, with this noise. Quality is left out.
    pub(crate) fn with_noise_of(
        self,
        inputs: &ScoreInputs,
        rules: &ForecastRules,
        noise: Option<NoiseDraw>,
    ) -> Forecast {
        let noiseless = self.noiseless;
        Forecast {
            noisy: noise.map_or(noiseless, |noise| noiseless.with_noise(rules, noise, rules.uncertainty_of(inputs))),
            slow: rules.slow_probability(inputs, &noiseless),
            ..self
        }
    }

    /// With this probability that the answer is not acceptable.
    pub(crate) fn set_loss(&mut self, loss: f64, uncertainty: Uncertainty, noise: Option<NoiseDraw>) {
        self.noiseless.loss = loss;
        self.noisy.loss = noise.map_or(loss, |noise| self.noiseless.loss_with_noise(noise, uncertainty));
    }

    /// Expected seconds until the first sign of life.
    pub(crate) fn expected(&self, rules: &ForecastRules) -> f64 {
        self.first_token + if rules.streamed { 0.0 } else { self.noiseless.generation }
    }

    /// Standard deviation of ln of that. A plain answer gives its first sign of life at its end, so its length and pace
    /// add to the variance.
    pub(crate) fn spread(&self, inputs: &ScoreInputs, curve: &Curve, rules: &ForecastRules) -> f64 {
        if rules.streamed {
            return curve.sigma;
        }
        Variances::new(inputs).of_whole(self.noiseless.first_token, self.noiseless.generation).sqrt().max(curve.sigma)
    }

    /// Mean seconds to the last byte, without noise.
    pub(crate) fn noiseless_time(&self) -> f64 {
        self.noiseless.first_token + self.noiseless.generation
    }

    /// The same without the cache. Baselines use it, so that they do not depend on which endpoint holds the cache.
    pub(crate) fn uncached_time(&self) -> f64 {
        self.noiseless.first_token + self.saved + self.noiseless.generation
    }

    /// The published prediction, without noise.
    pub(crate) fn published(&self, inputs: &ScoreInputs, stats: &EndpointStats) -> Prediction {
        let total = self.first_token + self.noiseless.generation;
        let shown = inputs.output_tokens * inputs.shown;
        let generated = shown > 0.0;
        let (tokens, seconds) =
            if generated { (shown, self.noiseless.generation) } else { (1.0, stats.curve.per_token) };
        Prediction {
            first_token_p50: self.first_token,
            first_token_p95: self.first_token * stats.first_token_p95,
            tokens_per_second: tokens / seconds.max(1e-9 * tokens),
            total_p50: total,
            total_p95: total * stats.total_p95,
            cost: inputs.cost,
            failure: self.noiseless.failure,
            // What fades after hours of quiet was measured nevertheless.
            measured: inputs.weight > 0.0 || inputs.age.is_finite(),
        }
    }
}

impl PointForecast {
    /// Noise on quality is cautious, as everything that changes the model is.
    fn loss_with_noise(&self, noise: NoiseDraw, uncertainty: Uncertainty) -> f64 {
        if self.loss <= 0.0 || uncertainty.loss <= 0.0 {
            return self.loss;
        }
        of_log_odds(log_odds(self.loss) + CAUTIOUS_EXPLORATION * noise.loss * uncertainty.loss)
    }

    /// With this noise, in standard deviations of this uncertainty.
    pub(crate) fn with_noise(self, rules: &ForecastRules, noise: NoiseDraw, uncertainty: Uncertainty) -> PointForecast {
        let stretch = |z: f64, sigma: f64| libm::exp(rules.exploration * z * sigma);
        let explores_failure = rules.ln_slow.is_some();
        PointForecast {
            first_token: self.first_token * stretch(noise.first_token, uncertainty.first_token),
            generation: self.generation * stretch(noise.pace, uncertainty.pace),
            failure: if explores_failure {
                (self.failure * libm::exp(noise.failure * uncertainty.failure)).min(1.0)
            } else {
                self.failure
            },
            loss: self.loss_with_noise(noise, uncertainty),
        }
    }
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
        output_tokens: 100.0,
        output_variance: 0.2,
        cost: 0.01,
        floor: 0.0,
        expected: 0.4,
        spread: 0.5,
        tier: 0,
        reopens: pointsman_domain::Reopens::Now,
        quality: None,
    };

    fn forecast(inputs: ScoreInputs, z: f64) -> Forecast {
        under(inputs, Objective::Fastest, NoiseDraw { first_token: z, ..NoiseDraw::default() })
    }

    fn under(inputs: ScoreInputs, objective: Objective, draw: NoiseDraw) -> Forecast {
        let curve = Curve::new(inputs.intercept, inputs.variance, inputs.per_token, inputs.prompt_slope);
        let rules = ForecastRules::new(&RoutingPolicy::default(), objective, true);
        Forecast::new(&inputs, &curve, &rules, Some(draw))
    }

    #[test]
    fn load_has_no_effect_up_to_the_knee_and_slows_everything_beyond() {
        let idle = forecast(INPUTS, 0.0);
        let at_knee = forecast(ScoreInputs { in_flight: 3, ..INPUTS }, 0.0);
        let beyond = forecast(ScoreInputs { in_flight: 7, ..INPUTS }, 0.0);
        assert_eq!(idle, at_knee);
        assert!((beyond.first_token / idle.first_token - 2.0).abs() < 1e-12);
        assert!((beyond.noiseless.generation / idle.noiseless.generation - 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_mean_lies_above_the_median_by_half_the_variance() {
        let idle = forecast(INPUTS, 0.0);
        assert!((idle.noiseless.first_token / idle.first_token - 0.125_f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn noise_is_wider_the_less_and_the_longer_ago_it_was_measured() {
        let spread = |inputs| forecast(inputs, 1.0).noisy.first_token / forecast(inputs, 0.0).noisy.first_token;
        let known = spread(INPUTS);
        assert!(spread(ScoreInputs { weight: 0.0, ..INPUTS }) > known);
        assert!(spread(ScoreInputs { age: 600.0, ..INPUTS }) > known);
        assert_eq!(spread(ScoreInputs { age: 3600.0, ..INPUTS }), spread(ScoreInputs { age: f64::INFINITY, ..INPUTS }));
    }

    #[test]
    fn an_endpoint_that_outlasts_the_clock_counts_as_failing() {
        assert!(forecast(INPUTS, 0.0).noiseless.failure < 0.01);
        let at_clock = forecast(ScoreInputs { intercept: 60.0_f64.ln(), ..INPUTS }, 0.0).noiseless.failure;
        assert!((at_clock - 0.5).abs() < 0.01, "{at_clock}");
        assert!((forecast(ScoreInputs { intercept: 9.0, ..INPUTS }, 0.0).noiseless.failure - 1.0).abs() < 1e-12);
    }

    #[test]
    fn reliable_predicts_the_probability_of_a_slow_answer() {
        let slow = |inputs, objective| under(inputs, objective, NoiseDraw::default()).slow;
        assert!(slow(INPUTS, Objective::Fastest).abs() < 1e-12, "only where it counts");
        let alone = slow(INPUTS, Objective::Reliable);
        assert!(alone > 0.1 && alone < 0.95, "{alone}");
        assert!(slow(ScoreInputs { in_flight: 7, ..INPUTS }, Objective::Reliable) > alone, "load included");
        assert!(slow(ScoreInputs { output_tokens: 10.0, ..INPUTS }, Objective::Reliable) < alone);
    }

    #[test]
    fn the_spread_of_a_plain_answer_includes_its_length_and_pace() {
        let spread = |streamed, first: f64, variance| {
            let inputs = ScoreInputs { variance: first, output_variance: variance, ..INPUTS };
            let rules = ForecastRules::new(&RoutingPolicy::default(), Objective::Fastest, streamed);
            let curve = Curve::new(inputs.intercept, inputs.variance, inputs.per_token, inputs.prompt_slope);
            forecast(inputs, 0.0).spread(&inputs, &curve, &rules)
        };
        assert!((spread(true, 0.25, 1.0) - 0.5).abs() < 1e-12);
        assert!(spread(false, 0.04, 1.0) > spread(false, 0.04, 0.1));
        assert!(spread(false, 0.04, 0.1) >= 0.2);
    }

    #[test]
    fn each_estimate_has_noise_of_its_own() {
        let noiseless = forecast(INPUTS, 0.0);
        let pace = under(INPUTS, Objective::Fastest, NoiseDraw { pace: 1.0, ..NoiseDraw::default() }).noisy;
        assert!(
            pace.generation > noiseless.noiseless.generation && pace.first_token == noiseless.noiseless.first_token
        );
        let fails = |inputs, objective| under(inputs, objective, NoiseDraw { failure: 1.0, ..NoiseDraw::default() });
        let unknown = fails(ScoreInputs { successes: 0.0, ..INPUTS }, Objective::Reliable);
        let known = fails(ScoreInputs { successes: 400.0, failures: 10.0, ..INPUTS }, Objective::Reliable);
        let factor = |forecast: Forecast| forecast.noisy.failure / forecast.noiseless.failure;
        assert!(factor(unknown) > factor(known) && factor(known) > 1.0);
        assert!((factor(fails(INPUTS, Objective::Cheapest)) - 1.0).abs() < 1e-12, "reliable alone explores failure");
    }

    #[test]
    fn the_floor_of_a_gate_that_is_not_open_counts_at_least() {
        assert!((forecast(ScoreInputs { floor: 0.5, ..INPUTS }, 0.0).noiseless.failure - 0.5).abs() < 1e-12);
    }
}
