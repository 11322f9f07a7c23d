//! Which endpoints may serve a request, in which order, and why.
//!
//! One pure function, [`decide`], serves requests, previews and replays. It reads the statistics ([`Snapshot`]), a copy
//! of the live state ([`LiveView`]), the request ([`Query`]), the time and a seed. The same arguments give the same
//! bits.
//!
//! The endpoints of the request's targets (`pool`) pass the hard filters (`filter`). For each one left, live figures
//! (`live_state`) and published estimates give a forecast (`forecast`). Gates, pacing and load decide which are
//! candidates (`admission`), the objective's score ranks them (`score`), and `plan` orders the attempts. `outcome`
//! makes the record. `first_choice` is the shorter way for a choice that nobody records, and `terms` the shortest, where a
//! decision was made for the same request.

pub(crate) mod admission;
pub(crate) mod candidate_record;
pub(crate) mod clocks;
pub(crate) mod context;
pub(crate) mod conversation_model;
pub(crate) mod exclusion;
pub(crate) mod exploration;
pub(crate) mod filter;
pub(crate) mod first_choice;
pub(crate) mod forecast;
pub(crate) mod live_state;
pub(crate) mod noise;
pub(crate) mod objective_profile;
pub(crate) mod outcome;
pub(crate) mod pending_tool_calls;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod pooled_endpoint;
pub(crate) mod precedence;
pub(crate) mod preferences;
pub(crate) mod record_scope;
pub(crate) mod reference_scores;
pub(crate) mod safe_set;
pub(crate) mod score;
pub(crate) mod standby;
pub(crate) mod terms;
pub(crate) mod uncertainty;
mod wait;

use pointsman_domain::{Decision, Query, RouteError, Tick};

pub use exploration::ExplorationBudget;
pub(crate) use exploration::best_of;

pub use clocks::{first_byte_clock, hedge_after, overdue_after};

pub use reference_scores::reference_scores;

pub use outcome::{ALGORITHM, without_candidates};
pub use plan::SAME_PROVIDER;
pub use score::{counts_quality, score_unit, term_names};
pub use terms::DecisionTerms;

pub use precedence::position_and_grade;
pub use wait::{Hope, Obstacle, Outlook, Wait, outlook};

use self::{
    context::DecisionContext,
    objective_profile::{Baselines, quality_figure},
    plan::Plan,
    pool::CandidatePool,
    pooled_endpoint::{PooledEndpoint, Role},
    record_scope::RecordScope,
    score::Scoring,
};
pub use crate::stats::splitmix64;
use crate::stats::{LiveView, Snapshot};

/// The plan for a request: every endpoint that may serve it, in the order of the attempts. Ranked without noise if
/// there is no seed.
///
/// # Errors
/// If no endpoint may serve it: the reason against every endpoint of the pool, and when the earliest gate opens, if
/// waiting helps.
pub fn decide(
    snapshot: &Snapshot,
    live: &LiveView,
    query: &Query,
    now: Tick,
    seed: Option<u64>,
) -> Result<Decision, RouteError> {
    settled(&DecisionContext::new(snapshot, live, query, now, seed), RecordScope::Whole)
}

/// The same decision for a request that is to be served: with the figures of the candidates that may be called or are
/// recorded. Of the others it holds the ids ([`Decision::omitted`]).
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

/// The same decision, and its terms, where the choices of other policies follow from them.
///
/// # Errors
/// The same.
pub fn decide_with_terms(
    snapshot: &Snapshot,
    live: &LiveView,
    query: &Query,
    now: Tick,
    seed: Option<u64>,
) -> Result<(Decision, Option<DecisionTerms>), RouteError> {
    let context = DecisionContext::new(snapshot, live, query, now, seed);
    let mut terms = None;
    let keep = |pool: &CandidatePool<'_>, scoring: &Scoring, drawn| {
        terms = DecisionTerms::new(&context, pool, scoring.baselines, drawn);
    };
    let decision = settled_telling(&context, RecordScope::Best, keep)?;
    Ok((decision, terms))
}

fn settled(context: &DecisionContext<'_>, scope: RecordScope) -> Result<Decision, RouteError> {
    settled_telling(context, scope, |_, _, _| ())
}

/// The decision. `tell` is told the ranked pool, and the position in the catalog of the endpoint that was drawn at random.
fn settled_telling(
    context: &DecisionContext<'_>,
    scope: RecordScope,
    tell: impl FnOnce(&CandidatePool<'_>, &Scoring, Option<u32>),
) -> Result<Decision, RouteError> {
    let mut pool = CandidatePool::new(context);
    if !admission::admit(context, &mut pool.candidates) {
        return Err(outcome::refused(context, pool));
    }
    let scoring = scoring(context, &pool);
    rank(context, &mut pool.candidates, &scoring);
    let attempts = attempts(context);
    let mut safe = safe_set::safe_set(&pool);
    let share = exploration_share(context, &pool, &mut safe);
    let drawn = exploration::drawn(share, context.seed, &safe);
    tell(&pool, &scoring, drawn);
    let order = ordered(&pool.candidates, attempts, drawn);
    let choice = order.first().copied().filter(|choice| choice.role == Role::Candidate);
    let noiseless_best = choice.filter(|_| context.seed != 0).and_then(|choice| {
        let best = best_by(&pool.candidates, |candidate| candidate.noiseless)?;
        (best.index != choice.index).then(|| best.endpoint())
    });
    let cache_decided = choice.is_some_and(|choice| cache_decides(context, &pool, choice, &scoring));
    let plan = Plan { order, attempts, noiseless_best, cache_decided, safe_set: safe, exploration_share: share };
    let excluded = std::mem::take(&mut pool.excluded);
    Ok(outcome::decided(context, &pool, excluded, plan, &scoring, scope))
}

/// Admits a probe, and scores everything that has a role.
pub(crate) fn rank(context: &DecisionContext<'_>, candidates: &mut [PooledEndpoint<'_>], scoring: &Scoring) {
    scoring.add_qualities(context, candidates);
    admission::admit_probe(context, candidates, scoring);
    scoring.rank(candidates);
}

/// Number of attempts of a request.
pub(crate) fn attempts(context: &DecisionContext<'_>) -> u32 {
    if context.query.routing.provider.allow_fallbacks { context.policy.retry.max_attempts.max(1) } else { 1 }
}

/// Share of such requests whose choice is drawn from the safe ones. None is while there is a probe, or nothing to choose from.
fn exploration_share(context: &DecisionContext<'_>, pool: &CandidatePool<'_>, safe: &mut Vec<u32>) -> f64 {
    let exploration = context.query.exploration;
    if exploration.share <= 0.0 || context.seed == 0 {
        return 0.0;
    }
    exploration::keep_quick(pool, safe, exploration.max_extra_first_token);
    if exploration.max_extra_cost <= 0.0
        && let Some(choice) = best_by(&pool.candidates, |candidate| candidate.rank)
    {
        exploration::keep_cheap(pool, safe, choice.live.cost);
    }
    let is_probed = pool.candidates.iter().any(|candidate| candidate.role == Role::Probe);
    if is_probed || safe.len() < 2 { 0.0 } else { exploration.share }
}

/// Everything that has a role, in the order of the attempts; `first` is the position in the catalog of the one to begin with, where
/// that was drawn.
pub(crate) fn ordered<'p, 'a>(
    candidates: &'p [PooledEndpoint<'a>],
    attempts: u32,
    first: Option<u32>,
) -> Vec<&'p PooledEndpoint<'a>> {
    let mut order: Vec<_> = candidates.iter().filter(|candidate| candidate.role != Role::Excluded).collect();
    let first = first.and_then(|first| candidates.iter().find(|candidate| candidate.index == first));
    plan::settle(&mut order, attempts, first.map(PooledEndpoint::endpoint));
    order
}

fn scoring(context: &DecisionContext<'_>, pool: &CandidatePool<'_>) -> Scoring {
    let competing = pool.candidates.iter().filter(|candidate| candidate.role != Role::Excluded);
    let times = competing.clone().map(|candidate| candidate.forecast.uncached_time());
    let costs = competing.clone().map(|candidate| candidate.live.uncached_cost());
    let qualities = competing.filter_map(|candidate| candidate.live.quality);
    let passed =
        pool.candidates.iter().map(|candidate| candidate.live.uncached_cost()).chain(pool.costs.iter().copied());
    let (objective, weights) = (context.query.objective.value, context.query.weights);
    let baselines = Baselines::new(objective, times, costs, passed);
    let baselines = baselines.with_quality(
        quality_figure(context.policy, objective, weights),
        qualities,
        context.query.quality_per_dollar,
    );
    Scoring::new(context.policy, objective, weights, baselines)
}

/// Whether the choice differs from what it would be were nothing in its prompt cache.
fn cache_decides(
    context: &DecisionContext<'_>,
    pool: &CandidatePool<'_>,
    choice: &PooledEndpoint<'_>,
    scoring: &Scoring,
) -> bool {
    if context.cached_at(choice.endpoint()) == 0 {
        return false;
    }
    let uncached = scoring.uncached_score(context, choice);
    let score =
        |candidate: &PooledEndpoint<'_>| if candidate.index == choice.index { uncached } else { candidate.rank };
    best_by(&pool.candidates, score).is_some_and(|best| best.index != choice.index)
}

/// The candidate with the best of these scores.
pub(crate) fn best_by<'p, 'a>(
    candidates: &'p [PooledEndpoint<'a>],
    score: impl Fn(&PooledEndpoint<'a>) -> f64 + Clone,
) -> Option<&'p PooledEndpoint<'a>> {
    let candidates = candidates.iter().filter(|candidate| candidate.role == Role::Candidate);
    plan::best(candidates.map(|candidate| (candidate, score(candidate))))
}
