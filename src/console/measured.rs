//! The table of endpoints with their measurements, on the overview and on the cards of providers.

use maud::{Markup, html};

use super::{format, words};
use crate::api::{
    health_view::{EndpointHealthBody, MeasuredBody},
    number::Figure,
};

/// Rows shown at once; further ones are counted.
const MOST_ROWS: usize = 60;

/// Which columns the table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    /// With the provider and the share of the traffic.
    OfAll,
    /// Without.
    OfProvider,
}

/// The table. Endpoints stand in the order they are given in.
pub(super) fn endpoint_table(endpoints: &[&EndpointHealthBody<'_>], caption: &str, columns: Columns) -> Markup {
    let total: u64 = endpoints.iter().map(|endpoint| endpoint.measured.requests).sum();
    let of_all = columns == Columns::OfAll;
    if endpoints.is_empty() {
        return html! { p.empty { "No endpoint is on." } };
    }
    html! {
        div.scroll.hide-caption tabindex="0" {
            table {
                caption { (caption) }
                thead {
                    tr {
                        th scope="col" { "Endpoint" } th scope="col" { "State" } th scope="col" { "Circuit" }
                        th.r scope="col" { "Requests" }
                        @if of_all { th.r scope="col" { "Share" } }
                        th.r scope="col" { "Success" } th.r scope="col" { "First token p50" } th.r scope="col" { "p90" }
                        th.r scope="col" { "Tokens/s" } th.r scope="col" { "In flight" } th scope="col" { "Last error" }
                    }
                }
                tbody { @for endpoint in endpoints.iter().take(MOST_ROWS) { (row(endpoint, total, columns)) } }
            }
        }
        @if endpoints.len() > MOST_ROWS { p.muted { "and " (endpoints.len() - MOST_ROWS) " more" } }
    }
}

fn row(endpoint: &EndpointHealthBody<'_>, total: u64, columns: Columns) -> Markup {
    let measured = &endpoint.measured;
    let share = (total > 0).then(|| measured.requests as f64 / total as f64);
    let number = |figure: Option<Figure>| figure.map(Figure::value);
    html! {
        tr data-row {
            th.endpoint scope="row" {
                (format::name(endpoint.model, 56))
                @if columns == Columns::OfAll { " " span.at { "on " (format::name(endpoint.provider_name, 32)) } }
                @if !endpoint.variant.is_empty() { " " span.tag { (endpoint.variant) } }
            }
            td.t { span.tag.(words::condition(measured.state)) { (measured.state) } @if measured.silent { " " span.tag.warn { "silent" } } }
            td.t { (circuit(measured)) }
            td.r { (format::count(measured.requests)) }
            @if columns == Columns::OfAll { td.r { (format::share(share)) } }
            td.r { (format::share(number(measured.success_rate))) }
            td.r { (format::millis(number(measured.ttft_ms.p50))) }
            td.r { (format::millis(number(measured.ttft_ms.p90))) }
            td.r { (format::figure(number(measured.throughput_tps.p50), 1)) }
            td.r { (measured.in_flight) }
            td.t {
                @if let Some(error) = &measured.last_error {
                    (words::spaced(error.error_type)) @if let Some(status) = error.status { " " (status) } " " span.muted { (format::clock(&error.at)) }
                } @else { (format::none()) }
            }
        }
    }
}

fn circuit(measured: &MeasuredBody) -> Markup {
    html! {
        @if measured.circuit == "closed" { span.muted { "closed" } } @else { span.tag.(words::circuit(measured.circuit)) { (words::spaced(measured.circuit)) } }
        @if let Some(until) = measured.open_until.as_ref().or(measured.cooldown_until.as_ref()) { " " span.muted { "until " (format::clock(until)) } }
    }
}

/// How urgently an endpoint needs attention: the greater, the higher it stands on the overview.
pub(super) fn trouble(measured: &MeasuredBody) -> (u8, u64) {
    let state = match measured.state {
        "down" => 3,
        "degraded" => 2,
        "healthy" => 1,
        _ => 0,
    };
    (state, measured.requests)
}
