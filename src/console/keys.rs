//! Keys with their limits and spending; here they are disabled and enabled.

use actix_web::{HttpRequest, HttpResponse, web};
use maud::{Markup, html};
use pointsman_dialect::percent;
use serde::Deserialize;

use super::{
    answer, format,
    layout::{Frame, Nav, api_line},
    svg::{self, Caption, Segment},
    visitor::Visitor,
};
use crate::{
    api::{
        admin::{
            accounts::{self, HolderBody},
            budget_notices::{NEAR, SPENT},
            keys::{self, KeyBody},
        },
        number::Dollars,
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
        (holders("Accounts", "Account", &accounts::accounts(&worker)))
        (holders("Teams", "Team", &accounts::teams(&worker)))
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

/// What is left of the limit that the key meets first, and whose it is.
fn budget(key: &KeyBody<'_>) -> Markup {
    html! {
        @match &key.effective_limit {
            None => span.muted { "no limit" },
            Some(effective) => {
                (left(Some(effective.limit), Some(effective.remaining), effective.reset))
                @if effective.holder != "key" { br; span.muted { "of the " (effective.holder) " " (format::name(&effective.name, 32)) } }
            }
        }
    }
}

/// What is left of a limit; marked when it is little.
fn left(limit: Option<Dollars>, left: Option<Dollars>, period: Option<&str>) -> Markup {
    let (Some(limit), Some(left)) = (limit, left) else { return html! { span.muted { "no limit" } } };
    let tone = match left.0 {
        left if left * SPENT < limit.0 => "bad",
        left if left * NEAR <= limit.0 => "warn",
        _ => "",
    };
    html! {
        span.(tone) { (format::money(Some(left.0))) } span.muted { " of " (format::money(Some(limit.0))) }
        @if let Some(period) = period { " " span.muted { (period) } }
    }
}

/// Accounts and teams that have a limit or share one.
fn holders(title: &str, kind: &str, holders: &[HolderBody]) -> Markup {
    let limited: Vec<&HolderBody> = holders.iter().filter(|it| it.limit.is_some() || it.team.is_some()).collect();
    html! {
        @if !limited.is_empty() {
            h2 { (title) " " span.muted { (limited.len()) } }
            div.scroll.hide-caption tabindex="0" {
                table {
                    caption { (title) " with their budgets" }
                    thead { tr {
                        th scope="col" { (kind) } th scope="col" { "Team" } th.r scope="col" { "Today" } th.r scope="col" { "This month" }
                        th.wide scope="col" { "Spent of the limit" } th.r scope="col" { "Budget left" }
                    } }
                    tbody { @for holder in limited { (holder_row(holder)) } }
                }
            }
        }
    }
}

fn holder_row(holder: &HolderBody) -> Markup {
    let spent = holder.limit.zip(holder.limit_remaining).map(|(limit, left)| (limit.0 - left.0, limit.0));
    html! {
        tr data-row {
            th scope="row" { (format::name(&holder.name, 40)) }
            td { @if let Some(team) = &holder.team { (format::name(team, 40)) } @else { (format::none()) } }
            td.r { (format::money(Some(holder.usage_daily.0))) }
            td.r { (format::money(Some(holder.usage_monthly.0))) }
            td.wide {
                @if let Some((spent, limit)) = spent {
                    @let title = format!("{} of {} spent", format::dollars(spent), format::dollars(limit));
                    (svg::bar(
                        Caption { title: "Spent of the limit", description: &title },
                        &[Segment { class: if spent < limit { "t1" } else { "t4" }, value: spent.to_f64(), title: &title }],
                        limit.to_f64(),
                    ))
                }
            }
            td.r { (left(holder.limit, holder.limit_remaining, holder.limit_reset)) }
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
