//! What it would cost to draw a share of recorded choices at random, as `[routing.explore]` does, and how much it would tell.
//!
//! For each decision that could be drawn: the mean cost of its safe endpoints, less that of the best one. Sums of integers, so that no
//! order of records changes a bit. A record made while draws were on holds only the endpoints that the limits of that time let through, so
//! wider limits are priced too low.

use pointsman_domain::{AttemptRecord, Candidate, Decision, Exploration, Generation};

use super::diff::units::{count, dollars_of, from_nano, from_pico, nano, pico};
use crate::decide::best_of;

/// Half of a 95 % interval, in standard deviations.
const Z: f64 = 1.96;
/// How well a change of cost is to be known, as a share of the cost.
const PRECISION: f64 = 0.04;
/// Fewest answers whose costs tell how much costs vary.
const FEWEST: u64 = 30;

/// Recorded decisions, and what draws would have cost.
#[derive(Debug, Clone, Default)]
pub struct ExplorationPrice {
    decisions: u64,
    drawable: u64,
    /// Trillionths: the probability that a draw takes a certain endpoint.
    each: i128,
    /// Endpoints of the safe sets.
    safe: u64,
    /// Picodollars: of the best choices of all decisions, of draws beyond them, and of what only the dearer draws are beyond them.
    best: i128,
    extra: i128,
    dearer: i128,
    /// Billionths of a second by which first tokens of draws are later.
    later: i128,
    /// Answers with a cost: their number, picodollars, errors of the prediction in picodollars, and their squares.
    answers: (u64, i128, i128, i128),
}

/// What a share would cost and tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PricedExploration {
    /// Decisions.
    pub decisions: u64,
    /// Requests that could be drawn.
    pub drawable: u64,
    /// Mean number of endpoints that a draw chooses from.
    pub endpoints: f64,
    /// Share of the decisions that are drawn, where spending allows it.
    pub drawn: f64,
    /// Additional dollars of a decision, on average over all.
    pub extra: f64,
    /// The same as a share of what the best choices cost.
    pub relative: f64,
    /// Seconds by which the first token of a draw is later.
    pub later: f64,
    /// Share of the draws that the limit of spending lets through.
    pub allowed: f64,
    /// Decisions after which the cost of another choice is known to ± 4 %; `None` if too few costs are known.
    pub needed: Option<f64>,
}

impl ExplorationPrice {
    /// Counts a decision. `exploration`: how far it may be drawn.
    pub fn add(&mut self, generation: &Generation, exploration: Exploration) {
        let decision = &generation.decision;
        let Some(best) = best_of(decision) else { return };
        self.decisions += 1;
        self.best += i128::from(pico(best.inputs.cost));
        let outcome = generation.attempts.iter().filter_map(|attempt| outcome(decision, attempt));
        outcome.for_each(|[cost, error]| self.add_answer(cost, error));
        let safe = safe(decision, best, exploration);
        if exploration.share <= 0.0 || safe.len() < 2 {
            return;
        }
        let mean = |sum: f64| sum / count(safe.len() as u64);
        let beyond = |one: &&Candidate| one.inputs.cost - best.inputs.cost;
        self.drawable += 1;
        self.safe += safe.len() as u64;
        self.each += i128::from(pico(mean(1.0)));
        self.extra += i128::from(pico(mean(safe.iter().map(beyond).sum())));
        self.dearer += i128::from(pico(mean(safe.iter().map(beyond).map(|more| more.max(0.0)).sum())));
        let later = |one: &&Candidate| one.predicted.first_token_p50 - best.predicted.first_token_p50;
        self.later += i128::from(nano(mean(safe.iter().map(later).sum())));
    }

    fn add_answer(&mut self, cost: i64, error: i64) {
        let (number, costs, errors, squares) = self.answers;
        let [cost, error] = [cost, error].map(i128::from);
        self.answers = (number + 1, costs + cost, errors + error, squares.saturating_add(error * error));
    }

    /// Adds what another part of the records gave.
    pub fn merge(&mut self, other: &ExplorationPrice) {
        let (number, costs, errors, squares) = other.answers;
        let own = self.answers;
        *self = ExplorationPrice {
            decisions: self.decisions + other.decisions,
            drawable: self.drawable + other.drawable,
            each: self.each + other.each,
            safe: self.safe + other.safe,
            best: self.best + other.best,
            extra: self.extra + other.extra,
            dearer: self.dearer + other.dearer,
            later: self.later + other.later,
            answers: (own.0 + number, own.1 + costs, own.2 + errors, own.3.saturating_add(squares)),
        };
    }

    /// The price of this exploration. `None` if nothing was counted.
    pub fn priced(&self, exploration: Exploration) -> Option<PricedExploration> {
        let Exploration { share, max_extra_cost, .. } = exploration;
        let (decisions, drawable) = (count(self.decisions), count(self.drawable));
        if self.decisions == 0 {
            return None;
        }
        let (best, dearer) = (from_pico(self.best), share * from_pico(self.dearer));
        // Without a limit of spending nothing dearer is drawn.
        let allowed = if dearer > 0.0 { (max_extra_cost * best / dearer).min(1.0) } else { 1.0 };
        let extra = share * allowed * from_pico(self.extra);
        let of_drawable = |sum: f64| if self.drawable > 0 { sum / drawable } else { 0.0 };
        let each = share * allowed * from_pico(self.each) / decisions;
        Some(PricedExploration {
            decisions: self.decisions,
            drawable: self.drawable,
            endpoints: of_drawable(count(self.safe)),
            drawn: share * allowed * drawable / decisions,
            extra: extra / decisions,
            relative: if best > 0.0 { extra / best } else { 0.0 },
            later: of_drawable(from_nano(self.later)),
            allowed,
            needed: self.variation().filter(|_| each > 0.0).map(|variation| (Z * variation / PRECISION).powi(2) / each),
        })
    }

    /// Standard deviation of the errors of predicted costs, as a share of the mean cost.
    fn variation(&self) -> Option<f64> {
        let (number, costs, errors, squares) = self.answers;
        let number = Some(number).filter(|number| *number >= FEWEST).map(count)?;
        let (mean, error) = (from_pico(costs) / number, from_pico(errors) / number);
        let variance = from_pico(squares) / 1e12 / number - error * error;
        (mean > 0.0).then(|| variance.max(0.0).sqrt() / mean)
    }
}

/// Cost of an answer and its difference from what was predicted, in picodollars.
fn outcome(decision: &Decision, attempt: &AttemptRecord) -> Option<[i64; 2]> {
    let cost = attempt.cost.filter(|_| attempt.served && !attempt.estimated).map(dollars_of)?;
    let candidate = decision.plan().find(|candidate| candidate.index == attempt.endpoint)?;
    Some([pico(cost), pico(cost - candidate.predicted.cost)])
}

/// The endpoints that a draw chooses from, as far as the record holds their figures.
fn safe<'d>(decision: &'d Decision, best: &Candidate, exploration: Exploration) -> Vec<&'d Candidate> {
    if decision.candidates.iter().any(|candidate| candidate.probe) {
        return Vec::new();
    }
    let all = decision.candidates.iter().chain(&decision.rivals);
    let mut safe: Vec<&Candidate> = all.filter(|one| decision.safe_set.contains(&one.index)).collect();
    let soonest = safe.iter().map(|one| one.predicted.first_token_p50).fold(f64::INFINITY, f64::min);
    safe.retain(|one| one.predicted.first_token_p50 <= soonest + exploration.max_extra_first_token);
    if exploration.max_extra_cost <= 0.0 {
        safe.retain(|one| one.inputs.cost <= best.inputs.cost);
    }
    safe
}
