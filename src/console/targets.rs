//! Latency targets with what is left of their error budgets.

use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};

use super::{
    answer, format,
    layout::{Frame, Nav, api_line},
    svg::{self, Caption, Segment},
    visitor::Visitor,
};
use crate::{
    api::{
        health::slo::{self, SloBody, TargetBody, WindowBody},
        number::Figure,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Burn rates above which the budget of a month is gone in two days, in five days, and before its end.
const BURNS: [(f64, &str); 3] = [(14.4, "bad"), (6.0, "warn"), (1.0, "info")];

/// Shows all targets.
///
/// # Errors
/// None.
pub(super) async fn show(_: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let frame = Frame::of(&request);
    let reports = slo::reports(&worker);
    let body = SloBody::new(&reports);
    let content = html! {
        h1 { "Latency targets" }
        @if body.data.is_empty() {
            p.empty {
                "Nobody has asked for a latency target. An alias has one with " code { "preferred_max_latency" }
                ", a request with " code { "provider.preferred_max_latency" } "."
            }
        }
        @for target in &body.data { (card(target)) }
        (api_line("/api/v1/health/slo"))
    };
    Ok(answer::page(frame.page("Targets", Some(Nav::Targets), content)))
}

fn card(target: &TargetBody<'_>) -> Markup {
    let widened = target.margin.value();
    html! {
        article.card.target {
            header {
                h2 { (format::name(target.target, 56)) }
                span.tag { (target.objective) }
                span.muted { "first token at most " (format::millis(Some(target.max_ttft_ms.value()))) " at " (target.percentile) ", asked for by the " (target.source) }
            }
            p.muted {
                @if (widened - 1.0).abs() < 0.005 { "Decisions take the bound as it is." }
                @else if widened < 1.0 { "Decisions aim lower, at " (format::percent(widened)) " of the bound, because it was missed too often." }
                @else { "Decisions allow " (format::percent(widened)) " of the bound, because more misses are left." }
            }
            div.scroll.hide-caption tabindex="0" {
                table {
                    caption { "Attainment of the target per window" }
                    thead {
                        tr {
                            th scope="col" { "Window" } th.r scope="col" { "Requests" } th.r scope="col" { "Met" } th.r scope="col" { "Missed" }
                            th.r scope="col" { "Allowed" } th.r scope="col" { "Attainment" } th.wide scope="col" { "Error budget left" }
                            th.r scope="col" { "" } th.r scope="col" { "Burn rate" }
                        }
                    }
                    tbody { @for window in &target.windows { (row(window)) } }
                }
            }
        }
    }
}

fn row(window: &WindowBody) -> Markup {
    let left = window.error_budget_left.map(Figure::value);
    let burn = window.burn_rate.map(Figure::value);
    let tone = burn.and_then(|burn| BURNS.iter().find(|(most, _)| burn > *most)).map_or("good", |(_, tone)| tone);
    html! {
        tr data-row {
            th scope="row" { (format::seconds(window.window_secs)) }
            td.r { (format::count(window.requests)) } td.r { (format::count(window.met)) } td.r { (format::count(window.missed)) }
            td.r { (format::figure(Some(window.allowed_misses.value()), 1)) }
            td.r { (format::share(window.attainment.map(Figure::value))) }
            td.wide {
                @if let Some(left) = left {
                    (svg::bar(
                        Caption { title: "Error budget left", description: &format::percent(left.clamp(0.0, 1.0)) },
                        &[Segment { class: if left > 0.0 { "t5" } else { "t4" }, value: left.max(0.0), title: "left" }],
                        1.0,
                    ))
                } @else { span.muted { "no requests in this window" } }
            }
            td.r { (format::share(left)) }
            td.r { @if let Some(burn) = burn { span.tag.(tone) { (format::figure(Some(burn), 1)) } } @else { (format::none()) } }
        }
    }
}
