//! Latency targets with what is left of their error budgets.

use actix_web::HttpResponse;
use chrono::DateTime;
use maud::{Markup, html};
use pointsman_dialect::percent;

use super::{
    answer,
    chart::{self, Chart, Kind, Series},
    form, format,
    layout::{Nav, api_line, data_table},
    svg::{self, Caption, Segment},
    visit::Visit,
};
use crate::{
    api::{
        health::slo::{self, SloBody, TargetBody, WindowBody},
        number::Figure,
    },
    base::error::ApiError,
};

/// Share of an error budget below which what is left is little.
const LITTLE_LEFT: f64 = 0.25;
/// An alias with a target.
const EXAMPLE: &str =
    "[[aliases]]\nname = \"thrifty\"\nobjective = \"cheapest\"\npreferred_max_latency = { p95 = 0.8 }\n";

/// Shows all targets.
///
/// # Errors
/// None.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let reports = slo::reports(worker);
    let body = SloBody::new(&reports, &[]);
    let content = html! {
        h1 { "Latency targets" }
        @if body.data.is_empty() {
            p { "Nobody has asked for a latency target. A request asks with " code { "provider.preferred_max_latency" } ", an alias for all its calls:" }
            (form::to_copy(EXAMPLE))
            p.muted {
                "Calls of " code { (worker.setup.config.service.alias_prefix) "/thrifty" }
                " then go to the cheapest endpoint that begins its answers within 0.8 seconds, 95 times of 100. How often that is met is shown here."
            }
        }
        div.cards { @for (n, target) in body.data.iter().enumerate() { (card(n, target)) } }
        (api_line("/api/v1/health/slo"))
    };
    Ok(answer::page(frame.page("Targets", Some(Nav::Targets), content)))
}

fn card(n: usize, target: &TargetBody<'_>) -> Markup {
    html! {
        article.card.target {
            header {
                h2 { (format::name(target.target, 56)) }
                span.tag { (target.objective) }
                span.muted { "first token at most " (format::millis(Some(target.max_ttft_ms.value()))) " at " (target.percentile) ", asked for by the " (target.source) }
            }
            p.muted { (reading(target)) " " a href={ "decisions?" (misses(target)) } { "The misses" } }
            (day(n, target))
            (data_table("Attainment of the target per window",
                html! {
                    th scope="col" { "Window" } th.r scope="col" { "Requests" } th.r scope="col" { "Met" } th.r scope="col" { "Missed" }
                    th.r scope="col" { "Allowed" } th.r scope="col" { "Attainment" } th.wide scope="col" { "Error budget left" }
                    th.r scope="col" { "" } th.r scope="col" { "Burn rate" }
                },
                html! { @for window in &target.windows { (row(window)) } }))
        }
    }
}

/// Attainment in each quarter of an hour of the last day, beside the share that the target asks for; nothing without a request.
fn day(n: usize, target: &TargetBody<'_>) -> Markup {
    let day = &target.day;
    let counts = || day.met.iter().zip(&day.missed);
    let began = counts().position(|(met, missed)| met + missed > 0);
    let (Some(began), Ok(start)) = (began, DateTime::parse_from_rfc3339(&day.start)) else { return Markup::default() };
    // At least two hours, so that the first points stand apart.
    let omitted = began.min(day.met.len().saturating_sub(8));
    let share = |(met, missed): (&u64, &u64)| (met + missed > 0).then(|| *met as f64 / (met + missed) as f64);
    let wanted = target.percentile.trim_start_matches('p').parse::<f64>().map_or(1.0, |percent| percent / 100.0);
    let attained = counts().skip(omitted).map(share).collect::<Vec<_>>();
    let chart = Chart {
        kind: Kind::Lines,
        unit: "%",
        x: (omitted..day.met.len()).map(|slot| (start.timestamp() + slot as i64 * day.step_s as i64) as f64).collect(),
        step: day.step_s as i64,
        running: true,
        bound: Some(wanted),
        series: vec![Series::new("in time", "t1", &misses(target), attained)],
        link: Some("decisions".to_owned()),
        ..Chart::default()
    };
    let said = format!("in 15 minutes; the line is {}", format::percent(wanted));
    chart::figure(&format!("plot-{n}"), "First tokens in time", &said, &chart)
}

/// How decisions read the bound. A margin above 1 makes them stricter.
fn reading(target: &TargetBody<'_>) -> String {
    let (bound, margin) = (target.max_ttft_ms.value(), target.margin.value());
    let read = format::duration(bound / margin);
    match margin {
        _ if (margin - 1.0).abs() < 0.005 => "Decisions take the bound as it is.".to_owned(),
        _ if margin > 1.0 => {
            format!("Decisions read the bound as {read} (÷ {margin:.2}), because it was missed too often.")
        }
        _ => format!(
            "Decisions read the bound as {read} (÷ {margin:.2}), because it was missed less often than the target allows."
        ),
    }
}

/// Query of the calls that missed their target, of those that asked for this model or alias.
fn misses(target: &TargetBody<'_>) -> String {
    format!("missed_target=true&q={}", percent::encoded(target.target))
}

/// The tone of what is left of an error budget.
const fn tone(left: f64) -> &'static str {
    match left {
        _ if left < 0.0 => "bad",
        _ if left < LITTLE_LEFT => "warn",
        _ => "good",
    }
}

fn row(window: &WindowBody) -> Markup {
    let left = window.error_budget_left.map(Figure::value);
    let burn = window.burn_rate.map(Figure::value);
    let tone = left.map_or("", tone);
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
            td.r { span.(tone) { (format::share(left)) } }
            td.r { @if let Some(burn) = burn { span.tag.(tone) { (format::figure(Some(burn), 1)) } } @else { (format::none()) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::health::slo::DayBody;

    fn target(margin: f64) -> TargetBody<'static> {
        TargetBody {
            target: "service/auto",
            objective: "cheapest",
            source: "alias",
            percentile: "p95",
            max_ttft_ms: Figure::rounded(800.0, 1),
            margin: Figure::rounded(margin, 3),
            windows: Vec::new(),
            day: DayBody { start: String::new(), step_s: 900, met: Vec::new(), missed: Vec::new() },
        }
    }

    #[test]
    fn a_margin_above_1_makes_the_bound_stricter_and_one_below_laxer() {
        for (margin, sentence) in [
            (1.256, "Decisions read the bound as 637 ms (÷ 1.26), because it was missed too often."),
            (
                0.8,
                "Decisions read the bound as 1.00 s (÷ 0.80), because it was missed less often than the target allows.",
            ),
            (1.003, "Decisions take the bound as it is."),
        ] {
            assert_eq!(reading(&target(margin)), sentence);
        }
    }

    #[test]
    fn an_overspent_error_budget_is_red_and_its_minus_is_a_minus() {
        let window = |missed: u64, left: f64| WindowBody {
            window_secs: 300,
            requests: 100,
            met: 100 - missed,
            missed,
            attainment: Some(Figure::share(1.0 - missed as f64 / 100.0)),
            allowed_misses: Figure::rounded(5.0, 2),
            error_budget_left: Some(Figure::share(left)),
            burn_rate: Some(Figure::rounded(missed as f64 / 5.0, 3)),
        };
        let overspent = row(&window(22, -3.4)).into_string();
        assert!(overspent.contains(r#"<span class="tag bad">"#) && overspent.contains("−340.0 %"), "{overspent}");
        for (missed, left, class) in [(4, 0.2, "tag warn"), (1, 0.8, "tag good")] {
            let shown = row(&window(missed, left)).into_string();
            assert!(shown.contains(&format!(r#"<span class="{class}">"#)), "{shown}");
        }
    }

    #[test]
    fn the_link_leads_to_the_misses_of_the_target() {
        assert_eq!(misses(&target(1.0)), "missed_target=true&q=service%2Fauto");
    }
}
