//! Latency model of one endpoint: time to the first token as a function of the endpoint's own load.
//!
//! A decayed log-normal regression: latency is flat in the requests in flight up to a knee and grows with a power of
//! them beyond. The knee is searched among [`KNEES`] by least squares on decayed sums, so an observation costs a few
//! hundred flops and no allocation. Failures are not observed: an instant refusal must not look fast.
//!
//! [`PromptModel`] holds the effect of the prompt length, [`LongRun`] the long-run mean and variance. An ageing
//! estimate returns to the long-run mean, so that what was seen last, during trouble, is not believed for ever.

pub(crate) mod state;

use pointsman_domain::{StatsPolicy, Tick};

use super::{decay::remaining_since, prior::Prior, prompt::PromptModel, prompt::effect};

/// Candidate knees: requests in flight at which latency may begin to grow.
const KNEES: [f64; 12] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 128.0];
/// Weight of the prior, in observations.
const PRIOR_WEIGHT: f64 = 0.5;
/// Prior variance of ln seconds, and its weight in observations.
const PRIOR_VARIANCE: f64 = 0.25;
const PRIOR_VARIANCE_WEIGHT: f64 = 4.0;
/// Lower limit of the variance.
const LEAST_VARIANCE: f64 = 0.02;
/// Residual, in standard deviations, that counts as a surprise.
const SURPRISE: f64 = 2.3;
/// Sum of consecutive surprises of one sign, in standard deviations, that counts as a change of level.
const CHANGE: f64 = 6.0;
/// Highest contribution of one surprise, so that one alone is never a change.
const GREATEST: f64 = 4.0;
/// Answers over which residuals are averaged to detect drift.
const DRIFT_SPAN: f64 = 12.0;
/// Drift is significant beyond this multiple of its variance by chance. The memory then shrinks in proportion ...
const DRIFT_CHANCE: f64 = 2.0;
/// ... down to this many observations.
const DRIFT_WEIGHT: f64 = 15.0;
/// Improvement of the fit, in residual variances, from which a knee may exclude an endpoint (twice the ln of a
/// likelihood ratio). By chance the best of twelve knees reaches it once in some thousand fits.
const KNEE_EVIDENCE: f64 = 15.0;
/// Least knee assumed while no effect of load was observed ...
const UNSEEN_KNEE: f64 = 4.0;
/// ... and its ratio to the highest observed load.
const BEYOND_TRIED: f64 = 2.5;

/// Half-life of the long-run mean, in half-lives of the estimate.
const LONG_RUN: f64 = 20.0;
/// Weight of the long-run mean against the ageing estimate, in observations: half of the way back takes about two
/// half-lives.
const LONG_RUN_WEIGHT: f64 = 3.0;
/// Highest weight of the long-run variance against the present one, in observations. The variance of an endpoint is
/// steadier than its level.
const LONG_RUN_VARIANCE_WEIGHT: f64 = 80.0;
/// Residuals beyond this many standard deviations are a change of level and count as this much in the variance.
const SCATTER_MOST: f64 = 3.0;

/// Fitted regression: ln seconds = `intercept` + ln (1 + `prompt_slope` · prompt tokens) + `load_exponent` · ln max(1,
/// in flight / `knee`) ± √`variance`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// ln seconds at low load with an empty prompt.
    pub intercept: f64,
    /// Growth per prompt token, relative to an empty prompt.
    pub prompt_slope: f64,
    /// Exponent of the load beyond the knee.
    pub load_exponent: f64,
    /// Requests in flight up to which latency is flat.
    pub knee: f64,
    /// Variance of ln seconds around the fit.
    pub variance: f64,
    /// Whether the knee may exclude the endpoint: it is statistically significant, or no effect of load was observed
    /// and `knee` follows from the highest observed load.
    pub knee_is_sure: bool,
}

impl Fit {
    /// The prior, for an endpoint without observations.
    pub(crate) const fn cold(prior: Prior) -> Fit {
        let Prior { first_token: intercept, prompt_slope, .. } = prior;
        Fit {
            intercept,
            prompt_slope,
            load_exponent: 1.0,
            knee: UNSEEN_KNEE,
            variance: PRIOR_VARIANCE,
            knee_is_sure: true,
        }
    }

    /// Expected ln seconds, with `in_flight` requests including this one.
    pub fn expected(&self, in_flight: f64, prompt_tokens: f64) -> f64 {
        self.intercept + self.load(in_flight) + effect(self.prompt_slope, prompt_tokens)
    }

    /// Effect of load on ln seconds, with `in_flight` requests including this one.
    pub fn load(&self, in_flight: f64) -> f64 {
        load_effect(in_flight, self.knee, self.load_exponent)
    }
}

/// Effect of load on ln seconds: none up to the knee, then a power of the requests in flight, this one included.
pub(crate) fn load_effect(in_flight: f64, knee: f64, exponent: f64) -> f64 {
    if in_flight > knee { exponent * libm::log(in_flight / knee) } else { 0.0 }
}

/// Decayed sums over x = ln of the overload and y = ln seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LoadSums {
    x: f64,
    xx: f64,
    xy: f64,
}

/// Long-run mean and variance of ln seconds, without the effects of load and prompt.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LongRun {
    mean: f64,
    weight: f64,
    /// Sum of squared residuals, and their number.
    squares: f64,
    evidence: f64,
}

/// One observed first token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// ln of the seconds until it came.
    pub ln_seconds: f64,
    /// Requests in flight, this one included.
    pub in_flight: u32,
    pub prompt_tokens: f64,
    /// When it came.
    pub at: Tick,
    /// Whether the attempt was given up, so that the time is an extrapolation.
    pub guessed: bool,
}

/// Latency model of one endpoint.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatencyModel {
    weight: f64,
    y: f64,
    yy: f64,
    by_knee: [LoadSums; KNEES.len()],
    highest_load: f64,
    /// Sum of consecutive surprises of one sign, in standard deviations.
    shock: f64,
    /// Moving average of the residuals, in standard deviations.
    drift: f64,
    prompt: PromptModel,
    long_run: LongRun,
    fit: Option<Fit>,
    at: Option<Tick>,
}

impl LatencyModel {
    /// The fit at `now`, or the prior without observations.
    pub(crate) fn fit(&self, now: Tick, prior: Prior, policy: &StatsPolicy) -> Fit {
        self.measured(now, policy).unwrap_or(Fit::cold(prior))
    }

    /// The fit at `now`; `None` without observations.
    pub(crate) fn measured(&self, now: Tick, policy: &StatsPolicy) -> Option<Fit> {
        self.fit.map(|fit| Fit { intercept: fit.intercept - self.returned(&fit, now, policy), ..fit })
    }

    /// Decayed weight at `now`, in observations.
    pub fn weight(&self, now: Tick, policy: &StatsPolicy) -> f64 {
        self.weight * remaining_since(self.at, now, policy.half_life)
    }

    /// The intercept without one such observation that it already includes.
    pub fn intercept_without(&self, fit: &Fit, ln_seconds: f64, in_flight: f64, prompt_tokens: f64) -> f64 {
        let others = self.weight + PRIOR_WEIGHT - 1.0;
        let residual = ln_seconds - fit.expected(in_flight, prompt_tokens);
        if others > PRIOR_WEIGHT { fit.intercept - residual / others } else { fit.intercept }
    }

    /// Time of the last observation.
    pub fn observed(&self) -> Option<Tick> {
        self.at
    }

    /// Adds an observation.
    pub(crate) fn observe(&mut self, sample: Sample, prior: Prior, policy: &StatsPolicy) {
        if !sample.ln_seconds.is_finite() {
            return;
        }
        let in_flight = f64::from(sample.in_flight.max(1));
        let fit = self.measured(sample.at, policy).unwrap_or(Fit::cold(prior));
        self.lower(self.fit.map_or(0.0, |known| known.intercept - fit.intercept));
        let by_time = remaining_since(self.at, sample.at, policy.half_life);
        let residual = sample.ln_seconds - fit.expected(in_flight, sample.prompt_tokens);
        let remembered = by_time.min(1.0 - 1.0 / self.memory(residual, &fit, policy));
        let kept = remembered * self.kept_after_surprise(residual, &fit, by_time);
        self.add(sample.ln_seconds - effect(fit.prompt_slope, sample.prompt_tokens), in_flight, kept);
        self.highest_load = in_flight.max(self.highest_load * by_time);
        let unloaded = sample.ln_seconds - fit.load(in_flight);
        let more = self.prompt.observe(unloaded, sample.prompt_tokens, kept, remembered, prior.prompt_slope);
        self.lower(more);
        self.long_run.mean -= more;
        if !sample.guessed {
            let left = remaining_since(self.at, sample.at, policy.half_life.mul_f64(LONG_RUN));
            let slope = self.prompt.slope(prior.prompt_slope);
            // Residuals against the prior say nothing about the variance.
            let scatter = self.fit.map(|_| residual.abs().min(SCATTER_MOST * fit.variance.sqrt()));
            let known = self.weight - 1.0 + PRIOR_WEIGHT;
            let square = scatter.map(|off| off * off * known / (known + 1.0));
            self.long_run.observe(unloaded - effect(slope, sample.prompt_tokens), square, left);
        }
        self.at = self.at.max(Some(sample.at));
        self.fit = Some(self.fitted(prior));
    }

    /// By how much (ln) the estimate has returned to the long-run mean since the last observation. The weight of the
    /// estimate decays, that of the long-run mean does not.
    fn returned(&self, fit: &Fit, now: Tick, policy: &StatsPolicy) -> f64 {
        if self.long_run.weight <= 0.0 {
            return 0.0;
        }
        let left = remaining_since(self.at, now, policy.half_life);
        let kept = left * (self.weight + LONG_RUN_WEIGHT) / (left * self.weight + LONG_RUN_WEIGHT);
        (1.0 - kept) * (fit.intercept - self.long_run.mean)
    }

    /// Subtracts a constant from every observation in the sums.
    fn lower(&mut self, by: f64) {
        self.yy += by * (by * self.weight - 2.0 * self.y);
        self.y -= by * self.weight;
        self.by_knee.iter_mut().for_each(|sums| sums.xy -= by * sums.x);
    }

    fn add(&mut self, y: f64, in_flight: f64, kept: f64) {
        self.weight = kept * self.weight + 1.0;
        self.y = kept * self.y + y;
        self.yy = kept * self.yy + y * y;
        for (sums, knee) in self.by_knee.iter_mut().zip(KNEES) {
            let x = if in_flight > knee { libm::log(in_flight / knee) } else { 0.0 };
            sums.x = kept * sums.x + x;
            sums.xx = kept * sums.xx + x * x;
            sums.xy = kept * sums.xy + x * y;
        }
    }

    /// Share of the past that is kept after this residual: all, unless consecutive surprises of one sign add up to a
    /// change. Then one pseudo-observation is kept, and the estimate jumps to the new level.
    fn kept_after_surprise(&mut self, residual: f64, fit: &Fit, by_time: f64) -> f64 {
        if by_time * self.weight <= 3.0 {
            return 1.0;
        }
        let surprise = residual / fit.variance.sqrt();
        if surprise.abs() <= SURPRISE {
            self.shock = 0.0;
            return 1.0;
        }
        let before = if self.shock * surprise > 0.0 { self.shock } else { 0.0 };
        self.shock = before + surprise.clamp(-GREATEST, GREATEST);
        if self.shock.abs() < CHANGE {
            return 1.0;
        }
        self.shock = 0.0;
        (1.0 / self.weight).min(1.0)
    }

    /// Memory length in observations: shorter if recent residuals lean to one side.
    fn memory(&mut self, residual: f64, fit: &Fit, policy: &StatsPolicy) -> f64 {
        let error = (residual / fit.variance.sqrt()).clamp(-SCATTER_MOST, SCATTER_MOST);
        self.drift += (error - self.drift) / DRIFT_SPAN;
        let by_chance = 1.0 / (2.0 * DRIFT_SPAN - 1.0);
        let most = policy.max_weight.max(1.0);
        let trusted = most * DRIFT_CHANCE * by_chance / (self.drift * self.drift);
        trusted.max(DRIFT_WEIGHT).min(most)
    }

    fn fitted(&self, prior: Prior) -> Fit {
        let w = self.weight;
        let flat = (self.y + PRIOR_WEIGHT * prior.first_token) / (w + PRIOR_WEIGHT);
        let flat_rss = (self.yy - 2.0 * flat * self.y + flat * flat * w).max(0.0);
        let penalty = 2.0 * (flat_rss + 1.0) / (w + 4.0);
        let best = self.best_knee(prior.first_token).filter(|(rss, _)| rss + penalty < flat_rss);
        let (rss, fit) = best.unwrap_or_else(|| {
            let knee = UNSEEN_KNEE.max(BEYOND_TRIED * self.highest_load);
            (flat_rss, Fit { intercept: flat, knee, ..Fit::cold(prior) })
        });
        let (usual, counts) = self.long_run.variance();
        let variance = (rss + counts * usual) / (w + counts);
        let prompt_slope = self.prompt.slope(prior.prompt_slope);
        let variance = variance.max(LEAST_VARIANCE);
        let knee_is_sure = fit.knee_is_sure || flat_rss - rss > KNEE_EVIDENCE * variance;
        Fit { prompt_slope, variance, knee_is_sure, ..fit }
    }

    /// The fit with the least sum of squared residuals, among knees below the highest observed load.
    fn best_knee(&self, prior: f64) -> Option<(f64, Fit)> {
        let tried = KNEES.into_iter().zip(&self.by_knee).filter(|(knee, _)| *knee < self.highest_load);
        tried.map(|(knee, sums)| self.fit_at(knee, sums, prior)).min_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    fn fit_at(&self, knee: f64, sums: &LoadSums, prior: f64) -> (f64, Fit) {
        let w = self.weight;
        let cxx = sums.xx - sums.x * sums.x / w;
        let cxy = sums.xy - sums.x * self.y / w;
        // Ridge prior: one observation's worth of evidence for an exponent of 1.
        let b = ((cxy + 1.0) / (cxx + 1.0)).clamp(0.0, 2.0);
        let a = (self.y - b * sums.x + PRIOR_WEIGHT * prior) / (w + PRIOR_WEIGHT);
        let rss = self.yy - 2.0 * a * self.y - 2.0 * b * sums.xy + a * a * w + 2.0 * a * b * sums.x + b * b * sums.xx;
        (
            rss.max(0.0),
            Fit { intercept: a, prompt_slope: 0.0, load_exponent: b, knee, variance: 0.0, knee_is_sure: false },
        )
    }
}

impl LongRun {
    /// `square`: the squared residual, if there was an estimate to compare with.
    fn observe(&mut self, y: f64, square: Option<f64>, left: f64) {
        self.weight = left * self.weight + 1.0;
        self.mean += (y - self.mean) / self.weight;
        self.squares = left * self.squares + square.unwrap_or(0.0);
        self.evidence = left * self.evidence + f64::from(u8::from(square.is_some()));
    }

    /// The long-run variance and its weight, in observations.
    fn variance(&self) -> (f64, f64) {
        let usual = (self.squares + PRIOR_VARIANCE_WEIGHT * PRIOR_VARIANCE) / (self.evidence + PRIOR_VARIANCE_WEIGHT);
        (usual, PRIOR_VARIANCE_WEIGHT + self.evidence.min(LONG_RUN_VARIANCE_WEIGHT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_domain::RoutingPolicy;
    use std::time::Duration;

    const PRIOR: Prior = Prior { first_token: -0.7, prompt_slope: 0.0, per_token: -4.0, failure: 0.01 };

    fn policy() -> StatsPolicy {
        RoutingPolicy::default().stats
    }

    fn sample(seconds: f64, in_flight: u32, second: u64) -> Sample {
        let at = Tick(second * 1_000_000);
        Sample { ln_seconds: seconds.ln(), in_flight, prompt_tokens: 0.0, at, guessed: false }
    }

    /// Right after the last observation.
    fn fit(model: &LatencyModel) -> Fit {
        model.fit(model.observed().unwrap_or_default(), PRIOR, &policy())
    }

    /// Feeds one observation a second: (seconds, in flight).
    fn fed(observations: impl IntoIterator<Item = (f64, u32)>) -> LatencyModel {
        let mut model = LatencyModel::default();
        for (second, (seconds, in_flight)) in (1_u64..).zip(observations) {
            model.observe(sample(seconds, in_flight, second), PRIOR, &policy());
        }
        model
    }

    #[test]
    fn steady_answers_are_learned_with_their_spread() {
        let fit = fit(&fed((0..100).map(|i| (if i % 2 == 0 { 0.2 } else { 0.3 }, 1))));
        assert!((fit.intercept.exp() - (0.2_f64 * 0.3).sqrt()).abs() < 0.01, "{fit:?}");
        assert!(fit.variance > 0.03 && fit.variance < 0.1, "{fit:?}");
    }

    #[test]
    fn weight_never_exceeds_the_cap_and_fades_with_the_half_life() {
        let model = fed((0..500).map(|_| (0.2, 1)));
        let now = Tick(500 * 1_000_000);
        assert!(model.weight(now, &policy()) <= policy().max_weight);
        let later = Tick(560 * 1_000_000);
        assert!((model.weight(later, &policy()) / model.weight(now, &policy()) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_level_that_moves_slowly_is_followed_with_a_shorter_memory() {
        let often = StatsPolicy { half_life: Duration::from_secs(3600), ..policy() };
        let after = |rise: f64| {
            let mut model = LatencyModel::default();
            for second in 0..360_u64 {
                let scatter = if second % 2 == 0 { 0.8 } else { 1.25 };
                let level = libm::exp(rise * (second as f64 - 300.0).max(0.0));
                model.observe(sample(0.2 * scatter * level, 1, second), PRIOR, &often);
            }
            (model.weight(Tick(360_000_000), &often), model.fit.unwrap().intercept - 0.2_f64.ln())
        };
        let ((steady, _), (moving, followed)) = (after(0.0), after(0.01));
        assert!(steady > 0.9 * often.max_weight, "chance shortens nothing: {steady}");
        assert!(moving < 0.5 * steady, "{moving}");
        assert!(followed > 0.5 * 0.59, "of a rise by 0.59 so much is believed: {followed}");
    }

    #[test]
    fn the_variance_has_a_longer_memory_than_the_level() {
        let scattering = (0..1200).map(|second| (if second % 2 == 0 { 0.1 } else { 0.4 }, 1));
        let model = fed(scattering.chain((0..100).map(|_| (0.2, 1))));
        assert!(fit(&model).variance > 0.2, "{:?}", fit(&model));
    }

    #[test]
    fn the_knee_is_found_where_latency_begins_to_grow() {
        let seconds = |k: u32| 0.2 * f64::from(k.max(8)) / 8.0;
        let fit = fit(&fed((0..200).map(|i| 1 + (i * 7) % 30).map(|k| (seconds(k), k))));
        assert!((6.0..=12.0).contains(&fit.knee), "{fit:?}");
        assert!((0.7..=1.3).contains(&fit.load_exponent), "{fit:?}");
        assert!((fit.intercept.exp() - 0.2).abs() < 0.04, "{fit:?}");
    }

    #[test]
    fn without_an_effect_of_load_the_knee_lies_well_beyond_what_was_tried() {
        let fit = fit(&fed((0..100).map(|i| (0.2, 1 + i % 10))));
        assert!((fit.knee - 25.0).abs() < 1.0, "{fit:?}");
        assert!(fit.load(20.0).abs() < 1e-12);
        assert!(fit.load(50.0) > 0.5);
    }

    #[test]
    fn a_tenfold_shift_is_believed_at_the_second_surprise() {
        let mut model = fed((0..60).map(|_| (0.2, 1)));
        model.observe(sample(2.0, 1, 61), PRIOR, &policy());
        assert!(fit(&model).intercept.exp() < 0.3, "one surprise is an accident");
        model.observe(sample(2.0, 1, 62), PRIOR, &policy());
        assert!(fit(&model).intercept.exp() > 0.5, "two are a change: {:?}", fit(&model));
        model.observe(sample(2.0, 1, 63), PRIOR, &policy());
        assert!(fit(&model).intercept.exp() > 0.8, "{:?}", fit(&model));
    }

    #[test]
    fn surprises_of_opposite_signs_are_no_change() {
        let mut model = fed((0..60).map(|_| (0.2, 1)));
        let before = model.weight(Tick(60_000_000), &policy());
        model.observe(sample(2.0, 1, 60), PRIOR, &policy());
        model.observe(sample(0.02, 1, 60), PRIOR, &policy());
        assert!(model.weight(Tick(60_000_000), &policy()) >= before);
    }

    #[test]
    fn an_estimate_goes_back_to_the_long_run_mean_as_it_ages() {
        let mut model = fed((0..120).map(|_| (0.2, 1)));
        for second in 121..125 {
            model.observe(sample(4.0, 1, second), PRIOR, &policy());
        }
        let median = |minutes: u64| model.fit(Tick((125 + 60 * minutes) * 1_000_000), PRIOR, &policy()).intercept.exp();
        assert!(median(0) > 1.5, "{}", median(0));
        assert!(median(3) < 0.5 * median(0), "{}", median(3));
        assert!(median(8) < 0.3, "{}", median(8));
    }

    #[test]
    fn an_endpoint_that_stays_slow_has_a_slow_long_run_mean() {
        let model = fed((0..1800).map(|second| (if second < 60 { 0.2 } else { 2.0 }, 1)));
        let later = model.fit(Tick(3_600_000_000), PRIOR, &policy());
        assert!((1.5..2.1).contains(&later.intercept.exp()), "{later:?}");
    }

    #[test]
    fn extrapolated_times_do_not_change_the_long_run_mean() {
        let mut model = fed((0..10).map(|_| (0.2, 1)));
        let before = model.long_run;
        model.observe(Sample { guessed: true, ..sample(8.0, 1, 11) }, PRIOR, &policy());
        assert!((model.long_run.mean - before.mean).abs() < 1e-12);
        assert!(model.fit(Tick(11_000_000), PRIOR, &policy()).intercept > before.mean);
    }

    #[test]
    fn prompts_are_taken_out_of_the_intercept() {
        let prompts = |second: u64| if second.is_multiple_of(2) { 4000.0 } else { 200.0 };
        let mut model = LatencyModel::default();
        for second in 1..80 {
            let seconds = 0.2 * (1.0 + prompts(second) / 2000.0);
            let sample = Sample { prompt_tokens: prompts(second), ..sample(seconds, 1, second) };
            model.observe(sample, PRIOR, &policy());
        }
        let fit = fit(&model);
        assert!((fit.intercept.exp() / 0.2).ln().abs() < 0.15, "{fit:?}");
        for tokens in [200.0, 4000.0] {
            let seconds = 0.2 * (1.0 + tokens / 2000.0);
            assert!((fit.expected(1.0, tokens).exp() / seconds).ln().abs() < 0.1, "{fit:?}");
        }
        assert!(fit.variance < 0.06, "{fit:?}");
    }

    #[test]
    fn a_knee_by_chance_is_not_sure_and_a_real_one_is() {
        let z = |i: u64| {
            let uniform =
                |salt: u64| (crate::stats::seeded_hash::splitmix64(salt ^ i) >> 11) as f64 / (1_u64 << 53) as f64;
            (0..12).map(|draw| uniform(draw << 32)).sum::<f64>() - 6.0
        };
        let sure = |knee: f64, seed: u64| {
            let mut model = LatencyModel::default();
            for i in 1..60_u64 {
                let in_flight = 1 + (i % 6) as u32;
                let load = libm::log((f64::from(in_flight) / knee).max(1.0));
                let seconds = libm::exp(-1.5 + 0.6 * z(seed * 1000 + i) + load);
                model.observe(sample(seconds, in_flight, i), PRIOR, &policy());
            }
            let fit = fit(&model);
            fit.knee_is_sure && fit.knee <= 4.0
        };
        assert_eq!((0..200).filter(|seed| sure(64.0, *seed)).count(), 0, "no load effect: no knee that excludes");
        assert!((0..200).filter(|seed| sure(1.0, *seed)).count() > 150, "latency in proportion to the load is seen");
    }
}
