//! Requests, tokens and money by day or hour, model, provider and key: the sums that the ledger keeps for 90 days.

use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};
use pointsman_actors::domain::Usd;

use super::{
    answer,
    decisions::Filters,
    format,
    layout::{Frame, Nav, api_line},
    visitor::Visitor,
};
use crate::{
    api::{
        activity::{self, ActivityBody, RowBody},
        ledger_query::Listed,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Most rows on the page. The sum is that of all.
const MOST_ROWS: usize = 300;

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
            (text("tz_offset_minutes", "Minutes from UTC", "0"))
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
            div.scroll.hide-caption tabindex="0" {
                table {
                    caption { "Activity, latest first" }
                    thead { tr {
                        th scope="col" { "Begins " (format::zone()) } th scope="col" { "Model" } th scope="col" { "Provider" } th scope="col" { "Key" }
                        th.r scope="col" { "Requests" } th.r scope="col" { "Not completed" } th.r scope="col" { "Tokens in" } th.r scope="col" { "Tokens out" } th.r scope="col" { "Known cost" }
                    } }
                    tbody {
                        (sum(&body.data))
                        @for row in body.data.iter().take(MOST_ROWS) { (table_row(row)) }
                    }
                }
            }
            @if body.data.len() > MOST_ROWS { p.muted { "and " (body.data.len() - MOST_ROWS) " more, which are part of the sum" } }
            p.muted { "The number of costs that a sum leaves out, because a price is unknown, stands beside it; version 0.1.0 did not count them." }
        }
    }
}

fn sum(rows: &[RowBody<'_>]) -> Markup {
    let count = |of: fn(&RowBody<'_>) -> u64| rows.iter().map(of).fold(0_u64, u64::saturating_add);
    let cost = rows.iter().fold(Usd::ZERO, |sum, row| sum + row.cost.0);
    html! {
        tr.sum {
            th scope="row" colspan="4" { "All together" }
            td.r { (format::count(count(|row| row.requests))) }
            td.r { (format::count(count(|row| row.failed))) }
            td.r { (format::count(count(|row| row.prompt_tokens))) }
            td.r { (format::count(count(|row| row.completion_tokens))) }
            td.r { (format::sum(cost, count(|row| row.unknown_costs))) }
        }
    }
}

fn table_row(row: &RowBody<'_>) -> Markup {
    html! {
        tr data-row {
            td.t { (format::time(&row.start)) }
            td { (format::name(row.model, 48)) }
            td { @match row.provider_slug { Some(slug) => (format::name(slug, 24)), None => (format::none()) } }
            td { @match &row.key { Some(key) => (format::name(key, 24)), None => span.muted { "removed" } } }
            td.r { (format::count(row.requests)) }
            td.r { (format::count(row.failed)) }
            td.r { (format::count(row.prompt_tokens)) }
            td.r { (format::count(row.completion_tokens)) }
            td.r { (format::sum(row.cost.0, row.unknown_costs)) }
        }
    }
}
