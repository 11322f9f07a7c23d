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

pub(crate) mod admission;
pub(crate) mod approx;
pub(crate) mod candidate;
pub(crate) mod candidate_record;
pub(crate) mod clocks;
pub(crate) mod context;
pub(crate) mod exclusion;
pub(crate) mod extent;
pub(crate) mod filter;
pub(crate) mod forecast;
pub(crate) mod gates;
pub(crate) mod live_state;
pub(crate) mod noise;
pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod preferences;
pub(crate) mod ranking;
pub(crate) mod reference_scores;
pub(crate) mod reserve;
pub(crate) mod score;

pub use clocks::{first_byte_clock, hedge_after, overdue_after};

pub use reference_scores::reference_scores;

pub use outcome::ALGORITHM;
pub use plan::SAME_PROVIDER;
pub use score::{score_unit, term_names};

pub use preferences::place_and_grade;

use self::{
    candidate::{PoolCandidate, Role},
    context::DecisionContext,
    extent::RecordScope,
    pool::CandidatePool,
    ranking::Plan,
    ranking::Ranking,
    score::{Baselines, Scoring},
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
    settled(&DecisionContext::new(snapshot, live, query, now, seed), RecordScope::Whole)
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
    settled(&DecisionContext::new(snapshot, live, query, now, seed), RecordScope::Best)
}

fn settled(case: &DecisionContext<'_>, extent: RecordScope) -> Result<Decision, RouteError> {
    let query = case.query;
    let mut field = CandidatePool::of(case);
    if !admission::admit(case, &mut field) {
        return Err(outcome::refused(case, field));
    }
    let scoring = scoring(case, &field);
    if field.counts.half_open > 0 {
        admission::admit_probe(case, &mut field.rows, &scoring);
    }
    let attempts = if query.routing.provider.allow_fallbacks { case.policy.retry.max_attempts.max(1) } else { 1 };
    scoring.rank(&mut field.rows);
    let by_score = field.counts.half_open == 0 && field.is_of_one_class(case);
    let order = order(case, &field.rows, by_score, attempts, extent);
    let choice = order.first.first().copied().filter(|choice| choice.role == Role::Candidate);
    let calm_best = choice.and_then(|choice| calm_best(case, &field.rows, choice));
    let kept = choice.is_some_and(|choice| is_kept(case, &field.rows, choice, &scoring));
    let plan = Plan { order, attempts, calm_best, kept };
    let gates = gates::recorded(case, &field);
    Ok(outcome::decided(case, &field.rows, field.excluded, gates, plan, &scoring, extent))
}

fn scoring(case: &DecisionContext<'_>, field: &CandidatePool<'_>) -> Scoring {
    // Mostly all take part: then figures are gathered from several rows at a time.
    if field.counts.held == 0 {
        scoring_among(case, field, field.rows.iter())
    } else {
        scoring_among(case, field, field.rows.iter().filter(|row| row.role != Role::Out))
    }
}

fn scoring_among<'r, 'a: 'r>(
    case: &DecisionContext<'_>,
    field: &CandidatePool<'_>,
    playing: impl Iterator<Item = &'r PoolCandidate<'a>> + Clone,
) -> Scoring {
    let times = playing.clone().map(|row| row.forecast.uncached_time());
    let costs = playing.map(|row| row.moment.uncached_cost());
    let passed = field.rows.iter().map(|row| row.moment.uncached_cost()).chain(field.costs.iter().copied());
    let objective = case.query.objective.value;
    Scoring::new(case.policy, objective, case.query.weights, Baselines::of(objective, times, costs, passed))
}

/// The order in which the rows are tried, as far as a decision of this extent needs it.
fn order<'r, 'a>(
    case: &DecisionContext<'_>,
    rows: &'r [PoolCandidate<'a>],
    by_score: bool,
    attempts: u32,
    extent: RecordScope,
) -> Ranking<'r, 'a> {
    // Without fallbacks all but the choice are excluded, in their order.
    let begun = by_score && extent == RecordScope::Best && case.query.routing.provider.allow_fallbacks;
    let begun = begun.then(|| Ranking::begun(rows, attempts)).flatten();
    begun.unwrap_or_else(|| Ranking::whole(rows, by_score, attempts))
}

/// Who would have been chosen without noise, if that is somebody else.
fn calm_best(case: &DecisionContext<'_>, rows: &[PoolCandidate<'_>], choice: &PoolCandidate<'_>) -> Option<EndpointId> {
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
fn is_kept(
    case: &DecisionContext<'_>,
    rows: &[PoolCandidate<'_>],
    choice: &PoolCandidate<'_>,
    scoring: &Scoring,
) -> bool {
    if case.cached_at(choice.endpoint()) == 0 {
        return false;
    }
    let uncached = scoring.uncached_score(case, choice);
    let candidates = rows.iter().filter(|row| row.role == Role::Candidate);
    let best = plan::best(candidates.map(|row| (row, if row.index == choice.index { uncached } else { row.rank })));
    best.is_some_and(|best| best.index != choice.index)
}
