//! Keys with their limits and spending; here they are disabled and enabled.

use actix_web::{HttpRequest, HttpResponse, web};
use maud::{Markup, html};
use pointsman_dialect::percent;
use serde::Deserialize;

use super::{
    answer, format,
    layout::{Frame, Nav, api_line},
    visitor::Visitor,
};
use crate::{
    api::{
        admin::keys::{self, KeyBody},
        path_name::PathName,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// The hidden field of every form.
#[derive(Deserialize)]
pub(super) struct TokenForm {
    token: String,
}

/// Shows all keys.
///
/// # Errors
/// 503 when the ledger does not answer.
pub(super) async fn show(visitor: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let frame = Frame::of(&request);
    let (callers, size) = (keys::callers(&worker), keys::ledger_size(&worker).await?);
    let bodies: Vec<_> = callers.iter().map(|caller| KeyBody::read(&worker, caller, &size)).collect();
    let own = &*visitor.caller.key.name;
    let content = html! {
        h1 { "Keys and budgets" }
        @if bodies.is_empty() {
            p.empty { "No key is configured. " code { "pointsman keygen" } " makes one." }
        } @else {
            (table(&frame, &bodies, own))
        }
        p.muted {
            "Calls and errors are counted since this process started, errors by their status, also those of refused calls and pages. "
            "Spending is counted in UTC days, weeks from Monday, and months. Keys are issued with "
            code { "pointsman keys create" } " or " code { "POST /api/v1/keys" } "; limits of configured keys stand in the configuration."
        }
        (api_line("/api/v1/admin/keys"))
    };
    Ok(answer::page(frame.page("Keys", Some(Nav::Keys), content)))
}

fn table(frame: &Frame, keys: &[KeyBody<'_>], own: &str) -> Markup {
    html! {
        div.scroll.hide-caption tabindex="0" {
            table {
                caption { "Keys with their limits, use and spending" }
                thead {
                    tr {
                        th scope="col" { "Key" } th scope="col" { "State" } th scope="col" { "Scopes" }
                        th.r scope="col" { "In flight" } th.r scope="col" { "Requests/min" } th.r scope="col" { "Calls" }
                        th scope="col" { "Errors" }
                        th.r scope="col" { "Today" } th.r scope="col" { "This week" } th.r scope="col" { "This month" }
                        th.r scope="col" { "Budget left" } th scope="col" { "Models" } th scope="col" { "Last call" }
                        th scope="col" { "Action" }
                    }
                }
                tbody { @for key in keys { (row(frame, key, own)) } }
            }
        }
    }
}

fn row(frame: &Frame, key: &KeyBody<'_>, own: &str) -> Markup {
    let tone = if key.state == "active" { "good" } else { "warn" };
    html! {
        tr data-row {
            th scope="row" {
                (format::name(key.name, 40)) " "
                @if key.issued { span.tag { "issued" } " " }
                @if key.account != key.name { br; span.muted { "account " (format::name(key.account, 40)) } }
            }
            td.t {
                span.tag.(tone) { (key.state) }
                @if let Some(end) = &key.expires_at { br; span.muted { "until " (format::short_time(end)) } }
            }
            td { @for (n, scope) in key.scopes.iter().enumerate() { @if n > 0 { ", " } (scope) } }
            td.r { (key.in_flight) @if let Some(most) = key.concurrency { span.muted { " of " (most) } } }
            td.r { @if let Some(most) = key.requests_per_minute { (most) } @else { span.muted { "no limit" } } }
            td.r { (format::count(key.calls)) }
            td.t { (errors(key)) }
            td.r { (format::money(Some(key.usage.daily.0))) }
            td.r { (format::money(Some(key.usage.weekly.0))) }
            td.r { (format::money(Some(key.usage.monthly.0))) }
            td.r { (budget(key)) }
            td { (models(key)) }
            td.t { @if let Some(at) = &key.last_call_at { (format::short_time(at)) } @else { (format::none()) } }
            td.t { @if key.name == own { span.muted { "your key" } } @else { (switch(frame, key)) } }
        }
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

fn budget(key: &KeyBody<'_>) -> Markup {
    html! {
        @match key.limit {
            None => span.muted { "no limit" },
            Some(limit) => {
                (format::money(key.limit_remaining.map(|left| left.0))) span.muted { " of " (format::money(Some(limit.0))) }
                @if let Some(period) = key.limit_reset { " " span.muted { (period) } }
            }
        }
    }
}

fn models(key: &KeyBody<'_>) -> Markup {
    html! {
        @if key.allowed_models.is_empty() && key.blocked_models.is_empty() { span.muted { "all" } }
        @if !key.allowed_models.is_empty() { (list(&key.allowed_models)) }
        @if !key.blocked_models.is_empty() { " " span.muted { "not " } (list(&key.blocked_models)) }
    }
}

fn list(patterns: &[String]) -> Markup {
    const SHOWN: usize = 3;
    html! {
        @for (n, pattern) in patterns.iter().take(SHOWN).enumerate() { @if n > 0 { ", " } (format::name(pattern, 40)) }
        @if patterns.len() > SHOWN { span.muted { " and " (patterns.len() - SHOWN) " more" } }
    }
}

fn switch(frame: &Frame, key: &KeyBody<'_>) -> Markup {
    let action = if key.disabled { "enable" } else { "disable" };
    html! {
        form method="post" action={ (frame.root) "keys/" (percent::encoded(key.name)) "/" (action) } {
            (frame.token())
            button type="submit" { @if key.disabled { "Enable" } @else { "Disable" } span.visually-hidden { " " (format::plain_name(key.name, 60)) } }
        }
    }
}

/// Disables a key. Running calls continue.
///
/// # Errors
/// As `POST /admin/keys/{name}/disable`, 403 for a form of another session.
pub(super) async fn disable(
    visitor: Visitor,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
    form: web::Form<TokenForm>,
) -> Result<HttpResponse, ApiError> {
    visitor.check(&form.token)?;
    keys::turn_off(&worker, &request, &visitor.caller, &name).await?;
    Ok(answer::redirect("../../keys"))
}

/// Enables a key.
///
/// # Errors
/// As `POST /admin/keys/{name}/enable`, 403 for a form of another session.
pub(super) async fn enable(
    visitor: Visitor,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
    form: web::Form<TokenForm>,
) -> Result<HttpResponse, ApiError> {
    visitor.check(&form.token)?;
    keys::turn_on(&worker, &request, &visitor.caller, &name).await?;
    Ok(answer::redirect("../../keys"))
}
