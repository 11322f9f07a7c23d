//! Who of a plan is written out, with all figures.
//!
//! A preview shows everybody. A decision that serves holds who may be called and what its record keeps, and of the
//! others only who they are: writing down a hundred candidates takes as long as judging them.

use super::{
    candidate::PoolCandidate,
    plan::best_ones,
    ranking::{Plan, Ranking},
};
use crate::domain::{EndpointId, OmittedCandidates};

/// How much of a plan is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordScope {
    /// Everybody.
    Whole,
    /// The best ones; whoever would have been chosen without noise; and the best at other providers, in case those of
    /// the best ones have no room.
    Best,
}

/// Providers beside those of the best ones.
const OTHER_PROVIDERS: usize = 8;

/// Who of this plan is written out, each with its place, which ascend. There are so many providers.
pub(crate) fn told<'r, 'a>(
    plan: &mut Plan<'r, 'a>,
    extent: RecordScope,
    providers: usize,
) -> Vec<(usize, &'r PoolCandidate<'a>)> {
    let room = if extent == RecordScope::Whole { plan.order.len() } else { best_ones(plan.attempts as usize) };
    let room = room.min(plan.order.len());
    let mut told = Vec::with_capacity(room + OTHER_PROVIDERS + 1);
    told.extend(plan.order.first.iter().copied().enumerate().take(room));
    let wanted = Wanted::beside(&told, plan.calm_best, providers);
    if add(&mut told, &plan.order, wanted).is_none() {
        plan.order.complete();
        return self::told(plan, extent, providers);
    }
    told
}

/// Adds who else is wanted of this order; `None` if it takes the whole of it to tell them from those they tie with.
fn add<'r, 'a>(
    told: &mut Vec<(usize, &'r PoolCandidate<'a>)>,
    order: &Ranking<'r, 'a>,
    mut wanted: Wanted,
) -> Option<()> {
    let others = order.first.iter().copied().enumerate().skip(told.len());
    for (place, row) in others {
        if wanted.is_nobody() {
            return Some(());
        }
        if wanted.take(row) {
            told.push((place, row));
        }
    }
    let mut behind: Vec<_> = order.behind().filter(|row| wanted.has(row)).collect();
    behind.sort_unstable_by(|a, b| a.rank.total_cmp(&b.rank));
    for row in behind {
        if wanted.take(row) {
            told.push((order.place(row)?, row));
        }
    }
    Some(())
}

/// Whoever else is in the order.
pub(crate) fn omitted(order: Ranking<'_, '_>, told: &[(usize, &PoolCandidate<'_>)]) -> OmittedCandidates {
    let among_first = told.partition_point(|(place, _)| *place < order.first.len());
    let (among_first, behind) = told.split_at_checked(among_first).unwrap_or_default();
    let (first, mut omitted) = order.apart();
    if !behind.is_empty() {
        omitted.retain(|(_, id)| behind.iter().all(|(_, row)| row.endpoint() != *id));
    }
    let mut from = 0;
    for place in among_first.iter().map(|(place, _)| *place).chain([first.len()]) {
        let between = first.get(from..place).unwrap_or_default();
        omitted.extend((from as u64..).zip(between.iter().map(|row| row.endpoint())));
        from = place + 1;
    }
    OmittedCandidates::by_rank(omitted)
}

/// Who is wanted beside those who are told already.
struct Wanted {
    /// Who would have been chosen without noise.
    calm_best: Option<EndpointId>,
    /// By provider, whether it is no other one any more.
    known: Vec<bool>,
    /// How many at other providers there is room for.
    room: usize,
}

impl Wanted {
    fn beside(told: &[(usize, &PoolCandidate<'_>)], calm_best: Option<EndpointId>, providers: usize) -> Wanted {
        let mut wanted = Wanted { calm_best, known: vec![false; providers], room: providers };
        told.iter().for_each(|(_, row)| _ = wanted.take(row));
        wanted.room = wanted.room.min(OTHER_PROVIDERS);
        wanted
    }

    fn is_nobody(&self) -> bool {
        self.room == 0 && self.calm_best.is_none()
    }

    fn has(&self, row: &PoolCandidate<'_>) -> bool {
        let at_other = || self.known.get(row.provider() as usize).is_some_and(|known| !known);
        self.room > 0 && at_other() || self.calm_best == Some(row.endpoint())
    }

    /// Whether this one is wanted; then it is no longer, nor is another one at its provider.
    fn take(&mut self, row: &PoolCandidate<'_>) -> bool {
        let known = self.known.get_mut(row.provider() as usize).filter(|known| self.room > 0 && !**known);
        let is_new = known.is_some_and(|known| !std::mem::replace(known, true));
        self.room -= usize::from(is_new);
        let is_calm_best = self.calm_best.take_if(|id| row.endpoint() == *id).is_some();
        is_new || is_calm_best
    }
}
