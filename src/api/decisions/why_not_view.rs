//! `why_not` of preview and explain: its parameter in the query, and the JSON of its answer.

use pointsman_config::Key;
use pointsman_domain::{AttemptRecord, Catalog, EndpointId};
use pointsman_routing::explain::{Counterfactual, Figure as ChangedFigure, Margin, WhyNot};
use serde::Serialize;

use super::route_view::{CatalogView, EndpointNames};
use crate::{
    api::{number::Figure, query_parameters::QueryParameters},
    base::error::ApiError,
};

/// Longest name, in characters.
const MAX_NAME_CHARS: usize = 256;

/// Model, provider, or `model@provider` to compare with.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(extend("pattern" = r"^[^\u0000-\u001F\u007F-\u009F]*[^\s\u0000-\u001F\u007F-\u009F][^\u0000-\u001F\u007F-\u009F]*$"))]
pub(crate) struct WhyNotName(
    #[expect(dead_code, reason = "described, never made")]
    #[schemars(length(min = 1, max = MAX_NAME_CHARS))]
    String,
);

/// The name in the query.
///
/// # Errors
/// 400 when the name is too long or contains control characters.
pub(crate) fn in_query(query: &QueryParameters) -> Result<Option<String>, ApiError> {
    query.get("why_not").map(checked).transpose()
}

/// The trimmed name.
///
/// # Errors
/// As [`in_query`], and for an empty name.
pub(crate) fn checked(name: &str) -> Result<String, ApiError> {
    let name = name.trim();
    let is_valid = !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS && !name.chars().any(char::is_control);
    let message = "'why_not' must name a model, a provider, or model@provider.";
    if is_valid { Ok(name.to_owned()) } else { Err(ApiError::bad_query("why_not", message)) }
}

/// The name with an alias of the key replaced by its target, also before `@provider`.
pub(crate) fn meant(name: String, key: &Key) -> String {
    let meant = key.meant(&name);
    match name.rsplit_once('@') {
        Some((model, provider)) if meant == name => format!("{}@{provider}", key.meant(model)),
        _ => meant.to_owned(),
    }
}

view! {
    /// Why an endpoint was not chosen, and what would have changed that.
    pub(crate) struct WhyNotBody<'a> as "WhyNot" {
        /// The answer about a decision and its `attempts`.
        pub(crate) fn new(answer: &'a WhyNot, catalog: &'a Catalog, attempts: &'a [AttemptRecord]) {
            let name = |(index, id): (u32, EndpointId)| CatalogView(catalog).names_of(catalog.find(index, id));
            let is_there = |attempt: &&'a AttemptRecord| answer.about.is_some_and(|(index, _)| index == attempt.endpoint);
            let tried = |attempt: &'a AttemptRecord| TriedBody {
                n: attempt.n,
                status: attempt.status,
                error_type: attempt.error_type.as_deref(),
            };
        }

        /// The name in the question.
        pub(crate) asked: &'a str = &answer.asked,
        /// `refused`: it could not be called. `lost`: another candidate was better. `chosen`: it is the choice. `unknown`:
        /// no model and no provider has this name, or it is an alias. `not_in_pool`: the request does not ask for its
        /// model, or its provider is off.
        #[cfg_attr(test, schemars(extend("enum" = ["refused", "lost", "chosen", "unknown", "not_in_pool"])))]
        pub(crate) verdict: &'static str = answer.verdict.as_str(),
        #[serde(flatten)]
        pub(crate) endpoint: EndpointNames<'a> = answer.about.map(name).unwrap_or_default(),
        /// Number of endpoints that the name matches; the answer is about the one closest to being chosen.
        pub(crate) matched: usize = answer.matched,
        /// Place in the order in which candidates are called, from 1; `null` if it is no candidate.
        pub(crate) rank: Option<usize> = answer.rank,
        /// Of `refused`, the reason as in `excluded`. Of `lost`, `score`, `tie`, or what ranks before the score:
        /// `models_order`, `provider_order`, `preference_missed`, `reasoning_state`, `probe`, `panic`. Of `chosen`,
        /// `choice`; of `unknown`, `unknown_name` or `alias`; of `not_in_pool`, `not_in_pool` or `output_modality`.
        pub(crate) reason: &'static str = answer.reason,
        /// The figure or the pattern behind the reason, in words.
        pub(crate) detail: &'a str = &answer.detail,
        /// Milliseconds from the decision until it can be called again, with one decimal; `null` if it was not excluded or
        /// that time is not known.
        pub(crate) opens_in_ms: Option<Figure> = answer.opens_in.map(|wait| Figure::millis(wait.as_secs_f64())),
        /// How much worse it scored; `null` unless `reason` is `score` or `tie`, and for a candidate whose figures the
        /// record does not keep.
        pub(crate) margin: Option<MarginBody<'a>> =
            answer.margin.as_ref().map(|margin| MarginBody::new(margin, name(margin.to))),
        /// Changes of one figure each, everything else equal, the relatively smallest first; empty if no single one is
        /// enough.
        pub(crate) would_win_if: Vec<ChangeBody> = answer.would_win_if.iter().map(ChangeBody::new).collect(),
        /// Similar names, for an unknown one; absent without any.
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        pub(crate) suggestions: &'a [String] = &answer.suggestions,
        /// Attempts at the endpoint; absent without any.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub(crate) tried: Vec<TriedBody<'a>> = attempts.iter().filter(is_there).map(tried).collect(),
        /// The answer in one or two sentences.
        pub(crate) sentence: &'a str = &answer.sentence,
    }
}

view! {
    pub(crate) struct MarginBody<'a> {
        fn new(margin: &Margin, to: EndpointNames<'a>) {
            let term = |(name, difference)| TermBody { name, difference: Figure::significant(difference) };
        }

        /// Its score less that of the better candidate.
        pub(crate) difference: Figure = Figure::significant(margin.difference),
        /// Unit of `difference`, as `score_unit` of a candidate.
        #[cfg_attr(test, schemars(with = "crate::base::words::ScoreUnit"))]
        pub(crate) unit: &'static str = margin.unit.as_str(),
        /// The difference divided by the score of the better candidate, with six decimals.
        pub(crate) relative: Figure = Figure::rounded(margin.relative, 6),
        /// The better candidate.
        pub(crate) to: EndpointNames<'a> = to,
        /// The term of the score that differs most; `null` if none differs.
        pub(crate) dominant_term: Option<TermBody> = margin.most.map(term),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct TermBody {
    /// Name of the term.
    pub(crate) name: &'static str,
    /// Its value less that of the better candidate.
    pub(crate) difference: Figure,
}

view! {
    pub(crate) struct ChangeBody {
        /// Uses the names and units of `what_if`, so that clients can pass the change on to it.
        fn new(change: &Counterfactual) {
            let (name, unit, scale) = match change.figure {
                ChangedFigure::Price => ("price", "usd", 1.0),
                ChangedFigure::FirstToken => ("ttft_ms", "ms", 1e3),
                ChangedFigure::TokensPerSecond => ("tokens_per_second", "tok/s", 1.0),
                ChangedFigure::FailureProbability => ("failure_probability", "probability", 1.0),
                ChangedFigure::LatencyWeight => ("weights.latency", "share", 1.0),
                ChangedFigure::Quality => ("quality", "probability", 1.0),
                ChangedFigure::QualityWeight => ("weights.quality", "share", 1.0),
            };
        }

        /// The figure. `price`: expected cost of the request. The names are those of `what_if`.
        #[cfg_attr(test, schemars(with = "crate::base::words::Change"))]
        pub(crate) change: &'static str = name,
        /// Its value.
        pub(crate) from: Figure = Figure::significant(change.from * scale),
        /// The nearest value with which the endpoint would be the choice.
        pub(crate) to: Figure = Figure::significant(change.to * scale),
        /// Unit of both.
        #[cfg_attr(test, schemars(extend("enum" = ["usd", "ms", "tok/s", "probability", "share"])))]
        pub(crate) unit: &'static str = unit,
        /// `to` divided by `from`, less 1, with six decimals: −0.2 is a fifth less. `null` if it is not finite.
        pub(crate) relative: Figure = Figure::rounded(change.relative(), 6),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct TriedBody<'a> {
    /// Number of the attempt.
    pub(crate) n: u32,
    /// The HTTP status that the provider gave; `null` if it gave none.
    pub(crate) status: Option<u16>,
    /// How it failed, as in `attempts`; `null` if it completed.
    pub(crate) error_type: Option<&'a str>,
}
