//! Which endpoints may serve a request, in which order, and why.
//!
//! One pure function, [`decide`], serves requests, previews and replays alike. It reads the slow statistics
//! ([`Snapshot`]), one copy of the fast cells ([`LiveView`]), the request ([`Query`]), the moment and a seed;
//! it changes nothing, and the same arguments give the same bits.
//!
//! How it goes: the pool behind the targets (`field`) is screened by hard filters (`filter`); what passes is a row
//! (`row`), of which is found out how it stands (`moment`) and what to expect (`predict`). It meets the gates of the
//! moment (`gates`), what remains is scored (`score`) and put in order (`ranks`, `plan`). What is told about it afterwards
//! lives in `reason` and `hint`.

mod approx;
mod case;
mod chance;
mod change;
mod contest;
mod course;
mod extent;
mod field;
mod filter;
mod gates;
mod hint;
mod moment;
mod naming;
mod noise;
mod patience;
mod plan;
mod predict;
mod ranks;
mod reason;
mod record;
mod reference;
mod replay;
mod retarget;
mod row;
mod score;
mod standby;
mod what_if;
mod why_not;
mod why_not_now;
mod why_not_tell;
mod wishes;
mod words;

pub use chance::fill_selection_probabilities;
pub use change::{Change, Figure};
pub use hint::{Relaxation, nearest_relaxation};
pub use naming::order_leads_nowhere;
pub use patience::{first_byte_clock, hedge_after, overdue_after};
pub use reason::reason_sentence;
pub use reference::reference_scores;
pub use replay::{Difference, Lost, Recomputed, Replay, replay};
pub use score::{score_unit, term_names};
pub use what_if::{Imagination, ImaginedWorld};
pub use why_not::{Margin, Verdict, WhyNot, why_not, why_not_after, why_not_in};
pub use why_not_now::why_not_now;
pub use wishes::place_and_grade;

use self::{
    case::Case,
    extent::Extent,
    field::Field,
    plan::Plan,
    ranks::Order,
    row::{Role, Row},
    score::{Scoring, Yardsticks},
};
pub use crate::stats::splitmix64;
use crate::{
    domain::{Decision, EndpointId, Query, RouteError, Tick},
    stats::{LiveView, Snapshot},
};

/// The plan for a request: every endpoint that may serve it, in the order they are to be tried. Without a seed
/// it is ranked without noise.
///
/// # Errors
/// When nothing may serve it: with the reason against every endpoint of the pool, and the moment the earliest
/// gate opens, if waiting would help.
pub fn decide(
    snapshot: &Snapshot,
    live: &LiveView,
    query: &Query,
    now: Tick,
    seed: Option<u64>,
) -> Result<Decision, RouteError> {
    settled(&Case::new(snapshot, live, query, now, seed), Extent::Whole)
}

/// The same decision for a request that is to be served: with the figures of those only who may be called and whom its
/// record keeps. Of the others it says who they are ([`Decision::omitted`]).
///
/// # Errors
/// The same.
pub fn decide_to_serve(
    snapshot: &Snapshot,
    live: &LiveView,
    query: &Query,
    now: Tick,
    seed: Option<u64>,
) -> Result<Decision, RouteError> {
    settled(&Case::new(snapshot, live, query, now, seed), Extent::Best)
}

fn settled(case: &Case<'_>, extent: Extent) -> Result<Decision, RouteError> {
    let query = case.query;
    let mut field = Field::of(case);
    if !gates::admit(case, &mut field) {
        return Err(record::refused(case, field));
    }
    let scoring = scoring(case, &field);
    if field.counts.half_open > 0 {
        gates::admit_probe(case, &mut field.rows, &scoring);
    }
    let attempts = if query.routing.provider.allow_fallbacks { case.policy.retry.max_attempts.max(1) } else { 1 };
    scoring.rank(&mut field.rows);
    let by_score = field.counts.half_open == 0 && field.is_of_one_class(case);
    let order = order(case, &field.rows, by_score, attempts, extent);
    let choice = order.first.first().copied().filter(|choice| choice.role == Role::Candidate);
    let calm_best = choice.and_then(|choice| calm_best(case, &field.rows, choice));
    let kept = choice.is_some_and(|choice| is_kept(case, &field.rows, choice, &scoring));
    let plan = Plan { order, attempts, calm_best, kept };
    Ok(record::decided(case, &field.rows, field.excluded, plan, &scoring, extent))
}

fn scoring(case: &Case<'_>, field: &Field<'_>) -> Scoring {
    // Mostly all take part: then figures are gathered from several rows at a time.
    if field.counts.held == 0 {
        scoring_among(case, field, field.rows.iter())
    } else {
        scoring_among(case, field, field.rows.iter().filter(|row| row.role != Role::Out))
    }
}

fn scoring_among<'r, 'a: 'r>(
    case: &Case<'_>,
    field: &Field<'_>,
    playing: impl Iterator<Item = &'r Row<'a>> + Clone,
) -> Scoring {
    let times = playing.clone().map(|row| row.forecast.uncached_time());
    let costs = playing.map(|row| row.moment.uncached_cost());
    let passed = field.rows.iter().map(|row| row.moment.uncached_cost()).chain(field.costs.iter().copied());
    let objective = case.query.objective.value;
    Scoring::new(case.policy, objective, case.query.weights, Yardsticks::of(objective, times, costs, passed))
}

/// The order in which the rows are tried, as far as a decision of this extent needs it.
fn order<'r, 'a>(case: &Case<'_>, rows: &'r [Row<'a>], by_score: bool, attempts: u32, extent: Extent) -> Order<'r, 'a> {
    // Without fallbacks all but the choice are excluded, in their order.
    let begun = by_score && extent == Extent::Best && case.query.routing.provider.allow_fallbacks;
    let begun = begun.then(|| Order::begun(rows, attempts, case.catalog.providers.len())).flatten();
    begun.unwrap_or_else(|| Order::whole(rows, by_score, attempts))
}

/// Who would have been chosen without noise, if that is somebody else.
fn calm_best(case: &Case<'_>, rows: &[Row<'_>], choice: &Row<'_>) -> Option<EndpointId> {
    if case.seed == 0 {
        return None;
    }
    // Few would be as good as the choice is.
    let bound = plan::most_tied(choice.calm);
    let as_good: Vec<_> = rows.iter().filter(|row| row.calm <= bound && row.role == Role::Candidate).collect();
    let best = plan::best(as_good.iter().map(|row| (*row, row.calm)))?;
    (best.index != choice.index).then(|| best.endpoint())
}

/// Whether the choice differs from what it would be were nothing in its prompt cache.
fn is_kept(case: &Case<'_>, rows: &[Row<'_>], choice: &Row<'_>, scoring: &Scoring) -> bool {
    if case.cached_at(choice.endpoint()) == 0 {
        return false;
    }
    let uncached = choice.uncached_score(case, scoring);
    let candidates = rows.iter().filter(|row| row.role == Role::Candidate);
    let best = plan::best(candidates.map(|row| (row, if row.index == choice.index { uncached } else { row.rank })));
    best.is_some_and(|best| best.index != choice.index)
}
