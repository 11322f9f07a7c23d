//! How often an endpoint fails: a Beta distribution that forgets.

mod state;

pub(super) use state::OutcomesState;

use std::time::Duration;

use super::decay::remaining_since;
use crate::domain::Tick;

/// Decayed counts of failures and successes.
///
/// They fade with the half-life when something is added, and with twice the half-life when they are only
/// read: an unused endpoint keeps its reputation longer than a used one, but not for ever.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcomes {
    failures: f64,
    successes: f64,
    at: Option<Tick>,
}

impl Outcomes {
    /// The failure probability of an endpoint of which nobody knows anything, nor of its siblings.
    pub(super) const USUAL: f64 = 0.01;
    /// Attempts that what is usual counts as: a single failure is no reputation.
    pub(crate) const PRIOR_WEIGHT: f64 = 5.0;

    /// Counts a failure.
    pub fn fail(&mut self, now: Tick, half_life: Duration) {
        self.fade(now, half_life);
        self.failures += 1.0;
    }

    /// Counts a success.
    pub fn succeed(&mut self, now: Tick, half_life: Duration) {
        self.fade(now, half_life);
        self.successes += 1.0;
    }

    /// Forgives most of the past: a probe found the endpoint sound again.
    pub fn recover(&mut self) {
        self.failures = (0.2 * self.failures).min(0.3);
    }

    /// Failures and successes as they count at `now`.
    #[must_use]
    pub fn read(&self, now: Tick, half_life: Duration) -> (f64, f64) {
        let left = remaining_since(self.at, now, half_life * 2);
        (self.failures * left, self.successes * left)
    }

    /// Whether failures, as they count at `now`, are two at least and more than successes by over one. Since they fade
    /// it takes a third, unless two come at one instant.
    #[must_use]
    pub fn is_failing(&self, now: Tick, half_life: Duration) -> bool {
        let (failures, successes) = self.read(now, half_life);
        failures >= 2.0 && failures > successes + 1.0
    }

    /// The probability that the next attempt fails, given counts as read and what is `usual` among its siblings.
    #[must_use]
    pub fn probability(failures: f64, successes: f64, usual: f64) -> f64 {
        (failures + Outcomes::PRIOR_WEIGHT * usual) / (failures + successes + Outcomes::PRIOR_WEIGHT)
    }

    /// What its counts say of its siblings, if anything was counted.
    pub(super) fn rate(&self, now: Tick, half_life: Duration) -> Option<f64> {
        let (failures, successes) = self.read(now, half_life);
        self.at.map(|_| Outcomes::probability(failures, successes, Outcomes::USUAL))
    }

    fn fade(&mut self, now: Tick, half_life: Duration) {
        let left = remaining_since(self.at, now, half_life);
        self.failures *= left;
        self.successes *= left;
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

    #[test]
    fn counts_fade_with_the_half_life_on_writing_and_twice_it_on_reading() {
        let mut outcomes = Outcomes::default();
        outcomes.fail(at(0), HALF_LIFE);
        assert!((outcomes.read(at(120), HALF_LIFE).0 - 0.5).abs() < 1e-12, "read two minutes later");
        outcomes.succeed(at(60), HALF_LIFE);
        let (failures, successes) = outcomes.read(at(60), HALF_LIFE);
        assert!((failures - 0.5).abs() < 1e-12 && (successes - 1.0).abs() < 1e-12, "written one minute later");
    }

    #[test]
    fn a_new_endpoint_counts_as_sound_and_one_failure_does_not_condemn_it() {
        let mut outcomes = Outcomes::default();
        assert!((Outcomes::probability(0.0, 0.0, 0.02) - 0.02).abs() < 1e-12, "what is usual");
        assert!(Outcomes::probability(1.0, 0.0, 0.01) < 0.2, "one failure is no reputation");
        outcomes.fail(at(0), HALF_LIFE);
        assert!(!outcomes.is_failing(at(0), HALF_LIFE));
    }

    #[test]
    fn three_failures_that_outnumber_successes_by_more_than_one_are_no_accident() {
        let is_failing = |answers: &[bool]| {
            let mut outcomes = Outcomes::default();
            for (second, well) in (0..).zip(answers) {
                if *well { outcomes.succeed(at(second), HALF_LIFE) } else { outcomes.fail(at(second), HALF_LIFE) }
            }
            outcomes.is_failing(at(answers.len() as u64 - 1), HALF_LIFE)
        };
        assert!(!is_failing(&[false, false]), "a second apart they are a little less than two");
        assert!(is_failing(&[false, false, false]));
        assert!(is_failing(&[false, true, false, false]));
        assert!(!is_failing(&[false, true, true, true, false, false]));
    }

    #[test]
    fn recovery_leaves_at_most_a_third_of_a_failure() {
        let mut outcomes = Outcomes::default();
        (0..10).for_each(|_| outcomes.fail(at(0), HALF_LIFE));
        outcomes.recover();
        assert!((outcomes.read(at(0), HALF_LIFE).0 - 0.3).abs() < 1e-12);
    }
}
