//! How near the running constants come to what was recorded: the self test of an open loop.

use pointsman_domain::{Candidate, Decision};

use super::kept::KeptFigures;
use crate::decide::exploration::drawn;

/// Fewest decisions that an open loop is judged by.
const FEWEST: u64 = 30;
/// Least share of decisions with the recorded choice. Noise chooses between endpoints that are nearly alike, so even small
/// differences move some.
const ALIKE: f64 = 0.8;
/// Least share of decisions whose recorded choice is estimated again.
const ESTIMATED: f64 = 0.5;
/// Most mean difference of ln seconds to the first token ...
const TIMES_APART: f64 = 0.2;
/// ... and of the probability of failure.
const FAILURES_APART: f64 = 0.03;

/// The world under the running constants beside the records.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Nearness {
    /// Decisions that were compared.
    pub decisions: u64,
    /// Those with the recorded choice.
    pub alike: u64,
    /// Those whose recorded choice has estimates of its own again.
    pub estimated: u64,
    /// Sum of the differences of ln seconds to the first token, over those that are estimated again.
    times: f64,
    /// The same of the probability of failure.
    failures: f64,
    /// Attempts that happened again.
    pub attempts: u64,
    /// Attempts of which the record holds no figures.
    pub unplaced: u64,
}

impl Nearness {
    pub(super) fn add(&mut self, recorded: &Decision, made: Option<&Decision>, kept: &KeptFigures) {
        // A draw at random is not made again.
        if drawn(recorded.exploration_share, recorded.seed, &recorded.safe_set).is_some() {
            return;
        }
        let was = recorded.plan().next();
        let is = made.and_then(|made| made.plan().next());
        self.decisions += 1;
        self.alike += u64::from(was.map(|was| was.endpoint) == is.map(|is| is.endpoint));
        let Some(was) = was.filter(|was| kept.is_estimated(was.endpoint)) else { return };
        let mut again = made.into_iter().flat_map(|made| made.plan().chain(&made.rivals));
        let Some(again) = again.find(|again| again.endpoint == was.endpoint) else { return };
        self.estimated += 1;
        let ln = |candidate: &Candidate| libm::log(candidate.predicted.first_token_p50.max(1e-9));
        self.times += (ln(again) - ln(was)).abs();
        self.failures += (again.predicted.failure - was.predicted.failure).abs();
    }

    /// Share of the decisions with the recorded choice.
    #[must_use]
    pub fn alike_share(&self) -> f64 {
        share(self.alike, self.decisions)
    }

    /// Share of the decisions whose recorded choice is estimated again.
    #[must_use]
    pub fn estimated_share(&self) -> f64 {
        share(self.estimated, self.decisions)
    }

    /// Mean difference of the predicted time to the first token, as a share of it.
    #[must_use]
    pub fn times_apart(&self) -> f64 {
        libm::exp(self.times / count(self.estimated)) - 1.0
    }

    /// Mean difference of the predicted probability of failure.
    #[must_use]
    pub fn failures_apart(&self) -> f64 {
        self.failures / count(self.estimated)
    }

    /// Whether the decisions in the loop may be believed.
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.is_enough()
            && self.alike_share() >= ALIKE
            && self.times / count(self.estimated) <= TIMES_APART
            && self.failures_apart() <= FAILURES_APART
    }

    /// Whether enough happened again to judge it.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.decisions >= FEWEST && self.estimated_share() >= ESTIMATED
    }
}

fn count(number: u64) -> f64 {
    number.max(1) as f64
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / count(whole)
}
