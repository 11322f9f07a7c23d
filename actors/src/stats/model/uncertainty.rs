//! How sure is what is known of an endpoint.
//!
//! What little or nothing is known of is tried now and then; how far the noise of a decision may stray is said here. It
//! follows from the estimates alone, so it is published with them.

use super::failures::FailureModel;
use crate::domain::RoutingPolicy;

/// What the long-run mean, to which an estimate returns as it ages, counts for in its doubt, in observations ...
const LONG_RUN_WEIGHT: f64 = 3.0;
/// ... and half-lives without an observation until it counts for so much.
const RETURNED: f64 = 2.0;
/// Half-lives after which an estimate gets no staler.
const STALEST: f64 = 8.0;
/// ln of a failure probability is never less certain than this.
const FAILURE_DOUBT: f64 = 1.0;

/// Standard deviations of ln of what is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uncertainty {
    /// Of the time to the first token: more, the fewer and older its observations.
    pub first_token: f64,
    /// Of the time per output token, whose age is in its weight.
    pub pace: f64,
    /// Of how often it fails: few failures, counted or usual, are a vague figure.
    pub failure: f64,
}

/// What estimates rest on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Variance of ln seconds to the first token.
    pub variance: f64,
    /// Observations of it.
    pub weight: f64,
    /// Answers that came well.
    pub successes: f64,
    /// Seconds since the last observation.
    pub age: f64,
    /// Variance of ln seconds per output token.
    pub pace_variance: f64,
    /// Observations of that.
    pub pace_weight: f64,
    /// Failures.
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
    /// Seconds.
    stalest: f64,
    /// Share of the way back to the long-run mean, per second without an observation.
    return_rate: f64,
}

impl UncertaintyModel {
    /// Those of a policy.
    #[must_use]
    pub fn of(policy: &RoutingPolicy) -> UncertaintyModel {
        let half_life = policy.stats.half_life.as_secs_f64().max(1e-3);
        UncertaintyModel {
            exploration: policy.exploration,
            staleness: policy.staleness / half_life,
            stalest: STALEST * half_life,
            return_rate: 1.0 / (RETURNED * half_life),
        }
    }

    /// How uncertain it is what rests on this.
    #[must_use]
    pub fn uncertainty(&self, evidence: &Evidence) -> Uncertainty {
        let usual = LONG_RUN_WEIGHT.min(evidence.successes) * (self.return_rate * evidence.age).min(1.0);
        let of_mean = self.exploration * self.exploration * evidence.variance / (evidence.weight + usual + 0.5);
        Uncertainty {
            first_token: (of_mean + self.staleness * evidence.age.min(self.stalest)).sqrt(),
            pace: self.exploration * (evidence.pace_variance / (evidence.pace_weight + 0.5)).sqrt(),
            failure: self.exploration * of_failure(evidence),
        }
    }
}

fn of_failure(evidence: &Evidence) -> f64 {
    let Evidence { failures, successes, usual_failure, .. } = *evidence;
    let counted = failures + FailureModel::PRIOR_WEIGHT * usual_failure;
    let answered = 1.0 - FailureModel::probability(failures, successes, usual_failure);
    (answered / counted.max(1e-9)).sqrt().min(FAILURE_DOUBT)
}
