//! How fast tokens follow the first one, in ln seconds per output token, load taken out.

mod state;

pub(super) use state::ThroughputState;

/// The decode model of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Throughput {
    mean: f64,
    weight: f64,
    deviation: f64,
}

/// A streamed answer this far off (ln) is a change, not a fluctuation.
const JUMP: f64 = 0.7;
/// A plain answer this far off (ln) is, too; it moves the mean at least by [`PLAIN_JUMP_SHARE`] of its surprise.
const PLAIN_JUMP: f64 = 0.9;
const PLAIN_JUMP_SHARE: f64 = 0.1;
/// Variance assumed before there is evidence, and how many observations it counts as.
const PRIOR_VARIANCE: f64 = 0.06;
const PRIOR_VARIANCE_WEIGHT: f64 = 4.0;

impl Throughput {
    /// Mean ln seconds per token, or `prior` when nothing was measured.
    #[must_use]
    pub fn mean(&self, prior: f64) -> f64 {
        if self.weight > 0.0 { self.mean } else { prior }
    }

    /// The mean, if anything was measured.
    #[must_use]
    pub fn measured(&self) -> Option<f64> {
        (self.weight > 0.0).then_some(self.mean)
    }

    /// Variance of ln seconds per token around the mean.
    #[must_use]
    pub fn variance(&self) -> f64 {
        (self.deviation + PRIOR_VARIANCE_WEIGHT * PRIOR_VARIANCE) / (self.weight + PRIOR_VARIANCE_WEIGHT)
    }

    /// Takes in a stream's pace: ln seconds per token with the effect of load subtracted.
    pub fn observe(&mut self, ln_seconds: f64, prior: f64, max_weight: f64) {
        if !ln_seconds.is_finite() {
            return;
        }
        let surprise = ln_seconds - self.mean(prior);
        if self.weight > 3.0 && surprise.abs() > JUMP {
            (self.weight, self.deviation) = (1.0, self.deviation / self.weight);
        }
        let kept = self.weight.min(max_weight);
        let fade = if self.weight > 0.0 { kept / self.weight } else { 0.0 };
        // The first observation replaces the prior and so shows no deviation.
        let deviation = if self.weight > 0.0 { surprise * surprise * kept / (kept + 1.0) } else { 0.0 };
        self.mean = self.mean(prior) + surprise / (kept + 1.0);
        self.deviation = self.deviation * fade + deviation;
        self.weight = kept + 1.0;
    }

    /// Takes in a plain answer: it took exp(`ln_ratio`) times the prediction, of which `share` was decoding.
    pub fn observe_plain(&mut self, ln_ratio: f64, share: f64, prior: f64, max_weight: f64) {
        if !ln_ratio.is_finite() || !share.is_finite() {
            return;
        }
        let least = if ln_ratio.abs() > PLAIN_JUMP { PLAIN_JUMP_SHARE } else { 0.0 };
        self.mean = self.mean(prior) + (share / (self.weight + 2.0)).max(least) * ln_ratio;
        self.weight = self.weight.min(max_weight) + 0.5 * share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIOR: f64 = -4.2;

    #[test]
    fn the_first_stream_replaces_the_prior_and_later_ones_average() {
        let mut pace = Throughput::default();
        pace.observe(-3.0, PRIOR, 40.0);
        assert!((pace.mean(PRIOR) + 3.0).abs() < 1e-12);
        pace.observe(-3.4, PRIOR, 40.0);
        assert!((pace.mean(PRIOR) + 3.2).abs() < 1e-12);
    }

    #[test]
    fn a_jump_is_followed_at_once() {
        let mut pace = Throughput::default();
        (0..40).for_each(|_| pace.observe(-3.0, PRIOR, 40.0));
        pace.observe(-1.0, PRIOR, 40.0);
        assert!((pace.mean(PRIOR) + 2.0).abs() < 1e-12, "half way after one answer");
    }

    #[test]
    fn a_plain_answer_moves_the_mean_by_its_share_of_decoding() {
        let mut pace = Throughput::default();
        pace.observe_plain(0.5, 0.8, PRIOR, 40.0);
        assert!((pace.mean(PRIOR) - (PRIOR + 0.4 * 0.5)).abs() < 1e-12);
        (0..200).for_each(|_| pace.observe_plain(0.0, 1.0, PRIOR, 40.0));
        let before = pace.mean(PRIOR);
        pace.observe_plain(2.0, 0.5, PRIOR, 40.0);
        assert!((pace.mean(PRIOR) - before - 0.2).abs() < 1e-12, "a tenth of a great surprise at least");
    }

    #[test]
    fn variance_starts_at_the_prior_and_follows_the_spread() {
        let mut pace = Throughput::default();
        assert!((pace.variance() - PRIOR_VARIANCE).abs() < 1e-12);
        (0..80).for_each(|i| pace.observe(if i % 2 == 0 { -3.0 } else { -3.4 }, PRIOR, 40.0));
        assert!((pace.variance() - 0.04).abs() < 0.015, "{}", pace.variance());
    }
}
