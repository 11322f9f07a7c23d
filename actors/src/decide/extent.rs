//! Who of a plan is written out, with all figures.
//!
//! A preview shows everybody. A decision that serves holds who may be called and what its record keeps, and of the
//! others only who they are: writing down a hundred candidates takes as long as judging them.

use super::{field::Row, plan::Plan};

/// How much of a plan is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Everybody.
    Whole,
    /// The best ones; whoever would have been chosen without noise; and the best at other providers, in case those of
    /// the best ones have no room.
    Best,
}

/// The best ones; more if more of them may be tried.
const KEPT: usize = 8;
/// Providers beside those of the best ones.
const OTHER_PROVIDERS: usize = 8;

/// The places of those who are written out, ascending.
pub(super) fn written_out(plan: &Plan<'_, '_>, extent: Extent) -> Vec<usize> {
    // One more than may be tried: only then does the order of those that are kept follow from them alone.
    let room = KEPT.max(plan.attempts as usize + 1).min(plan.order.len());
    let mut places: Vec<usize> = (0..room).collect();
    let Some((best, others)) = plan.order.split_at_checked(room) else { return places };
    match extent {
        Extent::Whole => places.extend(room..plan.order.len()),
        Extent::Best => places.extend(elsewhere(plan, best, others).map(|place| room + place)),
    }
    places
}

/// The positions among `others` of those who are written out beside the best ones.
fn elsewhere<'p>(plan: &Plan<'_, '_>, best: &[&Row<'_>], others: &'p [&Row<'_>]) -> impl Iterator<Item = usize> + 'p {
    let calm_best = plan.calm_best;
    let mut known = Providers::default();
    best.iter().for_each(|row| _ = known.add(row.provider));
    let mut room = OTHER_PROVIDERS;
    let is_kept = move |row: &Row<'_>| {
        let is_new = room > 0 && known.add(row.provider);
        room -= usize::from(is_new);
        is_new || calm_best == Some(row.endpoint())
    };
    others.iter().map(|row| &**row).map(is_kept).enumerate().filter_map(|(place, kept)| kept.then_some(place))
}

/// A set of positions of providers.
#[derive(Default)]
struct Providers(Vec<bool>);

impl Providers {
    /// Whether it was not in it yet.
    fn add(&mut self, provider: u32) -> bool {
        let position = provider as usize;
        if position >= self.0.len() {
            self.0.resize(position + 1, false);
        }
        self.0.get_mut(position).is_some_and(|known| !std::mem::replace(known, true))
    }
}
