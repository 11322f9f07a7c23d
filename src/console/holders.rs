//! Accounts and teams: their budgets, and the forms that set and remove them by the functions of the API. What the configuration
//! sets is changed there: the form shows the lines.

use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};
use pointsman_dialect::percent;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{
    answer, budget,
    form::{Entered, Field, Fields, Kind as FieldKind, Question, SentForm, hidden},
    format, in_file,
    keys::edit::resets,
    layout::{Frame, Nav, api_line},
    visitor::Visitor,
};
use crate::{
    api::{
        admin::accounts::{self, HolderBody, Origin},
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

/// An account or a team.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Account,
    Team,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Kind::Account => "account",
            Kind::Team => "team",
        }
    }

    /// The table of the configuration, and the path below `/console/`.
    const fn table(self) -> &'static str {
        match self {
            Kind::Account => "accounts",
            Kind::Team => "teams",
        }
    }

    /// The fields of its form, but for the name.
    const fn fields(self) -> &'static [Field] {
        match self {
            Kind::Account => &OF_ACCOUNT,
            Kind::Team => &OF_TEAM,
        }
    }

    fn all(self, worker: &Worker) -> Vec<HolderBody> {
        match self {
            Kind::Account => accounts::accounts(worker),
            Kind::Team => accounts::teams(worker),
        }
    }

    fn find(self, worker: &Worker, name: &str) -> Result<HolderBody, ApiError> {
        self.all(worker).into_iter().find(|holder| holder.name == name).ok_or_else(|| ApiError::no_such(self.word()))
    }

    fn path(self, name: &str) -> String {
        format!("{}/{}", self.table(), percent::encoded(name))
    }
}

/// Shows all accounts and teams.
///
/// # Errors
/// None.
pub(super) async fn show(_: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let frame = Frame::of(&request);
    let content = html! {
        h1 { "Accounts and teams" }
        @match request.query_string() {
            "done=set" => p.done role="status" { "The change is in force." },
            "done=removed" => p.done role="status" { "Its limits are removed. Keys and records stay." },
            _ => {}
        }
        (section(Kind::Team, &Kind::Team.all(&worker)))
        (section(Kind::Account, &Kind::Account.all(&worker)))
        p.muted {
            "A call is charged to its key, the account of the key and the team of the account; the limit that is met first refuses it. "
            "Spending is counted in UTC days, weeks from Monday, and months."
        }
        (api_line("/api/v1/admin/accounts"))
        (api_line("/api/v1/admin/teams"))
    };
    Ok(answer::page(frame.page("Accounts and teams", Some(Nav::Accounts), content)))
}

fn section(kind: Kind, holders: &[HolderBody]) -> Markup {
    let is_account = kind == Kind::Account;
    html! {
        header.title {
            h2 { @if is_account { "Accounts" } @else { "Teams" } " " span.muted { (holders.len()) } }
            a.button href={ "new/" (kind.word()) } { "New " (kind.word()) }
        }
        @if holders.is_empty() {
            p.empty { "There is no " (kind.word()) " yet." @if !is_account { " A team is a budget that several accounts share." } }
        } @else {
            div.scroll.hide-caption tabindex="0" {
                table {
                    caption { @if is_account { "Accounts" } @else { "Teams" } " with their budgets" }
                    thead { tr {
                        th scope="col" { @if is_account { "Account" } @else { "Team" } }
                        @if is_account { th scope="col" { "Team" } }
                        th.r scope="col" data-sort { "Today" } th.r scope="col" data-sort { "This month" }
                        th.wide scope="col" { "Spent of the limit" } th.r scope="col" { "Budget left" } th scope="col" { "Set" } th scope="col" { "Action" }
                    } }
                    tbody { @for holder in holders { (row(kind, holder)) } }
                }
            }
        }
    }
}

fn row(kind: Kind, holder: &HolderBody) -> Markup {
    let path = kind.path(&holder.name);
    let whom = html! { span.visually-hidden { " " (kind.word()) " " (format::plain_name(&holder.name, 60)) } };
    html! {
        tr data-row {
            th scope="row" { a href={ "decisions?" (kind.word()) "=" (percent::encoded(&holder.name)) } title="Its decisions" { (format::name(&holder.name, 40)) } }
            @if kind == Kind::Account { td { @if let Some(team) = &holder.team { (format::name(team, 40)) } @else { (format::none()) } } }
            td.r { (format::money(Some(holder.usage_daily.0))) }
            td.r { (format::money(Some(holder.usage_monthly.0))) }
            td.wide { (budget::bar(holder.limit, holder.limit_remaining)) }
            td.r { (budget::left(holder.limit, holder.limit_remaining, holder.limit_reset)) }
            td.t { @match holder.origin { Origin::Configuration => "in the file", Origin::Administrator => "here", Origin::Keys => span.muted { "by its keys alone" } } }
            td.t {
                a.button href=(path) { @if holder.origin == Origin::Configuration { "Lines for the file" } @else { "Change" } (whom) }
                @if holder.origin == Origin::Administrator { " " a.button href={ (path) "/delete" } { "Delete" (whom) } }
            }
        }
    }
}

/// Shows the form of a new account.
///
/// # Errors
/// None.
pub(super) async fn new_account(_: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    Ok(new(Kind::Account, &worker, &request))
}

/// Shows the form of a new team.
///
/// # Errors
/// None.
pub(super) async fn new_team(_: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    Ok(new(Kind::Team, &worker, &request))
}

/// Sets up an account.
///
/// # Errors
/// As [`set`].
pub(super) async fn create_account(
    visitor: Visitor,
    worker: Worker,
    request: HttpRequest,
    form: SentForm,
) -> Result<HttpResponse, ApiError> {
    set(Kind::Account, None, visitor, worker, request, form).await
}

/// Sets up a team.
///
/// # Errors
/// As [`set`].
pub(super) async fn create_team(
    visitor: Visitor,
    worker: Worker,
    request: HttpRequest,
    form: SentForm,
) -> Result<HttpResponse, ApiError> {
    set(Kind::Team, None, visitor, worker, request, form).await
}

/// Shows the form of an account.
///
/// # Errors
/// 404 for an unknown name.
pub(super) async fn account(
    _: Visitor,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    change(Kind::Account, &worker, &request, &name)
}

/// Shows the form of a team.
///
/// # Errors
/// 404 for an unknown name.
pub(super) async fn team(
    _: Visitor,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    change(Kind::Team, &worker, &request, &name)
}

/// Changes an account.
///
/// # Errors
/// As [`set`].
pub(super) async fn change_account(
    visitor: Visitor,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
    form: SentForm,
) -> Result<HttpResponse, ApiError> {
    set(Kind::Account, Some(name.to_owned()), visitor, worker, request, form).await
}

/// Changes a team.
///
/// # Errors
/// As [`set`].
pub(super) async fn change_team(
    visitor: Visitor,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
    form: SentForm,
) -> Result<HttpResponse, ApiError> {
    set(Kind::Team, Some(name.to_owned()), visitor, worker, request, form).await
}

fn new(kind: Kind, worker: &Worker, request: &HttpRequest) -> HttpResponse {
    let fields = Fields { entered: &Entered::default(), error: None };
    answer::page(form_page(&Frame::of(request), kind, None, worker, fields, None))
}

fn change(kind: Kind, worker: &Worker, request: &HttpRequest, name: &str) -> Result<HttpResponse, ApiError> {
    let holder = kind.find(worker, name)?;
    let fields = Fields { entered: &filled_in(&holder), error: None };
    Ok(answer::page(form_page(&Frame::of(request), kind, Some(&holder), worker, fields, None)))
}

/// Sets what was entered, or shows the form again with what was refused. For an entry of the configuration it shows the lines.
///
/// # Errors
/// 404 for an unknown name, 403 for a form of another session; others are shown on the page.
async fn set(
    kind: Kind,
    name: Option<String>,
    visitor: Visitor,
    worker: Worker,
    request: HttpRequest,
    form: SentForm,
) -> Result<HttpResponse, ApiError> {
    let entered = Entered::sent(&visitor, form)?;
    let holder = name.as_deref().map(|name| kind.find(&worker, name)).transpose()?;
    let to = |holder: Option<&HolderBody>, error: Option<&ApiError>, lines: Option<&Map<String, Value>>| {
        form_page(&Frame::of(&request), kind, holder, &worker, Fields { entered: &entered, error }, lines)
    };
    let members = entered.members(kind.fields());
    if let Some(holder) = holder.as_ref().filter(|holder| holder.origin == Origin::Configuration) {
        let changes = entered.changes(kind.fields(), &filled_in(holder));
        return Ok(match checked(kind, &holder.name, &members) {
            Ok(()) => answer::page(to(Some(holder), None, Some(&changes))),
            Err(error) => answer::refused(&error, to(Some(holder), Some(&error), None)),
        });
    }
    let name = name.unwrap_or_else(|| entered.get("name").to_owned());
    let is_new = holder.is_none();
    let is_taken = is_new && kind.find(&worker, &name).is_ok_and(|known| known.origin != Origin::Keys);
    let done = match kind {
        _ if holder.as_ref().is_some_and(|holder| entered.get("seen") != version(holder)) => {
            Err(ApiError::changed_meanwhile())
        }
        _ if is_taken => {
            Err(wrong("name", format!("another one: the {} '{name}' is there already", kind.word())).into())
        }
        Kind::Account => accounts::set_account(&worker, &request, &visitor.caller, &name, &members).await,
        Kind::Team => accounts::set_team(&worker, &request, &visitor.caller, &name, &members).await,
    };
    Ok(match done {
        Ok(()) => answer::redirect("../accounts?done=set"),
        Err(error) => answer::refused(&error, to(holder.as_ref(), Some(&error), None)),
    })
}

/// Checks what is wanted of an entry of the configuration.
fn checked(kind: Kind, name: &str, members: &Map<String, Value>) -> Result<(), ApiError> {
    match kind {
        Kind::Account => accounts::read_account(name, members).map(drop)?,
        Kind::Team => accounts::read_team(name, members).map(drop)?,
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
    frame: &Frame,
    kind: Kind,
    holder: Option<&HolderBody>,
    worker: &Worker,
    fields: Fields<'_>,
    lines: Option<&Map<String, Value>>,
) -> Markup {
    let word = kind.word();
    let is_configured = holder.is_some_and(|holder| holder.origin == Origin::Configuration);
    let title = match holder {
        Some(holder) => format!("Change the {word} “{}”", format::plain_name(&holder.name, 60)),
        None => format!("New {word}"),
    };
    let action = match holder {
        Some(holder) => format!("{}{}", frame.root, kind.path(&holder.name)),
        None => format!("{}new/{word}", frame.root),
    };
    let known = [NAME.as_slice(), kind.fields()].concat();
    let content = html! {
        p.crumbs { a href={ (frame.root) "accounts" } { "Accounts and teams" } " / " (title) }
        h1 { (title) }
        @if let Some(holder) = holder.filter(|_| is_configured) { (in_file::note(in_file::place(worker, kind.table(), &holder.name).as_deref())) }
        (fields.general(&known))
        @if let (Some(changes), Some(holder)) = (lines, holder) { (in_file::section(kind.table(), &holder.name, changes)) }
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

fn controls(worker: &Worker, kind: Kind, is_new: bool, fields: Fields<'_>) -> Markup {
    let teams: Vec<_> = accounts::team_names(worker).into_iter().collect();
    let teams: Vec<(&str, &str)> =
        std::iter::once(("", "none")).chain(teams.iter().map(|team| (&**team, &**team))).collect();
    html! {
        @if is_new || kind == Kind::Account {
            fieldset {
                legend { "Who" }
                @if is_new {
                    @let hint = if kind == Kind::Account { "As the account of its keys; it need not have any yet." } else { "Accounts are put into it by this name." };
                    (fields.text("name", "Name", hint))
                }
                @if kind == Kind::Account { (fields.choice("team", "Team", "Shares the budget of the team.", &teams)) }
            }
        }
        fieldset {
            legend { "Budget" }
            (fields.text("limit", "Limit in US dollars", "Such as 25.00; empty: none; 0 stops all calls that cost something."))
            (fields.choice("limit_reset", "Starts again", "At midnight UTC; weeks start on Monday.", &resets()))
        }
        @if kind == Kind::Account {
            fieldset {
                legend { "Limits of all its keys together" }
                (fields.number("requests_per_minute", "Requests a minute", "Empty: the default of the configuration; 0: no limit."))
                (fields.number("tokens_per_minute", "Tokens a minute", "Prompt and answer together, in the same way."))
                (fields.number("concurrency", "Requests at once", "In progress, in the same way."))
            }
        }
    }
}

/// Asks whether to remove an account.
///
/// # Errors
/// 404 for an unknown name.
pub(super) async fn ask_account(
    _: Visitor,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    let consequences = html! { p { "Its limits and its team are removed: only the defaults of the configuration hold for its keys then. Keys, records and what it spent stay." } };
    ask(Kind::Account, &worker, &request, &name, consequences)
}

/// Asks whether to remove a team.
///
/// # Errors
/// 404 for an unknown name.
pub(super) async fn ask_team(
    _: Visitor,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
) -> Result<HttpResponse, ApiError> {
    let members =
        accounts::accounts(&worker).into_iter().filter(|account| account.team.as_deref() == Some(&*name)).count();
    let consequences = html! {
        p { strong { (members) } " accounts share its budget. They have no budget of a team then, until a team of this name is set up again." }
    };
    ask(Kind::Team, &worker, &request, &name, consequences)
}

fn ask(
    kind: Kind,
    worker: &Worker,
    request: &HttpRequest,
    name: &str,
    consequences: Markup,
) -> Result<HttpResponse, ApiError> {
    kind.find(worker, name)?;
    let frame = Frame::of(request);
    let title = format!("Delete the {} “{}”?", kind.word(), format::plain_name(name, 60));
    let (action, verb, back) = ("delete", "Delete it", "../../accounts");
    let question = Question { title, consequences, action, verb, back, hidden: html! {} };
    Ok(answer::page(frame.page("Delete", Some(Nav::Accounts), question.markup(&frame))))
}

/// Removes the limits of an account.
///
/// # Errors
/// As `DELETE /admin/accounts/{name}`, 403 for a form of another session.
pub(super) async fn delete_account(
    visitor: Visitor,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
    form: SentForm,
) -> Result<HttpResponse, ApiError> {
    Entered::sent(&visitor, form)?;
    accounts::remove_account(&worker, &request, &visitor.caller, &name).await?;
    Ok(answer::redirect("../../accounts?done=removed"))
}

/// Removes a team.
///
/// # Errors
/// As `DELETE /admin/teams/{name}`, 403 for a form of another session.
pub(super) async fn delete_team(
    visitor: Visitor,
    worker: Worker,
    request: HttpRequest,
    name: PathName,
    form: SentForm,
) -> Result<HttpResponse, ApiError> {
    Entered::sent(&visitor, form)?;
    accounts::delete_team(&worker, &request, &visitor.caller, &name).await?;
    Ok(answer::redirect("../../accounts?done=removed"))
}
