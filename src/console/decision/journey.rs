//! The way of a request in one line: what was asked for, each endpoint that was called and how that ended, and what the
//! client got.

use maud::{Markup, html};

use crate::{
    api::{decisions::explain_view::ExplainBody, generations::attempt_view::AttemptBody},
    console::{format, words},
};

pub(super) fn section(body: &ExplainBody<'_>) -> Markup {
    html! {
        ol.journey aria-label="The way of the request" {
            li {
                small { "Asked for" }
                strong { (format::name(body.requested_model, 48)) }
                span.muted { (body.candidates_total) " candidates, " (body.excluded_total) " excluded" }
            }
            @for attempt in &body.attempts { (stop(attempt)) }
            (end(body))
        }
    }
}

fn stop(attempt: &AttemptBody<'_>) -> Markup {
    let (tone, sign) = words::outcome(attempt.outcome);
    html! {
        li.(tone) {
            small { @if attempt.reason == "first" { "First choice" } @else { (words::capitalised(&words::spaced(attempt.reason))) } }
            strong { (format::name(attempt.model, 48)) }
            span.at { "on " (format::name(attempt.provider_name, 32)) }
            span.(tone) {
                (sign) " " (words::spaced(attempt.outcome))
                @if let Some(status) = attempt.status.filter(|status| *status != 200) { " " (status) }
                span.muted { " after " (format::millis(Some(attempt.duration_ms as f64))) }
            }
        }
    }
}

/// What the client got.
fn end(body: &ExplainBody<'_>) -> Markup {
    let (tone, status) = words::status(body.status);
    html! {
        li.end.(tone) {
            small { "The client" }
            strong {
                @match body.status {
                    "completed" => "got the answer",
                    "failed" => "was shown a failure",
                    "cancelled" => "left",
                    _ => (status),
                }
            }
            @if let Some(latency) = body.latency_ms.filter(|_| body.status == "completed") {
                span.muted { "first output after " (format::millis(Some(latency as f64))) }
            }
            span.muted { (format::money(body.spent.ledger_cost.map(|cost| cost.0))) " charged" }
        }
    }
}
