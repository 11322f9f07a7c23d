//! JSON of a route preview: the decision, or the reasons why no endpoint is left.

use std::sync::Arc;

use pointsman_domain::{Catalog, Decision, EndpointId, RouteError};
use pointsman_routing::explain::WhyNot;
use serde::Serialize;

use super::{
    previewed_parameters::PreviewedParameters,
    route_view::{self, CandidateBody, CatalogView, EstimateBody, ExcludedBody},
    sentences::Sentences,
    split_view::SplitBody,
    why_not_view::WhyNotBody,
};
use crate::{base::error::NearestRelaxation, proxy::unknown_fields::UnknownField};

/// Candidates shown without `top_n`.
const DEFAULT_TOP_N: u32 = 10;

/// Properties of the request that the preview repeats or uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreviewHeader<'a> {
    /// `model` of the request, or the default alias.
    pub(crate) model: &'a str,
    /// Unix seconds.
    pub(crate) at: i64,
    /// `top_n` of the request.
    pub(crate) top_n: Option<u32>,
    /// Parts of the request without effect.
    pub(crate) warnings: &'a [UnknownField],
}

/// Most candidates that are shown for a `top_n`.
pub(crate) fn shown(top_n: Option<u32>) -> usize {
    top_n.unwrap_or(DEFAULT_TOP_N) as usize
}

view! {
    /// The answer to a preview.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct PreviewBody<'a> {
        /// The preview of the actual decision and, with `what_if`, of the hypothetical one.
        pub(crate) fn new(
            header: PreviewHeader<'a>,
            actual: &'a RenderedDecision,
            hypothetical: Option<&'a RenderedDecision>,
        ) {
            let router = match &actual.decided {
                Ok(decision) => decision.router.as_deref(),
                Err(error) => error.query.router.as_deref(),
            };
        }

        /// Always `route.preview`.
        object: &'static str = "route.preview",
        /// When the preview was made, in Unix seconds.
        created: i64 = header.at,
        /// `model` of the request, or the default alias.
        requested_model: &'a str = header.model,
        /// The alias that was asked for; `null` for a fixed model.
        router: Option<&'a str> = router,
        #[serde(flatten)]
        pub(crate) decision_body: DecisionBody<'a> = DecisionBody::new(header, actual),
        /// Parts of the request without effect: unknown members, and names that match nothing; absent without any.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        pub(crate) warnings: &'a [UnknownField] = header.warnings,
        /// Only with `what_if` in the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) what_if: Option<WhatIfBody<'a>> =
            hypothetical.map(|hypothetical| WhatIfBody::new(header, actual, hypothetical)),
    }
}

/// A decision, or the reasons why there is none.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct DecisionBody<'a> {
    /// What the choice optimises.
    #[cfg_attr(test, schemars(with = "crate::base::words::Objective"))]
    objective: &'static str,
    /// Why the first candidate is the choice; `null` where no endpoint is left.
    #[cfg_attr(test, schemars(with = "Option<crate::base::words::DecisionCode>"))]
    decision_code: Option<&'static str>,
    /// The choice, and what it is best at, in one sentence of at most 25 words without codes.
    pub(crate) summary: &'a str,
    /// The decision as a sentence, with its figures.
    pub(crate) decision_reason: &'a str,
    /// What the decision reckoned with.
    estimate: EstimateBody,
    /// The part of a divided alias that such a request falls to: the most probable one where nothing tells. Absent unless the
    /// requested alias has a ladder, rules, shares or a canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    split: Option<SplitBody<'a>>,
    /// The endpoints that could be called, best first: in a preview the first `top_n`, in a record about the first
    /// eight.
    pub(crate) candidates: Vec<CandidateBody<'a>>,
    /// All of them, those included that are not listed.
    pub(crate) candidates_total: usize,
    /// The endpoints of the requested models that could not be called.
    excluded: Vec<ExcludedBody<'a>>,
    /// Number of them.
    pub(crate) excluded_total: usize,
    /// Only where no endpoint is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest_relaxation: Option<NearestRelaxation>,
    /// Only with `why_not` in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<WhyNotBody<'a>>,
}

view! {
    /// The decision under the conditions of `what_if`.
    pub(crate) struct WhatIfBody<'a> as "WhatIf" {
        fn new(header: PreviewHeader<'a>, actual: &RenderedDecision, hypothetical: &'a RenderedDecision) {
            let (choice, other) = (actual.choice(), hypothetical.choice());
            let changed = choice.as_ref().map(|(id, _)| *id) != other.as_ref().map(|(id, _)| *id);
            let sentence = match (choice, other) {
                (Some((_, choice)), Some((_, other))) if changed => {
                    format!("The choice would be {other} instead of {choice}.")
                }
                (_, Some((_, other))) if !changed => format!("The choice would still be {other}."),
                (_, Some((_, other))) => {
                    format!("The choice would be {other}; without the change no endpoint can serve the request.")
                }
                (Some((_, choice)), None) => {
                    format!("No endpoint could serve the request; without the change the choice is {choice}.")
                }
                (None, None) => "Still no endpoint could serve the request.".to_owned(),
            };
        }

        /// Whether another endpoint would be the choice.
        pub(crate) changed: bool = changed,
        /// The comparison with the actual choice, as a sentence.
        pub(crate) sentence: String = sentence,
        #[serde(flatten)]
        pub(crate) decision_body: DecisionBody<'a> = DecisionBody::new(header, hypothetical),
    }
}

/// A decision with its explanation.
pub(crate) struct RenderedDecision {
    /// The decision, or the query and exclusions if no endpoint is left.
    pub(crate) decided: Result<Decision, RouteError>,
    /// Catalog that the decision's positions refer to.
    pub(crate) catalog: Arc<Catalog>,
    /// Summary and reason.
    pub(crate) sentences: Sentences,
    /// If no endpoint is left: the smallest change that leaves one.
    pub(crate) nearest: Option<NearestRelaxation>,
    /// Answer to `why_not`.
    pub(crate) why_not: Option<WhyNot>,
    /// What becomes of the fields of the request at each candidate that is shown, in their order.
    pub(crate) previewed_parameters: Vec<Option<PreviewedParameters>>,
}

impl<'a> DecisionBody<'a> {
    fn new(header: PreviewHeader<'a>, rendered: &'a RenderedDecision) -> DecisionBody<'a> {
        let (view, Sentences { summary, reason }) = (CatalogView(&rendered.catalog), &rendered.sentences);
        let why_not = rendered.why_not.as_ref().map(|answer| WhyNotBody::new(answer, &rendered.catalog, &[]));
        match &rendered.decided {
            Ok(decision) => DecisionBody {
                objective: decision.objective.value.as_str(),
                decision_code: Some(decision.code.as_str()),
                summary,
                decision_reason: reason,
                estimate: EstimateBody::new(decision.prompt_tokens, decision.completion_tokens),
                split: decision.split.as_deref().map(SplitBody::new),
                candidates: candidates(decision, view, header, &rendered.previewed_parameters),
                candidates_total: decision.candidates.len(),
                excluded: route_view::excluded(decision, view),
                excluded_total: decision.excluded.len(),
                nearest_relaxation: None,
                why_not,
            },
            Err(error) => DecisionBody {
                objective: error.query.objective.value.as_str(),
                decision_code: None,
                summary,
                decision_reason: reason,
                estimate: EstimateBody::new(error.query.prompt_tokens, 0),
                split: error.query.split.as_deref().map(SplitBody::new),
                candidates: Vec::new(),
                candidates_total: 0,
                excluded: route_view::excluded_by_error(&error.excluded, view),
                excluded_total: error.excluded.len(),
                nearest_relaxation: rendered.nearest.clone(),
                why_not,
            },
        }
    }
}

fn candidates<'a>(
    decision: &'a Decision,
    view: CatalogView<'a>,
    header: PreviewHeader<'a>,
    previewed_parameters: &'a [Option<PreviewedParameters>],
) -> Vec<CandidateBody<'a>> {
    let mut bodies = route_view::candidates(decision, view, shown(header.top_n));
    bodies
        .iter_mut()
        .zip(previewed_parameters)
        .for_each(|(body, previewed_parameters)| body.previewed_parameters = previewed_parameters.as_ref());
    bodies
}

impl RenderedDecision {
    /// Id and name of the chosen endpoint.
    fn choice(&self) -> Option<(EndpointId, String)> {
        let first = self.decided.as_ref().ok()?.candidates.first()?;
        let endpoint = self.catalog.find(first.index, first.endpoint)?;
        let (model, provider) = (self.catalog.model_of(endpoint)?, self.catalog.provider_of(endpoint)?);
        Some((first.endpoint, format!("{} on {}", model.id, provider.name)))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use pointsman_domain::{ExcludedEndpoint, ExclusionDetail, ExclusionReason};

    use crate::base::error::Constraint;

    use super::*;
    use crate::api::{
        route_samples::{decision, query},
        samples::catalog,
    };

    const HEADER: PreviewHeader<'_> = PreviewHeader { model: "auto", at: 1_763_629_500, top_n: None, warnings: &[] };

    fn rendered(decided: Result<Decision, RouteError>, reason: &str) -> RenderedDecision {
        RenderedDecision {
            decided,
            catalog: Arc::new(catalog()),
            sentences: Sentences {
                summary: "acme/small on Acme would be called.".to_owned(),
                reason: reason.to_owned(),
            },
            nearest: None,
            why_not: None,
            previewed_parameters: Vec::new(),
        }
    }

    fn decided() -> RenderedDecision {
        rendered(Ok(decision(&catalog())), "cheapest: acme/small on Acme")
    }

    fn no_candidates() -> RenderedDecision {
        let off = ExcludedEndpoint {
            index: 5,
            endpoint: catalog().endpoint(5).unwrap().id,
            reason: ExclusionReason::ProviderOff,
            detail: ExclusionDetail::Sentence("ACME_KEY is not set".into()),
        };
        let error = RouteError { query: Box::new(query()), excluded: vec![off], opens: None, gates: Vec::new() };
        let sentence =
            "beta/old on Beta Cloud can serve the request after one change: raise max_price (max_price: 2 above 1)."
                .to_owned();
        let without = vec![Constraint { field: "max_price".into(), reason: None, detail: "2 above 1".to_owned() }];
        let (model, provider_name) = ("beta/old".to_owned(), "Beta Cloud".to_owned());
        let nearest = Some(NearestRelaxation { model, provider_name, without, sentence });
        RenderedDecision { nearest, ..rendered(Err(error), "no endpoint is left") }
    }

    fn check(mut body: PreviewBody<'_>, expected: Expect) {
        // Tested in `route_view`.
        body.decision_body.candidates.clear();
        expected.assert_eq(&serde_json::to_string_pretty(&body).unwrap());
    }

    #[test]
    fn a_preview_shows_the_decision() {
        check(
            PreviewBody::new(HEADER, &decided(), None),
            expect![[r#"
                {
                  "object": "route.preview",
                  "created": 1763629500,
                  "requested_model": "auto",
                  "router": "service/auto",
                  "objective": "cheapest",
                  "decision_code": "cheapest_available",
                  "summary": "acme/small on Acme would be called.",
                  "decision_reason": "cheapest: acme/small on Acme",
                  "estimate": {
                    "prompt_tokens": 812,
                    "completion_tokens": 256
                  },
                  "candidates": [],
                  "candidates_total": 2,
                  "excluded": [
                    {
                      "model": "beta/medium",
                      "provider_name": "Beta Cloud",
                      "provider_slug": "beta",
                      "reason": "blocked_model",
                      "detail": "matches beta/*"
                    }
                  ],
                  "excluded_total": 1
                }"#]],
        );
    }

    #[test]
    fn without_a_candidate_the_preview_shows_the_exclusions_and_the_nearest_relaxation() {
        check(
            PreviewBody::new(HEADER, &no_candidates(), None),
            expect![[r#"
                {
                  "object": "route.preview",
                  "created": 1763629500,
                  "requested_model": "auto",
                  "router": "service/auto",
                  "objective": "cheapest",
                  "decision_code": null,
                  "summary": "acme/small on Acme would be called.",
                  "decision_reason": "no endpoint is left",
                  "estimate": {
                    "prompt_tokens": 812,
                    "completion_tokens": 0
                  },
                  "candidates": [],
                  "candidates_total": 0,
                  "excluded": [
                    {
                      "model": "beta/old",
                      "provider_name": "Beta Cloud",
                      "provider_slug": "beta",
                      "reason": "provider_off",
                      "detail": "ACME_KEY is not set"
                    }
                  ],
                  "excluded_total": 1,
                  "nearest_relaxation": {
                    "model": "beta/old",
                    "provider_name": "Beta Cloud",
                    "without": [
                      {
                        "field": "max_price",
                        "detail": "2 above 1"
                      }
                    ],
                    "sentence": "beta/old on Beta Cloud can serve the request after one change: raise max_price (max_price: 2 above 1)."
                  }
                }"#]],
        );
    }

    #[test]
    fn top_n_limits_the_list_but_not_the_total() {
        let rendered = decided();
        let body = PreviewBody::new(PreviewHeader { top_n: Some(1), ..HEADER }, &rendered, None).decision_body;
        assert_eq!((body.candidates.len(), body.candidates_total), (1, 2));
    }

    #[test]
    fn a_hypothetical_decision_says_whether_the_choice_changes() {
        let (one, mut other, none) = (decided(), decided(), no_candidates());
        other.decided.as_mut().unwrap().candidates.swap(0, 1);
        let sentence = |actual: &RenderedDecision, hypothetical: &RenderedDecision| {
            let body = PreviewBody::new(HEADER, actual, Some(hypothetical)).what_if.unwrap();
            (body.changed, body.sentence)
        };
        for (actual, hypothetical, changed, rendered) in [
            (&one, &one, false, "The choice would still be acme/small on Acme."),
            (&one, &other, true, "The choice would be acme/small on Beta Cloud instead of acme/small on Acme."),
            (
                &one,
                &none,
                true,
                "No endpoint could serve the request; without the change the choice is acme/small on Acme.",
            ),
            (
                &none,
                &one,
                true,
                "The choice would be acme/small on Acme; without the change no endpoint can serve the request.",
            ),
            (&none, &none, false, "Still no endpoint could serve the request."),
        ] {
            assert_eq!(sentence(actual, hypothetical), (changed, rendered.to_owned()));
        }
    }
}
