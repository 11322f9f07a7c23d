//! Why an endpoint that passed the hard filters is excluded for now.

use pointsman_domain::{EndpointId, ExcludedEndpoint, ExclusionDetail, ExclusionReason, FailureCause, Tick};

use super::{context::DecisionContext, pooled_endpoint::PooledEndpoint};
use crate::stats::Gate;

/// Why an endpoint of the pool is excluded.
pub(crate) fn excluded(context: &DecisionContext<'_>, candidate: &PooledEndpoint<'_>) -> ExcludedEndpoint {
    let (index, endpoint) = (candidate.index, candidate.endpoint());
    if !candidate.live.gate.is_passing() {
        let (failures, last) = last_failures(context, index, candidate.provider(), candidate.live.gate);
        return refused_by_gate((index, endpoint), candidate.live.gate, context.now, failures, last);
    }
    match candidate.live.due {
        Some(due) => {
            let detail = ExclusionDetail::Paced { wait: due - context.now };
            ExcludedEndpoint { index, endpoint, reason: ExclusionReason::Paced, detail }
        }
        None => {
            let detail = ExclusionDetail::Saturated {
                in_flight: candidate.live.in_flight,
                knee: candidate.stats.estimates.fit.knee,
            };
            ExcludedEndpoint { index, endpoint, reason: ExclusionReason::Saturated, detail }
        }
    }
}

/// The exclusion of an endpoint, by position and id, behind a refusing gate.
pub(crate) fn refused_by_gate(
    (index, endpoint): (u32, EndpointId),
    gate: Gate,
    now: Tick,
    failures: u32,
    last: Option<FailureCause>,
) -> ExcludedEndpoint {
    let wait = gate.until().unwrap_or_default() - now;
    let detail = match gate {
        Gate::Cooling { .. } => ExclusionDetail::Cooling { wait, last },
        Gate::ConfigFault { .. } => ExclusionDetail::ConfigFault { wait, last },
        Gate::HalfOpen { .. } => ExclusionDetail::Text("half-open, not worth a probe now".into()),
        Gate::Probing { .. } => ExclusionDetail::Text("half-open, its probe is out".into()),
        Gate::Open { .. } | Gate::Passing => ExclusionDetail::Open { wait, failures, last },
    };
    ExcludedEndpoint { index, endpoint, reason: gate.refusal().unwrap_or(ExclusionReason::CircuitOpen), detail }
}

/// The failures behind the refusing gate, of the endpoint or its provider.
pub(crate) fn last_failures(
    context: &DecisionContext<'_>,
    index: u32,
    provider: u32,
    gate: Gate,
) -> (u32, Option<FailureCause>) {
    let (live, provider) = (context.live.endpoint(index), context.live.provider(provider));
    if live.gate == gate { (live.failures, live.last) } else { (provider.failures, provider.last) }
}
