//! Why an endpoint that passed the hard filters is excluded for now.

use pointsman_domain::{EndpointId, ExcludedEndpoint, ExclusionDetail, ExclusionReason};

use super::{context::DecisionContext, pooled_endpoint::PooledEndpoint};
use crate::stats::Gate;

/// Why an endpoint of the pool is excluded.
pub(crate) fn excluded(context: &DecisionContext<'_>, candidate: &PooledEndpoint<'_>) -> ExcludedEndpoint {
    let (index, endpoint) = (candidate.index, candidate.endpoint());
    if !candidate.live.gate.is_passing() {
        return refused_by_gate(context, (index, endpoint), candidate.provider(), candidate.live.gate);
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

/// The exclusion of an endpoint, by position and id, behind a refusing gate: its own or that of its provider.
pub(crate) fn refused_by_gate(
    context: &DecisionContext<'_>,
    (index, endpoint): (u32, EndpointId),
    provider: u32,
    gate: Gate,
) -> ExcludedEndpoint {
    let (live, provider) = (context.live.endpoint(index), context.live.provider(provider));
    let is_own = live.gate == gate;
    let (failures, last) = if is_own { (live.failures, live.last) } else { (provider.failures, provider.last) };
    let wait = gate.until().unwrap_or_default() - context.now;
    let detail = match (gate, live.told.filter(|_| is_own)) {
        (Gate::Cooling { .. }, Some(told)) => ExclusionDetail::Shortened { wait, last, told },
        (Gate::Cooling { .. }, None) => ExclusionDetail::Cooling { wait, last },
        (Gate::ConfigFault { .. }, _) => ExclusionDetail::ConfigFault { wait, last },
        (Gate::HalfOpen { .. }, _) => ExclusionDetail::Text("half-open, not worth a probe now".into()),
        (Gate::Probing { .. }, _) => ExclusionDetail::Text("half-open, its probe is out".into()),
        (Gate::Open { .. } | Gate::Passing, _) => ExclusionDetail::Open { wait, failures, last },
    };
    ExcludedEndpoint { index, endpoint, reason: gate.refusal().unwrap_or(ExclusionReason::CircuitOpen), detail }
}
