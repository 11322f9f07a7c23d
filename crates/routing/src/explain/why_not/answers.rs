//! Answers for the choice and for endpoints that did not compete.

use pointsman_domain::{
    ApiType, Candidate, Catalog, Decision, EndpointId, ExcludedEndpoint, ExclusionReason, Modalities, Modality,
    ProviderState,
};

use super::{Verdict, WhyNot};
use crate::decide::filter::purpose;

use crate::explain::rescoring::recorded;

pub(super) fn chosen(choice: &Candidate) -> WhyNot {
    let about = (choice.index, choice.endpoint);
    WhyNot { rank: Some(1), ..WhyNot::about(Verdict::Chosen, about, "choice", "the endpoint is the choice".to_owned()) }
}

pub(super) fn refused(excluded: &ExcludedEndpoint) -> WhyNot {
    let about = (excluded.index, excluded.endpoint);
    let answer = WhyNot::about(Verdict::Refused, about, excluded.reason.as_str(), excluded.detail.to_string());
    WhyNot { opens_in: excluded.detail.wait(), ..answer }
}

pub(super) fn omitted(place: usize, index: u32, id: EndpointId) -> WhyNot {
    let detail =
        format!("it has place {} in the plan; the record keeps the figures of the first candidates only", place + 1);
    WhyNot { rank: Some(place + 1), ..WhyNot::about(Verdict::Lost, (index, id), "score", detail) }
}

/// An endpoint outside the candidate pool. `missed` returns the required output modality that a model does not produce.
pub(super) fn outside(
    index: u32,
    id: EndpointId,
    catalog: &Catalog,
    missed: impl Fn(Modalities) -> Option<Modality>,
) -> WhyNot {
    let endpoint = catalog.endpoint(index);
    let provider = endpoint.and_then(|endpoint| catalog.provider_of(endpoint));
    if let Some(ProviderState::Off(why)) = provider.map(|provider| &provider.state) {
        return WhyNot::about(Verdict::NotInPool, (index, id), "not_in_pool", format!("its provider is off: {why}"));
    }
    let model = endpoint.and_then(|endpoint| catalog.model_of(endpoint));
    let output = model.map(|model| model.architecture.output);
    if let Some((output, wanted)) = output.and_then(|output| Some((output, missed(output)?))) {
        let outputs: Vec<&str> = output.iter().map(Modality::as_str).collect();
        let detail = format!("its model outputs {}, the request needs {wanted}", outputs.join(" and "));
        return WhyNot::about(Verdict::NotInPool, (index, id), ExclusionReason::OutputModality.as_str(), detail);
    }
    WhyNot::about(Verdict::NotInPool, (index, id), "not_in_pool", "the request asks for other models".to_owned())
}

/// For an alias: the output modality of the call that all candidates produce and `output` lacks.
pub(super) fn output_missed(output: Modalities, decision: &Decision, catalog: &Catalog) -> Option<Modality> {
    let output_of = |candidate: &Candidate| {
        let endpoint = catalog.find(candidate.index, candidate.endpoint)?;
        Some(catalog.model_of(endpoint)?.architecture.output)
    };
    let all_produce = |wanted: &Modality| {
        recorded(decision).all(|candidate| output_of(candidate).is_some_and(|output| output.contains(*wanted)))
    };
    let purposes = [ApiType::Completions, ApiType::Image, ApiType::Embeddings].map(purpose);
    let is_missed = |wanted: &Modality| decision.router.is_some() && !output.contains(*wanted) && all_produce(wanted);
    purposes.into_iter().find(is_missed)
}
