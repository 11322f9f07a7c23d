//! Who of a plan is written out, with all figures.
//!
//! A preview shows everybody. A decision that serves holds who may be called and what its record keeps, and of the
//! others only who they are: writing down a hundred candidates takes as long as judging them.

use super::{
    plan::{Plan, best_ones},
    row::Row,
};

/// How much of a plan is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Everybody.
    Whole,
    /// The best ones; whoever would have been chosen without noise; and the best at other providers, in case those of
    /// the best ones have no room.
    Best,
}

/// Providers beside those of the best ones.
const OTHER_PROVIDERS: usize = 8;

/// The places of those who are written out, ascending. There are so many providers.
pub(super) fn written_out(plan: &Plan<'_, '_>, extent: Extent, providers: usize) -> Vec<usize> {
    let room = best_ones(plan.attempts as usize).min(plan.order.len());
    let mut places = Vec::with_capacity(room + OTHER_PROVIDERS + 1);
    places.extend(0..room);
    let Some((best, others)) = plan.order.split_at_checked(room) else { return places };
    match extent {
        Extent::Whole => places.extend(room..plan.order.len()),
        Extent::Best => elsewhere(plan, (best, others), providers, &mut places),
    }
    places
}

/// Adds the places among `others` of those who are written out beside the best ones.
fn elsewhere(
    plan: &Plan<'_, '_>,
    (best, others): (&[&Row<'_>], &[&Row<'_>]),
    providers: usize,
    places: &mut Vec<usize>,
) {
    let mut known = Providers::none_of(providers);
    best.iter().for_each(|row| _ = known.add(row.provider()));
    let mut calm_best = plan.calm_best.filter(|id| best.iter().all(|row| row.endpoint() != *id));
    let mut room = OTHER_PROVIDERS.min(known.missing);
    for (place, row) in (best.len()..).zip(others) {
        if room == 0 && calm_best.is_none() {
            return;
        }
        let is_new = room > 0 && known.add(row.provider());
        room -= usize::from(is_new);
        let is_calm_best = calm_best.take_if(|id| row.endpoint() == *id).is_some();
        if is_new || is_calm_best {
            places.push(place);
        }
    }
}

/// A set of positions of providers.
struct Providers {
    known: Vec<bool>,
    /// How many are not in it.
    missing: usize,
}

impl Providers {
    /// With nobody of so many in it.
    fn none_of(providers: usize) -> Providers {
        Providers { known: vec![false; providers], missing: providers }
    }

    /// Whether it was not in it yet.
    fn add(&mut self, provider: u32) -> bool {
        let is_new = self.known.get_mut(provider as usize).is_some_and(|known| !std::mem::replace(known, true));
        self.missing -= usize::from(is_new);
        is_new
    }
}
