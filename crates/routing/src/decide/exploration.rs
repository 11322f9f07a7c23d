//! Choices that are drawn at random to learn from, whatever the scores: so that there is something to say about an endpoint that
//! would not be chosen. Off unless the caller gives a share.
//!
//! The draw comes from the decision's own seed and from the endpoints that it could do no harm with ([`super::safe_set`]), both of
//! which are recorded, so a replay draws the same.

use pointsman_domain::{Candidate, Decision, Exploration, Tick};

use super::{pool::CandidatePool, pooled_endpoint::PooledEndpoint};
use crate::stats::splitmix64;

/// Sets the draw apart from the noise of the same seed.
const DRAW: u64 = 0x5eed_0f38;
/// Time after which spending counts half as much towards what exploring may cost, microseconds.
const HALF_LIFE_US: f64 = 3.6e9;

/// Position in the catalog of the endpoint that is drawn, if one is.
pub(crate) fn drawn(share: f64, seed: u64, safe: &[u32]) -> Option<u32> {
    if share <= 0.0 || seed == 0 || safe.len() < 2 {
        return None;
    }
    let draw = splitmix64(seed ^ DRAW);
    let is_drawn = ((draw >> 11) as f64) < share * (1_u64 << 53) as f64;
    let position = splitmix64(draw) % safe.len() as u64;
    is_drawn.then(|| safe.get(position as usize).copied()).flatten()
}

/// Leaves out the endpoints whose first token is expected so many seconds later than that of the quickest one.
pub(crate) fn keep_quick(pool: &CandidatePool<'_>, safe: &mut Vec<u32>, most_seconds: f64) {
    let mut least = f64::INFINITY;
    keep(pool, safe, |candidate| {
        least = least.min(candidate.forecast.first_token);
        true
    });
    keep(pool, safe, |candidate| candidate.forecast.first_token <= least + most_seconds);
}

/// Leaves out the endpoints that cost more dollars than these.
pub(crate) fn keep_cheap(pool: &CandidatePool<'_>, safe: &mut Vec<u32>, most: f64) {
    keep(pool, safe, |candidate| candidate.live.cost <= most);
}

/// Leaves out the endpoints that are not to be kept. One walk: `safe` has the order of the pool.
fn keep(pool: &CandidatePool<'_>, safe: &mut Vec<u32>, mut is_kept: impl FnMut(&PooledEndpoint<'_>) -> bool) {
    let mut candidates = pool.candidates.iter();
    safe.retain(|index| candidates.find(|candidate| candidate.index == *index).is_some_and(&mut is_kept));
}

/// What exploring may still cost: a share of what is spent. The owner of decisions keeps one.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExplorationBudget {
    /// Dollars.
    left: f64,
    at: Tick,
}

impl ExplorationBudget {
    /// Whether a request may be explored: until the budget is overdrawn. Where draws may cost nothing they need no budget.
    #[must_use]
    pub fn allows(&self, exploration: Exploration) -> bool {
        exploration.max_extra_cost <= 0.0 || self.left >= 0.0
    }

    /// Counts a decision, where the configuration explores: a share of the cost of its best choice is earned, and what the choice
    /// costs more than that is spent. Also a decision that is not explored earns, so that debts are paid.
    pub fn count(&mut self, decision: &Decision, exploration: Exploration, now: Tick) {
        if exploration == Exploration::NONE {
            return;
        }
        let (Some(choice), Some(best)) = (decision.candidates.first(), best_of(decision)) else { return };
        let elapsed = (now - self.at).as_secs_f64() * 1e6;
        // Old savings fade; debts stay until they are paid.
        let kept = if self.left > 0.0 { libm::exp2(-elapsed / HALF_LIFE_US) } else { 1.0 };
        let extra = (choice.inputs.cost - best.inputs.cost).max(0.0);
        self.left = self.left * kept + exploration.max_extra_cost * best.inputs.cost - extra;
        self.at = now;
    }
}

/// The best candidate of those that rank with the choice by target and preference: the choice, unless another one was drawn.
pub(crate) fn best_of(decision: &Decision) -> Option<&Candidate> {
    let choice = decision.candidates.first()?;
    let ranks_alike = |one: &&Candidate| (one.group, one.inputs.tier) == (choice.group, choice.inputs.tier);
    let all = decision.candidates.iter().chain(&decision.rivals).filter(ranks_alike);
    all.min_by(|one, other| one.score.total_cmp(&other.score))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_the_share_is_drawn_evenly_from_the_safe_ones_and_the_same_seed_draws_the_same() {
        let safe = [3, 5, 8, 9];
        let draws: Vec<Option<u32>> = (1..=100_000_u64).map(|seed| drawn(0.01, splitmix64(seed), &safe)).collect();
        let count = draws.iter().flatten().count() as f64;
        assert!((count - 1_000.0).abs() < 3.0 * (1_000.0_f64 * 0.99).sqrt(), "{count}");
        for one in safe {
            let of = draws.iter().flatten().filter(|drawn| **drawn == one).count() as f64;
            assert!((of - count / 4.0).abs() < 5.0 * (count * 3.0 / 16.0).sqrt(), "{one}: {of} of {count}");
        }
        assert!(draws.iter().flatten().all(|drawn| safe.contains(drawn)));
        assert_eq!(drawn(0.01, splitmix64(7), &safe), draws[6]);
    }

    #[test]
    fn nothing_is_drawn_without_a_share_a_seed_or_an_alternative() {
        for (share, seed, safe) in [(0.0, 7, &[1, 2][..]), (1.0, 0, &[1, 2]), (1.0, 7, &[1]), (1.0, 7, &[])] {
            assert_eq!(drawn(share, seed, safe), None);
        }
        assert!(drawn(1.0, 7, &[1, 2]).is_some());
    }
}
