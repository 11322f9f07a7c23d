//! "Why not X?" on the wire: how it is asked in a query, and the shape of the answer. Shared by preview and explain.

use actix_web::{HttpRequest, web::Query};
use pointsman_actors::{
    domain::{AttemptRecord, Catalog, EndpointId},
    explain::{Counterfactual, Figure as Changed, Margin, WhyNot},
};
use serde::{Deserialize, Serialize};

use super::{
    number::Figure,
    route_view::{Named, Places},
};
use crate::base::error::ApiError;

/// Longest name that may be asked about, characters.
const MOST_NAME_CHARS: usize = 256;

#[derive(Deserialize)]
struct Asked {
    why_not: Option<String>,
}

/// The name asked about in the query.
///
/// # Errors
/// 400 when it is empty or too long to be a name.
pub(crate) fn in_query(request: &HttpRequest) -> Result<Option<String>, ApiError> {
    let asked = Query::<Asked>::from_query(request.query_string()).ok().and_then(|asked| asked.into_inner().why_not);
    asked.map(checked).transpose()
}

/// A name that may be asked about.
pub(crate) fn checked(name: String) -> Result<String, ApiError> {
    let name = name.trim();
    let good = !name.is_empty() && name.chars().count() <= MOST_NAME_CHARS && !name.chars().any(char::is_control);
    let message = "'why_not' must name a model, a provider, or model@provider.";
    if good { Ok(name.to_owned()) } else { Err(ApiError::bad_query("why_not", message)) }
}

/// The answer.
#[derive(Serialize)]
pub(crate) struct WhyNotBody<'a> {
    asked: &'a str,
    verdict: &'static str,
    #[serde(flatten)]
    endpoint: Named<'a>,
    /// How many endpoints the name stands for; the one that came nearest to being the choice is told about.
    matched: usize,
    rank: Option<usize>,
    reason: &'static str,
    detail: &'a str,
    opens_in_ms: Option<Figure>,
    margin: Option<MarginBody<'a>>,
    would_win_if: Vec<ChangeBody>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    suggestions: &'a [String],
    /// The attempts that were made there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tried: Vec<TriedBody<'a>>,
    sentence: &'a str,
}

#[derive(Serialize)]
struct MarginBody<'a> {
    difference: Figure,
    unit: &'static str,
    relative: Figure,
    to: Named<'a>,
    dominant_term: Option<TermBody>,
}

#[derive(Serialize)]
struct TermBody {
    name: &'static str,
    difference: Figure,
}

#[derive(Serialize)]
struct ChangeBody {
    change: &'static str,
    from: Figure,
    to: Figure,
    unit: &'static str,
    relative: Figure,
}

#[derive(Serialize)]
struct TriedBody<'a> {
    n: u32,
    status: Option<u16>,
    error_type: Option<&'a str>,
}

impl<'a> WhyNotBody<'a> {
    /// The answer about a decision; `attempts` are those that followed from it.
    pub(crate) fn new(answer: &'a WhyNot, catalog: &'a Catalog, attempts: &'a [AttemptRecord]) -> WhyNotBody<'a> {
        let name = |(index, id): (u32, EndpointId)| Places(catalog).name(catalog.find(index, id));
        let there = |attempt: &&'a AttemptRecord| answer.about.is_some_and(|(index, _)| index == attempt.endpoint);
        let tried = |attempt: &'a AttemptRecord| TriedBody {
            n: attempt.n,
            status: attempt.status,
            error_type: attempt.error_type.as_deref(),
        };
        WhyNotBody {
            asked: &answer.asked,
            verdict: answer.verdict.as_str(),
            endpoint: answer.about.map(name).unwrap_or_default(),
            matched: answer.matched,
            rank: answer.rank,
            reason: answer.reason,
            detail: &answer.detail,
            opens_in_ms: answer.opens_in.map(|wait| Figure::millis(wait.as_secs_f64())),
            margin: answer.margin.as_ref().map(|margin| MarginBody::new(margin, name(margin.to))),
            would_win_if: answer.would_win_if.iter().map(ChangeBody::new).collect(),
            suggestions: &answer.suggestions,
            tried: attempts.iter().filter(there).map(tried).collect(),
            sentence: &answer.sentence,
        }
    }
}

impl<'a> MarginBody<'a> {
    fn new(margin: &Margin, to: Named<'a>) -> MarginBody<'a> {
        let term = |(name, difference)| TermBody { name, difference: Figure::significant(difference) };
        MarginBody {
            difference: Figure::significant(margin.difference),
            unit: margin.unit.as_str(),
            relative: Figure::rounded(margin.relative, 6),
            to,
            dominant_term: margin.most.map(term),
        }
    }
}

impl ChangeBody {
    /// In the names and units of `what_if`, so that it can be imagined as it stands.
    fn new(change: &Counterfactual) -> ChangeBody {
        let (name, unit, scale) = match change.figure {
            Changed::Price => ("price", "usd", 1.0),
            Changed::FirstToken => ("ttft_ms", "ms", 1e3),
            Changed::TokensPerSecond => ("tokens_per_second", "tok/s", 1.0),
            Changed::FailureProbability => ("failure_probability", "probability", 1.0),
            Changed::LatencyWeight => ("weights.latency", "share", 1.0),
        };
        ChangeBody {
            change: name,
            from: Figure::significant(change.from * scale),
            to: Figure::significant(change.to * scale),
            unit,
            relative: Figure::rounded(change.relative(), 6),
        }
    }
}
