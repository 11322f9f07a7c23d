//! Effect of the prompt length on the time to the first token.
//!
//! Each prompt token adds the same time: seconds = base · (1 + `slope` · tokens). The slope is relative to the base,
//! so that it does not change when the endpoint slows down as a whole. It is searched among [`SLOPES`] by least squares
//! on ln seconds, which neither diverges nor becomes negative. The prior is the slope of similar endpoints.

pub(crate) mod state;

/// Candidate slopes per token: none, then doubling from a base worth 16,384 tokens to one worth 128.
const SLOPES: [f64; 9] =
    [0.0, 1.0 / 16384.0, 1.0 / 8192.0, 1.0 / 4096.0, 1.0 / 2048.0, 1.0 / 1024.0, 1.0 / 512.0, 1.0 / 256.0, 1.0 / 128.0];
/// Prior penalty (twice the ln of the odds) of every slope but the expected one ...
const DOUBT: f64 = 3.0;
/// ... and of each doubling of the distance from it.
const DOUBT_PER_STEP: f64 = 0.2;
/// Prior variance, its weight in observations, and the lower limit of the variance.
const PRIOR_VARIANCE: f64 = 0.25;
const PRIOR_WEIGHT: f64 = 4.0;
const LEAST_VARIANCE: f64 = 0.02;

/// Prompt model of one endpoint: for each candidate slope the mean of the residuals (ln seconds) and the decayed sum of
/// squares around it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PromptModel {
    means: [f64; SLOPES.len()],
    squares: [f64; SLOPES.len()],
    /// Weight of the means: that of the sums which the slope corrects.
    weight: f64,
    /// Weight of the sums of squares.
    evidence: f64,
    slope: f64,
}

/// Effect of a prompt on ln seconds.
pub(crate) fn effect(slope: f64, tokens: f64) -> f64 {
    if slope > 0.0 { libm::log(1.0 + slope * tokens) } else { 0.0 }
}

impl PromptModel {
    /// The learned relative slope; `None` without observations.
    pub fn measured(&self) -> Option<f64> {
        (self.weight > 0.0).then_some(self.slope)
    }

    /// The learned slope, or the prior.
    pub fn slope(&self, prior: f64) -> f64 {
        self.measured().unwrap_or(prior)
    }

    /// Adds a prompt of `tokens` that took exp(`ln_seconds`) s without the effect of load. `kept` is the share of the
    /// level that is kept, `remembered` the share of the evidence on the slope, which survives a change of level.
    /// Returns by how much (ln) the estimated mean effect of past prompts has grown.
    pub(crate) fn observe(&mut self, ln_seconds: f64, tokens: f64, kept: f64, remembered: f64, prior: f64) -> f64 {
        let before = self.slope(prior);
        let left = kept * self.weight;
        for ((mean, squares), slope) in self.means.iter_mut().zip(&mut self.squares).zip(SLOPES) {
            let unexplained = ln_seconds - effect(slope, tokens);
            let surprise = if left > 0.0 { unexplained - *mean } else { 0.0 };
            *squares = remembered * *squares + surprise * surprise * left / (left + 1.0);
            *mean = if left > 0.0 { *mean + surprise / (left + 1.0) } else { unexplained };
        }
        self.weight = left + 1.0;
        self.evidence = remembered * self.evidence + 1.0;
        self.slope = self.likeliest(prior);
        self.mean_effect(self.slope) - self.mean_effect(before)
    }

    /// The slope with the least penalized sum of squares, interpolated by the parabola through the best candidate and
    /// its neighbours.
    fn likeliest(&self, prior: f64) -> f64 {
        let expected = nearest(prior);
        let least = self.squares.iter().copied().fold(f64::INFINITY, f64::min);
        let variance = (least + PRIOR_WEIGHT * PRIOR_VARIANCE) / (self.evidence + PRIOR_WEIGHT);
        let variance = variance.max(LEAST_VARIANCE);
        let penalty = |position: usize| match position.abs_diff(expected) {
            0 => 0.0,
            steps => DOUBT + DOUBT_PER_STEP * steps as f64,
        };
        let scored = self.squares.iter().enumerate().map(|(at, squares)| (at, squares / variance + penalty(at)));
        let best = scored.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(at, _)| at);
        let tried = SLOPES.get(best).copied().unwrap_or_default();
        let expected = if best == expected && prior > 0.0 { prior } else { tried };
        if best < 2 { expected } else { tried * libm::exp2(self.refined(best, variance, libm::log2(expected / tried))) }
    }

    /// Steps from the best candidate to the minimum of that parabola. While the three hardly differ, `expected` counts
    /// as one observation.
    fn refined(&self, best: usize, variance: f64, expected: f64) -> f64 {
        let at = |position: usize| self.squares.get(position).map(|squares| squares / variance);
        let (Some(below), Some(here), Some(above)) = (at(best - 1), at(best), at(best + 1)) else { return expected };
        let (bend, tilt) = ((below + above - 2.0 * here).max(0.0), below - above);
        ((0.5 * tilt + expected) / (bend + 1.0)).clamp(-0.5, 0.5)
    }

    /// Mean effect (ln) of past prompts at this slope, interpolated between candidates.
    fn mean_effect(&self, slope: f64) -> f64 {
        let of = |position: usize| Some(self.means.first()? - self.means.get(position)?);
        let above = SLOPES.iter().position(|tried| *tried >= slope).unwrap_or(SLOPES.len() - 1);
        let (Some(high), Some(top)) = (of(above), SLOPES.get(above)) else { return 0.0 };
        let Some(under) = above.checked_sub(1) else { return high };
        let (Some(low), Some(bottom)) = (of(under), SLOPES.get(under)) else { return high };
        low + (high - low) * (slope.min(*top) - bottom) / (top - bottom)
    }
}

/// Position of the candidate nearest to this slope, by ratio.
fn nearest(slope: f64) -> usize {
    let boundary = |(low, high): (f64, f64)| if low > 0.0 { (low * high).sqrt() } else { 0.5 * high };
    SLOPES.iter().zip(SLOPES.iter().skip(1)).take_while(|(low, high)| slope > boundary((**low, **high))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prompts of 100 to 10,000 tokens, log-uniform, and the ln seconds they take: the same for the same number.
    fn answers(base: f64, slope: f64, sigma: f64) -> impl Iterator<Item = (f64, f64)> {
        let uniform = |n: u64| (crate::stats::seeded_hash::splitmix64(n) >> 11) as f64 / (1_u64 << 53) as f64;
        let normal = move |n: u64| (0..12).map(|i| uniform(1000 + 12 * n + i)).sum::<f64>() - 6.0;
        (0..).map(move |n| {
            let tokens = 100.0 * 100.0_f64.powf(uniform(n));
            (tokens, (base * (sigma * normal(n)).exp() * (1.0 + slope * tokens)).ln())
        })
    }

    fn learned(answers: impl Iterator<Item = (f64, f64)>, prior: f64) -> PromptModel {
        let mut model = PromptModel::default();
        answers.for_each(|(tokens, ln_seconds)| _ = model.observe(ln_seconds, tokens, 0.975, 0.975, prior));
        model
    }

    #[test]
    fn without_evidence_the_slope_is_that_of_similar_endpoints() {
        for prior in [0.0, 1e-4, 3.3e-4, 1e-3] {
            assert!((learned(answers(0.2, 0.0, 0.3).take(0), prior).slope(prior) - prior).abs() < 1e-12);
            let same = (0..40).map(|_| (500.0, -1.0));
            let slope = learned(same, prior).slope(prior);
            assert!((slope - prior).abs() <= 1e-9, "prompts of one length say nothing: {slope} {prior}");
        }
    }

    #[test]
    fn slopes_are_learned_from_forty_answers_within_a_third() {
        for slope in [2e-4, 5e-4, 1e-3, 3e-3] {
            let found = learned(answers(0.2, slope, 0.3).take(60), 0.0).slope(0.0);
            assert!((found / slope).ln().abs() < 0.33, "{found} for {slope}");
        }
    }

    #[test]
    fn no_slope_is_found_where_there_is_none_and_it_is_never_negative() {
        for sigma in [0.1, 0.3, 0.6, 0.9] {
            let found = learned(answers(0.2, 0.0, sigma).take(60), 0.0).slope(0.0);
            assert!((0.0..1.3e-4).contains(&found), "{found} at {sigma}");
        }
        let shrinking = answers(0.2, 0.0, 0.3).map(|(tokens, ln)| (tokens, ln - 2e-4 * tokens)).take(60);
        assert!(learned(shrinking, 1e-3).slope(1e-3).abs() < 1e-12, "longer prompts answered sooner");
    }

    #[test]
    fn a_wrong_expectation_is_given_up() {
        let found = learned(answers(0.2, 2e-3, 0.4).take(60), 1e-4).slope(1e-4);
        assert!((found / 2e-3).ln().abs() < 0.4, "{found}");
    }

    #[test]
    fn an_endpoint_that_slows_down_keeps_its_slope() {
        let mut model = learned(answers(0.2, 1e-3, 0.3).take(60), 0.0);
        for (tokens, ln_seconds) in answers(2.0, 1e-3, 0.3).skip(60).take(3) {
            model.observe(ln_seconds, tokens, 0.0, 0.975, 0.0);
        }
        assert!((model.slope(0.0) / 1e-3).ln().abs() < 0.4, "{}", model.slope(0.0));
    }
}
