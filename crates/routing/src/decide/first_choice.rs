//! The first choice of a decision, without what only plans, records and explanations need.

use super::{
    admission,
    context::DecisionContext,
    exploration, exploration_share, plan,
    pool::CandidatePool,
    pooled_endpoint::{PooledEndpoint, Role},
    rank, safe_set, scoring,
};

/// The endpoint that a decision tries first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FirstChoice {
    /// Position in the catalog.
    pub index: u32,
    /// By how much the score of the endpoint asked about is higher; `None` if that one is excluded.
    pub gap: Option<f64>,
    /// Dollars.
    pub cost: f64,
    /// Median seconds to the first token.
    pub first_token: f64,
    /// Probability of failure.
    pub failure: f64,
}

/// The first choice of [`decide_to_serve`](super::decide_to_serve), beside the endpoint at the position `other`. `None` if no
/// endpoint may serve the request.
pub(crate) fn first_choice(context: &DecisionContext<'_>, other: Option<u32>) -> Option<FirstChoice> {
    let mut pool = CandidatePool::new(context);
    if !admission::admit(context, &mut pool.candidates) {
        return None;
    }
    let scoring = scoring(context, &pool);
    rank(context, &mut pool.candidates, &scoring);
    let drawn = drawn(context, &pool);
    let called = || pool.candidates.iter().filter(|candidate| candidate.role != Role::Excluded);
    let drawn = drawn.and_then(|drawn| called().find(|candidate| candidate.index == drawn));
    let first = plan::first(called(), drawn)?;
    let score = |of: &PooledEndpoint<'_>| scoring.score(&of.forecast, of.live.cost);
    let other = called().find(|candidate| Some(candidate.index) == other);
    Some(FirstChoice {
        index: first.index,
        gap: other.map(|other| score(other) - score(first)),
        cost: first.live.cost,
        first_token: first.forecast.first_token,
        failure: first.forecast.noiseless.failure,
    })
}

/// Position in the catalog of the endpoint that is drawn at random, if one is.
fn drawn(context: &DecisionContext<'_>, pool: &CandidatePool<'_>) -> Option<u32> {
    if context.query.exploration.share <= 0.0 {
        return None;
    }
    let mut safe = safe_set::safe_set(pool);
    let share = exploration_share(context, pool, &mut safe);
    exploration::drawn(share, context.seed, &safe)
}
