//! The wire shape of a route preview: what serving would choose, or why nothing is left.

use std::sync::Arc;

use pointsman_actors::{
    domain::{Catalog, Decision, EndpointId, RouteError},
    explain::WhyNot,
};
use serde::Serialize;

use super::{
    route_view::{self, CandidateBody, EstimateBody, ExcludedBody, Places},
    why_not_view::WhyNotBody,
};
use crate::{base::error::NearestRelaxation, proxy::unknown_fields::UnknownField};

/// Candidates shown when the request does not say how many.
const SHOWN: u32 = 10;

/// What was asked, as the request wrote it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// `model` of the request, or the alias that stands in for it.
    pub(crate) model: &'a str,
    /// Unix seconds.
    pub(crate) at: i64,
    /// `top_n` of the request.
    pub(crate) top_n: Option<u32>,
    /// What in it has no effect.
    pub(crate) warnings: &'a [UnknownField],
}

/// The answer to a preview.
#[derive(Serialize)]
pub(crate) struct PreviewBody<'a> {
    object: &'static str,
    created: i64,
    requested_model: &'a str,
    router: Option<&'a str>,
    #[serde(flatten)]
    foreseen: ForeseenBody<'a>,
    /// What in the request has no effect: members nobody knows, names of nobody.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [UnknownField],
    #[serde(skip_serializing_if = "Option::is_none")]
    what_if: Option<WhatIfBody<'a>>,
}

/// What is decided, or why nothing is.
#[derive(Serialize)]
pub(crate) struct ForeseenBody<'a> {
    objective: &'static str,
    decision_code: Option<&'static str>,
    decision_reason: &'a str,
    estimate: EstimateBody,
    candidates: Vec<CandidateBody<'a>>,
    candidates_total: usize,
    excluded: Vec<ExcludedBody<'a>>,
    excluded_total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest_relaxation: Option<NearestRelaxation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<WhyNotBody<'a>>,
}

/// What would be decided in the imagined world, beside what is.
#[derive(Serialize)]
pub(crate) struct WhatIfBody<'a> {
    /// Whether another endpoint would be chosen.
    changed: bool,
    sentence: String,
    #[serde(flatten)]
    foreseen: ForeseenBody<'a>,
}

/// One decision as a preview tells it: the decision with everything filled in, or why there is none.
pub(crate) struct Told {
    /// The decision, or what nothing is left of.
    pub(crate) decided: Result<Decision, RouteError>,
    /// What its positions point into.
    pub(crate) catalog: Arc<Catalog>,
    /// The sentence that tells it.
    pub(crate) reason: String,
    /// Where nothing is left: what would leave something.
    pub(crate) nearest: Option<NearestRelaxation>,
    /// Why not whom was asked about.
    pub(crate) why_not: Option<WhyNot>,
}

impl<'a> PreviewBody<'a> {
    /// What is decided, and what would be in an imagined world.
    pub(crate) fn new(asked: Asked<'a>, actual: &'a Told, imagined: Option<&'a Told>) -> PreviewBody<'a> {
        let router = match &actual.decided {
            Ok(decision) => decision.router.as_deref(),
            Err(error) => error.query.router.as_deref(),
        };
        PreviewBody {
            object: "route.preview",
            created: asked.at,
            requested_model: asked.model,
            router,
            foreseen: ForeseenBody::new(asked, actual),
            warnings: asked.warnings,
            what_if: imagined.map(|imagined| WhatIfBody::new(asked, actual, imagined)),
        }
    }
}

impl<'a> ForeseenBody<'a> {
    fn new(asked: Asked<'a>, told: &'a Told) -> ForeseenBody<'a> {
        let shown = asked.top_n.unwrap_or(SHOWN) as usize;
        let (places, reason) = (Places(&told.catalog), &told.reason);
        let why_not = told.why_not.as_ref().map(|answer| WhyNotBody::new(answer, &told.catalog, &[]));
        match &told.decided {
            Ok(decision) => ForeseenBody {
                objective: decision.objective.value.as_str(),
                decision_code: Some(decision.code.as_str()),
                decision_reason: reason,
                estimate: EstimateBody::new(decision.prompt_tokens, decision.completion_tokens),
                candidates: route_view::candidates(decision, places, shown),
                candidates_total: decision.candidates.len(),
                excluded: route_view::excluded(decision, places),
                excluded_total: decision.excluded.len(),
                nearest_relaxation: None,
                why_not,
            },
            Err(error) => ForeseenBody {
                objective: error.query.objective.value.as_str(),
                decision_code: None,
                decision_reason: reason,
                estimate: EstimateBody::new(error.query.prompt_tokens, 0),
                candidates: Vec::new(),
                candidates_total: 0,
                excluded: route_view::refused(&error.excluded, places),
                excluded_total: error.excluded.len(),
                nearest_relaxation: told.nearest.clone(),
                why_not,
            },
        }
    }
}

impl<'a> WhatIfBody<'a> {
    fn new(asked: Asked<'a>, actual: &Told, imagined: &'a Told) -> WhatIfBody<'a> {
        let (choice, other) = (actual.choice(), imagined.choice());
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
        WhatIfBody { changed, sentence, foreseen: ForeseenBody::new(asked, imagined) }
    }
}

impl Told {
    /// The choice with its name.
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
    use pointsman_actors::domain::{ExcludedEndpoint, ExclusionDetail, ExclusionReason};

    use crate::base::error::Constraint;

    use super::*;
    use crate::api::{
        route_samples::{decision, query},
        samples::catalog,
    };

    const ASKED: Asked<'_> = Asked { model: "auto", at: 1_763_629_500, top_n: None, warnings: &[] };

    fn told(decided: Result<Decision, RouteError>, reason: &str) -> Told {
        Told { decided, catalog: Arc::new(catalog()), reason: reason.to_owned(), nearest: None, why_not: None }
    }

    fn decided() -> Told {
        told(Ok(decision(&catalog())), "cheapest: acme/small on Acme")
    }

    fn nothing_left() -> Told {
        let off = ExcludedEndpoint {
            index: 5,
            endpoint: catalog().endpoint(5).unwrap().id,
            reason: ExclusionReason::ProviderOff,
            detail: ExclusionDetail::Sentence("ACME_KEY is not set".into()),
        };
        let error = RouteError { query: Box::new(query()), excluded: vec![off], opens: None };
        let sentence =
            "beta/old on Beta Cloud can serve the request after one change: raise max_price (max_price: 2 above 1)."
                .to_owned();
        let without = vec![Constraint { field: "max_price".into(), reason: None, detail: "2 above 1".to_owned() }];
        let (model, provider_name) = ("beta/old".to_owned(), "Beta Cloud".to_owned());
        let nearest = Some(NearestRelaxation { model, provider_name, without, sentence });
        Told { nearest, ..told(Err(error), "nothing is left") }
    }

    fn check(mut body: PreviewBody<'_>, expected: Expect) {
        // Theirs is the page of `route_view`.
        body.foreseen.candidates.clear();
        expected.assert_eq(&serde_json::to_string_pretty(&body).unwrap());
    }

    #[test]
    fn a_preview_tells_the_decision() {
        check(
            PreviewBody::new(ASKED, &decided(), None),
            expect![[r#"
            {
              "object": "route.preview",
              "created": 1763629500,
              "requested_model": "auto",
              "router": "service/auto",
              "objective": "cheapest",
              "decision_code": "cheapest_available",
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
    fn with_nothing_left_there_are_the_reasons_and_what_would_leave_something() {
        check(
            PreviewBody::new(ASKED, &nothing_left(), None),
            expect![[r#"
            {
              "object": "route.preview",
              "created": 1763629500,
              "requested_model": "auto",
              "router": "service/auto",
              "objective": "cheapest",
              "decision_code": null,
              "decision_reason": "nothing is left",
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
    fn top_n_cuts_the_list_and_not_the_count() {
        let told = decided();
        let body = PreviewBody::new(Asked { top_n: Some(1), ..ASKED }, &told, None).foreseen;
        assert_eq!((body.candidates.len(), body.candidates_total), (1, 2));
    }

    #[test]
    fn an_imagined_decision_says_whether_it_is_another() {
        let (one, mut other, none) = (decided(), decided(), nothing_left());
        other.decided.as_mut().unwrap().candidates.swap(0, 1);
        let sentence = |actual: &Told, imagined: &Told| {
            let body = PreviewBody::new(ASKED, actual, Some(imagined)).what_if.unwrap();
            (body.changed, body.sentence)
        };
        for (actual, imagined, changed, told) in [
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
            assert_eq!(sentence(actual, imagined), (changed, told.to_owned()));
        }
    }
}
