//! "Why not …": the form, and the answer about one endpoint.

use std::collections::BTreeSet;

use maud::{Markup, html};
use pointsman_dialect::percent;

use super::{endpoint_text, question};
use crate::{
    api::decisions::{
        explain_view::ExplainBody,
        route_view::EndpointNames,
        why_not_view::{ChangeBody, WhyNotBody},
    },
    console::{format, words},
};

/// Endpoints that the field suggests.
const MOST_SUGGESTED: usize = 100;

/// The form, and the answer; `max_tokens` is the limit of the request.
pub(super) fn section(body: &ExplainBody<'_>, max_tokens: Option<u32>) -> Markup {
    let names = body.candidates.iter().map(|candidate| &candidate.endpoint);
    let names = names.chain(body.excluded.iter().map(|excluded| &excluded.endpoint));
    let suggested: BTreeSet<String> = names.filter_map(qualified).collect();
    html! {
        h2 #why-not { "Why not …" }
        form.inline method="get" action="#why-not" {
            label for="why-not-name" { "Model, provider or model@provider" }
            input #why-not-name name="why_not" list="endpoints" size="36" maxlength="256" data-filter required
                value=[body.why_not.as_ref().map(|answer| answer.asked)];
            datalist #endpoints { @for name in suggested.iter().take(MOST_SUGGESTED) { option value=(name) {} } }
            button type="submit" { "Ask" }
        }
        @if let Some(answer) = &body.why_not { (said(answer, |change| question::query(body, max_tokens, change))) }
    }
}

/// The question about one endpoint, as a link beside its name.
pub(super) fn ask_why_not(names: &EndpointNames<'_>) -> Markup {
    html! {
        @if let Some(name) = qualified(names) {
            " " a.ask href={ "?why_not=" (percent::encoded(&name)) "#why-not" } aria-label={ "Why not " (name) "?" } { "why not?" }
        }
    }
}

/// The answer. `question` gives the query of the playground for the same question with a change.
fn said(answer: &WhyNotBody<'_>, question: impl Fn(&[(&str, String)]) -> String) -> Markup {
    html! {
        div.card.answer role="status" {
            p.lead { (answer.sentence) }
            @if let Some(margin) = &answer.margin {
                p.muted {
                    "Behind " (endpoint_text(&margin.to)) " by " (format::percent(margin.relative.value().abs()))
                    @if let Some(term) = &margin.dominant_term { ", most of it " (words::spaced(term.name)) }
                    "."
                }
            }
            @if !answer.would_win_if.is_empty() {
                h3 { "It would win with one of these changes" }
                ul {
                    @for change in &answer.would_win_if {
                        li {
                            (changed(change))
                            @if let Some(fields) = tried_in_the_playground(answer, change) {
                                " " a.ask href={ "../try?" (question(&fields)) } { "try it now" }
                            }
                        }
                    }
                }
            }
            @if !answer.suggestions.is_empty() {
                p { "Similar names: " @for (n, name) in answer.suggestions.iter().enumerate() { @if n > 0 { ", " } code { (format::name(name, 60)) } } }
            }
        }
    }
}

fn changed(change: &ChangeBody) -> Markup {
    let name = match change.change {
        "price" => "expected cost",
        "ttft_ms" => "first token",
        "tokens_per_second" => "tokens per second",
        "failure_probability" => "failures",
        "quality" => "quality",
        "weights.quality" => "weight of quality",
        _ => "weight of latency",
    };
    let text = |value: f64| match change.unit {
        "usd" => format::estimated_dollars(value),
        "ms" => format::duration(value),
        "probability" | "share" => format::percent(value),
        _ => format!("{value:.1} {}", change.unit),
    };
    html! { (name) " " strong { (text(change.to.value())) } " instead of " (text(change.from.value())) }
}

/// The fields of the playground for this change.
fn tried_in_the_playground(answer: &WhyNotBody<'_>, change: &ChangeBody) -> Option<[(&'static str, String); 2]> {
    let to = change.to.value();
    let (field, value) = match change.change {
        "price" if change.from.value() > 0.0 => ("if_price", to / change.from.value()),
        "ttft_ms" => ("if_ttft_ms", to),
        "tokens_per_second" => ("if_tokens_per_second", to),
        "failure_probability" => ("if_failure", to),
        "quality" => ("if_known_quality", to),
        "weights.latency" => ("if_latency", to),
        "weights.quality" => ("if_quality", to),
        _ => return None,
    };
    Some([("if_endpoint", qualified(&answer.endpoint)?), (field, value.to_string())])
}

fn qualified(names: &EndpointNames<'_>) -> Option<String> {
    Some(format!("{}@{}", names.model?, names.provider_slug?))
}
