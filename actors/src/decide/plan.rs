//! In which order candidates are tried.
//!
//! First the request that probes, if any; then by target unless models compete, by the caller's wishes, by score.
//! Ties fall to the lower failure probability, then the lower cost, then the fewer requests in flight, then the id, so
//! that the order of the input never matters. Of the attempts that a request may take, later ones prefer providers that
//! were not tried yet. The second goes to that one of the best eight whose score is least once its risk to fail is added,
//! and the last of three or more to the one with the least risk: what nobody asked for long counts as riskier.

use std::cmp::Ordering;

use super::{
    candidate::{PoolCandidate, Role},
    preferences::GRADE_BITS,
    ranking::Ranking,
};
use crate::domain::EndpointId;

/// Scores this close, relatively, are equal.
const TIE: f64 = 1e-9;
/// Failure probability that silence adds in the end: what nobody asked for long may be down without anybody knowing ...
const UNHEARD: f64 = 0.05;
/// ... and the seconds of silence that add half of it.
const HALF_HEARD: f64 = 60.0;
/// How many times its score a second attempt that is sure to fail would cost more than one that is sure to answer. Its score
/// holds what a failure costs who may still ask two others; by then there is one.
const SECOND_RISK: f64 = 10.0;

/// The best ones, of which records keep the figures; more if more of them may be tried. Who is tried follows from them and
/// the best at other providers alone.
const BEST: usize = 8;

/// How many those are: one more than may be tried, at least.
pub(crate) const fn best_ones(attempts: usize) -> usize {
    if attempts < BEST { BEST } else { attempts + 1 }
}

/// A settled plan.
pub(crate) struct Plan<'r, 'a> {
    pub order: Ranking<'r, 'a>,
    /// How many of them may be tried.
    pub attempts: u32,
    /// Who would have been chosen without noise, where noise made the choice.
    pub calm_best: Option<EndpointId>,
    /// Whether a prompt cache made it.
    pub kept: bool,
}

/// What an order is made of. Rows have it when a decision is made, recorded candidates when it is replayed.
pub(crate) trait Ranked {
    /// What ranks before any score: group, then tier.
    fn class(&self) -> u64;
    /// What it is ordered by within its class: its score, or past a shut gate the moment that opens. Never negative.
    fn rank(&self) -> f64;
    fn failure(&self) -> f64;
    /// Seconds since its last answer; infinite before the first.
    fn silence(&self) -> f64;
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
        self.forecast.calm.failure
    }

    fn silence(&self) -> f64 {
        self.stats.estimates.age
    }

    fn cost(&self) -> f64 {
        self.moment.cost
    }

    fn in_flight(&self) -> u32 {
        self.moment.in_flight
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

/// Gives every row that takes part its rank within its class. `score` gives it with noise and without.
#[inline(always)]
pub(crate) fn rank<'a>(rows: &mut [PoolCandidate<'a>], score: impl Fn(&PoolCandidate<'a>) -> (f64, f64)) {
    for row in rows.iter_mut().filter(|row| row.role != Role::Out) {
        if row.role == Role::Panic {
            rank_past_gate(row);
        } else {
            (row.rank, row.calm) = score(row);
        }
    }
}

/// Past shut gates the one that opens soonest goes first, whatever it would score, and missed preferences count for
/// nothing.
#[cold]
#[inline(never)]
fn rank_past_gate(row: &mut PoolCandidate<'_>) {
    row.class = row.wish() << GRADE_BITS;
    row.rank = row.until().0 as f64;
}

/// Puts whoever takes part in the order in which they are tried, of which so many may be.
pub(crate) fn settle<R: Ranked>(order: &mut [&R], attempts: u32) {
    order.sort_unstable_by_key(|row| (row.class(), row.rank().to_bits()));
    settle_ties(order);
    let probe = order.iter().position(|row| row.is_probe());
    move_to_front(order, probe);
    place(order, attempts);
}

/// What goes beyond rank where no probe is: other providers before the same again, and the less risk the fewer attempts are
/// left.
pub(crate) fn place<R: Ranked>(order: &mut [&R], attempts: u32) {
    let attempts = attempts as usize;
    spread(order, attempts);
    back_up(order, attempts);
    secure(order, attempts);
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

/// No score above this ties with `score`, nor with any below it.
pub(crate) fn most_tied(score: f64) -> f64 {
    score * (1.0 + 2.0 * TIE)
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
pub(crate) fn settle_ties<R: Ranked>(order: &mut [&R]) {
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

/// How likely it fails, as far as can be told of an endpoint that was silent for so long, or for ever.
fn risk<R: Ranked>(row: &R) -> f64 {
    row.failure() + UNHEARD / (1.0 + HALF_HEARD / row.silence())
}

/// Makes the second attempt the one whose rank is least once its risk counts.
fn back_up<R: Ranked>(order: &mut [&R], attempts: usize) {
    let near = near(order, attempts);
    let Some((tried, open)) = near.split_at_mut_checked(1).filter(|_| attempts > 1) else { return };
    let second = least(tried, open, |row| row.rank(), |row| row.rank() * (1.0 + SECOND_RISK * risk(row)));
    if second.is_some_and(|second| second > 0) {
        move_to_front(open, second);
        // Whoever comes after it may be at its provider.
        spread(near, attempts);
    }
}

/// Makes the last of three or more attempts the one that is least likely to fail: what it misses, the caller sees.
fn secure<R: Ranked>(order: &mut [&R], attempts: usize) {
    let Some(last) = attempts.checked_sub(1).filter(|last| *last >= 2) else { return };
    let Some((tried, open)) = near(order, attempts).split_at_mut_checked(last) else { return };
    let safest = least(tried, open, |row| row.failure(), risk);
    move_to_front(open, safest);
}

/// The best ones.
fn near<'o, 'r, R: Ranked>(order: &'o mut [&'r R], attempts: usize) -> &'o mut [&'r R] {
    let near = best_ones(attempts).min(order.len());
    order.get_mut(..near).unwrap_or_default()
}

/// The place of whom of `open` it costs least to try next: of the class of the first of them, and at a provider not tried
/// yet where that one is at one. It costs `bound` at least, which is quicker to tell.
fn least<R: Ranked>(tried: &[&R], open: &[&R], bound: impl Fn(&R) -> f64, cost: impl Fn(&R) -> f64) -> Option<usize> {
    let next = open.first().filter(|next| next.is_candidate())?;
    let is_fresh = |row: &R| tried.iter().all(|before| before.provider() != row.provider());
    let needs_fresh = is_fresh(next);
    let (mut place, mut least) = (None, f64::INFINITY);
    for (at, row) in open.iter().enumerate().take_while(|(_, row)| row.class() == next.class()) {
        if bound(row) >= least {
            continue;
        }
        let cost = cost(row);
        if cost < least && row.is_candidate() && (!needs_fresh || is_fresh(row)) {
            (place, least) = (Some(at), cost);
        }
    }
    place
}

/// Fills the attempts after the first with providers not tried yet, as long as their class has one.
fn spread<R: Ranked>(order: &mut [&R], attempts: usize) {
    for place in 1..attempts.min(order.len()) {
        let Some((tried, open)) = order.split_at_mut_checked(place) else { return };
        let Some(class) = open.first().map(|next| next.class()) else { return };
        let is_fresh = |next: &&R| tried.iter().all(|before| before.provider() != next.provider());
        let fresh = open.iter().take_while(|next| next.class() == class).position(is_fresh);
        move_to_front(open, fresh);
    }
}
