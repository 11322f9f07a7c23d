//! The overview: one sentence about the gateway, its figures of the last hour, what runs now, and all endpoints, worst first.

use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};

use super::{
    answer,
    decisions::Filters,
    first_steps, format,
    last_hour::LastHour,
    layout::{Frame, Nav, api_line},
    measured::{self, Columns},
    refused,
    timeline::{self, Timeline},
    visitor::Visitor,
};
use crate::{
    api::{
        admin::{
            running::{RunningBody, RunningRequestBody},
            series,
            status::RefusedBody,
            verdict_view::{Severity, VerdictBody},
        },
        health::stats,
        models::measurements::Measurements,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Seconds between two refreshes.
const REFRESH: u32 = 5;
/// Most running calls on the page.
const MOST_RUNNING: usize = 10;

/// Shows the overview.
///
/// # Errors
/// 503 when the statistics actor does not answer in time.
pub(super) async fn show(visitor: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let frame = Frame::of(&request);
    let measurements = Measurements::now(&worker).await?;
    let verdict = VerdictBody::now(&worker).await;
    let (hour, running) = (LastHour::now(&worker).await?, RunningBody::now(&worker));
    let filters = Filters::parse(request.query_string());
    let has_samples = filters.get("done") == Some("samples");
    let timeline = Timeline::read(&worker, &visitor.caller, filters.get("range")).await;
    let spent = series::endpoint_totals(&worker).await?;
    let snapshot = worker.setup.published.snapshot();
    let bodies = stats::endpoint_bodies(&snapshot, &measurements, None);
    let mut endpoints: Vec<_> = bodies.iter().collect();
    endpoints.sort_by_key(|endpoint| std::cmp::Reverse(measured::trouble(&endpoint.measured)));
    let healthy = endpoints.iter().filter(|endpoint| endpoint.measured.state == "healthy").count();
    let uncalled = endpoints.iter().filter(|endpoint| endpoint.measured.state == "unknown").count();
    let most_in_flight = worker.setup.config.limits.concurrency;
    let content = html! {
        h1 { "Overview" }
        @if has_samples { p.done role="status" { "The sample calls are on their way: the page shows them as they end." } }
        div #overview data-refresh=(REFRESH) {
            (sentence(&verdict))
            dl.tiles {
                (hour.tiles())
                div { dt { "In flight" } dd { (running.in_flight) @if let Some(most) = most_in_flight { small { " of " (most) } } } }
                div { dt { "Endpoints healthy" } dd {
                    (healthy) small { " of " (endpoints.len()) }
                    @if uncalled > 0 { small.below { (uncalled) " not called yet" } }
                } }
            }
            (refused::band(&RefusedBody::all(&worker)))
            @if hour.is_first() && running.total == 0 && !has_samples { (first_steps::show(&frame, &visitor, &worker)) }
            @else {
                (charts(&timeline, filters.get("range")))
                (now_running(&running))
                h2 { "Endpoints " span.muted { (endpoints.len()) } }
                (measured::endpoint_table(&endpoints, "Endpoints, those in trouble first", Columns::OfAll(&spent)))
            }
        }
        (api_line(&timeline.as_ref().map_or("/api/v1/admin/series?span=1h".to_owned(), Timeline::api)))
    };
    Ok(answer::page(frame.page("Overview", Some(Nav::Overview), content)))
}

fn charts(timeline: &Result<Timeline, ApiError>, asked: Option<&str>) -> Markup {
    html! {
        (timeline::ranges(timeline.as_ref().map_or(asked, |timeline| Some(timeline.word()))))
        @match timeline {
            Ok(timeline) => (timeline.show()),
            Err(error) => { p.empty { (error.message()) } },
        }
    }
}

/// The verdict, and whatever else needs attention.
fn sentence(verdict: &VerdictBody) -> Markup {
    let others = verdict.notices.iter().skip(usize::from(verdict.severity > Severity::Info));
    html! {
        p.verdict.(class(verdict.severity)) {
            @if verdict.severity > Severity::Info { strong { (word(verdict.severity)) } " " }
            (verdict.sentence)
        }
        ul.notices {
            @for notice in others { li.(class(notice.severity)) { strong { (word(notice.severity)) } " " (notice.sentence) } }
        }
    }
}

const fn class(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "good",
        Severity::Info => "info",
        Severity::Warning => "warn",
        Severity::Critical => "bad",
    }
}

const fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "Good:",
        Severity::Info => "Note:",
        Severity::Warning => "Warning:",
        Severity::Critical => "Critical:",
    }
}

fn now_running(running: &RunningBody) -> Markup {
    html! {
        h2 { "Running now " span.muted { (running.total) } }
        @if running.data.is_empty() {
            p.muted { "No call is running. A call is listed from its admission to its end." }
        } @else {
            div.scroll tabindex="0" {
                table {
                    caption.visually-hidden { "Calls in progress, oldest first" }
                    thead { tr {
                        th scope="col" { "Age" } th scope="col" { "Phase" } th scope="col" { "Requested" } th scope="col" { "Endpoint" } th scope="col" { "Key" } th.r scope="col" { "First token" } th.r scope="col" { "Prompt tokens" } th.r scope="col" { "Tokens so far" }
                    } }
                    tbody { @for call in running.data.iter().take(MOST_RUNNING) { (row(call)) } }
                }
            }
            @if running.total > MOST_RUNNING { p.muted { "And " (running.total - MOST_RUNNING) " more." } }
        }
    }
}

fn row(call: &RunningRequestBody) -> Markup {
    html! {
        tr data-row {
            td {
                // A stream has a page once its answer began; a plain answer only at its end.
                @if call.phase == "streaming" { a href={ "decisions/" (call.id) } { (format::duration(call.age_ms as f64)) } }
                @else { (format::duration(call.age_ms as f64)) }
            }
            td { (call.phase) }
            td { @match &call.requested_model { Some(model) => (format::name(model, 40)), None => (format::none()) } }
            td {
                @match (&call.model, &call.provider_slug) {
                    (Some(model), Some(provider)) => { (format::name(model, 40)) " " span.at { "on " (format::name(provider, 24)) } }
                    _ => (format::none()),
                }
                @if call.attempts.len() > 1 { " " span.at { "raced by another" } }
                @if call.failed_attempts > 0 { " " span.at { "after " (call.failed_attempts) " failed" } }
            }
            td { @match &call.key { Some(key) => (format::name(key, 24)), None => (format::none()) } }
            td.r { @match call.first_token_ms { Some(first) => (format::duration(first as f64)), None => (format::none()) } }
            td.r { @match call.prompt_tokens { Some(tokens) => (format::count(tokens)), None => (format::none()) } }
            td.r { @match call.output_tokens { Some(tokens) => (format::count(tokens)), None => (format::none()) } }
        }
    }
}
