//! How often an endpoint fails: what it usually does, and whether something is wrong with it now.
//!
//! Rare failures need a long memory: of one in two hundred, the last minute says next to nothing. Trouble needs a
//! short one. So there are two counts, and between them the odds that the endpoint is in trouble: a failure raises
//! them by how much likelier it is in trouble than usually, a success lowers them likewise, and rest lets them sink.

pub(crate) mod state;

use std::time::Duration;

use super::decay::remaining_since;
use crate::domain::Tick;

/// Half-life of what is usual, in half-lives of the statistics. What is only read fades half as fast.
const LASTING: f64 = 20.0;
/// Share of attempts that fail in trouble, as far as telling it from an accident goes.
const TROUBLED: f64 = 0.5;
/// ln of the odds that an endpoint of which nothing bad is known is in trouble: one in a thousand.
const CALM: f64 = -6.9;
/// ln of the odds beyond which nobody gets surer, so that a recovered endpoint is soon believed.
const SUREST: f64 = 4.0;
/// Odds sink by half in this share of a half-life without an attempt.
const REST: f64 = 0.5;
/// ln of the odds that are left, at most, when a probe was answered.
const PROBED: f64 = -1.4;
/// What is usual is taken to be no less and no more when failures are weighed.
const LEAST_USUAL: f64 = 0.002;
const MOST_USUAL: f64 = 0.2;
/// So flaky an endpoint is taken to be where `breaker.consecutive` says how many failures are no coincidence.
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

    /// The share of failures, given what is `usual`; together with [`FailureModel::PRIOR_WEIGHT`] it weighs what
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
/// They fade with their half-life when something is added, and half as fast when they are only read: an unused
/// endpoint keeps its reputation longer than a used one, but not for ever.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FailureModel {
    recent: Counts,
    /// Without those in trouble.
    lasting: Counts,
    /// Failures of which is not known yet whether they are accidents, to be counted as usual.
    suspects: f64,
    /// By how much ln of the odds of trouble lies above [`CALM`].
    suspicion: f64,
    /// The failure probability that was believed at the last success; 0 before the first.
    believed: f64,
    at: Option<Tick>,
}

impl FailureModel {
    /// The failure probability of an endpoint of which nobody knows anything, nor of its siblings.
    pub(crate) const USUAL: f64 = 0.01;
    /// Attempts that what is usual counts as: a single failure is no reputation.
    pub(crate) const PRIOR_WEIGHT: f64 = 5.0;
    /// What is usual among siblings is taken to be no less: that they answered well so far is no promise that this one
    /// does, and who is taken for one that never fails would be the last to be avoided when it begins to.
    pub(crate) const LEAST_PRIOR: f64 = LEAST_USUAL;
    /// Of an endpoint that answered, what is usual counts as many attempts as have so many failures among them, but no more
    /// than it answered. So one failure in twenty attempts is mostly bad luck, and a record without a failure says that
    /// failures are rare, not that there are none.
    const PRIOR_FAILURES: f64 = 0.5;

    /// Counts a failure.
    pub fn fail(&mut self, now: Tick, half_life: Duration) {
        self.fade(now, half_life);
        let before = self.is_troubled();
        let raised = self.suspicion + libm::log(TROUBLED / self.usual());
        self.suspicion = raised.min(SUREST - CALM);
        if !self.is_troubled() {
            self.suspects += 1.0;
        } else if !before {
            // They were none, and how well it did before says nothing any more.
            self.suspects = 0.0;
            self.recent = Counts { failures: self.recent.failures.min(2.0), successes: self.recent.successes.min(1.0) };
        }
        self.recent.failures += 1.0;
    }

    /// Counts a success.
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

    /// Ends a run of failures: what is believed now is what the next one is held against. Not after an answer to what
    /// was asked before the run began, which would pass the run itself off as usual.
    pub fn settle(&mut self, now: Tick, half_life: Duration) {
        let (failures, successes) = self.read(now, half_life, FailureModel::USUAL);
        self.believed = FailureModel::probability(failures, successes, FailureModel::USUAL);
    }

    /// Forgives most of the past: a probe found the endpoint sound again.
    pub fn recover(&mut self) {
        self.recent.failures = (0.2 * self.recent.failures).min(0.3);
        self.suspicion = self.suspicion.min(PROBED - CALM);
    }

    /// Failures and successes as they count at `now`, where its siblings fail as often as is `usual`: what it usually does,
    /// as far as that is known, and what is recent as far as there is trouble.
    #[must_use]
    pub fn read(&self, now: Tick, half_life: Duration, usual: f64) -> (f64, f64) {
        self.mixed(now, half_life, |lasting| lasting.shrunk(usual))
    }

    /// The same of its own counts alone.
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

    /// How many failures in a row are no coincidence, where `consecutive` are none at an endpoint that fails now and
    /// then: more where failures are known to be frequent, since it answers in between; twice as many at most.
    #[must_use]
    pub fn coincidence(&self, consecutive: u32) -> u32 {
        if self.believed <= FLAKY {
            return consecutive;
        }
        let stretch = libm::log(FLAKY) / libm::log(self.believed.min(0.9));
        let most = consecutive.saturating_mul(2);
        ((f64::from(consecutive) * stretch).ceil() as u32).clamp(consecutive, most)
    }

    /// The probability that the next attempt fails, given counts as read and what is `usual` among its siblings.
    #[must_use]
    pub fn probability(failures: f64, successes: f64, usual: f64) -> f64 {
        (failures + FailureModel::PRIOR_WEIGHT * usual) / (failures + successes + FailureModel::PRIOR_WEIGHT)
    }

    /// What is usual for it, to be told of its siblings, if anything was counted.
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

    /// Four attempts a second, up to a moment; one in so many fails.
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
    fn trouble_that_is_over_leaves_no_mark() {
        let mut outcomes = served(600, u64::MAX);
        (600..660).for_each(|second| outcomes.fail(at(second), HALF_LIFE));
        assert!(probability(&outcomes, at(660)) > 0.8);
        outcomes.succeed(at(680), HALF_LIFE);
        outcomes.recover();
        (681..685).for_each(|second| outcomes.succeed(at(second), HALF_LIFE));
        assert!(probability(&outcomes, at(685)) < 0.005);
    }

    #[test]
    fn suspicion_sinks_while_an_endpoint_rests() {
        let mut outcomes = served(600, u64::MAX);
        (600..603).for_each(|second| outcomes.fail(at(second), HALF_LIFE));
        let (now, later) = (probability(&outcomes, at(603)), probability(&outcomes, at(1200)));
        assert!(now > 0.3 && later < 0.01, "{now} {later}");
    }

    #[test]
    fn who_fails_often_must_fail_more_often_in_a_row() {
        assert_eq!(FailureModel::default().coincidence(3), 3);
        assert_eq!(served(600, 100).coincidence(3), 3);
        assert_eq!(served(600, 3).coincidence(3), 6);
        assert_eq!(served(600, 100).coincidence(1), 1);
    }

    #[test]
    fn a_new_endpoint_counts_as_sound_and_one_failure_does_not_condemn_it() {
        let mut outcomes = FailureModel::default();
        assert!((FailureModel::probability(0.0, 0.0, 0.02) - 0.02).abs() < 1e-12, "what is usual");
        outcomes.fail(at(0), HALF_LIFE);
        assert!(probability(&outcomes, at(0)) < 0.2);
    }

    #[test]
    fn a_failure_that_nothing_followed_is_forgotten_like_any_other() {
        let mut outcomes = FailureModel::default();
        outcomes.fail(at(0), HALF_LIFE);
        let (soon, late) = (probability(&outcomes, at(60)), probability(&outcomes, at(4 * 3600)));
        assert!(soon > 0.15 && late < 0.03, "{soon} {late}");
    }
}
