//! Time per output token after the first, in ln seconds, with the effect of load removed.

pub(crate) mod state;

use pointsman_domain::{StatsPolicy, Tick};

use super::decay::remaining_since;

/// Pace model of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PaceModel {
    /// Mean of the observations, without the prior.
    mean: f64,
    /// Weight of the mean against the next observation. It decays.
    weight: f64,
    /// Weight of the mean against the prior. It does not decay.
    undecayed_weight: f64,
    deviation: f64,
    /// Mean share of output tokens that answers do not show (hidden reasoning, generated before the first content).
    hidden: f64,
    /// Sign of the last residual if it was a surprise, else 0.
    surprise: f64,
    at: Option<Tick>,
}

/// Tokens of a stream that count as half an observation, because short streams have a noisy pace.
const HALF_TOKENS: f64 = 20.0;
/// Least weight of an observation that can be a surprise.
const SURPRISE_WEIGHT: f64 = 0.5;

/// Two consecutive streams with residuals (ln) beyond this, of the same sign, are a change of level.
const JUMP: f64 = 0.7;
/// The same for plain answers. The past then counts as at most [`PLAIN_JUMP_KEPT`] observations.
const PLAIN_JUMP: f64 = 0.9;
const PLAIN_JUMP_KEPT: f64 = 4.0;
/// Weight of a plain answer that is all generation, in observations.
const PLAIN_SHARE: f64 = 0.5;
/// Weight of the prior, in observations.
const PRIOR_WEIGHT: f64 = 0.5;
/// Prior variance, and its weight in observations.
const PRIOR_VARIANCE: f64 = 0.06;
const PRIOR_VARIANCE_WEIGHT: f64 = 4.0;

impl PaceModel {
    /// Posterior mean of ln seconds per token: the observations, shrunk towards the present prior.
    pub fn mean(&self, prior: f64) -> f64 {
        (self.mean * self.undecayed_weight + PRIOR_WEIGHT * prior) / (self.undecayed_weight + PRIOR_WEIGHT)
    }

    /// Mean of the observations, if there are any.
    pub fn measured(&self) -> Option<f64> {
        (self.weight > 0.0).then_some(self.mean)
    }

    /// Decayed weight at `now`, in observations.
    pub fn weight(&self, now: Tick, policy: &StatsPolicy) -> f64 {
        self.weight * remaining_since(self.at, now, policy.half_life)
    }

    /// Variance of ln seconds per token around the mean.
    pub fn variance(&self) -> f64 {
        (self.deviation + PRIOR_VARIANCE_WEIGHT * PRIOR_VARIANCE) / (self.weight + PRIOR_VARIANCE_WEIGHT)
    }

    /// Adds the pace of a stream of `tokens` shown tokens: ln seconds per token without the effect of load.
    pub fn observe(&mut self, ln_seconds: f64, tokens: f64, at: Tick, policy: &StatsPolicy) {
        if !ln_seconds.is_finite() {
            return;
        }
        self.fade(at, policy);
        let share = tokens / (tokens + HALF_TOKENS);
        self.forget_after_surprises(ln_seconds - self.mean, share);
        self.scatter(ln_seconds, share);
        self.add(ln_seconds, share, policy);
    }

    /// Adds the share of the output tokens of an answer that was not shown.
    pub fn observe_hidden(&mut self, share: f64) {
        self.hidden += (share.clamp(0.0, 1.0) - self.hidden) / self.undecayed_weight.max(1.0);
    }

    /// Share of output tokens that answers show.
    pub fn shown(&self) -> f64 {
        1.0 - self.hidden
    }

    /// After two consecutive surprises of the same sign one observation of the past is kept.
    fn forget_after_surprises(&mut self, surprise: f64, share: f64) {
        if share < SURPRISE_WEIGHT || self.weight <= 3.0 {
            return;
        }
        if self.is_second_surprise(surprise, JUMP) {
            self.keep(1.0);
        }
    }

    /// Whether this residual is beyond `jump` (ln), as the one before it, with the same sign.
    fn is_second_surprise(&mut self, surprise: f64, jump: f64) -> bool {
        let sign = if surprise.abs() > jump { surprise.signum() } else { 0.0 };
        let repeated = sign != 0.0 && sign * self.surprise > 0.0;
        self.surprise = if repeated { 0.0 } else { sign };
        repeated
    }

    /// Adds a plain answer that took exp(`ln_ratio`) times the prediction. Its weight grows with the predicted `share`
    /// of generation.
    pub fn observe_plain(&mut self, ln_ratio: f64, share: f64, prior: f64, at: Tick, policy: &StatsPolicy) {
        if !ln_ratio.is_finite() || !share.is_finite() || share <= 0.0 {
            return;
        }
        self.fade(at, policy);
        let seen = self.mean(prior) + ln_ratio;
        if self.is_second_surprise(ln_ratio, PLAIN_JUMP) {
            self.keep(PLAIN_JUMP_KEPT);
        }
        self.scatter(seen, PLAIN_SHARE * share);
        self.add(seen, PLAIN_SHARE * share, policy);
    }

    fn fade(&mut self, at: Tick, policy: &StatsPolicy) {
        let faded = self.weight(at, policy);
        self.keep(faded.min(policy.max_weight));
        self.at = self.at.max(Some(at));
    }

    /// Limits the weight of the past.
    fn keep(&mut self, most: f64) {
        if self.weight > most {
            self.deviation *= most / self.weight;
            self.weight = most;
        }
    }

    /// Adds the squared residual. The first observation has none.
    fn scatter(&mut self, ln_seconds: f64, share: f64) {
        let (kept, surprise) = (self.weight, ln_seconds - self.mean);
        self.deviation += if kept > 0.0 { share * surprise * surprise * kept / (kept + share) } else { 0.0 };
    }

    fn add(&mut self, ln_seconds: f64, share: f64, policy: &StatsPolicy) {
        // The past counts as half an observation at least, if there was as much.
        let kept = self.weight.max(self.undecayed_weight.min(0.5));
        self.mean += (ln_seconds - self.mean) * share / (kept + share);
        self.weight += share;
        self.undecayed_weight = (self.undecayed_weight + share).min(policy.max_weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_domain::RoutingPolicy;

    const PRIOR: f64 = -4.2;
    const NOW: Tick = Tick(1_000_000);
    /// Tokens of a stream that counts as a whole observation.
    const MANY: f64 = 1e18;

    fn policy() -> StatsPolicy {
        RoutingPolicy::default().stats
    }

    fn fed(observations: impl IntoIterator<Item = f64>) -> PaceModel {
        let mut pace = PaceModel::default();
        observations.into_iter().for_each(|ln| pace.observe(ln, MANY, NOW, &policy()));
        pace
    }

    #[test]
    fn the_mean_is_shrunk_towards_the_present_prior() {
        let once = fed([-3.0]);
        assert!((once.mean(-3.0) + 3.0).abs() < 1e-12);
        assert!((once.mean(-4.5) + 3.5).abs() < 1e-12, "half an observation of the pool's");
        assert!((fed([-3.0, -3.4]).mean(-3.2) + 3.2).abs() < 1e-12);
        assert!((fed(std::iter::repeat_n(-3.0, 40)).mean(PRIOR) + 3.0).abs() < 0.02);
    }

    #[test]
    fn one_surprise_keeps_the_past_and_a_second_consecutive_one_replaces_it() {
        let mut pace = fed(std::iter::repeat_n(-3.0, 40));
        pace.observe(-1.0, MANY, NOW, &policy());
        assert!(pace.measured().unwrap() < -2.9, "one surprise is a fluctuation");
        pace.observe(-3.0, MANY, NOW, &policy());
        pace.observe(-1.0, MANY, NOW, &policy());
        assert!(pace.measured().unwrap() < -2.8, "an ordinary answer in between ends the run");
        pace.observe(-1.0, MANY, NOW, &policy());
        assert!(pace.measured().unwrap() > -2.2, "two consecutive ones are a change: {pace:?}");
    }

    #[test]
    fn a_stream_of_two_tokens_hardly_counts_and_is_no_surprise() {
        let mut pace = fed(std::iter::repeat_n(-3.0, 40));
        let before = pace.measured().unwrap();
        (0..2).for_each(|_| pace.observe(-7.6, 2.0, NOW, &policy()));
        assert!(before - pace.measured().unwrap() < 0.03, "{pace:?}");
    }

    #[test]
    fn the_share_that_answers_show_is_learned() {
        let mut pace = fed([-3.0]);
        assert_eq!(pace.shown(), 1.0);
        (0..20).for_each(|_| pace.observe_hidden(0.75));
        assert!((pace.shown() - 0.25).abs() < 0.01, "{pace:?}");
    }

    #[test]
    fn the_weight_decays_and_the_mean_stays() {
        let pace = fed(std::iter::repeat_n(-3.0, 40));
        let later = Tick(61_000_000);
        assert!((pace.weight(later, &policy()) / pace.weight(NOW, &policy()) - 0.5).abs() < 1e-9);
        let mut rested = pace;
        rested.observe(-3.4, MANY, Tick(1_000_000_000), &policy());
        assert!(rested.measured().unwrap() < -3.2, "the next observation counts for more than a faded past");
        assert!(pace.measured().unwrap() > -3.001);
    }

    #[test]
    fn a_plain_answer_counts_by_its_share_of_generation() {
        let moved = |share| {
            let mut pace = fed(std::iter::repeat_n(-3.0, 5));
            pace.observe_plain(0.5, share, PRIOR, NOW, &policy());
            pace.measured().unwrap() + 3.0
        };
        assert!(moved(0.8) > moved(0.4) && moved(0.4) > 0.0 && moved(0.8) < 0.05);
        let mut pace = PaceModel::default();
        pace.observe_plain(0.5, 0.8, PRIOR, NOW, &policy());
        assert!(pace.mean(PRIOR) > PRIOR && pace.mean(PRIOR) < PRIOR + 0.5);
        let before = pace.mean(PRIOR);
        assert!(pace.mean(PRIOR - 1.0) < before - 0.4, "its first answer does not tie it to what was expected then");
    }

    #[test]
    fn a_second_consecutive_surprise_of_plain_answers_moves_the_mean() {
        let mut pace = fed(std::iter::repeat_n(-3.0, 200));
        pace.observe_plain(2.0, 0.5, -3.0, NOW, &policy());
        assert!(pace.measured().unwrap() < -2.95, "one is a fluctuation");
        pace.observe_plain(2.0, 0.5, -3.0, NOW, &policy());
        assert!(pace.measured().unwrap() > -2.9);
    }

    #[test]
    fn variance_starts_at_the_prior_and_follows_the_spread() {
        assert!((PaceModel::default().variance() - PRIOR_VARIANCE).abs() < 1e-12);
        let pace = fed((0..80).map(|i| if i % 2 == 0 { -3.0 } else { -3.4 }));
        assert!((pace.variance() - 0.04).abs() < 0.015, "{}", pace.variance());
    }

    #[test]
    fn plain_answers_with_a_high_variance_keep_the_pace_uncertain() {
        let mut pace = PaceModel::default();
        for i in 0..200 {
            pace.observe_plain(if i % 2 == 0 { 0.5 } else { -0.5 }, 0.8, PRIOR, NOW, &policy());
        }
        assert!(pace.variance() > PRIOR_VARIANCE, "{}", pace.variance());
        let mut steady = PaceModel::default();
        (0..200).for_each(|_| steady.observe_plain(0.0, 0.8, PRIOR, NOW, &policy()));
        assert!(steady.variance() < 0.02, "{}", steady.variance());
    }
}
