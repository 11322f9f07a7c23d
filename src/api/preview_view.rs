//! The wire shape of a route preview: what serving would choose, or why nothing is left.

use pointsman_actors::domain::{Catalog, Decision, RouteError};
use serde::Serialize;

use super::route_view::{self, CandidateBody, EstimateBody, ExcludedBody, Places};

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
}

/// The answer to a preview.
#[derive(Serialize)]
pub(crate) struct PreviewBody<'a> {
    object: &'static str,
    created: i64,
    requested_model: &'a str,
    router: Option<&'a str>,
    objective: &'static str,
    decision_code: Option<&'static str>,
    decision_reason: &'a str,
    estimate: EstimateBody,
    candidates: Vec<CandidateBody<'a>>,
    candidates_total: usize,
    excluded: Vec<ExcludedBody<'a>>,
    excluded_total: usize,
}

impl<'a> PreviewBody<'a> {
    /// A decision and the sentence that tells it. `catalog` is the one it was made with.
    pub(crate) fn decided(
        asked: Asked<'a>,
        decision: &'a Decision,
        catalog: &'a Catalog,
        reason: &'a str,
    ) -> PreviewBody<'a> {
        let places = Places(catalog);
        PreviewBody {
            object: "route.preview",
            created: asked.at,
            requested_model: asked.model,
            router: decision.router.as_deref(),
            objective: decision.objective.value.as_str(),
            decision_code: Some(decision.code.as_str()),
            decision_reason: reason,
            estimate: EstimateBody::new(decision.prompt_tokens, decision.completion_tokens),
            candidates: route_view::candidates(decision, places, asked.top_n.unwrap_or(SHOWN) as usize),
            candidates_total: decision.candidates.len(),
            excluded: route_view::excluded(&decision.excluded, places),
            excluded_total: decision.excluded.len(),
        }
    }

    /// Nothing is left: no candidate, and every endpoint with its reason.
    pub(crate) fn nothing_left(
        asked: Asked<'a>,
        error: &'a RouteError,
        catalog: &'a Catalog,
        reason: &'a str,
    ) -> PreviewBody<'a> {
        let places = Places(catalog);
        PreviewBody {
            object: "route.preview",
            created: asked.at,
            requested_model: asked.model,
            router: error.query.router.as_deref(),
            objective: error.query.objective.value.as_str(),
            decision_code: None,
            decision_reason: reason,
            estimate: EstimateBody::new(error.query.prompt_tokens, 0),
            candidates: Vec::new(),
            candidates_total: 0,
            excluded: route_view::excluded(&error.excluded, places),
            excluded_total: error.excluded.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use pointsman_actors::domain::{Detail, Excluded, ExclusionReason};

    use super::{
        super::{
            route_samples::{decision, query},
            samples::catalog,
        },
        *,
    };

    const ASKED: Asked<'_> = Asked { model: "auto", at: 1_763_629_500, top_n: None };

    fn check(body: &PreviewBody<'_>, expected: Expect) {
        expected.assert_eq(&serde_json::to_string_pretty(body).unwrap());
    }

    #[test]
    fn a_preview_shows_every_candidate_with_its_numbers() {
        let (catalog, reason) = (catalog(), "cheapest: acme/small on Acme");
        let decision = decision(&catalog);
        check(
            &PreviewBody::decided(ASKED, &decision, &catalog, reason),
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
                  "candidates": [
                    {
                      "rank": 1,
                      "selected": true,
                      "model": "acme/small",
                      "provider_name": "Acme",
                      "provider_slug": "acme",
                      "score": 5.1e-6,
                      "score_unit": "usd",
                      "score_terms": [
                        {
                          "name": "expected_cost",
                          "value": 4.8e-6
                        },
                        {
                          "name": "failure",
                          "value": 3e-7
                        }
                      ],
                      "selection_probability": 0.94,
                      "predicted": {
                        "ttft_ms": {
                          "p50": 230,
                          "p95": 510
                        },
                        "throughput_tps": 95,
                        "total_ms": {
                          "p50": 2900,
                          "p95": null
                        },
                        "cost": 4.8e-6,
                        "failure_probability": 0.004,
                        "measured": true
                      },
                      "health": {
                        "state": "healthy",
                        "circuit": "closed",
                        "success_rate": 0.998,
                        "samples": 1204,
                        "in_flight": 2
                      },
                      "pricing": {
                        "prompt": "0.00000015",
                        "completion": "0.0000006"
                      },
                      "context_length": 128000
                    },
                    {
                      "rank": 2,
                      "selected": false,
                      "model": "acme/small",
                      "provider_name": "Beta Cloud",
                      "provider_slug": "beta",
                      "score": 7.3e-6,
                      "score_unit": "usd",
                      "score_terms": [
                        {
                          "name": "expected_cost",
                          "value": 7e-6
                        },
                        {
                          "name": "failure",
                          "value": 3e-7
                        }
                      ],
                      "selection_probability": 0.94,
                      "predicted": {
                        "ttft_ms": {
                          "p50": 230,
                          "p95": 510
                        },
                        "throughput_tps": 95,
                        "total_ms": {
                          "p50": 2900,
                          "p95": null
                        },
                        "cost": 4.8e-6,
                        "failure_probability": 0.004,
                        "measured": true
                      },
                      "health": {
                        "state": "healthy",
                        "circuit": "closed",
                        "success_rate": 0.998,
                        "samples": 1204,
                        "in_flight": 2
                      },
                      "pricing": {
                        "prompt": "0.0000001",
                        "completion": "0.000001"
                      },
                      "context_length": 200000
                    }
                  ],
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
    fn top_n_cuts_the_list_and_not_the_count() {
        let catalog = catalog();
        let decision = decision(&catalog);
        let body = PreviewBody::decided(Asked { top_n: Some(1), ..ASKED }, &decision, &catalog, "");
        assert_eq!((body.candidates.len(), body.candidates_total), (1, 2));
    }

    #[test]
    fn with_nothing_left_there_are_the_reasons() {
        let catalog = catalog();
        let off = Excluded {
            index: 5,
            endpoint: catalog.endpoint(5).unwrap().id,
            reason: ExclusionReason::ProviderOff,
            detail: Detail::Sentence("ACME_KEY is not set".into()),
        };
        let error = RouteError { query: Box::new(query()), excluded: vec![off], opens: None };
        check(
            &PreviewBody::nothing_left(ASKED, &error, &catalog, "nothing is left"),
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
              "excluded_total": 1
            }"#]],
        );
    }

    #[test]
    fn terms_sum_to_the_score() {
        let catalog = catalog();
        let decision = decision(&catalog);
        let body = serde_json::to_value(PreviewBody::decided(ASKED, &decision, &catalog, "")).unwrap();
        for candidate in body["candidates"].as_array().unwrap() {
            let terms = candidate["score_terms"].as_array().unwrap();
            let sum: f64 = terms.iter().map(|term| term["value"].as_f64().unwrap()).sum();
            assert!((sum - candidate["score"].as_f64().unwrap()).abs() < 1e-15);
        }
    }
}
