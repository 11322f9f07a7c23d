//! The table of endpoints with their measurements, on the overview and on the cards of providers.

use maud::{Markup, html};

use pointsman_dialect::percent;

use super::{format, layout::data_table, words};
use crate::api::{
    admin::series::EndpointTotals,
    health::health_view::{EndpointHealthBody, MeasuredBody},
    number::Figure,
};

/// Rows shown at once; further ones are counted.
const MOST_ROWS: usize = 60;

/// Which columns the table has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Columns<'a> {
    /// With the provider, the share of the traffic, and what was spent within the hour.
    OfAll(&'a EndpointTotals),
    /// Without.
    OfProvider,
}

impl Columns<'_> {
    const fn are_of_all(self) -> bool {
        matches!(self, Columns::OfAll(_))
    }
}

/// The table. Endpoints stand in the order they are given in.
pub(super) fn endpoint_table(endpoints: &[&EndpointHealthBody<'_>], caption: &str, columns: Columns<'_>) -> Markup {
    let total: u64 = endpoints.iter().map(|endpoint| endpoint.measured.requests).sum();
    let of_all = columns.are_of_all();
    if endpoints.is_empty() {
        return html! { p.empty { "No endpoint is on." } };
    }
    html! {
        (data_table(html! { (caption) },
            html! {
                th scope="col" { "Endpoint" } th scope="col" { "State" } th scope="col" { "Circuit" }
                th.r scope="col" { "Requests" }
                @if of_all { th.r scope="col" { "Share" } }
                th.r scope="col" { "Success" } th.r scope="col" { "First token p50" } th.r scope="col" { "p90" }
                th.r scope="col" { "Tokens/s" }
                @if of_all { th.r scope="col" title="Spent in the last hour" { "Cost, 1 h" } }
                th.r scope="col" { "In flight" } th scope="col" { "Last error" }
            },
            html! { @for endpoint in endpoints.iter().take(MOST_ROWS) { (row(endpoint, total, columns)) } }))
        @if endpoints.len() > MOST_ROWS { p.muted { "and " (endpoints.len() - MOST_ROWS) " more" } }
    }
}

fn row(endpoint: &EndpointHealthBody<'_>, total: u64, columns: Columns<'_>) -> Markup {
    let measured = &endpoint.measured;
    let share = (total > 0).then(|| measured.requests as f64 / total as f64);
    let number = |figure: Option<Figure>| figure.map(Figure::value);
    html! {
        tr data-row {
            th.endpoint scope="row" {
                a.quiet href={ "decisions?model=" (percent::encoded(endpoint.model)) "&provider=" (percent::encoded(endpoint.provider_slug)) }
                    title="Decisions that this endpoint served" { (format::name(endpoint.model, 56)) }
                @if columns.are_of_all() { " " span.at { "on " (format::name(endpoint.provider_name, 32)) } }
                @if !endpoint.variant.is_empty() { " " span.tag { (endpoint.variant) } }
            }
            td.t { span.tag.(words::condition(measured.state)) { (measured.state) } @if measured.silent { " " span.tag.warn { "silent" } } }
            td.t { (circuit(measured)) }
            td.r { (format::count(measured.requests)) }
            @if columns.are_of_all() { td.r { (format::share(share)) } }
            td.r { (format::share(number(measured.success_rate))) }
            td.r { (format::millis(number(measured.ttft_ms.p50))) }
            td.r { (format::millis(number(measured.ttft_ms.p90))) }
            td.r { (format::figure(number(measured.throughput_tps.p50), 1)) }
            @if let Columns::OfAll(spent) = columns { td.r { (cost(spent, endpoint)) } }
            td.r { (measured.in_flight) }
            td.t {
                @if let Some(error) = &measured.last_error {
                    (words::spaced(error.error_type)) @if let Some(status) = error.status { " " (status) } " " span.muted { (format::clock(&error.at)) }
                } @else { (format::none()) }
            }
        }
    }
}

/// What the calls of an endpoint cost within the hour.
fn cost(spent: &EndpointTotals, endpoint: &EndpointHealthBody<'_>) -> Markup {
    let of = spent.get(&(endpoint.model.into(), endpoint.provider_slug.into()));
    html! { @match of { Some(sums) => (format::sum(sums.spent, sums.unknown_costs)), None => (format::none()) } }
}

/// The state of a circuit breaker, and until when.
pub(super) fn circuit(measured: &MeasuredBody) -> Markup {
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
