//! Answers to "why not X?": why a model, a provider or an endpoint was not the choice, and the smallest change that would
//! make it the choice.
//!
//! `entry` finds the endpoint in the record of the decision, `answers` and `lost` build the answer, `recorded_trial` and
//! `preview` try changes, `sentence` writes the text.

mod answers;
mod entry;
mod lost;
pub mod preview;
mod recorded_trial;
mod sentence;

use std::time::Duration;

use pointsman_domain::{AttemptRecord, Catalog, Decision, EndpointId, RouteError, RoutingPolicy, ScoreUnit};

use self::{
    answers::{chosen, omitted, output_missed, outside, refused},
    entry::{DecisionEntry, furthest_excluded},
    lost::lost,
    sentence::sentence,
};
use super::{
    attempt_summary::AttemptSummary,
    counterfactual::Counterfactual,
    formatting::full_name_of,
    name_resolution::{ResolvedName, resolve, suggestions},
};
use crate::decide::filter::purpose;

/// `reason` of a candidate that ranks behind the choice because it misses a preference.
pub(crate) const PREFERENCE_MISSED: &str = "preference_missed";

/// The answer to "why not X?".
#[derive(Debug, Clone, PartialEq)]
pub struct WhyNot {
    /// The name in the question, as written.
    pub asked: String,
    /// The result for the endpoint.
    pub verdict: Verdict,
    /// Index and id of the endpoint in the answer. If the name matches several endpoints, the one that came nearest to
    /// being the choice.
    pub about: Option<(u32, EndpointId)>,
    /// Number of endpoints that the name matches.
    pub matched: usize,
    /// Place in the plan, counted from 1.
    pub rank: Option<usize>,
    /// An [`ExclusionReason`](pointsman_domain::ExclusionReason), the criterion that ranked before the score, or `score`.
    pub reason: &'static str,
    /// The figure or pattern behind the reason.
    pub detail: String,
    /// Time from the decision until the endpoint is available again.
    pub opens_in: Option<Duration>,
    /// Distance to the better candidate.
    pub margin: Option<Margin>,
    /// Changes of one figure each that would make the endpoint the choice, the relatively smallest first.
    pub would_win_if: Vec<Counterfactual>,
    /// Names similar to an unknown one.
    pub suggestions: Vec<String>,
    /// How the attempt at the choice and the attempts after it ended, if the choice did not answer.
    pub outcome: Option<String>,
    /// The answer in one or two sentences.
    pub sentence: String,
}

pointsman_domain::named! {
    /// The result for one endpoint.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Verdict {
        /// A filter or its current state excluded the endpoint.
        Refused = "refused",
        /// Another candidate was better.
        Lost = "lost",
        /// The endpoint is the choice.
        Chosen = "chosen",
        /// No model and no provider has this name.
        Unknown = "unknown",
        /// The request does not ask for the model of the endpoint.
        NotInPool = "not_in_pool",
    }
}

/// The distance of a candidate to the better one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// Index and id of the better candidate.
    pub to: (u32, EndpointId),
    /// Score minus the better score.
    pub difference: f64,
    /// The difference relative to the better score.
    pub relative: f64,
    /// The unit of the difference.
    pub unit: ScoreUnit,
    /// Whether quality counts in the score.
    pub counts_quality: bool,
    /// The score term with the largest difference, and the difference.
    pub most: Option<(&'static str, f64)>,
}

/// Answers why `asked` is not the choice of a decision. `catalog` resolves names; endpoints it no longer holds are `?`.
pub fn why_not(asked: &str, decision: &Decision, policy: &RoutingPolicy, catalog: &Catalog) -> WhyNot {
    answer(asked, catalog, |endpoints| match DecisionEntry::find(endpoints, decision, catalog) {
        DecisionEntry::Recorded(0, choice) => chosen(choice),
        DecisionEntry::Recorded(place, candidate) => lost(place, candidate, decision, policy),
        DecisionEntry::Omitted(place, index, id) => omitted(place, index, id),
        DecisionEntry::ExcludedEndpoint(excluded) => refused(excluded),
        DecisionEntry::Outside(index, id) => {
            outside(index, id, catalog, |output| output_missed(output, decision, catalog))
        }
    })
}

/// Answers why `asked` is not the choice if no endpoint can serve the request.
pub fn why_not_in(asked: &str, error: &RouteError, catalog: &Catalog) -> WhyNot {
    answer(asked, catalog, |endpoints| match furthest_excluded(endpoints, &error.excluded, catalog) {
        Some(excluded) => refused(excluded),
        None => endpoints.first().and_then(|index| Some((*index, catalog.endpoint(*index)?.id))).map_or_else(
            WhyNot::unknown,
            |(index, id)| {
                let wanted = error.query.router.as_ref().map(|_| purpose(error.query.api));
                outside(index, id, catalog, |output| wanted.filter(|wanted| !output.contains(*wanted)))
            },
        ),
    })
}

/// [`why_not`] after the request: for the choice, the answer says how its attempt ended.
pub fn why_not_after(
    asked: &str,
    decision: &Decision,
    attempts: &[AttemptRecord],
    policy: &RoutingPolicy,
    catalog: &Catalog,
) -> WhyNot {
    let answer = why_not(asked, decision, policy, catalog);
    let choice = answer.about.filter(|_| answer.verdict == Verdict::Chosen);
    let outcome = choice.and_then(|(index, _)| AttemptSummary::new(attempts, index, full_name_of)?.of_choice());
    let answer = WhyNot { outcome, ..answer };
    WhyNot { sentence: sentence(&answer, catalog), ..answer }
}

/// Resolves `asked` and completes the answer of `of` with the name and the sentence.
fn answer(asked: &str, catalog: &Catalog, of_endpoints: impl FnOnce(&[u32]) -> WhyNot) -> WhyNot {
    let found = match resolve(catalog, asked) {
        ResolvedName::Endpoints(endpoints) => WhyNot { matched: endpoints.len(), ..of_endpoints(&endpoints) },
        ResolvedName::Alias => WhyNot {
            reason: "alias",
            detail: "an alias selects from many endpoints; name a model, a provider or model@provider".to_owned(),
            ..WhyNot::unknown()
        },
        ResolvedName::Unknown => WhyNot { suggestions: suggestions(catalog, asked), ..WhyNot::unknown() },
    };
    let found = WhyNot { asked: asked.to_owned(), ..found };
    WhyNot { sentence: sentence(&found, catalog), ..found }
}

impl WhyNot {
    /// The answer for an unknown name.
    fn unknown() -> WhyNot {
        WhyNot {
            asked: String::new(),
            verdict: Verdict::Unknown,
            about: None,
            matched: 0,
            rank: None,
            reason: "unknown_name",
            detail: "neither a model nor a provider has this name".to_owned(),
            opens_in: None,
            margin: None,
            would_win_if: Vec::new(),
            suggestions: Vec::new(),
            outcome: None,
            sentence: String::new(),
        }
    }

    fn about(verdict: Verdict, about: (u32, EndpointId), reason: &'static str, detail: String) -> WhyNot {
        WhyNot { verdict, about: Some(about), reason, detail, ..WhyNot::unknown() }
    }
}
