//! How long an endpoint takes to its first token, and how that grows with its own load.
//!
//! A decayed log-normal: latency is flat in the requests in flight up to a knee, then a power of them. The
//! knee is searched among [`KNEES`] by least squares on sums that forget, so an observation costs a few
//! hundred flops and no allocation. Failures never come here: an instant refusal must not look fast.

mod state;

pub(super) use state::FirstTokenState;

use super::decay::remaining_since;
use crate::domain::{StatsPolicy, Tick};

/// Requests in flight at which latency may begin to grow.
const KNEES: [f64; 12] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0, 128.0];
/// Weight of the expectation from outside, in observations.
const PRIOR_WEIGHT: f64 = 0.5;
/// Variance of ln seconds assumed before there is evidence, and how many observations it counts as.
const PRIOR_VARIANCE: f64 = 0.25;
const PRIOR_VARIANCE_WEIGHT: f64 = 4.0;
/// No endpoint is steadier than this.
const LEAST_VARIANCE: f64 = 0.02;
/// Residual, in standard deviations, that counts as a surprise; two in a row are a change.
const SURPRISE: f64 = 2.3;
/// Knee assumed as long as no effect of load was seen, at least.
const UNSEEN_KNEE: f64 = 4.0;
/// ... and relative to the highest load that was tried.
const BEYOND_TRIED: f64 = 2.5;

/// What the sums say: ln seconds = `intercept` + `load_exponent` · ln max(1, in flight / `knee`) ± √`variance`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// ln seconds at low load.
    pub intercept: f64,
    /// Power with which latency grows beyond the knee.
    pub load_exponent: f64,
    /// Requests in flight up to which latency is flat.
    pub knee: f64,
    /// Variance of ln seconds around the fit.
    pub variance: f64,
}

impl Fit {
    /// What is believed of an endpoint that was never measured.
    #[must_use]
    pub const fn cold(prior: f64) -> Fit {
        Fit { intercept: prior, load_exponent: 1.0, knee: UNSEEN_KNEE, variance: PRIOR_VARIANCE }
    }

    /// What load adds to ln seconds with so many requests in flight, the measured one included.
    #[must_use]
    pub fn load(&self, in_flight: f64) -> f64 {
        if in_flight > self.knee { self.load_exponent * libm::log(in_flight / self.knee) } else { 0.0 }
    }
}

/// Decayed sums over the logarithms x of overload and y of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LoadSums {
    x: f64,
    xx: f64,
    xy: f64,
}

/// The first-token model of one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstToken {
    weight: f64,
    y: f64,
    yy: f64,
    by_knee: [LoadSums; KNEES.len()],
    highest_load: f64,
    shock: i32,
    fit: Option<Fit>,
    at: Option<Tick>,
}

impl Default for FirstToken {
    fn default() -> FirstToken {
        FirstToken {
            weight: 0.0,
            y: 0.0,
            yy: 0.0,
            by_knee: [LoadSums::default(); KNEES.len()],
            highest_load: 0.0,
            shock: 0,
            fit: None,
            at: None,
        }
    }
}

impl FirstToken {
    /// The fit, or what `prior` (ln seconds) alone says.
    #[must_use]
    pub fn fit(&self, prior: f64) -> Fit {
        self.fit.unwrap_or(Fit::cold(prior))
    }

    /// The intercept, if anything was measured.
    #[must_use]
    pub fn measured(&self) -> Option<f64> {
        self.fit.map(|fit| fit.intercept)
    }

    /// Observations it rests on, as they count at `now`.
    #[must_use]
    pub fn weight(&self, now: Tick, policy: &StatsPolicy) -> f64 {
        self.weight * remaining_since(self.at, now, policy.half_life)
    }

    /// What the intercept would be without an observation of this kind that is already in it.
    #[must_use]
    pub fn intercept_without(&self, fit: &Fit, ln_seconds: f64, in_flight: f64) -> f64 {
        let others = self.weight + PRIOR_WEIGHT - 1.0;
        let residual = ln_seconds - fit.intercept - fit.load(in_flight);
        if others > PRIOR_WEIGHT { fit.intercept - residual / others } else { fit.intercept }
    }

    /// When the last observation came.
    #[must_use]
    pub fn observed(&self) -> Option<Tick> {
        self.at
    }

    /// Takes in that the first token took exp(`ln_seconds`) s with `in_flight` requests, itself included.
    pub fn observe(&mut self, ln_seconds: f64, in_flight: u32, now: Tick, prior: f64, policy: &StatsPolicy) {
        if !ln_seconds.is_finite() {
            return;
        }
        let in_flight = f64::from(in_flight.max(1));
        let by_time = remaining_since(self.at, now, policy.half_life);
        let kept =
            by_time.min(1.0 - 1.0 / policy.max_weight.max(1.0)) * self.kept_after_surprise(ln_seconds, in_flight);
        self.weight = kept * self.weight + 1.0;
        self.y = kept * self.y + ln_seconds;
        self.yy = kept * self.yy + ln_seconds * ln_seconds;
        for (sums, knee) in self.by_knee.iter_mut().zip(KNEES) {
            let x = if in_flight > knee { libm::log(in_flight / knee) } else { 0.0 };
            sums.x = kept * sums.x + x;
            sums.xx = kept * sums.xx + x * x;
            sums.xy = kept * sums.xy + x * ln_seconds;
        }
        self.highest_load = in_flight.max(self.highest_load * by_time);
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
        self.fit = Some(self.fitted(prior));
    }

    /// The share of the past that survives this observation: all, unless it is the second surprise of one
    /// sign in a row. Then one pseudo-observation stays, and the estimate jumps to the new level.
    fn kept_after_surprise(&mut self, ln_seconds: f64, in_flight: f64) -> f64 {
        let Some(fit) = self.fit.filter(|_| self.weight > 3.0) else { return 1.0 };
        let residual = ln_seconds - fit.intercept - fit.load(in_flight);
        if residual.abs() <= SURPRISE * fit.variance.sqrt() {
            self.shock = 0;
            return 1.0;
        }
        let sign = if residual > 0.0 { 1 } else { -1 };
        self.shock = if self.shock.signum() == sign { self.shock + sign } else { sign };
        if self.shock.abs() < 2 {
            return 1.0;
        }
        self.shock = 0;
        (1.0 / self.weight).min(1.0)
    }

    fn fitted(&self, prior: f64) -> Fit {
        let w = self.weight;
        let flat = (self.y + PRIOR_WEIGHT * prior) / (w + PRIOR_WEIGHT);
        let flat_rss = (self.yy - 2.0 * flat * self.y + flat * flat * w).max(0.0);
        let penalty = 2.0 * (flat_rss + 1.0) / (w + 4.0);
        let best = self.best_knee(prior).filter(|(rss, _)| rss + penalty < flat_rss);
        let (rss, fit) = best.unwrap_or_else(|| {
            let knee = UNSEEN_KNEE.max(BEYOND_TRIED * self.highest_load);
            (flat_rss, Fit { intercept: flat, load_exponent: 1.0, knee, variance: 0.0 })
        });
        let variance = (rss + PRIOR_VARIANCE_WEIGHT * PRIOR_VARIANCE) / (w + PRIOR_VARIANCE_WEIGHT);
        Fit { variance: variance.max(LEAST_VARIANCE), ..fit }
    }

    /// The knee below the highest load with the least sum of squared residuals.
    fn best_knee(&self, prior: f64) -> Option<(f64, Fit)> {
        let tried = KNEES.into_iter().zip(&self.by_knee).filter(|(knee, _)| *knee < self.highest_load);
        tried.map(|(knee, sums)| self.fit_at(knee, sums, prior)).min_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    fn fit_at(&self, knee: f64, sums: &LoadSums, prior: f64) -> (f64, Fit) {
        let w = self.weight;
        let cxx = sums.xx - sums.x * sums.x / w;
        let cxy = sums.xy - sums.x * self.y / w;
        // The added ones are one observation's worth of belief in a slope of 1.
        let b = ((cxy + 1.0) / (cxx + 1.0)).clamp(0.0, 2.0);
        let a = (self.y - b * sums.x + PRIOR_WEIGHT * prior) / (w + PRIOR_WEIGHT);
        let rss = self.yy - 2.0 * a * self.y - 2.0 * b * sums.xy + a * a * w + 2.0 * a * b * sums.x + b * b * sums.xx;
        (rss.max(0.0), Fit { intercept: a, load_exponent: b, knee, variance: 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::RoutingPolicy;

    const PRIOR: f64 = -0.7;

    fn policy() -> StatsPolicy {
        RoutingPolicy::default().stats
    }

    /// Feeds one observation a second: (seconds, in flight).
    fn fed(observations: impl IntoIterator<Item = (f64, u32)>) -> FirstToken {
        let mut model = FirstToken::default();
        for (second, (seconds, in_flight)) in (1_u64..).zip(observations) {
            model.observe(seconds.ln(), in_flight, Tick(second * 1_000_000), PRIOR, &policy());
        }
        model
    }

    #[test]
    fn an_endpoint_without_observations_is_what_the_prior_says() {
        assert_eq!(FirstToken::default().fit(PRIOR), Fit::cold(PRIOR));
    }

    #[test]
    fn steady_answers_are_learned_with_their_spread() {
        let fit = fed((0..100).map(|i| (if i % 2 == 0 { 0.2 } else { 0.3 }, 1))).fit(PRIOR);
        assert!((fit.intercept.exp() - (0.2_f64 * 0.3).sqrt()).abs() < 0.01, "{fit:?}");
        assert!(fit.variance > 0.03 && fit.variance < 0.1, "{fit:?}");
    }

    #[test]
    fn weight_never_exceeds_the_cap_and_fades_with_the_half_life() {
        let model = fed((0..500).map(|_| (0.2, 1)));
        let now = Tick(500 * 1_000_000);
        assert!(model.weight(now, &policy()) <= 40.0);
        let later = Tick(560 * 1_000_000);
        assert!((model.weight(later, &policy()) / model.weight(now, &policy()) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_knee_is_found_where_latency_begins_to_grow() {
        let seconds = |k: u32| 0.2 * f64::from(k.max(8)) / 8.0;
        let fit = fed((0..200).map(|i| 1 + (i * 7) % 30).map(|k| (seconds(k), k))).fit(PRIOR);
        assert!((6.0..=12.0).contains(&fit.knee), "{fit:?}");
        assert!((0.7..=1.3).contains(&fit.load_exponent), "{fit:?}");
        assert!((fit.intercept.exp() - 0.2).abs() < 0.04, "{fit:?}");
    }

    #[test]
    fn without_an_effect_of_load_the_knee_lies_well_beyond_what_was_tried() {
        let fit = fed((0..100).map(|i| (0.2, 1 + i % 10))).fit(PRIOR);
        assert!((fit.knee - 25.0).abs() < 1.0, "{fit:?}");
        assert!(fit.load(20.0).abs() < 1e-12);
        assert!(fit.load(50.0) > 0.5);
    }

    #[test]
    fn a_tenfold_shift_is_believed_at_the_second_surprise() {
        let mut model = fed((0..60).map(|_| (0.2, 1)));
        model.observe(2.0_f64.ln(), 1, Tick(61_000_000), PRIOR, &policy());
        assert!(model.fit(PRIOR).intercept.exp() < 0.3, "one surprise is an accident");
        model.observe(2.0_f64.ln(), 1, Tick(62_000_000), PRIOR, &policy());
        assert!(model.fit(PRIOR).intercept.exp() > 0.5, "two are a change: {:?}", model.fit(PRIOR));
        model.observe(2.0_f64.ln(), 1, Tick(63_000_000), PRIOR, &policy());
        assert!(model.fit(PRIOR).intercept.exp() > 0.8, "{:?}", model.fit(PRIOR));
    }

    #[test]
    fn surprises_of_opposite_signs_are_no_change() {
        let mut model = fed((0..60).map(|_| (0.2, 1)));
        let before = model.weight(Tick(60_000_000), &policy());
        model.observe(2.0_f64.ln(), 1, Tick(60_000_000), PRIOR, &policy());
        model.observe(0.02_f64.ln(), 1, Tick(60_000_000), PRIOR, &policy());
        assert!(model.weight(Tick(60_000_000), &policy()) >= before);
    }
}
