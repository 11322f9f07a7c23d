//! The page "Why did it go there": one decision, from its explanation and its finished record.

pub(super) mod candidates;
mod excluded;
mod journey;
mod money;
mod question;
mod shadows;
mod waterfall;
mod why_not;

use actix_web::{HttpResponse, web};
use maud::{Markup, html};
use pointsman_config::TraceUrl;
use pointsman_dialect::percent;
use pointsman_domain::GenerationId;
use serde::Deserialize;

use super::{
    answer, format,
    layout::{Frame, Nav, api_line},
    visit::Visit,
    words,
};
use crate::{
    api::{
        decisions::{explain::Explanation, explain_view::ExplainBody, replay, route_view::EndpointNames, why_not_view},
        generations::{neighbours::Neighbours, trace_view::TraceContextBody},
    },
    base::error::ApiError,
    proxy::replay::ReplayResult,
};

#[derive(Deserialize)]
pub(super) struct Question {
    why_not: Option<String>,
    #[serde(default)]
    replay: bool,
    #[serde(default)]
    raw: bool,
}

/// Explains one decision; on request also why a named endpoint was not chosen, and whether a replay gives the same.
///
/// # Errors
/// 404 for an unknown id.
pub(super) async fn show(
    visit: Visit,
    id: web::Path<String>,
    question: web::Query<Question>,
) -> Result<HttpResponse, ApiError> {
    let (frame, worker, caller) = (&visit.frame, &visit.worker, &visit.caller);
    let question = question.into_inner();
    let why_not = question.why_not.filter(|name| !name.trim().is_empty());
    let why_not = why_not.as_deref().map(why_not_view::checked).transpose()?;
    let explanation = Explanation::of(worker, caller, Some(id.into_inner()), why_not).await?;
    let replayed = match question.replay {
        true => Some(replay::repeat(worker, caller, &explanation.generation).await?.0),
        false => None,
    };
    let body = explanation.body();
    let trace_url = worker.setup.config.console.trace_url.as_ref();
    let neighbours = Neighbours::of(worker, caller, &explanation.generation).await;
    let max_tokens = explanation.generation.decision.request.max_tokens;
    let replayed = replayed.as_ref();
    let content = Content { body: &body, neighbours, max_tokens, replayed, is_raw: question.raw, trace_url };
    Ok(answer::page(frame.page("Why did it go there", Some(Nav::Decisions), content.markup(frame))))
}

/// What the page shows.
struct Content<'a> {
    body: &'a ExplainBody<'a>,
    neighbours: Neighbours,
    /// The limit that the request set for its answer.
    max_tokens: Option<u32>,
    replayed: Option<&'a ReplayResult>,
    is_raw: bool,
    trace_url: Option<&'a TraceUrl>,
}

impl Content<'_> {
    fn markup(&self, frame: &Frame) -> Markup {
        let body = self.body;
        html! {
            p.crumbs {
                a href={ (frame.root) "decisions" } { "Decisions" } " / " code { (body.generation_id) }
                @if let Some(id) = self.neighbours.earlier { " · " (neighbour(id, "prev", "← earlier")) }
                @if let Some(id) = self.neighbours.later { " · " (neighbour(id, "next", "later →")) }
                " · " a href={ (frame.root) "try?" (question::query(body, self.max_tokens, &[])) } { "ask again in the playground" }
            }
            (self.head())
            (candidates::section(body))
            (why_not::section(body, self.max_tokens))
            (candidates::tried(body))
            (waterfall::section(body))
            (excluded::section(body))
            (shadows::section(body))
            (money::section(body))
            (self.replay())
            (self.raw())
            (api_line(&format!("/api/v1/route/explain?generation_id={}", body.generation_id)))
        }
    }

    /// The reason, and the facts that a reader needs first.
    fn head(&self) -> Markup {
        let body = self.body;
        let parameters = &body.parameters;
        let (tone, status) = words::status(body.status);
        html! {
            h1.reason { strong { (body.summary) } }
            (journey::section(body))
            dl.strip {
                div { dt { "Status" } dd { span.tag.(tone) { (status) } @if body.hedged { " " span.tag.info { "hedged" } } @if body.explored { " " span.tag.info { "explored" } } } }
                div { dt { "Asked by" } dd { (asked_by(body)) } }
                div { dt { "Requested" } dd { (format::name(body.requested_model, 48)) } }
                @if let Some(split) = &body.split { div { dt { "Part" } dd { (split.part) " " span.muted { (format::percent(split.probability.value())) ", by " (split.sticky) } } } }
                div { dt { "Served" } dd { (served(body)) } }
                div { dt { "Objective" } dd { (parameters.objective.value) " " span.muted { "from " (words::source(parameters.objective.source)) } } }
                div { dt { "Code" } dd { code { (body.decision_code) } } }
                div { dt { "First token" } dd { (format::millis(body.latency_ms.map(|ms| ms as f64))) } }
                div { dt { "Whole answer" } dd { (format::millis(body.caller.total_ms.map(|ms| ms as f64))) @if body.streamed { ", streamed" } @else { ", not streamed" } } }
                div { dt { "Tokens" } dd { (format::count(body.usage.prompt_tokens)) " in, " (format::count(body.usage.completion_tokens)) " out" @if body.usage.estimated { " " span.muted { "estimated" } } } }
                div { dt { "Cost" } dd { (format::money(body.spent.ledger_cost.map(|cost| cost.0))) } }
                @if let Some(trace) = &body.trace_context { div.long { dt { "Trace" } dd { (self.trace(trace)) } } }
                div { dt { "At" } dd { (format::time(&body.created_at)) " " (format::zone()) } }
                div.long { dt { "Request id" } dd { code { (format::name(body.caller.request_id, 48)) } } }
                @if let Some(session) = body.caller.session_id { div { dt { "Conversation" } dd { (format::name(session, 48)) } } }
            }
            ul.said aria-label="The reason in figures" { @for fact in facts(body.decision_reason) { li { (fact) } } }
            p.versions.muted {
                "Seed " code { (body.route_seed.0) } " · snapshot " (body.snapshot_version) " · catalog " (body.catalog_version)
                " · policy " (body.policy_version) " · decided for " (body.estimate.prompt_tokens) " prompt and "
                (body.estimate.completion_tokens) " completion tokens"
                @if !body.dropped_parameters.is_empty() {
                    " · dropped parameters: "
                    @for (n, name) in body.dropped_parameters.iter().enumerate() { @if n > 0 { ", " } code { (format::name(name, 40)) } }
                }
                @if !body.emulated_parameters.is_empty() {
                    " · emulated parameters: "
                    @for (n, name) in body.emulated_parameters.iter().enumerate() { @if n > 0 { ", " } code { (format::name(name, 40)) } }
                }
            }
        }
    }

    /// The id of the trace, a link if it is known where traces can be looked at.
    fn trace(&self, trace: &TraceContextBody) -> Markup {
        let id = html! { code { (trace.trace_id) } };
        html! {
            @if let Some(url) = self.trace_url {
                a href=(url.of(&trace.trace_id)) rel="noreferrer" { (id) }
            } @else { (id) }
            @if trace.span_id.is_none() {
                " " span.muted {
                    "of the client, without a span of this call"
                    @if trace.sampled == Some(false) { "; the client did not mark it as sampled" }
                }
            }
        }
    }

    fn replay(&self) -> Markup {
        html! {
            h2 #replay { "Replay" }
            p.muted { "Makes the decision again from its record only: the same inputs, the same seed, no live state." }
            form.inline method="get" action="#replay" {
                input type="hidden" name="replay" value="true";
                button type="submit" { "Replay the decision" }
                span.muted { "Offline: " code { "pointsman replay " (self.body.generation_id) } }
            }
            @if let Some(result) = self.replayed {
                @if result.identical {
                    p.verdict.good role="status" { "Identical, bit for bit: the same scores, the same order, the same choice." }
                } @else {
                    p.verdict.bad role="status" { "The replay differs from the record." }
                    pre tabindex="0" { (result) }
                }
            }
        }
    }

    fn raw(&self) -> Markup {
        html! {
            h2 #raw { "Record" }
            @if self.is_raw {
                pre tabindex="0" { (format::json(self.body)) }
            } @else {
                p { a.button href="?raw=true#raw" { "Show the whole record as JSON" } }
            }
        }
    }
}

/// The reason, word for word, as a list of its clauses.
fn facts(reason: &str) -> Vec<String> {
    let clauses = reason.trim_end_matches('.').split("; ").flat_map(|clause| clause.split(". "));
    clauses.map(words::capitalised).collect()
}

/// Key, account and team, each with a link.
fn asked_by(body: &ExplainBody<'_>) -> Markup {
    let caller = &body.caller;
    html! {
        @if let Some(key) = caller.key {
            a href={ "../decisions?key=" (percent::encoded(key)) } { (format::name(key, 32)) }
        } @else { span.muted { "a removed key" } }
        @if let Some(account) = caller.account.filter(|account| Some(*account) != caller.key) { " → " a href="../accounts" { (format::name(account, 32)) } }
        @if let Some(team) = caller.team { " → " a href="../accounts" { "team " (format::name(team, 32)) } }
    }
}

/// Model and provider that served, each with a link.
fn served(body: &ExplainBody<'_>) -> Markup {
    let served = body.attempts.iter().rfind(|attempt| Some(attempt.provider_name) == body.provider_name);
    html! {
        @if let Some(model) = body.model {
            a href={ "../decisions?model=" (percent::encoded(model)) } { (format::name(model, 48)) }
        } @else { (format::none()) }
        @if let (Some(provider), Some(attempt)) = (body.provider_name, served) {
            " on " a href={ "../providers#p-" (attempt.provider_slug) } { (format::name(provider, 32)) }
        }
    }
}

fn neighbour(id: GenerationId, relation: &str, text: &str) -> Markup {
    html! { a rel=(relation) href={ "../decisions/" (id) } { (text) } }
}

/// The model and the provider of an endpoint as text.
fn endpoint_text(names: &EndpointNames<'_>) -> String {
    match (names.model, names.provider_name) {
        (Some(model), Some(provider)) => format!("{model} on {provider}"),
        _ => "a removed endpoint".to_owned(),
    }
}
