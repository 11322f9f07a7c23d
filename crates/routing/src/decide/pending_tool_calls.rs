//! Ranking while calls of tools wait for their results: endpoints that cannot take back the reasoning before these pending
//! calls follow those that can.
//!
//! This is a preference within a target and a position in `provider.order`: it outranks no order that the client gives.

use pointsman_domain::{Endpoint, ScoreInputs};

use super::{
    context::DecisionContext,
    pooled_endpoint::{PooledEndpoint, Role},
    precedence::{Precedence, position_and_grade},
};

/// The grade of an endpoint that would lose the reasoning before pending calls, while another one would not.
pub(crate) const REASONING_LOST_GRADE: u32 = 255;

/// Puts candidates that would lose the reasoning before pending calls behind, where one that would not ranks with them.
pub(crate) fn prefer_keepers(context: &DecisionContext<'_>, candidates: &mut [PooledEndpoint<'_>]) {
    if !context.query.pending_reasoning.is_bound() {
        return;
    }
    let keeps = keeps_reasoning(context);
    let is_keeper = |candidate: &&PooledEndpoint<'_>| candidate.role == Role::Candidate && keeps(candidate);
    let kept: Vec<Precedence> = candidates.iter().filter(is_keeper).map(PooledEndpoint::order_rank).collect();
    let losers = candidates.iter_mut().filter(|candidate| kept.contains(&candidate.order_rank()) && !keeps(candidate));
    losers.for_each(|candidate| candidate.precedence = candidate.precedence.with_grade(REASONING_LOST_GRADE));
}

/// Which endpoints take back the reasoning before the calls whose results the request brings: those with its format and, as
/// far as it is known who served last, of the same provider.
fn keeps_reasoning(context: &DecisionContext<'_>) -> impl Fn(&PooledEndpoint<'_>) -> bool {
    let (catalog, pending) = (context.catalog, context.query.pending_reasoning);
    let takes = move |endpoint: &&Endpoint| endpoint.reasoning_state == pending;
    let last = context.query.sticky.map(|sticky| sticky.endpoint);
    let served = catalog.endpoints.iter().filter(takes).find(|endpoint| Some(endpoint.id) == last);
    move |candidate| {
        let endpoint = catalog.endpoint(candidate.index).filter(takes);
        endpoint.is_some_and(|endpoint| served.is_none_or(|served| served.provider == endpoint.provider))
    }
}

/// Whether a recorded candidate ranks last because it would lose the reasoning before pending calls.
pub(crate) fn loses_reasoning(inputs: &ScoreInputs) -> bool {
    position_and_grade(inputs.tier).1 == REASONING_LOST_GRADE
}
