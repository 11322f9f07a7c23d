//! The rows in the order they are tried, by ranks sorted as integers.
//!
//! An integer holds a rank up to twelve digits, then the position of its row. Integers sort several times faster than rows
//! do, and mostly nothing is left to be sorted after that; what is left, ties above all, is for `plan`. Who is tried follows
//! from the first ones alone, so a decision that serves leaves the others as they come.

use super::{
    candidate::{PoolCandidate, Role},
    plan::{best_ones, place, settle, settle_ties},
};
use crate::domain::EndpointId;

/// Bits that hold the position.
const POSITION: u64 = (1 << 12) - 1;
/// Of so many rows, one is in a sample: a prime, so that what repeats among them does not repeat in it.
const SAMPLED: usize = 7;
/// So far apart, two ranks differ by more than a tie.
const APART: u64 = 1 << 26;
/// Above every rank: that of rows that take no part.
const OUT: u64 = u64::MAX;

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

/// The rows that take part, in the order they are tried, as far as that is known.
pub(crate) struct Ranking<'r, 'a> {
    rows: &'r [PoolCandidate<'a>],
    /// The first of them, or all.
    pub first: Vec<&'r PoolCandidate<'a>>,
    /// The others, in no order: their ranks, as bits, and who they are. None ties with one of the first.
    behind: Vec<(u64, EndpointId)>,
    /// None of them ranks below this.
    bound: u64,
}

impl<'r, 'a> Ranking<'r, 'a> {
    /// That of rows that have their ranks, of which so many may be tried. `by_score` tells that neither class nor probe goes
    /// before a score.
    pub(crate) fn whole(rows: &'r [PoolCandidate<'a>], by_score: bool, attempts: u32) -> Ranking<'r, 'a> {
        let (mut first, is_settled) = if by_score && can_be_keyed(rows) {
            let mut keys = keys(rows);
            keys.sort_unstable();
            (rows_of(rows, &keys), are_apart(&keys))
        } else {
            (rows.iter().filter(|row| row.role != Role::Out).collect(), false)
        };
        if is_settled {
            place(&mut first, attempts);
        } else {
            settle(&mut first, attempts);
        }
        Ranking { rows, first, behind: Vec::new(), bound: OUT }
    }

    /// The same of rows that nothing but their scores orders, as far as it takes to tell who is tried;
    /// if it can be told from that.
    pub(crate) fn begun(rows: &'r [PoolCandidate<'a>], attempts: u32) -> Option<Ranking<'r, 'a>> {
        if !can_be_keyed(rows) {
            return None;
        }
        let enough = best_ones(attempts as usize);
        // Some three times as many are expected below it.
        let bound = nth_least(rows.iter().step_by(SAMPLED).map(rank), enough / 2)? & !POSITION;
        let (mut keys, behind) = split(rows, bound);
        keys.sort_unstable();
        let is_apart = are_apart(&keys) && keys.last().is_some_and(|last| bound - last > APART);
        let mut first = rows_of(rows, &keys);
        if !is_apart || first.len() < enough {
            return None;
        }
        place(&mut first, attempts);
        Some(Ranking { rows, first, behind, bound })
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.behind.len()
    }

    /// Puts everybody in order.
    pub(crate) fn complete(&mut self) {
        let mut behind: Vec<_> = self.behind().collect();
        behind.sort_unstable_by_key(|row| rank(row));
        settle_ties(&mut behind);
        self.first.append(&mut behind);
        self.behind.clear();
        self.bound = OUT;
    }

    /// Those behind the first, in no order.
    pub(crate) fn behind(&self) -> impl Iterator<Item = &'r PoolCandidate<'a>> {
        self.rows.iter().filter(|row| (self.bound..OUT).contains(&rank(row)))
    }

    /// The place of one of these, unless it ties with anybody.
    pub(crate) fn place(&self, row: &PoolCandidate<'_>) -> Option<usize> {
        let below = |bound: u64| self.behind.iter().filter(|(other, _)| *other < bound).count();
        let before = below(rank(row));
        let (least, most) = (rank(row).saturating_sub(APART), rank(row).saturating_add(APART));
        let is_apart = below(least) == before && below(most) == before + 1;
        is_apart.then_some(self.first.len() + before)
    }

    /// The first, and the others.
    pub(crate) fn apart(self) -> (Vec<&'r PoolCandidate<'a>>, Vec<(u64, EndpointId)>) {
        (self.first, self.behind)
    }
}

/// The least of these but for `n` − 1; `None` if they are fewer. Few are looked for among few, so each is held against all
/// found so far: in a sort of so few, no processor could foresee the branches.
fn nth_least(values: impl Iterator<Item = u64>, n: usize) -> Option<u64> {
    let mut least = vec![OUT; n];
    let mut count = 0;
    for mut value in values {
        count += 1;
        for held in &mut least {
            (*held, value) = (value.min(*held), value.max(*held));
        }
    }
    least.last().copied().filter(|_| count >= n)
}

/// Whether the positions of all rows fit into their keys.
fn can_be_keyed(rows: &[PoolCandidate<'_>]) -> bool {
    rows.len() as u64 <= POSITION
}

/// Those of the rows that take part.
fn keys(rows: &[PoolCandidate<'_>]) -> Vec<u64> {
    let mut keys = Vec::with_capacity(rows.len());
    let playing = (0..).zip(rows).filter(|(_, row)| row.role != Role::Out);
    keys.extend(playing.map(|(position, row)| key(rank(row), position)));
    keys
}

/// The keys of the rows that rank below a bound; the ranks of the others, and who they are. Each row is written to both and
/// stays in one: which, no processor could foresee.
fn split(rows: &[PoolCandidate<'_>], bound: u64) -> (Vec<u64>, Vec<(u64, EndpointId)>) {
    let mut below = vec![0; rows.len()];
    let mut others = vec![(0, EndpointId(0)); rows.len()];
    let (mut count_below, mut count_others) = (0, 0);
    for (position, row) in (0..).zip(rows) {
        let rank = rank(row);
        if let (Some(key_below), Some(other)) = (below.get_mut(count_below), others.get_mut(count_others)) {
            (*key_below, *other) = (key(rank, position), (rank, row.endpoint()));
        }
        count_below += usize::from(rank < bound);
        count_others += usize::from(rank >= bound && rank != OUT);
    }
    below.truncate(count_below);
    others.truncate(count_others);
    (below, others)
}

/// What a row is ordered by within its class, as an integer: a rank is never negative, so its bits sort as it does.
#[inline(always)]
fn rank(row: &PoolCandidate<'_>) -> u64 {
    if row.role == Role::Out { OUT } else { row.rank.to_bits() }
}

/// That of a rank at a position.
#[inline(always)]
fn key(rank: u64, position: u64) -> u64 {
    rank & !POSITION | position
}

/// The rows that have these keys.
fn rows_of<'r, 'a>(rows: &'r [PoolCandidate<'a>], keys: &[u64]) -> Vec<&'r PoolCandidate<'a>> {
    let mut found = Vec::with_capacity(keys.len());
    found.extend(keys.iter().filter_map(|key| row(rows, *key)));
    found
}

fn row<'r, 'a>(rows: &'r [PoolCandidate<'a>], key: u64) -> Option<&'r PoolCandidate<'a>> {
    rows.get((key & POSITION) as usize)
}

/// Whether no two of these sorted keys may tie.
fn are_apart(keys: &[u64]) -> bool {
    keys.iter().zip(keys.iter().skip(1)).all(|(key, next)| next - key > APART)
}
