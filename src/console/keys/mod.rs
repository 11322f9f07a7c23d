//! Keys with their limits and spending, and the forms that issue and change them.
//!
//! Every form does what a call of the API does, by the same functions. Keys of the configuration are disabled and enabled
//! here; for all else the page shows the lines for the file.

pub(super) mod actions;
mod detail;
pub(super) mod edit;

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_dialect::percent;

pub(super) use self::detail::show as show_one;
use super::{
    answer, budget,
    form::hidden,
    format,
    layout::{Frame, Nav, api_line, data_table},
    visit::Visit,
};
use crate::{
    api::admin::keys::{self, KeyBody},
    base::error::ApiError,
};

/// Shows all keys.
///
/// # Errors
/// 503 when the ledger does not answer.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let (callers, size) = (keys::callers(worker), keys::ledger_size(worker).await?);
    let bodies: Vec<_> = callers.iter().map(|caller| KeyBody::read(worker, caller, &size)).collect();
    let own = &*visit.caller.key.name;
    let content = html! {
        header.title {
            h1 { "Keys and budgets" }
            a.button.primary href="new/key" { "New key" }
        }
        @if visit.query() == "done=deleted" { p.done role="status" { "The key is deleted. Its records stay." } }
        @if bodies.is_empty() {
            p.empty { "There is no key yet." }
        } @else {
            (table(frame, &bodies, own))
        }
        p.muted {
            "Calls and errors are counted since this process started, errors by their status, also those of refused calls and pages. "
            "Spending is counted in UTC days, weeks from Monday, and months. What accounts and teams have left is on "
            a href="accounts" { "their page" } "."
        }
        (api_line("/api/v1/admin/keys"))
    };
    Ok(answer::page(frame.page("Keys", Some(Nav::Keys), content)))
}

/// The address of the page of a key, below `/console/`.
pub(super) fn path(name: &str) -> String {
    format!("keys/{}", percent::encoded(name))
}

fn table(frame: &Frame, keys: &[KeyBody<'_>], own: &str) -> Markup {
    html! {
        (data_table("Keys with their use and spending",
            html! {
                th scope="col" { "Key" } th scope="col" { "State" } th scope="col" { "Scopes" }
                th.r scope="col" data-sort { "Calls" } th scope="col" { "Errors" }
                th.r scope="col" data-sort { "Today" } th.r scope="col" data-sort { "This month" }
                th.r scope="col" { "Budget left" } th scope="col" { "Last call" } th scope="col" { "Action" }
            },
            html! { @for key in keys { (row(frame, key, own)) } }))
    }
}

fn row(frame: &Frame, key: &KeyBody<'_>, own: &str) -> Markup {
    html! {
        tr data-row {
            th scope="row" {
                a href=(path(key.name)) { (format::name(key.name, 40)) } " "
                @if key.issued { span.tag { "issued" } }
                @if key.account != key.name { br; span.muted { "account " (format::name(key.account, 40)) } }
            }
            td.t { (state(key)) }
            td { (key.scopes.join(", ")) }
            td.r { (format::count(key.calls)) @if key.in_flight > 0 { br; span.muted { (key.in_flight) " in flight" } } }
            td.t { (errors(key)) }
            td.r { (format::money(Some(key.usage.daily.0))) }
            td.r { (format::money(Some(key.usage.monthly.0))) }
            td.r { (left(key)) }
            td.t { @if let Some(at) = &key.last_call_at { (format::short_time(at)) } @else { (format::none()) } }
            td.t { @if key.name == own { span.muted { "your key" } } @else { (switch(frame, key)) } }
        }
    }
}

fn state(key: &KeyBody<'_>) -> Markup {
    let tone = if key.state == "active" { "good" } else { "warn" };
    html! {
        span.tag.(tone) { (key.state.replace('_', " ")) }
        @if let Some(end) = &key.expires_at { br; span.muted { "until " (format::short_time(end)) } }
    }
}

/// How often the key was answered with an error, by status.
fn errors(key: &KeyBody<'_>) -> Markup {
    html! {
        @if key.errors.is_empty() { span.muted { "none" } }
        @for (n, error) in key.errors.iter().enumerate() {
            @if n > 0 { br; }
            (format::count(error.count)) " × "
            @if let Some(status) = error.status { (status) } @else { "others" }
        }
    }
}

/// What is left of the limit that the key meets first, and whose it is.
fn left(key: &KeyBody<'_>) -> Markup {
    html! {
        @match &key.effective_limit {
            None => span.muted { "no limit" },
            Some(effective) => {
                (budget::left(Some(effective.limit), Some(effective.remaining), effective.reset))
                @if effective.holder != "key" { br; span.muted { "of the " (effective.holder) " " (format::name(&effective.name, 32)) } }
            }
        }
    }
}

/// A link to the question whether to disable the key, or the button that enables it.
fn switch(frame: &Frame, key: &KeyBody<'_>) -> Markup {
    let whom = html! { span.visually-hidden { " " (format::plain_name(key.name, 60)) } };
    html! {
        @if key.disabled {
            form method="post" action={ (frame.root) (path(key.name)) "/enable" } {
                (frame.token()) button type="submit" { "Enable" (whom) }
            }
        } @else {
            a.button href={ (frame.root) (path(key.name)) "/disable" } { "Disable" (whom) }
        }
    }
}

/// The hidden field that tells which state of a key a form was made for.
fn seen(version: &str) -> Markup {
    hidden("seen", version)
}
