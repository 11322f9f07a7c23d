//! Which endpoints may serve a request, in which order, and why.
//!
//! One pure function, [`decide`], serves requests, previews and replays alike. It reads the slow statistics
//! ([`Snapshot`]), one copy of the fast cells ([`LiveView`]), the request ([`Query`]), the moment and a seed;
//! it changes nothing, and the same arguments give the same bits.
//!
//! How it goes: the pool behind the targets is screened by hard filters ([`filter`]), what passes is forecast
//! ([`predict`]) and meets the gates of the moment ([`gates`]), what remains is scored ([`score`]) and put in
//! order ([`plan`]). What is told about it afterwards lives in [`reason`] and [`hint`].

mod case;
mod chance;
mod field;
mod filter;
mod gates;
mod hint;
mod noise;
mod plan;
mod predict;
mod reason;
mod record;
mod reference;
mod score;

pub use chance::{fill_selection_probabilities, rescore};
pub use hint::{Relaxation, nearest_relaxation};
pub use reason::reason_sentence;
pub use reference::reference_scores;

use self::{
    case::Case,
    field::{Field, Role, Row},
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
    gates::admit(&case, &mut field);
    if field.rows.iter().all(|row| row.role == Role::Out) {
        return Err(record::refused(&case, field));
    }
    let scoring = scoring(&case, &mut field);
    gates::admit_probe(&case, &mut field.rows, &scoring);
    let attempts = if query.routing.provider.allow_fallbacks { case.policy.retry.max_attempts.max(1) } else { 1 };
    let order = plan::ordered(&field.rows, |row| scoring.score(&row.forecast, row.inputs.cost), attempts);
    let explored = order.first().is_some_and(|first| is_explored(&case, &field, first.row, &scoring));
    Ok(record::decided(&case, field, &order, &scoring, attempts, explored))
}

fn scoring(case: &Case<'_>, field: &mut Field) -> Scoring {
    let playing = field.rows.iter().filter(|row| row.role != Role::Out);
    let mut times: Vec<f64> = playing.map(|row| row.forecast.time()).collect();
    let yardsticks = Yardsticks::of(&mut times, &mut field.costs);
    Scoring::new(case.policy, case.query.objective.value, case.query.weights, yardsticks)
}

/// Whether the choice differs from what it would be without noise.
fn is_explored(case: &Case<'_>, field: &Field, choice: usize, scoring: &Scoring) -> bool {
    if case.seed == 0 || field.rows.get(choice).is_none_or(|row| row.role != Role::Candidate) {
        return false;
    }
    let playing = field.rows.iter().filter(|row| row.role == Role::Candidate);
    let mut times: Vec<f64> = playing.map(|row| row.forecast.calm_time()).collect();
    let calm = scoring.with_time(score::median_time(&mut times));
    let score = |row: &Row| calm.calm_score(&row.forecast, row.inputs.cost);
    plan::best(&field.rows, score) != Some(choice)
}
