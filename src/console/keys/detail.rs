//! The page of one key: what it may do, what it has left, what it did.

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_dialect::percent;

use super::{
    super::{
        answer, budget, format, in_file,
        layout::{Frame, Nav, api_line, data_table},
        visit::Visit,
        words,
    },
    errors, path, state,
};
use crate::{
    api::{
        admin::{
            accounts::{self, HolderBody},
            keys::{self, KeyBody},
        },
        generations::{
            generation_list::{self, PageBody},
            generation_row::GenerationRow,
            ledger_query::Listed,
        },
        number::Dollars,
        path_name::PathName,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Last calls that are shown.
const SHOWN: usize = 10;

/// Shows one key.
///
/// # Errors
/// 404 for an unknown name, 503 when the ledger does not answer.
pub(in crate::console) async fn show(visit: Visit, name: PathName) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let caller = keys::find(worker, &name)?;
    let size = keys::ledger_size(worker).await?;
    let key = KeyBody::read(worker, &caller, &size);
    let is_own = caller.id == visit.caller.id;
    let listed = Listed::Everybody(worker);
    let query = format!("key={}&limit={SHOWN}", percent::encoded(key.name));
    let calls = generation_list::select(worker, &visit.caller, listed, &query).await;
    let calls = calls.as_ref().map(|calls| calls.body(worker, listed));
    let encoded = percent::encoded(key.name);
    let content = html! {
        p.crumbs { a href={ (frame.root) "keys" } { "Keys" } " / " (format::name(key.name, 60)) }
        header.title {
            h1 { (format::name(key.name, 80)) }
            (state(&key))
            @if key.issued { span.tag { "issued" } } @else { span.tag { "in the configuration" } }
        }
        (done(frame, &key, visit.query()))
        (actions(frame, &key, is_own))
        p {
            a href={ (frame.root) "decisions?key=" (encoded) } { "Its decisions" } " · "
            a href={ (frame.root) "spend?key=" (encoded) } { "Its spending by day" } " · "
            a href={ (frame.root) "audit?object=" (encoded) } { "Its changes" }
        }
        (what_is_left(&key, worker))
        div.columns {
            section { h2 { "May" } (permissions(&key)) }
            section { h2 { "Did" } (usage(&key)) }
        }
        (last_calls(frame, calls))
        @if !key.issued { p.muted {
            "It is in the configuration" @if let Some(place) = in_file::place(worker, "keys", key.name) { ", at " code { (format::name(&place, 120)) } } ". "
            a href={ (frame.root) (path(key.name)) "/change" } { "Lines for the file" } " change its limits."
        } }
        (api_line(&format!("/api/v1/admin/keys/{encoded}")))
    };
    Ok(answer::page(frame.page(&format::plain_name(key.name, 60), Some(Nav::Keys), content)))
}

/// What the form before this page did, and how to undo it.
fn done(frame: &Frame, key: &KeyBody<'_>, query: &str) -> Markup {
    html! {
        @match query {
            "done=disabled" if key.disabled => {
                div.done role="status" {
                    span { "The key is disabled: calls with it are refused. Those that run go on to their end." }
                    (enable(frame, key, "Undo: enable it again"))
                }
            }
            "done=enabled" if !key.disabled => p.done role="status" { "The key is enabled." },
            "done=changed" => p.done role="status" { "The change is in force." },
            _ => {}
        }
    }
}

fn enable(frame: &Frame, key: &KeyBody<'_>, label: &str) -> Markup {
    html! { form method="post" action={ (frame.root) (path(key.name)) "/enable" } { (frame.token()) button type="submit" { (label) } } }
}

fn actions(frame: &Frame, key: &KeyBody<'_>, is_own: bool) -> Markup {
    let to = |action: &str| format!("{}{}/{action}", frame.root, path(key.name));
    html! {
        div.inline {
            @if key.issued {
                a.button href=(to("change")) { "Change" }
                a.button href=(to("rotate")) { "Rotate" }
            } @else {
                a.button href=(to("change")) { "Lines for the file" }
            }
            @if is_own {
                span.muted { "It is the key of this session: another key disables or deletes it." }
            } @else {
                @if key.disabled { (enable(frame, key, "Enable")) } @else { a.button href=(to("disable")) { "Disable" } }
                @if key.issued { a.button href=(to("delete")) { "Delete" } }
            }
        }
    }
}

/// The budgets that a call of the key is charged to; the one that it meets first is marked.
fn what_is_left(key: &KeyBody<'_>, worker: &Worker) -> Markup {
    let account = accounts::accounts(worker).into_iter().find(|account| account.name == key.account);
    let team = account.as_ref().and_then(|account| account.team.as_deref());
    let team = accounts::teams(worker).into_iter().find(|holder| Some(&*holder.name) == team);
    let first = key.effective_limit.as_ref().map(|effective| effective.holder);
    let row = |kind: &str, name: &str, limits: [Option<Dollars>; 2], reset: Option<&str>, spent: [Dollars; 2]| {
        let [limit, left] = limits;
        html! {
            tr.chosen[first == Some(kind)] {
                th scope="row" { (kind) " " (format::name(name, 40)) @if first == Some(kind) { " " span.tag.info { "met first" } } }
                @for amount in spent { td.r { (format::money(Some(amount.0))) } }
                td.wide { (budget::bar(limit, left)) }
                td.r { (budget::left(limit, left, reset)) }
            }
        }
    };
    let of_holder = |kind: &str, holder: &HolderBody| {
        let spent = [holder.usage_daily, holder.usage_monthly];
        row(kind, &holder.name, [holder.limit, holder.limit_remaining], holder.limit_reset, spent)
    };
    html! {
        h2 { "Budgets that it is charged to" }
        (data_table("Budgets of the key, its account and its team",
            html! {
                th scope="col" { "Budget" } th.r scope="col" { "Today" } th.r scope="col" { "This month" }
                th.wide scope="col" { "Spent of the limit" } th.r scope="col" { "Left" }
            },
            html! {
                (row("key", key.name, [key.limit, key.limit_remaining], key.limit_reset, [key.usage.daily, key.usage.monthly]))
                @if let Some(account) = &account { (of_holder("account", account)) }
                @if let Some(team) = &team { (of_holder("team", team)) }
            }))
    }
}

fn permissions(key: &KeyBody<'_>) -> Markup {
    let most = |most: Option<u32>| html! { @match most { Some(most) => (format::count(most)), None => span.muted { "no limit" } } };
    html! {
        dl.facts {
            dt { "Scopes" } dd { (key.scopes.join(", ")) }
            dt { "Requests a minute" } dd { (most(key.requests_per_minute)) }
            dt { "Tokens a minute" } dd { (most(key.tokens_per_minute)) }
            dt { "Requests at once" } dd { (most(key.concurrency)) }
            dt { "Models" } dd { (models(key)) }
            dt { "Ends" } dd { @match &key.expires_at { Some(end) => (format::time(end)), None => span.muted { "never" } } }
        }
    }
}

fn models(key: &KeyBody<'_>) -> Markup {
    let list = |patterns: &[String]| html! { @for (n, pattern) in patterns.iter().enumerate() { @if n > 0 { ", " } code { (format::name(pattern, 60)) } } };
    html! {
        @if key.allowed_models.is_empty() { "all" } @else { (list(&key.allowed_models)) }
        @if !key.blocked_models.is_empty() { " but " (list(&key.blocked_models)) }
    }
}

fn usage(key: &KeyBody<'_>) -> Markup {
    html! {
        dl.facts {
            dt { "In flight" } dd { (key.in_flight) @if let Some(most) = key.concurrency { span.muted { " of at most " (most) } } }
            dt { "Calls since the start" } dd { (format::count(key.calls)) }
            dt { "Errors since the start" } dd { (errors(key)) }
            dt { "Last call" } dd { @match &key.last_call_at { Some(at) => (format::time(at)), None => span.muted { "none since the start" } } }
            dt { "Spent this week" } dd { (format::money(Some(key.usage.weekly.0))) }
            dt { "Spent ever" } dd { (format::money(Some(key.usage.total.0))) }
            @if !key.reserved.0.is_zero() { dt { "Reserved for running calls" } dd { (format::money(Some(key.reserved.0))) } }
        }
    }
}

/// The last calls of the key.
fn last_calls(frame: &Frame, calls: Result<PageBody<'_>, &ApiError>) -> Markup {
    html! {
        h2 { "Last calls" }
        @match calls {
            Err(error) => p.muted { (error.message()) },
            Ok(page) => {
                @if page.data.is_empty() {
                    p.muted { "No record of the key is kept." }
                } @else {
                    (data_table("The last calls of the key, newest first",
                        html! {
                            th scope="col" { "Time " (format::zone()) } th scope="col" { "Status" } th scope="col" { "Requested → served" }
                            th scope="col" { "Provider" } th.r scope="col" { "First token" } th.r scope="col" { "Cost" }
                        },
                        html! { @for row in &page.data { (call(frame, row)) } }))
                }
            }
        }
    }
}

fn call(frame: &Frame, row: &GenerationRow<'_>) -> Markup {
    let (tone, status) = words::status(&row.status);
    html! {
        tr data-row {
            td.t { a href={ (frame.root) "decisions/" (row.id) } { (format::short_time(&row.created_at)) } }
            td.t { span.tag.(tone) { (status) } }
            td { (format::name(&row.requested_model, 48)) @if let Some(model) = row.model.as_deref().filter(|model| *model != row.requested_model) { span.muted { " → " } (format::name(model, 48)) } }
            td { @match &row.provider_slug { Some(slug) => (format::name(slug, 32)), None => (format::none()) } }
            td.r { (format::millis(row.ttft_ms.map(|ms| ms as f64))) }
            td.r { (format::money(row.cost.map(|cost| cost.amount()))) }
        }
    }
}
