//! Accounts and teams: their budgets, and the forms that set, disable and remove them by the functions of the API. What the configuration
//! sets is changed there: the form shows the lines.

use std::sync::Arc;

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_dialect::percent;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{
    answer, budget,
    form::{Entered, Field, Fields, Kind as FieldKind, Question, hidden},
    format, in_file,
    keys::edit::resets,
    layout::{Nav, api_line, data_table},
    visit::Visit,
};
use crate::{
    access::{issued::HolderKind, keys::Caller},
    api::{
        admin::{
            accounts::{self, HolderBody, Origin},
            keys,
        },
        keys::issued_key::wrong,
        path_name::PathName,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

const NAME: [Field; 1] = [("name", FieldKind::Text)];
const OF_TEAM: [Field; 2] = [("limit", FieldKind::Text), ("limit_reset", FieldKind::Text)];
const OF_ACCOUNT: [Field; 6] = [
    ("limit", FieldKind::Text),
    ("limit_reset", FieldKind::Text),
    ("team", FieldKind::Text),
    ("requests_per_minute", FieldKind::Number),
    ("tokens_per_minute", FieldKind::Number),
    ("concurrency", FieldKind::Number),
];

/// The fields of its form, but for the name.
const fn fields_of(kind: HolderKind) -> &'static [Field] {
    match kind {
        HolderKind::Account => &OF_ACCOUNT,
        HolderKind::Team => &OF_TEAM,
    }
}

fn find(kind: HolderKind, worker: &Worker, name: &str) -> Result<HolderBody, ApiError> {
    let found = accounts::holders(kind, worker).into_iter().find(|holder| holder.name == name);
    found.ok_or_else(|| ApiError::no_such(kind.word()))
}

/// The address of its page, below `/console/`.
fn path(kind: HolderKind, name: &str) -> String {
    format!("{}/{}", kind.plural(), percent::encoded(name))
}

/// Shows all accounts and teams.
///
/// # Errors
/// None.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let content = html! {
        h1 { "Accounts and teams" }
        @match visit.query() {
            "done=set" => p.done role="status" { "The change is in force." },
            "done=disabled" => p.done role="status" { "It is disabled: its keys are refused from now on." },
            "done=enabled" => p.done role="status" { "It is enabled: its keys are accepted again." },
            "done=removed" => p.done role="status" { "Its limits are removed. Keys and records stay." },
            _ => {}
        }
        @let teams = accounts::teams(&visit.worker);
        (section(&visit, HolderKind::Team, &teams, &teams))
        (section(&visit, HolderKind::Account, &accounts::accounts(&visit.worker), &teams))
        p.muted {
            "A call is charged to its key, the account of the key and the team of the account; the limit that is met first refuses it. "
            "Spending is counted in UTC days, weeks from Monday, and months."
        }
        (api_line("/api/v1/admin/accounts"))
        (api_line("/api/v1/admin/teams"))
    };
    Ok(answer::page(visit.frame.page("Accounts and teams", Some(Nav::Accounts), content)))
}

/// The team of an account, if less is left of its limit than of that of the account.
fn of_team<'t>(account: &HolderBody, teams: &'t [HolderBody]) -> Option<&'t HolderBody> {
    let team = teams.iter().find(|team| Some(&team.name) == account.team.as_ref())?;
    let left = team.limit_remaining?;
    account.limit_remaining.is_none_or(|own| left.0 < own.0).then_some(team)
}

fn section(visit: &Visit, kind: HolderKind, holders: &[HolderBody], teams: &[HolderBody]) -> Markup {
    let is_account = kind == HolderKind::Account;
    html! {
        header.title {
            h2 { @if is_account { "Accounts" } @else { "Teams" } " " span.muted { (holders.len()) } }
            a.button href={ "new/" (kind.word()) } { "New " (kind.word()) }
        }
        @if holders.is_empty() {
            p.empty { "There is no " (kind.word()) " yet." @if !is_account { " A team is a budget that several accounts share." } }
        } @else {
            (data_table(html! { @if is_account { "Accounts" } @else { "Teams" } " with their budgets" },
                html! {
                    th scope="col" { @if is_account { "Account" } @else { "Team" } }
                    @if is_account { th scope="col" { "Team" } }
                    th.r scope="col" data-sort { "Today" } th.r scope="col" data-sort { "This month" }
                    th.wide scope="col" { "Spent of the limit" } th.r scope="col" { "Budget left" } th scope="col" { "Set" } th scope="col" { "Action" }
                },
                html! { @for holder in holders { (row(visit, kind, holder, teams)) } }))
        }
    }
}

fn row(visit: &Visit, kind: HolderKind, holder: &HolderBody, teams: &[HolderBody]) -> Markup {
    let path = path(kind, &holder.name);
    let whom = html! { span.visually-hidden { " " (kind.word()) " " (format::plain_name(&holder.name, 60)) } };
    html! {
        tr data-row {
            th scope="row" { a href={ "decisions?" (kind.word()) "=" (percent::encoded(&holder.name)) } title="Its decisions" { (format::name(&holder.name, 40)) } @if holder.disabled { " " span.tag.warn { "disabled" } } }
            @if kind == HolderKind::Account { td { @if let Some(team) = &holder.team { (format::name(team, 40)) } @else { (format::none()) } } }
            td.r { (format::money(Some(holder.usage_daily.0))) }
            td.r { (format::money(Some(holder.usage_monthly.0))) }
            td.wide { (budget::bar(holder.limit, holder.limit_remaining)) }
            td.r {
                @match of_team(holder, teams) {
                    Some(team) => { (budget::left(team.limit, team.limit_remaining, team.limit_reset)) br; span.muted { "of the team " (format::name(&team.name, 32)) } }
                    None => (budget::left(holder.limit, holder.limit_remaining, holder.limit_reset)),
                }
            }
            td.t { @match holder.origin { Origin::Configuration => "in the file", Origin::Administrator => "here", Origin::Keys => span.muted { "by its keys alone" } } }
            td {
                div.inline {
                    a.button href=(path) { @if holder.origin == Origin::Configuration { "Lines" span.visually-hidden { " for the file of the" } } @else { "Change" } (whom) }
                    (switch(visit, kind, holder, &whom))
                    @if holder.origin == Origin::Administrator { a.button href={ (path) "/delete" } { "Delete" (whom) } }
                }
            }
        }
    }
}

/// A link to the question whether to disable it, or the button that enables it.
fn switch(visit: &Visit, kind: HolderKind, holder: &HolderBody, whom: &Markup) -> Markup {
    let path = path(kind, &holder.name);
    html! {
        @if holder.disabled {
            form method="post" action={ (path) "/enable" } { (visit.frame.token()) button type="submit" { "Enable" (whom) } }
        } @else if !accounts::is_own(visit, kind, &holder.name) {
            a.button href={ (path) "/disable" } { "Disable" (whom) }
        }
    }
}

/// Shows the form of a new account or team.
///
/// # Errors
/// None.
pub(super) async fn new(kind: HolderKind, visit: Visit) -> Result<HttpResponse, ApiError> {
    let fields = Fields { entered: &Entered::default(), error: None };
    Ok(answer::page(form_page(&visit, kind, None, fields, None)))
}

/// Shows the form of an account or a team.
///
/// # Errors
/// 404 for an unknown name.
pub(super) async fn change(kind: HolderKind, visit: Visit, name: PathName) -> Result<HttpResponse, ApiError> {
    let holder = find(kind, &visit.worker, &name)?;
    let fields = Fields { entered: &filled_in(&holder), error: None };
    Ok(answer::page(form_page(&visit, kind, Some(&holder), fields, None)))
}

/// Sets what was entered, or shows the form again with what was refused. For an entry of the configuration it shows the lines.
///
/// # Errors
/// 404 for an unknown name, 403 for a form of another session; others are shown on the page.
pub(super) async fn set(
    kind: HolderKind,
    name: Option<PathName>,
    visit: Visit,
    entered: Entered,
) -> Result<HttpResponse, ApiError> {
    let holder = name.as_deref().map(|name| find(kind, &visit.worker, name)).transpose()?;
    let to = |holder: Option<&HolderBody>, error: Option<&ApiError>, lines: Option<&Map<String, Value>>| {
        form_page(&visit, kind, holder, Fields { entered: &entered, error }, lines)
    };
    let members = entered.members(fields_of(kind));
    if let Some(holder) = holder.as_ref().filter(|holder| holder.origin == Origin::Configuration) {
        let changes = entered.changes(fields_of(kind), &filled_in(holder));
        return Ok(match checked(kind, &holder.name, &members) {
            Ok(()) => answer::page(to(Some(holder), None, Some(&changes))),
            Err(error) => answer::refused(&error, to(Some(holder), Some(&error), None)),
        });
    }
    let name = name.as_deref().unwrap_or_else(|| entered.get("name"));
    let is_taken = holder.is_none() && find(kind, &visit.worker, name).is_ok_and(|known| known.origin != Origin::Keys);
    let done = if holder.as_ref().is_some_and(|holder| entered.get("seen") != version(holder)) {
        Err(ApiError::changed_meanwhile())
    } else if is_taken {
        Err(wrong("name", format!("another one: the {} '{name}' is there already", kind.word())).into())
    } else {
        accounts::set(&visit, kind, name, &members).await
    };
    Ok(match done {
        Ok(()) => answer::redirect("../accounts?done=set"),
        Err(error) => answer::refused(&error, to(holder.as_ref(), Some(&error), None)),
    })
}

/// Checks what is wanted of an entry of the configuration.
fn checked(kind: HolderKind, name: &str, members: &Map<String, Value>) -> Result<(), ApiError> {
    match kind {
        HolderKind::Account => accounts::read_account(name, members).map(drop)?,
        HolderKind::Team => accounts::read_team(name, members).map(drop)?,
    }
    Ok(())
}

/// What tells whether an account or a team was changed since a page was made.
fn version(holder: &HolderBody) -> String {
    let settings = Value::Object(holder.members()).to_string();
    hex::encode(Sha256::digest(settings)).chars().take(16).collect()
}

fn filled_in(holder: &HolderBody) -> Entered {
    let mut entered = Entered::default();
    for (name, value) in holder.members() {
        match value.as_str() {
            Some(text) => entered.add(&name, text),
            None => entered.add(&name, value),
        }
    }
    entered
}

fn form_page(
    visit: &Visit,
    kind: HolderKind,
    holder: Option<&HolderBody>,
    fields: Fields<'_>,
    lines: Option<&Map<String, Value>>,
) -> Markup {
    let (frame, worker, word) = (&visit.frame, &visit.worker, kind.word());
    let is_configured = holder.is_some_and(|holder| holder.origin == Origin::Configuration);
    let title = match holder {
        Some(holder) => format!("Change the {word} “{}”", format::plain_name(&holder.name, 60)),
        None => format!("New {word}"),
    };
    let action = match holder {
        Some(holder) => format!("{}{}", frame.root, path(kind, &holder.name)),
        None => format!("{}new/{word}", frame.root),
    };
    let known = [NAME.as_slice(), fields_of(kind)].concat();
    let content = html! {
        p.crumbs { a href={ (frame.root) "accounts" } { "Accounts and teams" } " / " (title) }
        h1 { (title) }
        @if let Some(holder) = holder.filter(|_| is_configured) { (in_file::note(in_file::place(worker, kind.plural(), &holder.name).as_deref())) }
        (fields.general(&known))
        @if let (Some(changes), Some(holder)) = (lines, holder) { (in_file::section(kind.plural(), &holder.name, changes)) }
        form.edit method="post" action=(action) {
            (frame.token())
            @if let Some(holder) = holder { (hidden("seen", &version(holder))) }
            (controls(worker, kind, holder.is_none(), fields))
            div.act {
                button.primary type="submit" { @if is_configured { "Show the lines" } @else { "Save" } }
                a.button href={ (frame.root) "accounts" } { "Cancel" }
            }
        }
    };
    frame.page(&title, Some(Nav::Accounts), content)
}

fn controls(worker: &Worker, kind: HolderKind, is_new: bool, fields: Fields<'_>) -> Markup {
    html! {
        @if is_new || kind == HolderKind::Account {
            fieldset {
                legend { "Who" }
                @if is_new {
                    @let hint = if kind == HolderKind::Account { "As the account of its keys; it need not have any yet." } else { "Accounts are put into it by this name." };
                    (fields.text("name", "Name", hint))
                }
                @if kind == HolderKind::Account { (fields.team(worker, "Shares the budget of the team.")) }
            }
        }
        fieldset {
            legend { "Budget" }
            (fields.text("limit", "Limit in US dollars", "Such as 25.00; empty: none; 0 stops all calls that cost something."))
            (fields.choice("limit_reset", "Starts again", "At midnight UTC; weeks start on Monday.", &resets()))
        }
        @if kind == HolderKind::Account {
            fieldset {
                legend { "Limits of all its keys together" }
                (fields.number("requests_per_minute", "Requests a minute", "Empty: the default of the configuration; 0: no limit."))
                (fields.number("tokens_per_minute", "Tokens a minute", "Prompt and answer together, in the same way."))
                (fields.number("concurrency", "Requests at once", "In progress, in the same way."))
            }
        }
    }
}

/// Asks whether to disable an account or a team.
///
/// # Errors
/// 404 for an unknown name.
pub(super) async fn ask_disable(kind: HolderKind, visit: Visit, name: PathName) -> Result<HttpResponse, ApiError> {
    let (holder, word) = (find(kind, &visit.worker, &name)?, kind.word());
    let callers = keys::callers(&visit.worker);
    let is_of = |caller: &&Arc<Caller>| match kind {
        HolderKind::Account => *caller.account_name == *holder.name,
        HolderKind::Team => caller.account.team.load().as_ref().is_some_and(|team| *team.name == *holder.name),
    };
    let of_it: Vec<_> = callers.iter().filter(is_of).collect();
    let in_flight: u32 = of_it.iter().map(|caller| visit.worker.setup.admission.in_flight_of(caller)).sum();
    let consequences = html! {
        p.lead { (of_it.len()) @if of_it.len() == 1 { " key, " } @else { " keys, " } (in_flight) " calls in flight, " (format::money(Some(holder.usage_daily.0))) " spent today." }
        p { "Calls with keys of this " (word) " are refused with 401 from then on; those that run go on to their end. It can be enabled again at any time." }
    };
    let title = format!("Disable the {word} “{}”?", format::plain_name(&name, 60));
    Ok(question(&visit, title, consequences, "disable", "Disable it"))
}

fn question(visit: &Visit, title: String, consequences: Markup, action: &str, verb: &str) -> HttpResponse {
    let question = Question { title, consequences, action, verb, back: "../../accounts", hidden: html! {} };
    answer::page(visit.frame.page(verb, Some(Nav::Accounts), question.markup(&visit.frame)))
}

/// Disables or enables an account or a team.
///
/// # Errors
/// As the calls of the API, 403 for a form of another session.
pub(super) async fn switched(
    kind: HolderKind,
    on: bool,
    visit: Visit,
    name: PathName,
    _: Entered,
) -> Result<HttpResponse, ApiError> {
    accounts::switch(&visit, kind, &name, on).await?;
    Ok(answer::redirect(if on { "../../accounts?done=enabled" } else { "../../accounts?done=disabled" }))
}

/// Asks whether to remove an account or a team.
///
/// # Errors
/// 404 for an unknown name.
pub(super) async fn ask(kind: HolderKind, visit: Visit, name: PathName) -> Result<HttpResponse, ApiError> {
    let holder = find(kind, &visit.worker, &name)?;
    let consequences = match kind {
        HolderKind::Account => {
            html! { p { "Its limits and its team are removed: only the defaults of the configuration hold for its keys then. Keys, records and what it spent stay." } }
        }
        HolderKind::Team => {
            let accounts = accounts::accounts(&visit.worker);
            let members = accounts.iter().filter(|account| account.team.as_deref() == Some(&*name)).count();
            html! {
                p { strong { (members) } " accounts share its budget. They have no budget of a team then, until a team of this name is set up again." }
            }
        }
    };
    let title = format!("Delete the {} “{}”?", kind.word(), format::plain_name(&name, 60));
    let consequences = html! {
        (consequences)
        @if holder.disabled { p { "It stays disabled until it is enabled." } }
    };
    Ok(question(&visit, title, consequences, "delete", "Delete it"))
}

/// Removes the limits of an account, or a team.
///
/// # Errors
/// As the calls of the API, 403 for a form of another session.
pub(super) async fn delete(
    kind: HolderKind,
    visit: Visit,
    name: PathName,
    _: Entered,
) -> Result<HttpResponse, ApiError> {
    accounts::delete(&visit, kind, &name).await?;
    Ok(answer::redirect("../../accounts?done=removed"))
}
