//! The attempts as lanes on a common axis of time.

use maud::{Markup, html};

use crate::{
    api::{decisions::explain_view::ExplainBody, generations::attempt_view::AttemptBody},
    console::{
        format,
        svg::{self, Caption, Span},
        words,
    },
};

/// Phases with their classes.
const PHASES: [(&str, &str); 7] = [
    ("t6", "gateway"),
    ("queue", "queue"),
    ("t5", "connect"),
    ("t3", "TLS"),
    ("t2", "wait for first byte"),
    ("wait2", "wait for first token"),
    ("t1", "answer"),
];

pub(super) fn section(body: &ExplainBody<'_>) -> Markup {
    let end = |attempt: &AttemptBody<'_>| (attempt.started_ms + attempt.duration_ms) as f64;
    let most = body.attempts.iter().map(end).chain(body.latency_ms.map(|ms| ms as f64)).fold(1.0, f64::max);
    let client = body.latency_ms.map(|ms| ("client", ms as f64));
    html! {
        h2 { "Waterfall" }
        @if body.attempts.is_empty() {
            p.empty { "No endpoint was called." }
        } @else {
            ul.legend {
                @for (class, name) in PHASES { li { svg aria-hidden="true" viewBox="0 0 12 12" { rect class=(class) width="12" height="12" rx="2" {} } (name) } }
                @if client.is_some() { li { svg aria-hidden="true" viewBox="0 0 12 12" { line.client x1="6" x2="6" y1="0" y2="12" {} } "first output to the client" } }
            }
            div.scroll.hide-caption tabindex="0" {
                table.lanes {
                    caption { "Attempts in time since the request was accepted" }
                    thead { tr { th scope="col" { "Attempt" } th.lane scope="col" { (svg::axis(most, format::duration)) } th.r scope="col" { "Took" } th scope="col" { "Outcome" } } }
                    tbody { @for attempt in &body.attempts { (lane(attempt, client, most)) } }
                }
            }
        }
    }
}

fn lane(attempt: &AttemptBody<'_>, client: Option<(&str, f64)>, most: f64) -> Markup {
    let spans = spans(attempt);
    let said: Vec<&str> = spans.iter().map(|span| span.title.as_str()).collect();
    let title = format!("Attempt {} at {} on {}", attempt.n, attempt.model, attempt.provider_name);
    let markers: Vec<(&str, f64)> = client.into_iter().collect();
    let (class, sign) = words::outcome(attempt.outcome);
    html! {
        tr {
            th.endpoint scope="row" {
                (attempt.n) ". " (format::name(attempt.model, 48)) " " span.at { "on " (format::name(attempt.provider_name, 32)) }
                @if attempt.reason != "first" { " " span.tag { (words::spaced(attempt.reason)) } }
            }
            td.lane { (svg::lane(Caption { title: &title, description: &said.join(", ") }, &spans, &markers, most)) }
            td.r { (format::millis(Some(attempt.duration_ms as f64))) }
            td.t {
                span.(class) { (sign) " " (words::spaced(attempt.outcome)) }
                @if let Some(status) = attempt.status.filter(|status| *status != 200) { " " span.muted { (status) } }
                @if let Some(cause) = attempt.cause { " " span.muted { (words::spaced(cause)) } }
            }
        }
    }
}

/// The phases of an attempt. Together they end where the attempt ends.
fn spans(attempt: &AttemptBody<'_>) -> Vec<Span> {
    let start = attempt.started_ms as f64;
    let end = start + attempt.duration_ms as f64;
    let queued = start - attempt.queue_ms as f64;
    let at = |since_start: Option<u64>| since_start.map(|ms| (start + ms as f64).min(end));
    let connected = (start + attempt.connect_ms.unwrap_or(0) as f64).min(end);
    let secured = (connected + attempt.tls_ms.unwrap_or(0) as f64).min(end);
    let first_byte = at(attempt.first_byte_ms).map_or(end, |ms| ms.max(secured));
    let first_token = at(attempt.first_token_ms).map_or(first_byte, |ms| ms.max(first_byte));
    // Without a first token, what follows the first byte is an error body or an answer that broke off.
    let gateway_end = if attempt.n == 1 { queued } else { 0.0 };
    let bounds = [
        (0.0, gateway_end),
        (queued, start),
        (start, connected),
        (connected, secured),
        (secured, first_byte),
        (first_byte, first_token),
        (first_token, end),
    ];
    let spans = PHASES.into_iter().zip(bounds).filter(|(_, (start, end))| end > start);
    spans
        .map(|((class, name), (start, end))| Span {
            class,
            start,
            end,
            title: format!("{name} {}", format::duration(end - start)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{route_samples::generation, samples::catalog};

    #[test]
    fn the_phases_of_an_attempt_follow_each_other_and_end_with_it() {
        let record = generation(&catalog()).attempts[0].clone();
        let spans = spans(&AttemptBody::new(&record));
        let own: Vec<&Span> = spans.iter().filter(|span| span.class != "t6" && span.class != "queue").collect();
        assert!(own.windows(2).all(|pair| (pair[0].end - pair[1].start).abs() < 1e-9), "{own:?}");
        let took: f64 = own.iter().map(|span| span.end - span.start).sum();
        assert!((took - record.duration_ms as f64).abs() <= 1.0, "{own:?}");
        assert!((own[0].start - record.started_ms as f64).abs() < 1e-9);
    }
}
