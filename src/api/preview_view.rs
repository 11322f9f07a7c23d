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
        let places = Places::new(catalog, decision.catalog_version);
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
        let places = Places::new(catalog, catalog.version);
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
