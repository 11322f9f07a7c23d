//! How uncertain the estimates of an endpoint are, which is the scale of the exploration noise.

use pointsman_domain::{Quality, RoutingPolicy, ScoreInputs};

use crate::stats::FailureModel;

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
pub(crate) struct Uncertainty {
    /// Of the time to the first token.
    pub first_token: f64,
    /// Of the time per output token.
    pub pace: f64,
    /// Of the failure probability: high where few failures were counted and few are usual.
    pub failure: f64,
    /// The same of the odds that an answer is not acceptable; 0 where no ratings were counted.
    pub loss: f64,
}

/// How the uncertainty follows from the recorded inputs: the constants of one policy and objective.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UncertaintyModel {
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
    pub(crate) fn new(policy: &RoutingPolicy, pace_ages: bool) -> UncertaintyModel {
        let half_life = policy.stats.half_life.as_secs_f64().max(1e-3);
        UncertaintyModel {
            exploration: policy.exploration,
            staleness: policy.staleness / half_life,
            pace_ages,
            stalest: STALEST * half_life,
            return_rate: 1.0 / (RETURNED * half_life),
        }
    }

    /// The uncertainty of the estimates in these inputs.
    pub(crate) fn of_inputs(&self, inputs: &ScoreInputs) -> Uncertainty {
        let usual = LONG_RUN_WEIGHT.min(inputs.successes) * (self.return_rate * inputs.age).min(1.0);
        let scale = self.exploration * self.exploration;
        let of_level = scale * inputs.variance / (inputs.weight + usual + 0.5);
        let of_pace = scale * inputs.pace_variance / (inputs.pace_weight + 0.5);
        let of_age = self.of_age(inputs);
        Uncertainty {
            first_token: (of_level + of_age).sqrt(),
            pace: (of_pace + if self.pace_ages { of_age } else { 0.0 }).sqrt(),
            failure: self.exploration * of_failure(inputs),
            loss: inputs.quality.map_or(0.0, |quality| self.exploration * of_loss(&quality)),
        }
    }

    /// Variance by which an endpoint may have changed since its last observation. It grows up to twice as fast for an
    /// endpoint with few successes, because nothing is known of how steady it is.
    fn of_age(&self, inputs: &ScoreInputs) -> f64 {
        let ScoreInputs { age, successes, .. } = *inputs;
        self.staleness * (1.0 + 1.0 / (1.0 + successes)) * age.min(self.stalest)
    }
}

/// From the distance between the mean and the lower tenth. Scores alone are not doubted.
fn of_loss(quality: &Quality) -> f64 {
    /// The lower tenth of the normal distribution, in standard deviations below its mean.
    const TENTH: f64 = 1.2816;
    if quality.ratings > 0.0 { (log_odds(quality.mean) - log_odds(quality.tenth)).max(0.0) / TENTH } else { 0.0 }
}

/// ln of the odds of a probability, which is never taken for certain.
pub(crate) fn log_odds(probability: f64) -> f64 {
    const NEAREST: f64 = 1e-6;
    let probability = probability.clamp(NEAREST, 1.0 - NEAREST);
    libm::log(probability / (1.0 - probability))
}

/// The probability of these odds.
pub(crate) fn of_log_odds(log_odds: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-log_odds))
}

fn of_failure(inputs: &ScoreInputs) -> f64 {
    let ScoreInputs { failures, successes, usual_failure, .. } = *inputs;
    let counted = failures + FailureModel::PRIOR_WEIGHT * usual_failure;
    let answered = 1.0 - FailureModel::probability(failures, successes, usual_failure);
    (answered / counted.max(1e-9)).sqrt().min(MOST_FAILURE_UNCERTAINTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(successes: f64, age: f64) -> ScoreInputs {
        ScoreInputs {
            variance: 0.25,
            weight: 20.0,
            successes,
            age,
            pace_variance: 0.05,
            pace_weight: 20.0,
            usual_failure: 0.01,
            ..ScoreInputs::default()
        }
    }

    fn after(half_lives: f64, successes: f64) -> Uncertainty {
        let policy = RoutingPolicy::default();
        let age = half_lives * policy.stats.half_life.as_secs_f64();
        UncertaintyModel::new(&policy, true).of_inputs(&inputs(successes, age))
    }

    #[test]
    fn speed_and_first_token_grow_uncertain_with_age_and_the_failure_probability_does_not() {
        let (fresh, old) = (after(0.0, 20.0), after(10.0, 20.0));
        assert!(old.first_token > 3.0 * fresh.first_token && old.pace > 3.0 * fresh.pace, "{fresh:?} {old:?}");
        assert_eq!(old.failure, fresh.failure);
        let known_pace = UncertaintyModel::new(&RoutingPolicy::default(), false);
        let age = |age| known_pace.of_inputs(&inputs(20.0, age));
        assert_eq!(age(600.0).pace, fresh.pace, "unless the objective leaves it out");
        assert_eq!(age(600.0).first_token, old.first_token);
        assert_eq!(after(1000.0, 20.0).pace, after(STALEST, 20.0).pace, "not without a limit");
    }

    #[test]
    fn an_endpoint_with_few_successes_grows_uncertain_faster() {
        let change = |successes| after(20.0, successes).pace;
        assert!(change(1.0) > 1.15 * change(100.0), "{} {}", change(1.0), change(100.0));
    }
}
