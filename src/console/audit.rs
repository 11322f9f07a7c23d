//! The audit log: who changed what, when and from where.

use actix_web::HttpResponse;
use maud::{Markup, html};
use serde_json::Value;

use super::{
    answer,
    decisions::{Filters, time},
    form::any_of,
    format,
    layout::{Nav, api_line, data_table},
    visit::Visit,
    words,
};
use crate::{
    access::{issued::Change, registry::ChangedMember},
    api::admin::audit::{AuditQuery, EntryBody},
    base::error::ApiError,
};

/// Lines of a page.
const LINES: i64 = 50;
/// Longest value, in characters; the whole is in its title.
const MOST_LETTERS: usize = 120;

/// Shows the lines that pass the filters of the address.
///
/// # Errors
/// None; a bad filter is shown on the page.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let filters = Filters::parse(visit.query());
    let query = filters.query(|_| true);
    let page = |list: Markup| {
        let content = html! {
            h1 { "Audit log" }
            (form(&filters))
            (list)
            (api_line(&format!("/api/v1/admin/audit{query}")))
        };
        frame.page("Audit log", Some(Nav::Audit), content)
    };
    match AuditQuery::parse(query.trim_start_matches('?'), LINES) {
        Err(error) => Ok(answer::refused(&error, page(html! { p.alert role="alert" { (error.message()) } }))),
        Ok(asked) => {
            let (lines, total) = asked.read(&worker.shared.access.registry);
            let entries: Vec<_> = lines.iter().map(EntryBody::new).collect();
            Ok(answer::page(page(html! {
                @if entries.is_empty() { (empty(&filters)) } @else { (table(&entries)) }
                (pages(&asked, total, &filters))
            })))
        }
    }
}

fn form(filters: &Filters) -> Markup {
    let field = |name: &'static str, label: &str, hint: &str| {
        html! { label { span { (label) } input name=(name) value=[filters.get(name)] placeholder=(hint) autocomplete="off"; } }
    };
    html! {
        form.filters method="get" action="audit" role="search" {
            (field("object", "Key, account or team", "name"))
            (field("by", "By", "name of a key"))
            (any_of("action", "Action", filters.get("action"), &Change::ACTIONS, words::spaced))
            (time("since", "Since", filters))
            (time("until", "Before", filters))
            div.act {
                button.primary type="submit" { "Show" }
                @if filters.is_filtered() { a.button href="audit" { "Clear" } }
            }
        }
    }
}

fn empty(filters: &Filters) -> Markup {
    html! { p.empty { @if filters.is_filtered() { "No line passes these filters." } @else { "No administrator has changed anything yet." } } }
}

fn table(entries: &[EntryBody<'_>]) -> Markup {
    html! {
        (data_table("Changes by administrators, newest first",
            html! {
                th scope="col" { "Time " (format::zone()) } th scope="col" { "By" } th scope="col" { "From" }
                th scope="col" { "Action" } th scope="col" { "Object" } th scope="col" { "What changed" }
            },
            html! { @for entry in entries { (row(entry)) } }))
    }
}

fn row(entry: &EntryBody<'_>) -> Markup {
    html! {
        tr data-row {
            td.t { (format::time(&entry.at)) }
            td { (format::name(entry.by, 40)) }
            td { (format::name(entry.from, 40)) }
            td.t title=[entry.request_id] { (words::spaced(entry.action)) }
            td { @match entry.object { Some(object) => (format::name(object, 48)), None => (format::none()) } }
            td.changes { @if entry.changes.is_empty() { (format::none()) } @else { ul.plain { @for change in entry.changes { (changed(change)) } } } }
        }
    }
}

fn changed(change: &ChangedMember) -> Markup {
    html! {
        li {
            span.muted { (words::spaced(&change.member)) ": " }
            @if !change.from.is_null() { (shown(&change.from)) " → " }
            (shown(&change.to))
        }
    }
}

/// A value: lists as words, and a spending limit as its amount.
fn shown(value: &Value) -> Markup {
    let text = match value {
        Value::Null => return format::none(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(|item| item.as_str().unwrap_or("…")).collect::<Vec<_>>().join(", "),
        Value::Object(limit) => match limit.get("amount").and_then(Value::as_str) {
            Some(amount) => format!("${amount} {}", limit.get("reset").and_then(Value::as_str).unwrap_or_default()),
            None => value.to_string(),
        },
        other => other.to_string(),
    };
    format::name(text.trim(), MOST_LETTERS)
}

fn pages(asked: &AuditQuery, total: usize, filters: &Filters) -> Markup {
    let to = |offset: usize| {
        let kept = filters.query(|name| name != "offset");
        let sign = if kept.is_empty() { "?" } else { "&" };
        if offset == 0 { format!("audit{kept}") } else { format!("audit{kept}{sign}offset={offset}") }
    };
    let end = asked.offset.saturating_add(asked.limit).min(total);
    html! {
        nav.pages aria-label="Pages of the log" {
            @if asked.offset > 0 { a.button rel="prev" href=(to(asked.offset.saturating_sub(asked.limit))) { "Newer" } }
            @if end < total { a.button rel="next" href=(to(end)) { "Older" } }
            @if total > 0 { span.muted { (asked.offset.min(total) + usize::from(asked.offset < total)) " to " (end) " of " (format::count(total as u64)) } }
        }
    }
}
