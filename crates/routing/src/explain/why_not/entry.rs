//! Finds an endpoint in the record of a decision.

use pointsman_domain::{Candidate, Catalog, Decision, EndpointId, ExcludedEndpoint, ExclusionReason};

use crate::explain::rescoring::{best_scored, recorded};

/// The part of a decision that holds an endpoint.
pub(super) enum DecisionEntry<'a> {
    /// A candidate in the record, with its place in the plan.
    Recorded(usize, &'a Candidate),
    /// A candidate in the plan that the record omits: place, index and id.
    Omitted(usize, u32, EndpointId),
    ExcludedEndpoint(&'a ExcludedEndpoint),
    /// Index and id of an endpoint that the request does not ask for.
    Outside(u32, EndpointId),
}

impl<'a> DecisionEntry<'a> {
    /// The entry of the endpoint that came nearest to being the choice. `endpoints` are indices into `catalog`; ids are
    /// compared, because the catalog may be newer than the decision.
    pub(super) fn find(endpoints: &[u32], decision: &'a Decision, catalog: &Catalog) -> DecisionEntry<'a> {
        let ids: Vec<(u32, EndpointId)> =
            endpoints.iter().filter_map(|index| Some((*index, catalog.endpoint(*index)?.id))).collect();
        let matching = recorded(decision).filter(|candidate| ids.iter().any(|(_, id)| *id == candidate.endpoint));
        // The choice first, whatever its score. The order of a panic plan does not follow the score either.
        let first = matching.clone().next().filter(|first| first.place == 0 || first.panic);
        if let Some(candidate) = first.or_else(|| best_scored(matching)) {
            return DecisionEntry::Recorded(candidate.place as usize, candidate);
        }
        let omitted = decision.omitted_ranks().find_map(|(place, id)| {
            let (index, id) = ids.iter().find(|(_, matching)| *matching == id)?;
            Some((place, *index, *id))
        });
        if let Some((place, index, id)) = omitted {
            return DecisionEntry::Omitted(place, index, id);
        }
        match furthest_excluded(endpoints, &decision.excluded, catalog) {
            Some(excluded) => DecisionEntry::ExcludedEndpoint(excluded),
            None => ids
                .first()
                .map_or(DecisionEntry::Outside(0, EndpointId(0)), |(index, id)| DecisionEntry::Outside(*index, *id)),
        }
    }
}

/// The excluded endpoint that passed the most filters.
pub(super) fn furthest_excluded<'a>(
    endpoints: &[u32],
    excluded: &'a [ExcludedEndpoint],
    catalog: &Catalog,
) -> Option<&'a ExcludedEndpoint> {
    let matches = |excluded: &&ExcludedEndpoint| {
        endpoints.iter().any(|index| catalog.endpoint(*index).is_some_and(|endpoint| endpoint.id == excluded.endpoint))
    };
    // `max_by_key` returns the last maximum; reversed, that is the first.
    excluded.iter().filter(matches).rev().max_by_key(|excluded| filter_position(excluded.reason))
}

/// Position of the reason in the order in which filters and live state are checked.
fn filter_position(reason: ExclusionReason) -> usize {
    use ExclusionReason::{
        BlockedModel, CircuitOpen, ConfigFault, ContextLength, DataPolicy, Disabled, Draining, InputModality,
        KeyPolicy, MaxCostPer1kTokens, MaxPrice, ModelExpired, NotAllowedModel, NotFree, OutputModality, Paced,
        PriceUnknown, ProbeInFlight, ProviderIgnored, ProviderNotAllowed, ProviderOff, QualityBelow, QualityUnknown,
        Quantization, RateLimited, Saturated, UnsupportedParameter, WrongEndpoint,
    };
    const ORDER: [ExclusionReason; 28] = [
        Draining,
        ModelExpired,
        Disabled,
        ProviderOff,
        WrongEndpoint,
        KeyPolicy,
        BlockedModel,
        NotAllowedModel,
        NotFree,
        ProviderIgnored,
        ProviderNotAllowed,
        OutputModality,
        InputModality,
        UnsupportedParameter,
        ContextLength,
        Quantization,
        DataPolicy,
        PriceUnknown,
        MaxCostPer1kTokens,
        MaxPrice,
        QualityUnknown,
        QualityBelow,
        ConfigFault,
        RateLimited,
        CircuitOpen,
        ProbeInFlight,
        Paced,
        Saturated,
    ];
    ORDER.iter().position(|known| *known == reason).unwrap_or_default()
}
