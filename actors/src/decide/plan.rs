//! The order of the attempts.
//!
//! First the probe of a half-open breaker, then by target (unless models compete), by preference, by score. Ties are
//! broken by lower failure probability, lower cost, fewer requests in flight, then id, so that the order of the input
//! does not matter.
//!
//! Every later attempt goes to the candidate among the best eight with the least expected loss, `score × (1 + k ×
//! failure probability) × (2 at a provider that was tried already)`. `k` is the cost of a failure of that attempt
//! relative to its score. It is higher for the last attempt, whose failure the client sees. Both factors are bounded,
//! so that neither diversity nor caution pays any price.

use std::cmp::Ordering;

use super::candidate::{PoolCandidate, Role};
use crate::domain::EndpointId;

/// Relative difference up to which scores are equal.
const TIE: f64 = 1e-9;
/// Cost of a failure of a later attempt relative to its score, while another attempt is left ...
const LATER_RISK: f64 = 10.0;
/// ... and for the last attempt.
const LAST_RISK: f64 = 40.0;
/// Factor on the loss of an attempt at a provider that was tried already, because the provider may be the cause of the
/// failure. Bounded, so that diversity does not pay any price.
pub const SAME_PROVIDER: f64 = 2.0;

/// Number of best candidates among which later attempts are chosen and which are recorded with all figures.
const BEST: usize = 8;

/// That number for a plan with this many attempts: at least one more than these.
pub(crate) const fn best_ones(attempts: usize) -> usize {
    if attempts < BEST { BEST } else { attempts + 1 }
}

/// An ordered plan.
pub(crate) struct Plan<'r, 'a> {
    /// The candidates in the order of the attempts.
    pub order: Vec<&'r PoolCandidate<'a>>,
    /// Number of attempts.
    pub attempts: u32,
    /// The choice without noise, if noise changed the choice.
    pub noiseless_best: Option<EndpointId>,
    /// Whether a prompt cache changed the choice.
    pub kept: bool,
}

/// What an order is computed from: pool candidates in a decision, recorded candidates in a replay.
pub(crate) trait Ranked {
    /// Rank before any score: group, then tier.
    fn class(&self) -> u64;
    /// Rank within the class: the score, or the time at which the gate opens. Never negative.
    fn rank(&self) -> f64;
    fn failure(&self) -> f64;
    fn cost(&self) -> f64;
    fn in_flight(&self) -> u32;
    fn endpoint(&self) -> EndpointId;
    fn provider(&self) -> u32;
    fn is_probe(&self) -> bool;
    /// Neither a probe nor past a refusing gate.
    fn is_candidate(&self) -> bool;
}

impl Ranked for PoolCandidate<'_> {
    fn class(&self) -> u64 {
        self.class
    }

    fn rank(&self) -> f64 {
        self.rank
    }

    fn failure(&self) -> f64 {
        self.forecast.noiseless.failure
    }

    fn cost(&self) -> f64 {
        self.live.cost
    }

    fn in_flight(&self) -> u32 {
        self.live.in_flight
    }

    fn endpoint(&self) -> EndpointId {
        self.stats.facts.id
    }

    fn provider(&self) -> u32 {
        self.stats.facts.provider
    }

    fn is_probe(&self) -> bool {
        self.role == Role::Probe
    }

    fn is_candidate(&self) -> bool {
        self.role == Role::Candidate
    }
}

/// Orders the candidates for this number of attempts.
pub(crate) fn settle<R: Ranked>(order: &mut [&R], attempts: u32) {
    order.sort_unstable_by_key(|row| (row.class(), row.rank().to_bits()));
    settle_ties(order);
    let probe = order.iter().position(|row| row.is_probe());
    move_to_front(order, probe);
    place(order, attempts);
}

/// Chooses every attempt after the first: the candidate with the least expected loss.
fn place<R: Ranked>(order: &mut [&R], attempts: u32) {
    let attempts = attempts as usize;
    let near = near(order, attempts);
    for position in 1..attempts.min(near.len()) {
        let risk_weight = if position + 1 < attempts { LATER_RISK } else { LAST_RISK };
        let Some((tried, open)) = near.split_at_mut_checked(position) else { return };
        let next = least_loss(tried, open, risk_weight);
        move_to_front(open, next);
    }
}

/// The best of the best class, with the tie-break of the plan. `scored` pairs candidates with scores.
pub(crate) fn best<'r, R: Ranked>(scored: impl Iterator<Item = (&'r R, f64)> + Clone) -> Option<&'r R> {
    let better = |(class, least): (u64, f64), (row, score): (&R, f64)| {
        let is_better = row.class() < class || (row.class() == class && score < least);
        if is_better { (row.class(), score) } else { (class, least) }
    };
    let (class, least) = scored.clone().fold((u64::MAX, f64::INFINITY), better);
    let tied = scored.filter(|(row, score)| is_tie(least, *score) && row.class() == class);
    tied.map(|(row, _)| row).min_by(|a, b| tie_break(*a, *b))
}

/// Whether a score ties with the least one.
pub(crate) fn is_tie(least: f64, score: f64) -> bool {
    score - least <= TIE * score
}

fn tie_break<R: Ranked>(a: &R, b: &R) -> Ordering {
    let failure = a.failure().total_cmp(&b.failure());
    let cost = || a.cost().total_cmp(&b.cost());
    failure.then_with(cost).then(a.in_flight().cmp(&b.in_flight())).then(a.endpoint().cmp(&b.endpoint()))
}

/// Applies the tie-break to every run of scores that tie with the first of the run.
fn settle_ties<R: Ranked>(order: &mut [&R]) {
    let mut rest = order;
    while let Some(first) = rest.first().copied() {
        let tied = |row: &&&R| row.class() == first.class() && is_tie(first.rank(), row.rank());
        let length = rest.iter().take_while(tied).count().max(1);
        let Some((run, after)) = rest.split_at_mut_checked(length) else { return };
        if run.len() > 1 {
            run.sort_unstable_by(|a, b| tie_break(*a, *b));
        }
        rest = after;
    }
}

fn move_to_front<T>(order: &mut [T], place: Option<usize>) {
    if let Some(upto) = place.and_then(|place| order.get_mut(..=place)) {
        upto.rotate_right(1);
    }
}

/// The best candidates.
fn near<'o, 'r, R: Ranked>(order: &'o mut [&'r R], attempts: usize) -> &'o mut [&'r R] {
    let near = best_ones(attempts).min(order.len());
    order.get_mut(..near).unwrap_or_default()
}

/// Position in `open` of the candidate of the first one's class with the least expected loss, given the candidates
/// already tried. `None` if the first is a probe or past a refusing gate.
fn least_loss<R: Ranked>(tried: &[&R], open: &[&R], risk_weight: f64) -> Option<usize> {
    let next = open.first().filter(|next| next.is_candidate())?;
    let same_provider = |row: &R| tried.iter().any(|before| before.provider() == row.provider());
    let mut least: Option<(usize, f64)> = None;
    for (at, row) in open.iter().enumerate().take_while(|(_, row)| row.class() == next.class()) {
        // No factor is below 1, so the rank alone shows that many are not the least.
        if !row.is_candidate() || least.is_some_and(|(_, loss)| row.rank() >= loss) {
            continue;
        }
        let diversity = if same_provider(row) { SAME_PROVIDER } else { 1.0 };
        let loss = row.rank() * (1.0 + risk_weight * row.failure()) * diversity;
        if least.is_none_or(|(_, known)| loss < known) {
            least = Some((at, loss));
        }
    }
    least.map(|(at, _)| at)
}
