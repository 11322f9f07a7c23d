//! The order in which candidates are tried.
//!
//! The probe of a half-open breaker first; then by target unless models compete, by the caller's preferences, by score.
//! Ties fall to the lower failure probability, then the lower cost, then fewer requests in flight, then the id, so that
//! the order of the input never matters.
//!
//! One rule chooses every later attempt: of the best eight, the candidate with the least expected loss,
//! `score × (1 + k × failure probability) × (2 at a provider that was tried already)`. `k` says how many times its score a failure of that attempt costs: more for the last attempt, whose
//! failure the caller sees. Both factors have a bound, so that neither diversity nor caution pays any price.

use std::cmp::Ordering;

use super::candidate::{PoolCandidate, Role};
use crate::domain::EndpointId;

/// Scores this close, relatively, are equal.
const TIE: f64 = 1e-9;
/// How many times its score the failure of a later attempt costs while another attempt is left ...
const LATER_RISK: f64 = 10.0;
/// ... and when none is: the caller sees that failure.
const LAST_RISK: f64 = 40.0;
/// How many times worse an attempt scores at a provider that was tried already: what made the first attempt fail may be
/// the provider's. More would pay any price for diversity.
pub const SAME_PROVIDER: f64 = 2.0;

/// The best ones, of which records keep the figures; more if more of them may be tried. Who is tried follows from them and
/// the best at other providers alone.
const BEST: usize = 8;

/// How many those are: one more than may be tried, at least.
pub(crate) const fn best_ones(attempts: usize) -> usize {
    if attempts < BEST { BEST } else { attempts + 1 }
}

/// A settled plan.
pub(crate) struct Plan<'r, 'a> {
    /// The candidates that take part, in the order in which they are tried.
    pub order: Vec<&'r PoolCandidate<'a>>,
    /// How many of them may be tried.
    pub attempts: u32,
    /// The choice without noise, where noise changed the choice.
    pub noiseless_best: Option<EndpointId>,
    /// Whether a prompt cache made the choice.
    pub kept: bool,
}

/// What an order is made of. Rows have it when a decision is made, recorded candidates when it is replayed.
pub(crate) trait Ranked {
    /// What ranks before any score: group, then tier.
    fn class(&self) -> u64;
    /// What it is ordered by within its class: its score, or the time at which its gate opens. Never negative.
    fn rank(&self) -> f64;
    fn failure(&self) -> f64;
    fn cost(&self) -> f64;
    fn in_flight(&self) -> u32;
    fn endpoint(&self) -> EndpointId;
    fn provider(&self) -> u32;
    fn is_probe(&self) -> bool;
    /// Neither a probe nor past a shut gate.
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

/// Puts whoever takes part in the order in which they are tried, of which so many may be.
pub(crate) fn settle<R: Ranked>(order: &mut [&R], attempts: u32) {
    order.sort_unstable_by_key(|row| (row.class(), row.rank().to_bits()));
    settle_ties(order);
    let probe = order.iter().position(|row| row.is_probe());
    move_to_front(order, probe);
    place(order, attempts);
}

/// Chooses every attempt after the first among the best candidates: the one with the least expected loss.
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

/// The best row of the best class; ties settled as in the plan. `scored` gives rows with their scores.
pub(crate) fn best<'r, R: Ranked>(scored: impl Iterator<Item = (&'r R, f64)> + Clone) -> Option<&'r R> {
    let better = |(class, least): (u64, f64), (row, score): (&R, f64)| {
        let is_better = row.class() < class || (row.class() == class && score < least);
        if is_better { (row.class(), score) } else { (class, least) }
    };
    let (class, least) = scored.clone().fold((u64::MAX, f64::INFINITY), better);
    let tied = scored.filter(|(row, score)| is_tie(least, *score) && row.class() == class);
    tied.map(|(row, _)| row).min_by(|a, b| tie_break(*a, *b))
}

/// Whether a score counts as the least one.
pub(crate) fn is_tie(least: f64, score: f64) -> bool {
    score - least <= TIE * score
}

fn tie_break<R: Ranked>(a: &R, b: &R) -> Ordering {
    let failure = a.failure().total_cmp(&b.failure());
    let cost = || a.cost().total_cmp(&b.cost());
    failure.then_with(cost).then(a.in_flight().cmp(&b.in_flight())).then(a.endpoint().cmp(&b.endpoint()))
}

/// Orders every run of tied scores by what breaks ties. A run is what ties with its first.
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

/// The best ones.
fn near<'o, 'r, R: Ranked>(order: &'o mut [&'r R], attempts: usize) -> &'o mut [&'r R] {
    let near = best_ones(attempts).min(order.len());
    order.get_mut(..near).unwrap_or_default()
}

/// The position in `open` of the candidate whose expected loss is least after these were tried. It is of the class of the
/// first of them; `None` where that is a probe or past a shut gate, whose order is settled.
fn least_loss<R: Ranked>(tried: &[&R], open: &[&R], risk_weight: f64) -> Option<usize> {
    let next = open.first().filter(|next| next.is_candidate())?;
    let same_provider = |row: &R| tried.iter().any(|before| before.provider() == row.provider());
    let mut least: Option<(usize, f64)> = None;
    for (at, row) in open.iter().enumerate().take_while(|(_, row)| row.class() == next.class()) {
        // No factor is below 1, so the rank alone tells that many cannot be the least.
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
