//! JSON of what a shadow policy would have chosen for a request.

use pointsman_domain::{Generation, ShadowChoice};
use serde::Serialize;

use super::route_view::{CatalogView, EndpointNames};
use crate::api::number::Figure;

/// What a shadow policy would have chosen. Nobody was called for it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ShadowChoiceBody<'a> {
    /// Name of the shadow.
    pub(crate) shadow: &'a str,
    /// Whether its first choice is that of the decision.
    pub(crate) agrees: bool,
    /// Its first choice; `null` if no endpoint could have served.
    pub(crate) choice: Option<EndpointNames<'a>>,
    /// By how much the choice that served scores worse than its own, under its policy; 0 where both agree, `null` if it
    /// excludes that choice.
    pub(crate) score_gap: Option<Figure>,
    /// Expected cost of its choice, US dollars at its prices.
    pub(crate) expected_cost: Figure,
    /// Median milliseconds to the first token of its choice.
    pub(crate) expected_first_token_ms: Figure,
    /// Probability that its choice fails.
    pub(crate) failure_probability: Figure,
}

impl<'a> ShadowChoiceBody<'a> {
    pub(crate) fn new(
        choice: &'a ShadowChoice,
        generation: &'a Generation,
        view: CatalogView<'a>,
    ) -> ShadowChoiceBody<'a> {
        let serves = generation.decision.plan().next();
        let chosen = choice.choice.and_then(|index| generation.catalog.endpoint(index));
        ShadowChoiceBody {
            shadow: &choice.shadow,
            agrees: serves.map(|serves| serves.index) == choice.choice,
            choice: chosen.map(|endpoint| view.names_of(view.0.endpoints.iter().find(|one| one.id == endpoint.id))),
            score_gap: choice.gap.map(|gap| Figure::significant(gap.into())),
            expected_cost: Figure::significant(choice.cost.into()),
            expected_first_token_ms: Figure::rounded(f64::from(choice.first_token) * 1e3, 1),
            failure_probability: Figure::significant(choice.failure.into()),
        }
    }
}
