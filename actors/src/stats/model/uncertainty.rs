//! How uncertain the estimates of an endpoint are, which is the scale of the exploration noise.
//!
//! It follows from the estimates alone, so it is published with them.

use super::failures::FailureModel;
use crate::domain::RoutingPolicy;

/// Observations that the long-run mean, to which an estimate returns as it ages, counts for at most ...
const LONG_RUN_WEIGHT: f64 = 3.0;
/// ... and half-lives without an observation until it counts for as many.
const RETURNED: f64 = 2.0;
/// Half-lives after which an estimate gets no staler. A shorter limit leaves endpoints unused that became faster; without a
/// limit, choices after a night without requests would be random.
const STALEST: f64 = 32.0;
/// Highest standard deviation of ln of a failure probability.
const MOST_FAILURE_UNCERTAINTY: f64 = 1.0;

/// Standard deviations of ln of the estimates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uncertainty {
    /// Of the time to the first token.
    pub first_token: f64,
    /// Of the time per output token.
    pub pace: f64,
    /// Of the failure probability: high where few failures were counted and few are usual.
    pub failure: f64,
}

/// What estimates rest on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Variance of ln seconds to the first token.
    pub variance: f64,
    /// Observations of it.
    pub weight: f64,
    /// Successful attempts.
    pub successes: f64,
    /// Seconds since the last observation.
    pub age: f64,
    /// Variance of ln seconds per output token.
    pub pace_variance: f64,
    /// Observations of that.
    pub pace_weight: f64,
    pub failures: f64,
    /// The failure probability that is usual among its siblings.
    pub usual_failure: f64,
}

/// The constants that make uncertainty of evidence.
#[derive(Debug, Clone, Copy)]
pub struct UncertaintyModel {
    exploration: f64,
    /// Variance per second without an observation.
    staleness: f64,
    /// Whether that counts for the time per output token, too.
    pace_ages: bool,
    /// Seconds.
    stalest: f64,
    /// Share of the way back to the long-run mean, per second without an observation.
    return_rate: f64,
}

impl UncertaintyModel {
    /// The constants of a policy.
    pub fn of(policy: &RoutingPolicy, pace_ages: bool) -> UncertaintyModel {
        let half_life = policy.stats.half_life.as_secs_f64().max(1e-3);
        UncertaintyModel {
            exploration: policy.exploration,
            staleness: policy.staleness / half_life,
            pace_ages,
            stalest: STALEST * half_life,
            return_rate: 1.0 / (RETURNED * half_life),
        }
    }

    /// How uncertain the estimates are that rest on this evidence.
    pub fn uncertainty(&self, evidence: &Evidence) -> Uncertainty {
        let usual = LONG_RUN_WEIGHT.min(evidence.successes) * (self.return_rate * evidence.age).min(1.0);
        let scale = self.exploration * self.exploration;
        let of_level = scale * evidence.variance / (evidence.weight + usual + 0.5);
        let of_pace = scale * evidence.pace_variance / (evidence.pace_weight + 0.5);
        let of_age = self.of_age(evidence);
        Uncertainty {
            first_token: (of_level + of_age).sqrt(),
            pace: (of_pace + if self.pace_ages { of_age } else { 0.0 }).sqrt(),
            failure: self.exploration * of_failure(evidence),
        }
    }

    /// Variance by which an endpoint may have changed since its last observation. It grows up to twice as fast for an
    /// endpoint with few successes, because nothing is known of how steady it is.
    fn of_age(&self, evidence: &Evidence) -> f64 {
        let Evidence { age, successes, .. } = *evidence;
        self.staleness * (1.0 + 1.0 / (1.0 + successes)) * age.min(self.stalest)
    }
}

fn of_failure(evidence: &Evidence) -> f64 {
    let Evidence { failures, successes, usual_failure, .. } = *evidence;
    let counted = failures + FailureModel::PRIOR_WEIGHT * usual_failure;
    let answered = 1.0 - FailureModel::probability(failures, successes, usual_failure);
    (answered / counted.max(1e-9)).sqrt().min(MOST_FAILURE_UNCERTAINTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIDENCE: Evidence = Evidence {
        variance: 0.25,
        weight: 20.0,
        successes: 20.0,
        age: 0.0,
        pace_variance: 0.05,
        pace_weight: 20.0,
        failures: 0.0,
        usual_failure: 0.01,
    };

    fn after(half_lives: f64, evidence: Evidence) -> Uncertainty {
        let policy = RoutingPolicy::default();
        let age = half_lives * policy.stats.half_life.as_secs_f64();
        UncertaintyModel::of(&policy, true).uncertainty(&Evidence { age, ..evidence })
    }

    #[test]
    fn speed_and_first_token_grow_uncertain_with_age_and_the_failure_probability_does_not() {
        let (fresh, old) = (after(0.0, EVIDENCE), after(10.0, EVIDENCE));
        assert!(old.first_token > 3.0 * fresh.first_token && old.pace > 3.0 * fresh.pace, "{fresh:?} {old:?}");
        assert_eq!(old.failure, fresh.failure);
        let known_pace = UncertaintyModel::of(&RoutingPolicy::default(), false);
        let age = |age| known_pace.uncertainty(&Evidence { age, ..EVIDENCE });
        assert_eq!(age(600.0).pace, fresh.pace, "unless the objective leaves it out");
        assert_eq!(age(600.0).first_token, old.first_token);
        assert_eq!(after(1000.0, EVIDENCE).pace, after(STALEST, EVIDENCE).pace, "not without a limit");
    }

    #[test]
    fn an_endpoint_with_few_successes_grows_uncertain_faster() {
        let change = |successes| after(20.0, Evidence { successes, ..EVIDENCE }).pace;
        assert!(change(1.0) > 1.15 * change(100.0), "{} {}", change(1.0), change(100.0));
    }
}
