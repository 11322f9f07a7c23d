//! A decision as bytes.

use pointsman_actors::domain::{
    Catalog, Decision, ExcludedEndpoint, ExclusionDetail, ExclusionReason, OmittedCandidates, RoutingParameters,
};

use super::{
    bytes::{Reader, Stored, Unreadable, stored_enum, stored_struct},
    candidate,
};

stored_enum! {
    ExclusionReason {
        0 => NotAllowedModel, 1 => BlockedModel, 2 => ProviderNotAllowed, 3 => ProviderIgnored, 4 => NotFree,
        5 => UnsupportedParameter, 6 => InputModality, 7 => OutputModality, 8 => ContextLength, 9 => MaxPrice,
        10 => MaxCostPer1kTokens, 11 => DataPolicy, 12 => Quantization, 13 => KeyPolicy, 14 => ModelExpired,
        15 => Disabled, 16 => ProviderOff, 17 => ConfigFault, 18 => CircuitOpen, 19 => ProbeInFlight,
        20 => RateLimited, 21 => Paced, 22 => Saturated, 23 => WrongEndpoint, 24 => Draining,
    }
    ExclusionDetail {
        0 => Text(text),
        1 => Sentence(text),
        2 => Matches(pattern),
        3 => Named(entry),
        4 => Lacks(name),
        5 => DoesNotTake(modality),
        6 => DoesNotGive(modality),
        7 => Tokens { needed, limit },
        8 => Above { what, price, limit },
        9 => Quantization(format),
        10 => Retired(day),
        11 => Open { wait, failures, last },
        12 => Cooling { wait, last },
        13 => ConfigFault { wait, last },
        14 => Saturated { in_flight, knee },
        15 => Paced { wait },
    }
}

stored_struct! {
    ExcludedEndpoint { index, endpoint, reason, detail }
    RoutingParameters {
        objective, weights, allowed, blocked, provider, max_cost_per_1k_tokens, max_cost, preferred_max_latency,
        preferred_min_throughput, top_n, route_seed,
    }
}

impl Stored for OmittedCandidates {
    fn put(&self, out: &mut Vec<u8>) {
        let keyed = self.keyed();
        (keyed.len() as u64).put(out);
        for (key, endpoint) in keyed {
            key.put(out);
            endpoint.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<OmittedCandidates, Unreadable> {
        Vec::take(from).map(OmittedCandidates::by_rank)
    }
}

/// Appends a decision. `catalog` is that of the decision.
pub(super) fn put(decision: &Decision, catalog: &Catalog, out: &mut Vec<u8>) {
    let Decision { router, objective, weights, parameters, code, candidates, rivals, standby, omitted, .. } = decision;
    router.put(out);
    objective.put(out);
    weights.put(out);
    parameters.put(out);
    code.put(out);
    for list in [candidates, rivals, standby] {
        candidate::put_all(list, catalog, out);
    }
    omitted.put(out);
    decision.excluded.put(out);
    decision.prompt_tokens.put(out);
    decision.streamed.put(out);
    decision.completion_tokens.put(out);
    decision.snapshot_version.put(out);
    decision.catalog_version.put(out);
    decision.policy_version.put(out);
    decision.tick.put(out);
    decision.seed.put(out);
    decision.explored.put(out);
    decision.max_attempts.put(out);
    decision.baselines.put(out);
    decision.latency_margin.put(out);
}

/// Reads what [`put`] wrote, in the same order.
pub(super) fn take(from: &mut Reader<'_>, catalog: &Catalog) -> Result<Decision, Unreadable> {
    Ok(Decision {
        router: Stored::take(from)?,
        objective: Stored::take(from)?,
        weights: Stored::take(from)?,
        parameters: Stored::take(from)?,
        code: Stored::take(from)?,
        candidates: candidate::take_all(from, catalog)?,
        rivals: candidate::take_all(from, catalog)?,
        standby: candidate::take_all(from, catalog)?,
        omitted: Stored::take(from)?,
        excluded: Stored::take(from)?,
        prompt_tokens: Stored::take(from)?,
        streamed: Stored::take(from)?,
        completion_tokens: Stored::take(from)?,
        snapshot_version: Stored::take(from)?,
        catalog_version: Stored::take(from)?,
        policy_version: Stored::take(from)?,
        tick: Stored::take(from)?,
        seed: Stored::take(from)?,
        explored: Stored::take(from)?,
        max_attempts: Stored::take(from)?,
        baselines: Stored::take(from)?,
        latency_margin: Stored::take(from)?,
    })
}
