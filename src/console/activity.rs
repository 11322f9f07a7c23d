//! Requests, tokens and money by day or hour, model, provider and key: the sums that the ledger keeps for 90 days.
//! Charts and a table show each day or hour as a whole, a second table its parts.

use actix_web::{HttpRequest, HttpResponse};
use chrono::DateTime;
use maud::{Markup, html};
use pointsman_domain::Usd;

use super::{
    answer,
    decisions::Filters,
    format,
    layout::{Frame, Nav, api_line},
    svg::{Caption, series::stacked_areas},
    visitor::Visitor,
};
use crate::{
    api::generations::{
        activity::{self, ActivityBody, RowBody},
        ledger_query::Listed,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Most rows on the page. The sum is that of all.
const MOST_ROWS: usize = 300;
/// Most days or hours on the page.
const MOST_PERIODS: usize = 400;

/// Shows the activity that the address asks for.
///
/// # Errors
/// 429 and 503 as analyses. A bad parameter is shown on the page.
pub(super) async fn show(
    Visitor { caller, .. }: Visitor,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let (frame, filters) = (Frame::of(&request), Filters::parse(request.query_string()));
    let query = filters.query(|_| true);
    let callers = worker.setup.keys.callers();
    let keys: Vec<&str> = callers.iter().map(|caller| &*caller.key.name).collect();
    let page = |list: Markup| {
        let content = html! {
            h1 { "Activity" }
            (form(&filters, &keys))
            (list)
            (api_line(&format!("/api/v1/admin/activity{query}")))
        };
        frame.page("Activity", Some(Nav::Activity), content)
    };
    let listed = Listed::Everybody(&worker);
    match activity::read(&worker, &caller, listed, query.trim_start_matches('?')).await {
        Ok(activity) => Ok(answer::page(page(list(&activity.body(&worker))))),
        Err(error) if error.status().is_client_error() && worker.shared.ledger.is_none() => {
            Ok(answer::page(page(html! { p.empty { (error.message()) } })))
        }
        Err(error) if error.status().as_u16() == 400 => {
            Ok(answer::refused(&error, page(html! { p.alert role="alert" { (error.message()) } })))
        }
        Err(error) => Err(error),
    }
}

fn form(filters: &Filters, keys: &[&str]) -> Markup {
    let text = |name: &'static str, label: &str, hint: &str| {
        html! { label { span { (label) } input name=(name) value=[filters.get(name)] placeholder=(hint) size="15" autocomplete="off"; } }
    };
    let chosen = |name: &str, value: &str| filters.get(name) == Some(value);
    html! {
        form.filters method="get" action="activity" role="search" {
            label {
                span { "By" }
                select name="group" data-filter {
                    option value="day" { "day" }
                    option value="hour" selected[chosen("group", "hour")] { "hour" }
                }
            }
            (text("since", "Since", "2026-11-01"))
            (text("until", "Until", "2026-11-24"))
            (text("tz_offset_minutes", "UTC offset in minutes", "0"))
            label {
                span { "Key" }
                select name="key" {
                    option value="" { "all" }
                    @for key in keys { option value=(key) selected[chosen("key", key)] { (format::plain_name(key, 40)) } }
                }
            }
            div.act { button.primary type="submit" { "Show" } }
        }
    }
}

fn list(body: &ActivityBody<'_>) -> Markup {
    html! {
        p.muted {
            "From " (format::time(&body.since)) " to " (format::time(&body.until)) ", by " (body.group)
            @if body.tz_offset_minutes != 0 { ", local time " (body.tz_offset_minutes) " minutes from UTC" }
            "."
        }
        @if body.data.is_empty() {
            p.empty { "No generation ended in this time." }
        } @else {
            (by_period(body))
            h2 { "By model, provider and key" }
            div.scroll.hide-caption tabindex="0" {
                table {
                    caption { "Activity, latest first" }
                    thead { tr {
                        th scope="col" { (period_head(body)) } th scope="col" { "Model" } th scope="col" { "Provider" } th scope="col" { "Key" }
                        th.r scope="col" { "Requests" } th.r scope="col" { "Not completed" } th.r scope="col" { "Tokens in" } th.r scope="col" { "Tokens out" } th.r scope="col" { "Known cost" }
                    } }
                    tbody {
                        (sum(&body.data))
                        @for row in body.data.iter().take(MOST_ROWS) { (table_row(row, body.group)) }
                    }
                }
            }
            @if body.data.len() > MOST_ROWS { p.muted { "and " (body.data.len() - MOST_ROWS) " more, which are part of the sum" } }
            p.muted { "A cost without a known price is in no sum. Beside a sum stands how many of them it leaves out, since they are counted." }
        }
    }
}

/// Charts of the days or hours, and the same as a table.
fn by_period(body: &ActivityBody<'_>) -> Markup {
    let periods: Vec<&[RowBody<'_>]> = body.data.chunk_by(|one, next| one.start == next.start).collect();
    html! {
        (charts(body, &periods))
        details open[periods.len() <= 31] {
            summary { @if body.group == "day" { "Each day" } @else { "Each hour" } }
            div.scroll.hide-caption tabindex="0" {
                table {
                    caption { "Sums of each " (body.group) ", latest first" }
                    thead { tr {
                        th scope="col" { (period_head(body)) }
                        th.r scope="col" { "Requests" } th.r scope="col" { "Not completed" } th.r scope="col" { "Tokens in" } th.r scope="col" { "Tokens out" } th.r scope="col" { "Known cost" }
                    } }
                    tbody {
                        @for rows in periods.iter().take(MOST_PERIODS) {
                            tr {
                                th scope="row" { @if let Some(row) = rows.first() { (period(row, body.group)) } }
                                (sums(rows))
                            }
                        }
                    }
                }
            }
            @if periods.len() > MOST_PERIODS { p.muted { "and " (periods.len() - MOST_PERIODS) " earlier ones" } }
        }
    }
}

/// Requests and cost over the whole time that is shown; nothing where that has too many days or hours.
fn charts(body: &ActivityBody<'_>, periods: &[&[RowBody<'_>]]) -> Markup {
    let step_ms = if body.group == "day" { 86_400_000 } else { 3_600_000 };
    let millis = |time: &str| DateTime::parse_from_rfc3339(time).map(|time| time.timestamp_millis()).ok();
    let latest = periods.first().and_then(|rows| millis(&rows.first()?.start));
    let (Some(latest), Some(since), Some(until)) = (latest, millis(&body.since), millis(&body.until)) else {
        return Markup::default();
    };
    // Days and hours follow each other without a gap: a time zone is a fixed number of minutes here.
    let start = latest - (latest - since).div_euclid(step_ms) * step_ms;
    let places = usize::try_from((until - 1 - start).div_euclid(step_ms) + 1).unwrap_or(0);
    if !(2..=MOST_PERIODS).contains(&places) {
        return Markup::default();
    }
    let column = |of: &dyn Fn(&RowBody<'_>) -> f64| {
        let mut values = vec![0.0; places];
        for row in periods.iter().copied().flatten() {
            let place = millis(&row.start).and_then(|at| usize::try_from((at - start).div_euclid(step_ms)).ok());
            if let Some(value) = place.and_then(|place| values.get_mut(place)) {
                *value += of(row);
            }
        }
        values
    };
    let completed = column(&|row| row.requests.saturating_sub(row.failed) as f64);
    let failed = column(&|row| row.failed as f64);
    let cost = column(&|row| row.cost.0.to_f64());
    let most = completed.iter().zip(&failed).map(|(one, other)| one + other).fold(0.0, f64::max);
    let dearest = cost.iter().copied().fold(0.0, f64::max);
    let ends =
        html! { p.span aria-hidden="true" { span { (format::day(&body.since)) } span { (format::day(&body.until)) } } };
    let described = format!("{places} of a {} each, oldest first; the numbers stand in the table below.", body.group);
    html! {
        div.strips {
            figure {
                figcaption { "Requests a " (body.group) " " span.muted { "up to " (most) } }
                (stacked_areas(Caption { title: "Requests", description: &described }, &[("ok", &completed), ("failed", &failed)]))
                (ends)
                ul.legend { (swatch("ok", "completed")) (swatch("failed", "not completed")) }
            }
            figure {
                figcaption { "Known cost a " (body.group) " " span.muted { "up to " (format::estimated_dollars(dearest)) } }
                (stacked_areas(Caption { title: "Known cost", description: &described }, &[("cost", &cost)]))
                (ends)
                ul.legend { (swatch("cost", "failed attempts included")) }
            }
        }
    }
}

fn swatch(class: &str, text: &str) -> Markup {
    html! { li { svg aria-hidden="true" viewBox="0 0 12 12" { rect class=(class) width="12" height="12" rx="2" {} } (text) } }
}

/// The head of the column of days or hours.
fn period_head(body: &ActivityBody<'_>) -> Markup {
    html! {
        @if body.group == "hour" { "Begins " (format::zone()) }
        @else if body.tz_offset_minutes == 0 { "Day, UTC" }
        @else { "Day, local" }
    }
}

fn period(row: &RowBody<'_>, group: &str) -> Markup {
    html! { @if group == "day" { (row.date) } @else { (format::time(&row.start)) } }
}

fn sum(rows: &[RowBody<'_>]) -> Markup {
    html! { tr.sum { th scope="row" colspan="4" { "All together" } (sums(rows)) } }
}

/// The cells of a row: sums of requests, tokens and cost.
fn sums(rows: &[RowBody<'_>]) -> Markup {
    let count = |of: fn(&RowBody<'_>) -> u64| rows.iter().map(of).fold(0_u64, u64::saturating_add);
    let cost = rows.iter().fold(Usd::ZERO, |sum, row| sum + row.cost.0);
    html! {
        td.r { (format::count(count(|row| row.requests))) }
        td.r { (format::count(count(|row| row.failed))) }
        td.r { (format::count(count(|row| row.prompt_tokens))) }
        td.r { (format::count(count(|row| row.completion_tokens))) }
        td.r { (format::sum(cost, count(|row| row.unknown_costs))) }
    }
}

fn table_row(row: &RowBody<'_>, group: &str) -> Markup {
    html! {
        tr data-row {
            td.t { (period(row, group)) }
            td { (format::name(row.model, 48)) }
            td { @match row.provider_slug { Some(slug) => (format::name(slug, 24)), None => (format::none()) } }
            td { @match &row.key { Some(key) => (format::name(key, 24)), None => span.muted { "removed" } } }
            (sums(std::slice::from_ref(row)))
        }
    }
}
