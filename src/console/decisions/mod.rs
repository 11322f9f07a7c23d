//! The list of decisions, newest first, with the filters of `GET /admin/generations` in its address.

mod filters;
mod sums;

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_dialect::percent;
use pointsman_domain::Usd;

pub(super) use self::filters::{Filters, time};
use self::{
    filters::{form, presets},
    sums::Sums,
};
use super::{
    answer, format,
    layout::{Nav, api_line},
    visit::Visit,
    words,
};
use crate::{
    api::{
        admin::generations::{self, MAX_ROWS},
        generations::{
            generation_list::{self, PageBody},
            generation_row::{GenerationRow, LinkBody},
            ledger_query::Listed,
        },
    },
    base::error::ApiError,
};

/// Seconds between two refreshes of the newest page.
const REFRESH: u32 = 5;

/// Shows one page of the list, or the decision with the id in the query.
///
/// # Errors
/// 429 and 503 as analyses. A bad filter is shown on the page.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let filters = Filters::parse(visit.query());
    if let Some(id) = filters.get("id") {
        return Ok(answer::redirect(&format!("decisions/{}", path_segment(id))));
    }
    let (frame, worker, caller) = (&visit.frame, &visit.worker, &visit.caller);
    let listed = Listed::Everybody(worker);
    let query = filters.query(|name| name != "sums");
    let keys: Vec<_> = worker.setup.keys.callers();
    let keys: Vec<&str> = keys.iter().map(|caller| &*caller.key.name).collect();
    let page = |list: Markup| {
        let content = html! {
            h1 { "Decisions" }
            (form(&filters, &keys))
            (presets(&filters))
            (list)
            (api_line(&format!("/api/v1/admin/generations{query}")))
        };
        frame.page("Decisions", Some(Nav::Decisions), content)
    };
    match generation_list::select(worker, caller, listed, query.trim_start_matches('?')).await {
        Ok(selected) => {
            let body = selected.body(worker, listed);
            let all = match filters.get("sums").is_some() {
                true => Some(Sums::of_all(worker, caller, &filters).await?),
                false => None,
            };
            Ok(answer::page(page(list(&body, all, &filters))))
        }
        Err(error) => answer::unlisted(error, worker, " A single decision is found by its id.", page),
    }
}

/// The decisions that pass the filters as CSV: that of the API, for the session of a browser.
///
/// # Errors
/// As `GET /admin/generations.csv`.
pub(super) async fn csv(visit: Visit) -> Result<HttpResponse, ApiError> {
    let filters = Filters::parse(visit.query());
    let query = filters.with("limit", &MAX_ROWS.to_string());
    generations::as_csv(&visit.worker, &visit.caller, query.trim_start_matches('?')).await
}

/// Text for one segment of a path. What is no id leads to the page that says so.
fn path_segment(text: &str) -> String {
    let escaped = percent::encoded(text);
    if escaped.trim_matches('.').is_empty() { "-".to_owned() } else { escaped }
}

/// The sums and the rows of a page. Sums of `all` are made once: such a page does not refresh itself.
fn list(page: &PageBody<'_>, all: Option<Sums>, filters: &Filters) -> Markup {
    let is_newest = filters.get("after").is_none() && all.is_none();
    let is_all = all.is_some();
    html! {
        div #list data-refresh=[is_newest.then_some(REFRESH)] {
            @if page.data.is_empty() { (empty(page, filters)) } @else {
                (all.unwrap_or_else(|| Sums::of(page)).tiles(filters, is_all))
                (table(page, filters))
            }
            @if page.unreadable_records > 0 || page.damaged_blocks > 0 {
                p.alert {
                    (page.unreadable_records) " records of this page cannot be read, of " (page.damaged_blocks)
                    " damaged groups. 'pointsman ledger verify' tells which."
                }
            }
            nav.pages aria-label="Pages of the list" {
                @if filters.get("after").is_some() { a.button href={ "decisions" (filters.page_at(None)) } { "Newest" } }
                @if let Some(next) = &page.next { a.button rel="next" href={ "decisions" (filters.page_at(Some(next))) } { "Older" } }
                a.button href={ "decisions.csv" (filters.query(|name| !["after", "limit", "sums"].contains(&name))) } download="decisions.csv" title={ "The newest that pass the filters, up to " (MAX_ROWS) } { "CSV" }
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

fn table(page: &PageBody<'_>, filters: &Filters) -> Markup {
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
                tbody { @for row in &page.data { (table_row(row, filters)) } }
            }
        }
    }
}

fn table_row(row: &GenerationRow<'_>, filters: &Filters) -> Markup {
    let (tone, status) = words::status(&row.status);
    let status = if row.status == "cancelled" { "cancelled" } else { status };
    let model = row.model.as_deref();
    // A click on a cell shows the decisions that have the same in it.
    let filter = |name: &str, value: &str, shown: Markup| {
        html! { a.quiet href={ "decisions" (filters.with(name, value)) } title="Show only these" { (shown) } }
    };
    html! {
        tr data-row {
            td.t { a href={ "decisions/" (row.id) } title=(row.id) { (format::short_time(&row.created_at)) } }
            td.t {
                (filter("status", &row.status, html! { span.tag.(tone) { (status) } }))
                @if row.rescued { " " span.tag.warn { "rescued" } }
                @if row.hedged { " " span.tag.info { "hedged" } }
                @if row.explored { " " span.tag { "explored" } }
                @if row.missed_target { " " span.tag.warn { "missed target" } }
                @if row.slower_than_predicted { " " span.tag.warn title="The first token came later than the predicted 95th percentile" { "slow" } }
            }
            td {
                @if model != Some(&*row.requested_model) { (format::name(&row.requested_model, 40)) }
                @if let Some(model) = model {
                    @if *model != *row.requested_model { span.muted { " → " } }
                    (filter("model", model, format::name(model, 40)))
                }
            }
            td { (chain(row, filters)) }
            td title=(row.decision_code) { (filter("objective", &row.objective, html! { (row.objective) })) }
            td.r { (format::millis(row.ttft_ms.map(|ms| ms as f64))) }
            td.r { (format::millis(row.total_ms.map(|ms| ms as f64))) }
            td.r { (format::count(row.prompt_tokens)) span.muted { " / " } (format::count(row.completion_tokens)) }
            td.r {
                @if row.status == "failed" && row.cost.as_ref().is_some_and(|cost| cost.amount() == Usd::ZERO) {
                    span.none title="A failed call that cost nothing" { "–" }
                } @else { (format::money(row.cost.map(|cost| cost.amount()))) }
                @if row.estimated && row.cost.is_some() { " " span.muted title="The provider reported no tokens: the cost is the gateway's estimate." { "est." } }
            }
            td { (asked_by(row, filters)) }
        }
    }
}

/// The key, and below it account and team where they have other names.
fn asked_by(row: &GenerationRow<'_>, filters: &Filters) -> Markup {
    let others = [("account", row.account.as_deref()), ("team", row.team.as_deref())];
    let others = others.into_iter().filter_map(|(kind, name)| Some((kind, name?)));
    let others: Vec<(&str, &str)> = others.filter(|(_, name)| row.key.as_deref() != Some(name)).collect();
    let link = |kind: &str, name: &str, most: usize| {
        html! { a.quiet href={ "decisions" (filters.with(kind, name)) } title={ "Show only this " (kind) } { (format::name(name, most)) } }
    };
    html! {
        @if let Some(key) = &row.key { (link("key", key, 24)) } @else { span.muted { "removed" } }
        @if !others.is_empty() {
            " " span.muted { "(" @for (n, (kind, name)) in others.iter().enumerate() { @if n > 0 { ", " } (link(kind, name, 20)) } ")" }
        }
    }
}

/// The attempts in their order, each with how it ended.
fn chain(row: &GenerationRow<'_>, filters: &Filters) -> Markup {
    let last = row.chain.len().saturating_sub(1);
    html! {
        span.chain {
            @for (n, link) in row.chain.iter().enumerate() {
                @if n > 0 { span.muted { " → " } }
                @let (tone, sign) = words::outcome(&link.outcome);
                @let cause = link.cause.as_deref().map(|cause| format!(", {}", words::spaced(cause))).unwrap_or_default();
                @let is_served = row.provider_slug.as_deref() == Some(&*link.provider_slug);
                span title={ (words::spaced(&link.outcome)) (cause) } {
                    @if is_served { a.quiet href={ "decisions" (filters.with("provider", &link.provider_slug)) } { (format::name(&link.provider_slug, 24)) } }
                    @else { (format::name(&link.provider_slug, 24)) }
                    " " span.(tone) { (sign) }
                    @if sign == "✗" { " " (cause_link(row, link, n == last, filters)) }
                }
            }
        }
    }
}

/// How an attempt failed. That of the last one is what the call failed of, and can be filtered by.
fn cause_link(row: &GenerationRow<'_>, link: &LinkBody<'_>, is_last: bool, filters: &Filters) -> Markup {
    let said = words::spaced(&link.outcome);
    html! {
        @if is_last && row.status == "failed" { a.quiet.cause href={ "decisions" (filters.with("cause", &link.outcome)) } { (said) } }
        @else { span.cause { (said) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_nowhere_but_to_a_decision() {
        assert_eq!(path_segment("../../metrics"), "..%2F..%2Fmetrics");
        assert_eq!(path_segment(".."), "-");
        assert_eq!(path_segment("//evil.example"), "%2F%2Fevil.example");
    }
}
