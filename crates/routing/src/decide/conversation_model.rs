//! Ranking within a conversation while quality counts: other models follow the one that served it last, because what was learned
//! since its last turn must not change the model in the middle of it.
//!
//! This is a preference within a target and a position in `provider.order`: it outranks no order that the client gives. Without
//! ratings nothing is learned, and scores alone decide.

use pointsman_domain::ScoreInputs;

use super::{
    context::DecisionContext,
    objective_profile::quality_figure,
    pooled_endpoint::{PooledEndpoint, Role},
    precedence::{Precedence, position_and_grade},
};

/// The grade of an endpoint of another model than that of the conversation.
pub(crate) const OTHER_MODEL_GRADE: u32 = 254;

/// Puts candidates of other models behind, where one of the conversation's model ranks with them.
pub(crate) fn keep_model(context: &DecisionContext<'_>, candidates: &mut [PooledEndpoint<'_>]) {
    let query = context.query;
    let Some(sticky) = query.sticky else { return };
    let is_rated = |candidate: &PooledEndpoint<'_>| candidate.live.quality.is_some_and(|quality| quality.ratings > 0.0);
    let counts = quality_figure(context.policy, query.objective.value, query.weights).is_some();
    if !counts || !candidates.iter().any(is_rated) {
        return;
    }
    let Some(served) = context.catalog.endpoints.iter().find(|endpoint| endpoint.id == sticky.endpoint) else { return };
    let keeps = |candidate: &PooledEndpoint<'_>| candidate.stats.facts.model == served.model;
    let is_kept = |candidate: &&PooledEndpoint<'_>| candidate.role == Role::Candidate && keeps(candidate);
    let kept: Vec<Precedence> = candidates.iter().filter(is_kept).map(PooledEndpoint::order_rank).collect();
    let others = candidates.iter_mut().filter(|candidate| kept.contains(&candidate.order_rank()) && !keeps(candidate));
    others.for_each(|candidate| candidate.precedence = candidate.precedence.with_grade(OTHER_MODEL_GRADE));
}

/// Whether a recorded candidate ranks behind because the conversation has another model.
pub(crate) fn is_of_other_model(inputs: &ScoreInputs) -> bool {
    position_and_grade(inputs.tier).1 == OTHER_MODEL_GRADE
}
