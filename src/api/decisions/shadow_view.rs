//! JSON of what a shadow policy would have chosen for a request.

use pointsman_domain::{Generation, ShadowChoice};
use serde::Serialize;

use super::route_view::{CatalogView, EndpointNames};
use crate::api::number::Figure;

view! {
    /// What a shadow policy would have chosen. Nobody was called for it.
    pub(crate) struct ShadowChoiceBody<'a> {
        pub(crate) fn new(choice: &'a ShadowChoice, generation: &'a Generation, view: CatalogView<'a>) {
            let serves = generation.decision.plan().next();
            let chosen = choice.choice.and_then(|index| generation.catalog.endpoint(index));
        }

        /// Name of the shadow.
        pub(crate) shadow: &'a str = &choice.shadow,
        /// Whether its first choice is that of the decision.
        pub(crate) agrees: bool = serves.map(|serves| serves.index) == choice.choice,
        /// Its first choice; `null` if no endpoint could have served.
        pub(crate) choice: Option<EndpointNames<'a>> =
            chosen.map(|endpoint| view.names_of(view.0.endpoints.iter().find(|one| one.id == endpoint.id))),
        /// By how much the choice that served scores worse than its own, under its policy; 0 where both agree, `null` if it
        /// excludes that choice.
        pub(crate) score_gap: Option<Figure> = choice.gap.map(|gap| Figure::significant(gap.into())),
        /// Expected cost of its choice, US dollars at its prices.
        pub(crate) expected_cost: Figure = Figure::significant(choice.cost.into()),
        /// Median milliseconds to the first token of its choice.
        pub(crate) expected_first_token_ms: Figure = Figure::rounded(f64::from(choice.first_token) * 1e3, 1),
        /// Probability that its choice fails.
        pub(crate) failure_probability: Figure = Figure::significant(choice.failure.into()),
    }
}
