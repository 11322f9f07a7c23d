//! How much of a decision its record keeps.

use std::sync::Arc;

use super::replay::chosen_without_noise;
use crate::domain::{Candidate, Decision, EndpointId, RoutingPolicy};

/// Candidates that a record keeps of a plan; more if more of them may be tried.
const KEPT: usize = 8;

/// A decision as its record keeps it: the best candidates of the plan, the one that would have been chosen without
/// noise, and how many were left out. Shared, not copied, where nothing is left out.
#[must_use]
pub fn kept_for_the_record(decision: &Arc<Decision>, policy: &RoutingPolicy) -> Arc<Decision> {
    // One more than may be tried: only then does the order of those that are kept follow from them alone.
    let room = KEPT.max(decision.max_attempts as usize + 1);
    if decision.candidates.len() + decision.rivals.len() <= room {
        return Arc::clone(decision);
    }
    let calm_best = if decision.explored { chosen_without_noise(decision, policy) } else { None };
    let candidates = best(&decision.candidates, room, calm_best);
    let rivals = best(&decision.rivals, room.saturating_sub(candidates.len()), calm_best);
    Arc::new(with_only(decision, candidates, rivals))
}

fn best(candidates: &[Candidate], room: usize, also: Option<EndpointId>) -> Vec<Candidate> {
    let (first, rest) = candidates.split_at_checked(room).unwrap_or((candidates, &[]));
    first.iter().chain(rest.iter().filter(|candidate| also == Some(candidate.endpoint))).cloned().collect()
}

/// Written out member by member, so that the candidates that are left out are not copied first.
fn with_only(decision: &Decision, candidates: Vec<Candidate>, rivals: Vec<Candidate>) -> Decision {
    let is_kept = |id: &EndpointId| candidates.iter().any(|kept| kept.endpoint == *id);
    let omitted = decision.candidates.iter().map(|candidate| candidate.endpoint).filter(|id| !is_kept(id));
    Decision {
        omitted: omitted.collect(),
        candidates,
        rivals,
        standby: decision.standby.clone(),
        router: decision.router.clone(),
        objective: decision.objective,
        weights: decision.weights,
        parameters: decision.parameters.clone(),
        code: decision.code,
        excluded: decision.excluded.clone(),
        prompt_tokens: decision.prompt_tokens,
        streamed: decision.streamed,
        completion_tokens: decision.completion_tokens,
        snapshot_version: decision.snapshot_version,
        catalog_version: decision.catalog_version,
        policy_version: decision.policy_version,
        tick: decision.tick,
        seed: decision.seed,
        explored: decision.explored,
        max_attempts: decision.max_attempts,
        yardsticks: decision.yardsticks,
    }
}
