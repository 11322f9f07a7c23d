//! Providers: a table with one row each, and on demand a card with the circuit breaker, the errors and the endpoints.

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::{
    answer, breakers, format,
    layout::{Nav, api_line, data_table},
    measured::{self, Columns},
    svg,
    svg::{Caption, Segment},
    visit::Visit,
    words,
};
use crate::{
    api::{
        admin::status::{ProviderBody, StatusBody},
        health::{
            gateway_health,
            health_view::{EndpointHealthBody, ErrorsBody, MeasuredBody, ProviderHealthBody},
            stats,
        },
        models::measurements::Measurements,
        number::Figure,
    },
    base::error::ApiError,
};

/// Seconds between two refreshes.
const REFRESH: u32 = 5;

/// Shows all providers.
///
/// # Errors
/// 503 when the statistics actor does not answer in time.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let measurements = Measurements::now(worker).await?;
    let status = StatusBody::now(worker).await;
    let snapshot = worker.setup.published.snapshot();
    let endpoints = stats::endpoint_bodies(&snapshot, &measurements, None);
    let providers = gateway_health::provider_bodies(worker, &measurements, None);
    let (off, mut on): (Vec<_>, Vec<_>) = providers.into_iter().partition(|provider| provider.measured.state == "off");
    // Providers in trouble come first. The others keep their order, so that their cards stay in place.
    on.sort_by_key(|provider| std::cmp::Reverse(measured::trouble(&provider.measured).0));
    let content = html! {
        h1 { "Providers" }
        div #board data-refresh=(REFRESH) {
            @if on.is_empty() {
                p.empty { "No provider is on. A provider is on when its key is set, see the reasons below." }
            }
            @let places = |slug: &str| status.providers.iter().find(|places| places.slug == slug);
            @if !on.is_empty() { (table(&on, places)) }
            div.cards {
                @for provider in &on {
                    @let own: Vec<_> = endpoints.iter().filter(|endpoint| endpoint.provider_slug == provider.slug).collect();
                    (card(provider, places(provider.slug), &own))
                }
            }
            (switched_off(&off))
        }
        (api_line("/api/v1/health/providers"))
    };
    Ok(answer::page(frame.page("Providers", Some(Nav::Providers), content)))
}

/// One row for each provider. Its name leads to its card.
fn table<'p>(providers: &[ProviderHealthBody<'_>], places: impl Fn(&str) -> Option<&'p ProviderBody<'p>>) -> Markup {
    let number = |figure: Option<Figure>| figure.map(Figure::value);
    html! {
        (data_table("Providers, those in trouble first",
            html! {
                th scope="col" { "Provider" } th scope="col" { "State" } th scope="col" { "Circuit" } th.r scope="col" data-sort { "Requests" } th.r scope="col" data-sort { "Answered" }
                th.r scope="col" data-sort { "First token p50" } th.r scope="col" data-sort { "Tokens/s" } th.r scope="col" { "In flight" } th scope="col" { "Last error" }
            },
            html! {
                @for provider in providers {
                    @let of = &provider.measured;
                    tr data-row {
                        th scope="row" { a href={ "#p-" (provider.slug) } { (format::name(provider.name, 40)) } @if provider.name != provider.slug { " " code.muted { (provider.slug) } } }
                        td.t { span.tag.(words::condition(of.state)) { (of.state) } @if of.silent { " " span.tag.warn { "silent" } } }
                        td.t { (measured::circuit(of)) }
                        td.r { (format::count(of.requests)) }
                        td.r { (format::share(number(of.success_rate))) }
                        td.r { (format::millis(number(of.ttft_ms.p50))) }
                        td.r { (format::figure(number(of.throughput_tps.p50), 0)) }
                        td.r { (of.in_flight) @if let Some(places) = places(provider.slug) { span.muted { " of " (places.most) } } }
                        td.t { @match &of.last_error {
                            Some(error) => { (words::spaced(error.error_type)) @if let Some(status) = error.status { " " (status) } " " span.muted { (format::clock(&error.at)) } },
                            None => (format::none()),
                        } }
                    }
                }
            }))
    }
}

fn card(
    provider: &ProviderHealthBody<'_>,
    places: Option<&ProviderBody<'_>>,
    endpoints: &[&EndpointHealthBody<'_>],
) -> Markup {
    let measured = &provider.measured;
    html! {
        article.card.provider aria-labelledby={ "p-" (provider.slug) } {
            header {
                h2 id={ "p-" (provider.slug) } { (format::name(provider.name, 40)) }
                code.muted { (provider.slug) }
                span.tag.(words::condition(measured.state)) { (measured.state) }
                @if measured.silent { span.tag.warn { "silent" } }
                @if let Some(address) = places.and_then(|places| places.address.as_deref()) { code.muted.address { (address) } }
                @else { span.muted.address { "simulated" } }
            }
            @if let Some(reason) = &provider.reason { p.warn { (reason) } }
            details open[measured.state == "down"] {
                summary { "Breaker, errors and " (endpoints.len()) @if endpoints.len() == 1 { " endpoint" } @else { " endpoints" } }
                div.facts-row {
                    (breaker(measured))
                    (figures(measured, places))
                    (errors(&measured.errors, measured))
                }
                (breakers::last_hour(provider.name, places.map_or(&[], |places| &places.breakers)))
                (measured::endpoint_table(endpoints, "Endpoints of the provider", Columns::OfProvider))
            }
        }
    }
}

/// The circuit breaker as a state machine, with the state it is in.
fn breaker(measured: &MeasuredBody) -> Markup {
    let state = |name: &'static str, x: &str, y: &str| {
        let is_here = measured.circuit == name;
        html! {
            g class={ (words::circuit(name)) @if is_here { " here" } } {
                rect x=(x) y=(y) width="74" height="24" rx="12" {}
                text x=(x.parse::<u32>().unwrap_or(0) + 37) y=(y.parse::<u32>().unwrap_or(0) + 16) text-anchor="middle" { (words::spaced(name)) }
            }
        }
    };
    let description = format!("The circuit breaker is {}.", words::spaced(measured.circuit));
    html! {
        figure.breaker {
            svg role="img" viewBox="0 0 190 76" width="190" height="76" {
                title { "Circuit breaker" } desc { (description) }
                path d="M76 12h38m-5-4l5 4-5 4M148 26c-2 14-18 22-30 30m2-6-2 6 7-1M66 58C50 52 40 42 37 28m-4 5 4-6 5 5" {}
                (state("closed", "2", "2")) (state("open", "114", "2")) (state("half_open", "58", "50"))
            }
            figcaption {
                @if let Some(until) = &measured.open_until { "next probe at " (format::clock(until)) }
                @else if let Some(until) = &measured.cooldown_until { "cools down until " (format::clock(until)) }
                @else if measured.consecutive_failures == 1 { "1 failure at the end" }
                @else if measured.consecutive_failures > 1 { (measured.consecutive_failures) " failures in a row" }
                @else { span.muted { "no failures in a row" } }
            }
        }
    }
}

fn figures(measured: &MeasuredBody, places: Option<&ProviderBody<'_>>) -> Markup {
    html! {
        dl.facts {
            dt { "Last " (format::seconds(measured.window_secs)) } dd {
                @if measured.requests == 0 { span.muted { "no requests" } }
                @else { (format::count(measured.requests)) " requests, " (format::share(measured.success_rate.map(|rate| rate.value()))) " answered" }
            }
            dt { "First token" } dd {
                @if measured.ttft_ms.p50.is_some() {
                    (format::millis(measured.ttft_ms.p50.map(|p50| p50.value()))) " p50, " (format::millis(measured.ttft_ms.p90.map(|p90| p90.value()))) " p90"
                } @else { span.muted { "not measured: no answer was streamed" } }
            }
            dt { "In flight" }
            dd {
                (measured.in_flight)
                @if let Some(places) = places { span.muted { " of at most " (places.most) @if places.taken != measured.in_flight as usize { ", " (places.taken) " places taken" } } }
            }
            @if let Some(places) = places {
                dt { "Key" }
                dd { @if let Some(from) = places.key_from { "from " code { (from) } ", set" } @else { span.muted { "none needed" } } }
                dt { "Prices" }
                dd { @if let Some(date) = &places.oldest_price_date { "the oldest is of " (date) } @else { span.muted { "without a date" } } }
            }
            dt { "Last error" }
            dd {
                @if let Some(error) = &measured.last_error {
                    (words::spaced(error.error_type))
                    @if let Some(status) = error.status { " " (status) }
                    " at " (format::time(&error.at))
                } @else { span.muted { "none in this process" } }
            }
        }
    }
}

/// Errors of the window by kind.
fn errors(errors: &ErrorsBody, measured: &MeasuredBody) -> Markup {
    let kinds = [
        ("t1", "rate limited", errors.rate_limited),
        ("t2", "timeout", errors.timeout),
        ("t3", "connect", errors.connect),
        ("t4", "server", errors.server),
        ("t5", "auth", errors.auth),
        ("t6", "other", errors.other),
    ];
    let total: u64 = kinds.iter().map(|(_, _, count)| count).sum();
    let said: Vec<String> =
        kinds.iter().filter(|(_, _, count)| *count > 0).map(|(_, kind, count)| format!("{count} {kind}")).collect();
    let segments = kinds.map(|(class, title, count)| Segment { class, value: count as f64, title });
    html! {
        div.errors {
            @if total == 0 {
                p.muted { @if measured.requests == 0 { "Not called in this window." } @else { "No errors in this window." } }
            } @else {
                p { (format::count(total)) " errors in this window" }
                (svg::bar(Caption { title: "Errors by kind", description: &said.join(", ") }, &segments, total as f64))
                ul.legend {
                    @for (class, kind, count) in kinds.iter().filter(|(_, _, count)| *count > 0) {
                        li { svg aria-hidden="true" viewBox="0 0 12 12" { rect class=(class) width="12" height="12" rx="2" {} } (kind) " " (count) }
                    }
                }
            }
        }
    }
}

fn switched_off(providers: &[ProviderHealthBody<'_>]) -> Markup {
    html! {
        @if !providers.is_empty() {
            h2 { "Off " span.muted { (providers.len()) } }
            (data_table("Providers that are off",
                html! { th scope="col" { "Provider" } th scope="col" { "Slug" } th scope="col" { "Why" } },
                html! {
                    @for provider in providers {
                        tr { th scope="row" { (format::name(provider.name, 40)) } td { code { (provider.slug) } } td { (provider.reason.as_deref().unwrap_or("–")) } }
                    }
                }))
        }
    }
}
