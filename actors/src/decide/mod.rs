//! Which endpoints may serve a request, in which order, and why.
//!
//! One pure function, [`decide`], serves requests, previews and replays alike. It reads the slow statistics
//! ([`Snapshot`]), one copy of the fast cells ([`LiveView`]), the request ([`Query`]), the moment and a seed;
//! it changes nothing, and the same arguments give the same bits.
//!
//! How it goes: the pool behind the targets is screened by hard filters (`filter`), what passes is forecast
//! (`predict`) and meets the gates of the moment (`gates`), what remains is scored (`score`) and put in
//! order (`plan`). What is told about it afterwards lives in `reason` and `hint`.

mod case;
mod chance;
mod change;
mod contest;
mod field;
mod filter;
mod gates;
mod hint;
mod keep;
mod naming;
mod noise;
mod patience;
mod plan;
mod predict;
mod reason;
mod record;
mod reference;
mod replay;
mod retarget;
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
pub use keep::kept_for_the_record;
pub use naming::order_leads_nowhere;
pub use patience::{first_byte_clock, hedge_after, overdue_after};
pub use reason::reason_sentence;
pub use reference::reference_scores;
pub use replay::{Difference, Lost, Recomputed, Replay, replay, rescore};
pub use score::{score_unit, term_names};
pub use what_if::{Imagination, ImaginedWorld};
pub use why_not::{Margin, Verdict, WhyNot, why_not, why_not_in};
pub use why_not_now::why_not_now;

use self::{
    case::Case,
    field::{Field, Role, Row},
    plan::Plan,
    score::{Scoring, Yardsticks},
};
pub use crate::stats::splitmix64;
use crate::{
    domain::{Decision, Query, RouteError, Tick},
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
    let case = Case::new(snapshot, live, query, now, seed);
    let mut field = Field::of(&case);
    if !gates::admit(&case, &mut field) {
        return Err(record::refused(&case, field));
    }
    let scoring = scoring(&case, &mut field);
    if field.half_open > 0 {
        gates::admit_probe(&case, &mut field.rows, &scoring);
    }
    let attempts = if query.routing.provider.allow_fallbacks { case.policy.retry.max_attempts.max(1) } else { 1 };
    plan::rank(&mut field.rows, |row| scoring.score(&row.forecast, row.moment.cost));
    let order = plan::ordered(&field.rows, attempts);
    let explored = is_explored(&case, &field.rows, &order, &scoring);
    let kept = is_kept(&case, &order, &scoring);
    let plan = Plan { order, attempts, explored, kept };
    Ok(record::decided(&case, &field.rows, field.excluded, &plan, &scoring))
}

fn scoring(case: &Case<'_>, field: &mut Field<'_>) -> Scoring {
    let playing = field.rows.iter().filter(|row| row.role != Role::Out);
    let mut times = Vec::with_capacity(field.rows.len());
    times.extend(playing.map(|row| row.forecast.uncached_time()));
    let yardsticks = Yardsticks::of(&mut times, &mut field.costs);
    Scoring::new(case.policy, case.query.objective.value, case.query.weights, yardsticks)
}

/// Whether the choice differs from what it would be without noise.
fn is_explored(case: &Case<'_>, rows: &[Row<'_>], order: &[&Row<'_>], scoring: &Scoring) -> bool {
    let Some(choice) = order.first().filter(|choice| case.seed != 0 && choice.role == Role::Candidate) else {
        return false;
    };
    let playing = rows.iter().filter(|row| row.role == Role::Candidate);
    let best = plan::best(playing.map(|row| (row, scoring.calm_score(&row.forecast, row.moment.cost))));
    best.is_none_or(|best| best.index != choice.index)
}

/// Whether the choice differs from what it would be were nothing in its prompt cache.
fn is_kept(case: &Case<'_>, order: &[&Row<'_>], scoring: &Scoring) -> bool {
    let kept = |choice: &&&Row<'_>| choice.role == Role::Candidate && choice.moment.cached_tokens > 0;
    let Some(choice) = order.first().filter(kept) else { return false };
    let uncached = choice.uncached_score(case, scoring);
    let playing = order.iter().copied().filter(|row| row.role == Role::Candidate);
    let best = plan::best(playing.map(|row| (row, if row.index == choice.index { uncached } else { row.rank })));
    best.is_some_and(|best| best.index != choice.index)
}
