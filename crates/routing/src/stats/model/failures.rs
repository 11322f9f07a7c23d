//! Failure model of an endpoint: its usual failure probability, and whether it is in trouble at present.
//!
//! Rare failures need a long memory: the last minute says next to nothing about one failure in two hundred. Trouble
//! needs a short one. So there are two counts, and the odds that the endpoint is in trouble. A failure multiplies the
//! odds by its likelihood in trouble over its usual likelihood, a success likewise. Without attempts the odds decay.

pub(crate) mod state;

use std::time::Duration;

use pointsman_domain::Tick;

use super::decay::remaining_since;

/// Half-life of the usual count, in half-lives of the statistics. Counts that are only read decay half as fast.
const LASTING: f64 = 20.0;
/// Assumed failure probability of an endpoint in trouble.
const TROUBLED: f64 = 0.5;
/// ln of the prior odds of trouble: one in a thousand.
const CALM: f64 = -6.9;
/// Upper limit of ln of the odds, so that a recovered endpoint is soon trusted.
const SUREST: f64 = 4.0;
/// Half-life of the odds without an attempt, in half-lives of the statistics.
const REST: f64 = 0.5;
/// Upper limit of ln of the odds after a successful probe.
const PROBED: f64 = -1.4;
/// Bounds of the usual failure probability when the odds are updated.
const LEAST_USUAL: f64 = 0.002;
const MOST_USUAL: f64 = 0.2;
/// Failure probability of an endpoint for which `breaker.consecutive` is meant.
const FLAKY: f64 = 0.1;

/// Decayed counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Counts {
    failures: f64,
    successes: f64,
}

impl Counts {
    fn fade(&mut self, left: f64) {
        self.failures *= left;
        self.successes *= left;
    }

    fn sum(&self) -> f64 {
        self.failures + self.successes
    }

    fn share(&self) -> f64 {
        if self.sum() > 0.0 { self.failures / self.sum() } else { 0.0 }
    }

    /// Share of failures, where the prior `usual` counts as [`FailureModel::PRIOR_WEIGHT`] attempts or as
    /// [`FailureModel::PRIOR_FAILURES`] says.
    fn shrunk(self, usual: f64) -> f64 {
        let weight = FailureModel::PRIOR_FAILURES / usual.max(LEAST_USUAL) - FailureModel::PRIOR_WEIGHT;
        let weight = weight.min(self.successes - FailureModel::PRIOR_WEIGHT).max(0.0);
        let sum = self.sum() + weight;
        if sum > 0.0 { (self.failures + weight * usual) / sum } else { 0.0 }
    }
}

/// Failures and successes of an endpoint.
///
/// Counts decay with their half-life when an outcome is added, and half as fast when they are only read: an unused
/// endpoint keeps its counts longer than a used one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FailureModel {
    recent: Counts,
    /// The usual count, without failures in trouble.
    lasting: Counts,
    /// Failures that are added to the usual count if they turn out not to be trouble.
    suspects: f64,
    /// ln of the odds of trouble, minus [`CALM`].
    suspicion: f64,
    /// Estimated failure probability at the last success; 0 before the first.
    believed: f64,
    at: Option<Tick>,
}

impl FailureModel {
    /// Prior failure probability without any sibling.
    pub(crate) const USUAL: f64 = 0.01;
    /// Weight of the prior, in attempts.
    pub(crate) const PRIOR_WEIGHT: f64 = 5.0;
    /// Least prior failure probability. Siblings without failures do not show that this endpoint never fails, and an
    /// endpoint with a prior of 0 would be the last to be avoided when it begins to fail.
    pub(crate) const LEAST_PRIOR: f64 = LEAST_USUAL;
    /// For an endpoint with successes the prior counts as the attempts that contain this many failures, but at most as
    /// its successes. So one failure in twenty attempts is mostly chance, and a record without a failure means that
    /// failures are rare, not impossible.
    const PRIOR_FAILURES: f64 = 0.5;

    /// Adds a failure.
    pub fn fail(&mut self, now: Tick, half_life: Duration) {
        self.fade(now, half_life);
        let before = self.is_troubled();
        let raised = self.suspicion + libm::log(TROUBLED / self.usual());
        self.suspicion = raised.min(SUREST - CALM);
        if !self.is_troubled() {
            self.suspects += 1.0;
        } else if !before {
            // The pending failures were trouble, and the earlier recent outcomes no longer describe the endpoint.
            self.suspects = 0.0;
            self.recent = Counts { failures: self.recent.failures.min(2.0), successes: self.recent.successes.min(1.0) };
        }
        self.recent.failures += 1.0;
    }

    /// Adds a success.
    pub fn succeed(&mut self, now: Tick, half_life: Duration) {
        self.fade(now, half_life);
        let lowered = self.suspicion - libm::log((1.0 - self.usual()) / (1.0 - TROUBLED));
        self.suspicion = lowered.max(0.0);
        self.recent.successes += 1.0;
        if !self.is_troubled() {
            self.lasting.successes += 1.0;
        }
        if self.suspicion <= 0.0 {
            self.lasting.failures += std::mem::take(&mut self.suspects);
        }
    }

    /// Ends a run of failures: the present estimate becomes the one that the next failure is compared with. Not after a
    /// success of a request from before the run, which would make the run look usual.
    pub fn settle(&mut self, now: Tick, half_life: Duration) {
        let (failures, successes) = self.read(now, half_life, FailureModel::USUAL);
        self.believed = FailureModel::probability(failures, successes, FailureModel::USUAL);
    }

    /// Resets most of the odds after a successful probe.
    pub fn recover(&mut self) {
        self.recent.failures = (0.2 * self.recent.failures).min(0.3);
        self.suspicion = self.suspicion.min(PROBED - CALM);
    }

    /// Failures and successes at `now`: the usual count and the recent one, mixed by the odds of trouble. `usual` is
    /// the failure probability of the siblings.
    pub fn read(&self, now: Tick, half_life: Duration, usual: f64) -> (f64, f64) {
        self.mixed(now, half_life, |lasting| lasting.shrunk(usual))
    }

    /// The same from its own counts alone.
    fn counted(&self, now: Tick, half_life: Duration) -> (f64, f64) {
        self.mixed(now, half_life, |lasting| lasting.share())
    }

    fn mixed(&self, now: Tick, half_life: Duration, share: impl FnOnce(Counts) -> f64) -> (f64, f64) {
        let mut seen = *self;
        seen.recent.fade(remaining_since(self.at, now, half_life * 2));
        seen.lasting.failures += seen.suspects;
        seen.lasting.fade(remaining_since(self.at, now, half_life.mul_f64(2.0 * LASTING)));
        seen.rest(now, half_life);
        let trouble = 1.0 / (1.0 + libm::exp(-(seen.suspicion + CALM)));
        let mixed = |usual: f64, recent: f64| (1.0 - trouble) * usual + trouble * recent;
        let share = mixed(share(seen.lasting), seen.recent.share());
        let count = mixed(seen.lasting.sum(), seen.recent.sum());
        (share * count, (1.0 - share) * count)
    }

    /// Consecutive failures that open the breaker: `consecutive`, and up to twice as many where failures are known to
    /// be frequent.
    pub fn coincidence(&self, consecutive: u32) -> u32 {
        if self.believed <= FLAKY {
            return consecutive;
        }
        let stretch = libm::log(FLAKY) / libm::log(self.believed.min(0.9));
        let most = consecutive.saturating_mul(2);
        ((f64::from(consecutive) * stretch).ceil() as u32).clamp(consecutive, most)
    }

    /// Posterior probability that the next attempt fails, from decayed counts and the siblings' `usual` probability.
    pub fn probability(failures: f64, successes: f64, usual: f64) -> f64 {
        (failures + FailureModel::PRIOR_WEIGHT * usual) / (failures + successes + FailureModel::PRIOR_WEIGHT)
    }

    /// Its usual failure probability, if anything was counted. Used for the prior of siblings.
    pub(crate) fn rate(&self) -> Option<f64> {
        let Counts { failures, successes } = self.lasting;
        let own = Counts { failures, successes };
        let share = own.shrunk(FailureModel::USUAL);
        let (failures, successes) = (share * own.sum(), (1.0 - share) * own.sum());
        self.at.map(|_| FailureModel::probability(failures, successes, FailureModel::USUAL))
    }

    fn usual(&self) -> f64 {
        self.rate().unwrap_or(FailureModel::USUAL).clamp(LEAST_USUAL, MOST_USUAL)
    }

    fn is_troubled(&self) -> bool {
        self.suspicion + CALM > 0.0
    }

    fn rest(&mut self, now: Tick, half_life: Duration) {
        let left = remaining_since(self.at, now, half_life.mul_f64(REST));
        self.suspicion = (self.suspicion + libm::log(left.max(f64::MIN_POSITIVE))).max(0.0);
    }

    fn fade(&mut self, now: Tick, half_life: Duration) {
        self.rest(now, half_life);
        self.recent.fade(remaining_since(self.at, now, half_life));
        let left = remaining_since(self.at, now, half_life.mul_f64(LASTING));
        self.lasting.fade(left);
        self.suspects *= left;
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Tick {
        Tick(seconds * 1_000_000)
    }

    fn probability(outcomes: &FailureModel, now: Tick) -> f64 {
        let (failures, successes) = outcomes.read(now, HALF_LIFE, FailureModel::USUAL);
        FailureModel::probability(failures, successes, FailureModel::USUAL)
    }

    /// Four attempts a second until a given time, of which one in so many fails.
    fn served(seconds: u64, one_in: u64) -> FailureModel {
        let mut outcomes = FailureModel::default();
        for attempt in 0..4 * seconds {
            let now = Tick(attempt * 250_000);
            if attempt % one_in == one_in - 1 {
                outcomes.fail(now, HALF_LIFE)
            } else {
                outcomes.succeed(now, HALF_LIFE);
                outcomes.settle(now, HALF_LIFE);
            }
        }
        outcomes
    }

    #[test]
    fn rare_failures_are_remembered_longer_than_the_half_life() {
        let flawed = probability(&served(1200, 100), at(1200));
        assert!((0.007..0.013).contains(&flawed), "{flawed}");
        let later = probability(&served(1200, 100), at(1800));
        assert!((0.007..0.013).contains(&later), "ten half-lives later: {later}");
    }

    #[test]
    fn a_record_without_a_failure_says_that_failures_are_rare_and_not_that_there_are_none() {
        let sound = probability(&served(1200, u64::MAX), at(1200));
        assert!((0.0001..0.0005).contains(&sound), "{sound}");
        let few = probability(&served(25, u64::MAX), at(25));
        assert!((0.003..0.006).contains(&few), "of a hundred answers: {few}");
    }

    #[test]
    fn one_failure_among_twenty_attempts_is_mostly_bad_luck() {
        let unlucky = probability(&served(5, 20), at(5));
        assert!((0.02..0.04).contains(&unlucky), "{unlucky}");
    }

    #[test]
    fn one_failure_after_many_good_answers_is_an_accident_and_two_are_trouble() {
        let mut outcomes = served(600, u64::MAX);
        let calm = probability(&outcomes, at(600));
        outcomes.fail(at(600), HALF_LIFE);
        let once = probability(&outcomes, at(600));
        outcomes.fail(at(601), HALF_LIFE);
        let twice = probability(&outcomes, at(601));
        assert!(calm < 0.001 && once < 0.01 && twice > 0.3, "{calm} {once} {twice}");
    }

    #[test]
    fn after_trouble_the_estimate_returns_to_the_usual_one() {
        let mut outcomes = served(600, u64::MAX);
        (600..660).for_each(|second| outcomes.fail(at(second), HALF_LIFE));
        assert!(probability(&outcomes, at(660)) > 0.8);
        outcomes.succeed(at(680), HALF_LIFE);
        outcomes.recover();
        (681..685).for_each(|second| outcomes.succeed(at(second), HALF_LIFE));
        assert!(probability(&outcomes, at(685)) < 0.005);
    }

    #[test]
    fn the_odds_of_trouble_decay_without_attempts() {
        let mut outcomes = served(600, u64::MAX);
        (600..603).for_each(|second| outcomes.fail(at(second), HALF_LIFE));
        let (now, later) = (probability(&outcomes, at(603)), probability(&outcomes, at(1200)));
        assert!(now > 0.3 && later < 0.01, "{now} {later}");
    }

    #[test]
    fn an_endpoint_that_fails_often_needs_more_consecutive_failures_to_open() {
        assert_eq!(FailureModel::default().coincidence(3), 3);
        assert_eq!(served(600, 100).coincidence(3), 3);
        assert_eq!(served(600, 3).coincidence(3), 6);
        assert_eq!(served(600, 100).coincidence(1), 1);
    }

    #[test]
    fn a_new_endpoint_has_the_prior_and_stays_below_a_fifth_after_one_failure() {
        let mut outcomes = FailureModel::default();
        assert!((FailureModel::probability(0.0, 0.0, 0.02) - 0.02).abs() < 1e-12, "what is usual");
        outcomes.fail(at(0), HALF_LIFE);
        assert!(probability(&outcomes, at(0)) < 0.2);
    }

    #[test]
    fn a_last_failure_decays_like_any_other() {
        let mut outcomes = FailureModel::default();
        outcomes.fail(at(0), HALF_LIFE);
        let (soon, late) = (probability(&outcomes, at(60)), probability(&outcomes, at(4 * 3600)));
        assert!(soon > 0.15 && late < 0.03, "{soon} {late}");
    }
}
