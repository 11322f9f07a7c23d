//! In which order candidates are tried.
//!
//! First the request that probes, if any; then by target, by the caller's wishes, by score. Ties fall to the
//! lower failure probability, then the lower cost, then the fewer requests in flight, then the id, so that the
//! order of the input never matters. Of the attempts that a request may take, later ones prefer providers that
//! were not tried yet.

use std::cmp::Ordering;

use super::field::{Role, Row};

/// Scores this close, relatively, are equal.
const TIE: f64 = 1e-9;

/// A row that takes part, with what it is ordered by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranked {
    /// Position among the rows.
    pub row: usize,
    class: u64,
    score: f64,
}

/// The rows that take part, in the order they are tried.
pub(super) fn ordered(rows: &[Row], score: impl Fn(&Row) -> f64, attempts: u32) -> Vec<Ranked> {
    let mut order = Vec::with_capacity(rows.len());
    let playing = rows.iter().enumerate().filter(|(_, row)| row.role != Role::Out);
    order.extend(playing.map(|(position, row)| Ranked {
        row: position,
        class: class(row),
        // Past shut gates the one that opens soonest goes first, whatever it would score.
        score: if row.role == Role::Panic { row.inputs.until.0 as f64 } else { score(row) },
    }));
    order.sort_unstable_by(|a, b| a.class.cmp(&b.class).then(a.score.total_cmp(&b.score)));
    settle_ties(rows, &mut order);
    let is_probe = |ranked: &Ranked| rows.get(ranked.row).is_some_and(|row| row.role == Role::Probe);
    let probe = order.iter().position(is_probe);
    move_to_front(&mut order, probe);
    spread(rows, &mut order, attempts as usize);
    order
}

/// Missed preferences count for nothing in panic.
fn class(row: &Row) -> u64 {
    if row.role == Role::Panic { row.wish() << 1 } else { row.class() }
}

/// Position of the best row of the best class; ties settled as in the plan.
pub(super) fn best(rows: &[Row], score: impl Fn(&Row) -> f64) -> Option<usize> {
    let playing = || rows.iter().enumerate().filter(|(_, row)| row.role == Role::Candidate);
    let class = playing().map(|(_, row)| row.class()).min()?;
    let of_class = || playing().filter(|(_, row)| row.class() == class);
    let least = of_class().map(|(_, row)| score(row)).fold(f64::INFINITY, f64::min);
    let tied = of_class().filter(|(_, row)| is_tie(least, score(row)));
    tied.min_by(|(_, a), (_, b)| tie_break(a, b)).map(|(position, _)| position)
}

fn is_tie(least: f64, score: f64) -> bool {
    score - least <= TIE * least.abs().max(score.abs())
}

fn tie_break(a: &Row, b: &Row) -> Ordering {
    let failure = a.forecast.failure.total_cmp(&b.forecast.failure);
    let cost = || a.inputs.cost.total_cmp(&b.inputs.cost);
    failure.then_with(cost).then(a.inputs.in_flight.cmp(&b.inputs.in_flight)).then(a.endpoint.cmp(&b.endpoint))
}

/// Orders every run of tied scores by what breaks ties. A run is what ties with its first.
fn settle_ties(rows: &[Row], order: &mut [Ranked]) {
    let mut rest = order;
    while let Some(first) = rest.first().copied() {
        let tied = |ranked: &&Ranked| ranked.class == first.class && is_tie(first.score, ranked.score);
        let length = rest.iter().take_while(tied).count().max(1);
        let Some((run, after)) = rest.split_at_mut_checked(length) else { return };
        if run.len() > 1 {
            run.sort_unstable_by(|a, b| match (rows.get(a.row), rows.get(b.row)) {
                (Some(a), Some(b)) => tie_break(a, b),
                _ => Ordering::Equal,
            });
        }
        rest = after;
    }
}

fn move_to_front(order: &mut [Ranked], place: Option<usize>) {
    if let Some(upto) = place.and_then(|place| order.get_mut(..=place)) {
        upto.rotate_right(1);
    }
}

/// Fills the attempts after the first with providers not tried yet, as long as their class has one.
fn spread(rows: &[Row], order: &mut [Ranked], attempts: usize) {
    let provider = |ranked: &Ranked| rows.get(ranked.row).map(|row| row.provider);
    for place in 1..attempts.min(order.len()) {
        let Some((tried, open)) = order.split_at_mut_checked(place) else { return };
        let Some(class) = open.first().map(|next| next.class) else { return };
        let is_fresh = |next: &Ranked| tried.iter().all(|before| provider(before) != provider(next));
        let fresh = open.iter().take_while(|next| next.class == class).position(is_fresh);
        move_to_front(open, fresh);
    }
}
