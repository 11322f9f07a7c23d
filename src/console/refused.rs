//! The calls that were refused last, with filters by reason and key.

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_dialect::percent;

use super::{
    answer,
    form::any_of,
    format,
    layout::{Nav, api_line},
    visit::Visit,
    words,
};
use crate::{
    api::admin::{
        keys,
        refused::{RefusedCallBody, RefusedCallsBody, RefusedFilter},
        status::RefusedBody,
    },
    base::error::ApiError,
};

/// Seconds between two refreshes.
const REFRESH: u32 = 10;

/// Shows the refused calls.
///
/// # Errors
/// 400 for a bad parameter.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let filter = RefusedFilter::parse(visit.query())?;
    let body = RefusedCallsBody::new(worker, &filter);
    let callers = keys::callers(worker);
    let mut names: Vec<&str> = callers.iter().map(|caller| &*caller.key.name).collect();
    names.sort_unstable();
    let content = html! {
        h1 { "Refused calls" }
        p.muted { "Inference calls that were refused before an endpoint was called. They have no records: the last ones are kept in memory, and none of their text." }
        (band(&body.reasons))
        (form(&filter, &body.reasons, &names))
        div #refused data-refresh=(REFRESH) {
            @if body.data.is_empty() { p.empty { "No refused call is kept that passes these filters." } } @else { (table(&body.data)) }
        }
        (api_line(&format!("/api/v1/admin/refused{}", query(&filter))))
    };
    Ok(answer::page(frame.page("Refused calls", Some(Nav::Overview), content)))
}

/// The reasons that calls were refused for since the start, each with its number; each leads to its calls. For
/// pages directly below `/console/`.
pub(super) fn band(reasons: &[RefusedBody]) -> Markup {
    let total: u64 = reasons.iter().map(|refused| refused.count).sum();
    html! {
        @if total > 0 {
            p.refused {
                a href="refused" { strong { "Refused " (format::count(total)) } } " "
                span.muted { "by reason, since the start:" }
                @for refused in reasons {
                    " " a.tag.warn[is_spent(&refused.reason)] href={ "refused?reason=" (percent::encoded(&refused.reason)) } {
                        (words::spaced(&refused.reason)) " " (format::count(refused.count))
                    }
                }
            }
        }
    }
}

/// Whether the reason is a spending limit that is used up.
fn is_spent(reason: &str) -> bool {
    ["key_limit", "account_limit", "team_limit"].contains(&reason)
}

fn form(filter: &RefusedFilter, reasons: &[RefusedBody], keys: &[&str]) -> Markup {
    let reasons: Vec<&str> = reasons.iter().map(|refused| refused.reason.as_str()).collect();
    html! {
        form.filters method="get" action="refused" role="search" {
            (any_of("reason", "Reason", filter.reason.as_deref(), &reasons, words::spaced))
            (any_of("key", "Key", filter.key.as_deref(), keys, str::to_owned))
            div.act {
                button.primary type="submit" { "Show" }
                @if filter.reason.is_some() || filter.key.is_some() { a.button href="refused" { "Clear" } }
            }
        }
    }
}

fn table(calls: &[RefusedCallBody]) -> Markup {
    html! {
        div.scroll.hide-caption tabindex="0" {
            table.list {
                caption { "Refused calls, newest first" }
                thead { tr {
                    th scope="col" { "Time, request" } th.r scope="col" { "Status" } th scope="col" { "Reason" } th scope="col" { "Key" } th scope="col" { "Account, team" } th scope="col" { "Model" }
                } }
                tbody { @for call in calls { (row(call)) } }
            }
        }
    }
}

fn row(call: &RefusedCallBody) -> Markup {
    let name = |name: &Option<String>| match name {
        Some(name) => format::name(name, 40),
        None => format::none(),
    };
    html! {
        tr data-row {
            td { (format::time(&call.at)) br; code { (call.request_id) } }
            td.r { (call.status) }
            td { (words::spaced(call.reason)) }
            td { (name(&call.key)) }
            td { (name(&call.account)) @if call.team.is_some() { br; (name(&call.team)) } }
            td { (name(&call.model)) }
        }
    }
}

fn query(filter: &RefusedFilter) -> String {
    let pairs = [("reason", &filter.reason), ("key", &filter.key)];
    let pairs =
        pairs.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", percent::encoded(value.as_ref()?))));
    let pairs = pairs.collect::<Vec<_>>().join("&");
    if pairs.is_empty() { pairs } else { format!("?{pairs}") }
}
