//! Which candidates of a plan are recorded with all their figures.

use super::{
    plan::{Plan, best_ones},
    pooled_endpoint::PooledEndpoint,
};

/// How much of a plan is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordScope {
    /// All candidates, as a preview shows them.
    Whole,
    /// The best ones, the choice without noise, and the best at each of [`OTHER_PROVIDERS`] further providers. Of the
    /// other candidates only ids are recorded.
    Best,
}

/// Providers beside those of the best candidates.
const OTHER_PROVIDERS: usize = 8;

/// For each candidate of the plan, in its order, whether it is recorded with all figures.
pub(crate) fn recorded(plan: &Plan<'_, '_>, scope: RecordScope) -> Vec<bool> {
    let best = if scope == RecordScope::Whole { plan.order.len() } else { best_ones(plan.attempts as usize) };
    let mut providers: Vec<u32> = plan.order.iter().take(best).map(|candidate| candidate.provider()).collect();
    let mut other_providers = 0;
    let is_recorded = |(position, candidate): (usize, &&PooledEndpoint<'_>)| {
        if position < best {
            return true;
        }
        let is_new = other_providers < OTHER_PROVIDERS && !providers.contains(&candidate.provider());
        if is_new {
            other_providers += 1;
            providers.push(candidate.provider());
        }
        is_new || plan.noiseless_best == Some(candidate.endpoint())
    };
    plan.order.iter().enumerate().map(is_recorded).collect()
}
