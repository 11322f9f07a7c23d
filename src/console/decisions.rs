//! The list of decisions, newest first, with the filters of `GET /admin/generations` in its address.

use actix_web::{HttpRequest, HttpResponse, web};
use maud::{Markup, html};
use pointsman_dialect::percent;
use pointsman_domain::Usd;

use super::{
    answer, format,
    layout::{Frame, Nav, api_line},
    visitor::Visitor,
    words,
};
use crate::{
    api::generations::{
        generation_list::{self, PageBody},
        generation_row::{GenerationRow, LinkBody},
        ledger_query::Listed,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Filters that are either on or absent.
const EVENTS: [&str; 5] = ["rescued", "hedged", "explored", "missed_target", "slower_than_predicted"];
/// Statuses of ended generations.
const STATUSES: [&str; 3] = ["completed", "failed", "cancelled"];
/// Filters that pages with sums lead here with. They are shown only where they are set.
const SUMMED: [&str; 5] = ["team", "account", "alias", "objective", "task"];
/// Seconds between two refreshes of the newest page.
const REFRESH: u32 = 5;

/// Shows one page of the list, or the decision with the id in the query.
///
/// # Errors
/// 429 and 503 as analyses. A bad filter is shown on the page.
pub(super) async fn show(
    Visitor { caller, .. }: Visitor,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let filters = Filters::parse(request.query_string());
    if let Some(id) = filters.get("id") {
        return Ok(answer::redirect(&format!("decisions/{}", path_segment(id))));
    }
    let frame = Frame::of(&request);
    let listed = Listed::Everybody(&worker);
    let query = filters.query(|_| true);
    let keys: Vec<_> = worker.setup.keys.callers();
    let keys: Vec<&str> = keys.iter().map(|caller| &*caller.key.name).collect();
    let page = |list: Markup| {
        let content = html! {
            h1 { "Decisions" }
            (form(&filters, &keys))
            (list)
            (api_line(&format!("/api/v1/admin/generations{query}")))
        };
        frame.page("Decisions", Some(Nav::Decisions), content)
    };
    match generation_list::select(&worker, &caller, listed, query.trim_start_matches('?')).await {
        Ok(selected) => Ok(answer::page(page(list(&selected.body(&worker, listed), &filters)))),
        Err(error) if error.status().is_client_error() && worker.shared.ledger.is_none() => {
            Ok(answer::page(page(html! { p.empty { (error.message()) " A single decision is found by its id." } })))
        }
        Err(error) if error.status().as_u16() == 400 => {
            Ok(answer::refused(&error, page(html! { p.alert role="alert" { (error.message()) } })))
        }
        Err(error) => Err(error),
    }
}

/// The parameters of the address that have a value, in their order.
pub(super) struct Filters(Vec<(String, String)>);

impl Filters {
    pub(super) fn parse(query: &str) -> Filters {
        let pairs = web::Query::<Vec<(String, String)>>::from_query(query).map(web::Query::into_inner);
        let pairs = pairs.unwrap_or_default().into_iter().map(|(name, value)| (name, value.trim().to_owned()));
        Filters(pairs.filter(|(_, value)| !value.is_empty()).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rfind(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The query string of the parameters that `keeps` names, with its question mark.
    pub(super) fn query(&self, keeps: impl Fn(&str) -> bool) -> String {
        let kept = self.0.iter().filter(|(name, _)| keeps(name));
        let pairs: Vec<String> =
            kept.map(|(name, value)| format!("{}={}", percent::encoded(name), percent::encoded(value))).collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }

    /// The query string of the page that begins at `cursor`.
    fn page_at(&self, cursor: Option<&str>) -> String {
        let query = self.query(|name| name != "after");
        match cursor {
            None => query,
            Some(cursor) if query.is_empty() => format!("?after={}", percent::encoded(cursor)),
            Some(cursor) => format!("{query}&after={}", percent::encoded(cursor)),
        }
    }

    fn is_filtered(&self) -> bool {
        self.0.iter().any(|(name, _)| !["after", "limit"].contains(&name.as_str()))
    }
}

/// Text for one segment of a path. What is no id leads to the page that says so.
fn path_segment(text: &str) -> String {
    let escaped = percent::encoded(text);
    if escaped.trim_matches('.').is_empty() { "-".to_owned() } else { escaped }
}

fn form(filters: &Filters, keys: &[&str]) -> Markup {
    let text = |name: &'static str, label: &str, hint: &str, size: u32| {
        html! {
            label { span { (label) } input name=(name) value=[filters.get(name)] placeholder=(hint) size=(size) autocomplete="off"
                data-filter[name == "model"]; }
        }
    };
    let choice = |name: &'static str, label: &str, options: &[&str]| {
        html! {
            label {
                span { (label) }
                select name=(name) {
                    option value="" { "all" }
                    @for option in options { option value=(option) selected[filters.get(name) == Some(option)] { (format::plain_name(option, 40)) } }
                }
            }
        }
    };
    html! {
        form.filters method="get" action="decisions" role="search" {
            (text("model", "Model", "author/name", 18))
            (text("provider", "Provider", "slug", 10))
            (choice("status", "Status", &STATUSES))
            (choice("key", "Key", keys))
            @for name in SUMMED { @if filters.get(name).is_some() { (text(name, &words::spaced(name), "", 12)) } }
            (text("since", "Since", "2026-11-23T06:00Z", 15))
            (text("until", "Until", "2026-11-24", 15))
            (text("min_ttft_ms", "First token ≥ ms", "800", 7))
            (text("min_cost", "Cost ≥ $", "0.01", 7))
            fieldset {
                legend { "Only" }
                @for event in EVENTS {
                    label.check { input type="checkbox" name=(event) value="true" checked[filters.get(event) == Some("true")]; (words::spaced(event)) }
                }
            }
            (text("q", "Name has", "part of a model or provider", 18))
            (text("id", "Or one id", "gen-…", 22))
            div.act {
                button.primary type="submit" { "Show" }
                @if filters.is_filtered() { a.button href="decisions" { "Clear" } }
            }
        }
    }
}

fn list(page: &PageBody<'_>, filters: &Filters) -> Markup {
    let is_newest = filters.get("after").is_none();
    html! {
        div #list data-refresh=[is_newest.then_some(REFRESH)] {
            @if page.data.is_empty() { (empty(page, filters)) } @else { (table(page)) }
            @if page.unreadable_records > 0 || page.damaged_blocks > 0 {
                p.alert {
                    (page.unreadable_records) " records of this page cannot be read, of " (page.damaged_blocks)
                    " damaged groups. 'pointsman ledger verify' tells which."
                }
            }
            nav.pages aria-label="Pages of the list" {
                @if !is_newest { a.button href={ "decisions" (filters.page_at(None)) } { "Newest" } }
                @if let Some(next) = &page.next { a.button rel="next" href={ "decisions" (filters.page_at(Some(next))) } { "Older" } }
                span.muted { (page.data.len()) " shown" @if is_newest { ", refreshed every " (REFRESH) " s" } }
            }
        }
    }
}

fn empty(page: &PageBody<'_>, filters: &Filters) -> Markup {
    html! {
        p.empty {
            @if page.next.is_some() {
                "No decision among those that were searched passes the filters. Older ones follow on the next page."
            } @else if filters.is_filtered() {
                "No decision passes these filters."
            } @else if filters.get("after").is_some() {
                "No older decisions are kept."
            } @else if page.aged_out_before.is_some() {
                "No decision is kept any more."
            } @else {
                "No decisions yet. Send a request to " code { "POST /api/v1/chat/completions" } " of the inference listener, and it appears here."
            }
            @if let Some(time) = &page.aged_out_before { " Records from before " (format::time(time)) " " (format::zone()) " may have been deleted." }
        }
    }
}

fn table(page: &PageBody<'_>) -> Markup {
    html! {
        div.scroll.hide-caption tabindex="0" {
            table.list {
                caption { "Decisions, newest first" }
                thead {
                    tr {
                        th scope="col" { "Time " (format::zone()) } th scope="col" { "Status" } th scope="col" { "Requested → served" }
                        th scope="col" { "Chain" } th scope="col" { "Objective" } th.r scope="col" data-sort { "First token" }
                        th.r scope="col" data-sort { "Total" } th.r scope="col" data-sort { "Tokens" } th.r scope="col" data-sort { "Cost" } th scope="col" { "Key" }
                    }
                }
                tbody { @for row in &page.data { (table_row(row)) } }
            }
        }
    }
}

fn table_row(row: &GenerationRow<'_>) -> Markup {
    let (tone, status) = words::status(&row.status);
    let status = if row.status == "cancelled" { "cancelled" } else { status };
    let model = row.model.as_deref();
    html! {
        tr data-row {
            td.t { a href={ "decisions/" (row.id) } title=(row.id) { (format::short_time(&row.created_at)) } }
            td.t {
                span.tag.(tone) { (status) }
                @if row.rescued { " " span.tag.warn { "rescued" } }
                @if row.hedged { " " span.tag.info { "hedged" } }
                @if row.explored { " " span.tag { "explored" } }
                @if row.missed_target { " " span.tag.warn { "missed target" } }
                @if row.slower_than_predicted { " " span.tag.warn title="The first token came later than the predicted 95th percentile" { "slow" } }
            }
            td {
                (format::name(&row.requested_model, 40))
                @if let Some(model) = model.filter(|model| *model != row.requested_model) { span.muted { " → " } (format::name(model, 40)) }
            }
            td { (chain(&row.chain)) }
            td title=(row.decision_code) { (row.objective) }
            td.r { (format::millis(row.ttft_ms.map(|ms| ms as f64))) }
            td.r { (format::millis(row.total_ms.map(|ms| ms as f64))) }
            td.r { (format::count(row.prompt_tokens)) span.muted { " / " } (format::count(row.completion_tokens)) }
            td.r {
                @if row.status == "failed" && row.cost.as_ref().is_some_and(|cost| cost.amount() == Usd::ZERO) {
                    span.none title="A failed call that cost nothing" { "–" }
                } @else { (format::money(row.cost.map(|cost| cost.amount()))) }
                @if row.estimated && row.cost.is_some() { " " span.muted title="The provider reported no tokens: the cost is the gateway's estimate." { "est." } }
            }
            td { (asked_by(row)) }
        }
    }
}

/// The key, and below it account and team where they have other names.
fn asked_by(row: &GenerationRow<'_>) -> Markup {
    let others = [row.account.as_deref(), row.team.as_deref()];
    let others: Vec<&str> = others.into_iter().flatten().filter(|name| row.key.as_deref() != Some(name)).collect();
    html! {
        @if let Some(key) = &row.key { (format::name(key, 24)) } @else { span.muted { "removed" } }
        @if !others.is_empty() { " " span.muted { "(" (format::name(&others.join(", "), 32)) ")" } }
    }
}

/// The attempts in their order, each with how it ended.
fn chain(links: &[LinkBody<'_>]) -> Markup {
    html! {
        span.chain {
            @for (n, link) in links.iter().enumerate() {
                @if n > 0 { span.muted { " → " } }
                @let (tone, sign) = words::outcome(&link.outcome);
                @let cause = link.cause.as_deref().map(|cause| format!(", {}", words::spaced(cause))).unwrap_or_default();
                span title={ (words::spaced(&link.outcome)) (cause) } {
                    (format::name(&link.provider_slug, 24)) " " span.(tone) { (sign) }
                    @if sign == "✗" { " " span.cause { (words::spaced(&link.outcome)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_survive_in_the_links_of_pages_and_the_cursor_is_replaced() {
        let filters = Filters::parse("model=a%2Fb+c&status=&after=old&rescued=true");
        assert_eq!(filters.page_at(Some("x=1")), "?model=a%2Fb%20c&rescued=true&after=x%3D1");
        assert_eq!(filters.page_at(None), "?model=a%2Fb%20c&rescued=true");
        assert_eq!(Filters::parse("after=old").page_at(None), "");
        assert!(filters.is_filtered() && !Filters::parse("after=x&status=").is_filtered());
    }

    #[test]
    fn an_id_leads_nowhere_but_to_a_decision() {
        assert_eq!(path_segment("../../metrics"), "..%2F..%2Fmetrics");
        assert_eq!(path_segment(".."), "-");
        assert_eq!(path_segment("//evil.example"), "%2F%2Fevil.example");
    }
}
