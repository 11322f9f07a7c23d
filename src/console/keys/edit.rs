//! The forms that issue a key and change one. For a key of the configuration the same form shows the lines for the file.

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_config::Key;
use pointsman_domain::ResetPeriod;
use serde_json::{Map, Value, json};

use super::{
    super::{
        answer,
        form::{Entered, Field, Fields, Kind},
        format, in_file,
        layout::{Frame, Nav},
        visit::Visit,
    },
    actions::{issued, new_text, version},
    path, seen,
};
use crate::{
    access::{
        issued::{HolderKind, IssuedKey, StoredLimit},
        keys::Caller,
    },
    api::{
        admin::{
            accounts::{self, Origin},
            keys,
        },
        auth::Authorized,
        keys::{
            issued_key::{set_members, wrong},
            issued_keys::{self, change_key, issue_key},
        },
        path_name::PathName,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// What can be changed of every key.
const LIMITS: [Field; 9] = [
    ("scopes", Kind::Choices),
    ("limit", Kind::Text),
    ("limit_reset", Kind::Text),
    ("requests_per_minute", Kind::Number),
    ("tokens_per_minute", Kind::Number),
    ("concurrency", Kind::Number),
    ("expires_at", Kind::Time),
    ("allowed_models", Kind::List),
    ("blocked_models", Kind::List),
];
/// What further can be changed of an issued key.
const OF_ISSUED: [Field; 4] = [
    ("name", Kind::Text),
    ("allowed_providers", Kind::List),
    ("blocked_providers", Kind::List),
    ("objective", Kind::Text),
];
/// What only a new key has.
const OF_NEW: [Field; 2] = [("account", Kind::Text), ("team", Kind::Text)];
/// Names of the scopes, and what they allow.
const SCOPES: [(&str, &str); 4] = [
    ("inference", "call models"),
    ("read", "read own records and figures"),
    ("admin", "this console and all records"),
    ("feedback", "rate answers"),
];
const OBJECTIVES: [(&str, &str); 5] = [
    ("", "that of the request"),
    ("balanced", "balanced"),
    ("cheapest", "cheapest"),
    ("fastest", "fastest"),
    ("reliable", "reliable"),
];

/// Which key a form is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    New,
    Issued,
    Configured,
}

impl Form {
    fn fields(self) -> Vec<Field> {
        let more: &[Field] = match self {
            Form::New => &OF_NEW,
            Form::Issued | Form::Configured => &[],
        };
        let of_issued: &[Field] = if self == Form::Configured { &[] } else { &OF_ISSUED };
        [LIMITS.as_slice(), of_issued, more].concat()
    }
}

/// Shows the form of a new key.
///
/// # Errors
/// None.
pub(in crate::console) async fn new(visit: Visit) -> Result<HttpResponse, ApiError> {
    let mut entered = Entered::of_query(visit.query());
    if entered.all("scopes").is_empty() {
        entered.add("scopes", "inference");
        entered.add("scopes", "read");
    }
    Ok(answer::page(new_page(&visit.frame, &visit.worker, Fields { entered: &entered, error: None })))
}

/// Issues a key and shows its text, or the form again with what was refused.
///
/// # Errors
/// 403 for a form of another session; others are shown on the page.
pub(in crate::console) async fn create(visit: Visit, entered: Entered) -> Result<HttpResponse, ApiError> {
    match issue(&visit, &entered).await {
        Ok((key, text, trouble)) => {
            Ok(answer::page(new_text(&visit.frame, "It is issued", &key, &text, trouble.as_ref())))
        }
        Err(error) => {
            let fields = Fields { entered: &entered, error: Some(&error) };
            Ok(answer::refused(&error, new_page(&visit.frame, &visit.worker, fields)))
        }
    }
}

/// Issues the key that was entered: the key, its text, and why its account was not put into the team.
async fn issue(by: &Authorized, entered: &Entered) -> Result<(IssuedKey, String, Option<ApiError>), ApiError> {
    let mut members = entered.members(&Form::New.fields());
    let team = members.remove("team").and_then(|team| team.as_str().map(str::to_owned));
    if team.is_some() && !members.contains_key("account") {
        members.insert("account".to_owned(), json!(entered.get("name")));
    }
    let account = members.get("account").and_then(Value::as_str).unwrap_or_default().to_owned();
    let joining = match &team {
        Some(team) => joining(&by.worker, &account, team)?,
        None => None,
    };
    let (key, text) = issue_key(by, &members).await?;
    let trouble = match joining {
        // The key exists by now, so its text is shown whatever becomes of this.
        Some(members) => accounts::set(by, HolderKind::Account, &account, &members).await.err(),
        None => None,
    };
    Ok((key, text.expose().to_owned(), trouble))
}

/// The members with which an account joins a team; `None` if it is in it.
fn joining(worker: &Worker, account: &str, team: &str) -> Result<Option<Map<String, Value>>, ApiError> {
    if !worker.shared.access.registry.has_team(team) {
        return Err(wrong("team", format!("an existing team, and there is no '{team}'")).into());
    }
    let known = accounts::accounts(worker).into_iter().find(|known| known.name == account);
    if known.as_ref().is_some_and(|known| known.team.as_deref() == Some(team)) {
        return Ok(None);
    }
    if known.as_ref().is_some_and(|known| known.origin == Origin::Configuration) {
        return Err(
            wrong("team", format!("left out: the configuration says the team of the account '{account}'")).into()
        );
    }
    let mut members = known.as_ref().map(accounts::HolderBody::members).unwrap_or_default();
    members.insert("team".to_owned(), json!(team));
    Ok(Some(members))
}

fn new_page(frame: &Frame, worker: &Worker, fields: Fields<'_>) -> Markup {
    let taken = keys::find(worker, fields.entered.get("name")).ok().filter(|_| fields.error.is_some());
    let content = html! {
        p.crumbs { a href={ (frame.root) "keys" } { "Keys" } " / new" }
        h1 { "New key" }
        (fields.general(&Form::New.fields()))
        @if let Some(taken) = taken {
            p.note {
                "The key " a href={ (frame.root) (path(&taken.key.name)) } { (format::name(&taken.key.name, 60)) }
                " exists. If this form was sent twice, it is the one that was just issued: rotate it to see a text of it."
            }
        }
        form.edit method="post" action={ (frame.root) "new/key" } {
            (frame.token())
            (controls(worker, Form::New, fields))
            div.act { button.primary type="submit" { "Issue the key" } a.button href={ (frame.root) "keys" } { "Cancel" } }
        }
    };
    frame.page("New key", Some(Nav::Keys), content)
}

fn controls(worker: &Worker, form: Form, fields: Fields<'_>) -> Markup {
    html! {
        @if form != Form::Configured {
            fieldset {
                legend { "Who" }
                (fields.text("name", "Name", "For logs and records; no other key has it."))
                @if form == Form::New {
                    (fields.text("account", "Account", "Keys of one account share its records and limits; empty: one of its own."))
                    (fields.team(worker, "The account shares the budget of its team."))
                }
                (fields.choice("objective", "Objective", "Of requests that name none.", &OBJECTIVES))
            }
        }
        fieldset {
            legend { "May" }
            (fields.checks("scopes", "Scopes", "At least one.", &SCOPES))
            (fields.time("expires_at", "Ends, in UTC", "Refused from then on; empty: never."))
        }
        fieldset {
            legend { "Budget" }
            (fields.text("limit", "Limit in US dollars", "Such as 25.00; empty: none; 0 stops all calls that cost something."))
            (fields.choice("limit_reset", "Starts again", "At midnight UTC; weeks start on Monday.", &resets()))
        }
        fieldset {
            legend { "Limits" }
            (fields.number("requests_per_minute", "Requests a minute", "Empty: the default of the configuration; 0: no limit."))
            (fields.number("tokens_per_minute", "Tokens a minute", "Prompt and answer together, in the same way."))
            (fields.number("concurrency", "Requests at once", "In progress, in the same way."))
        }
        fieldset {
            legend { "Models and providers" }
            (fields.list("allowed_models", "Only these models", "Ids, or beginnings such as acme/*, divided by commas; empty: all."))
            (fields.list("blocked_models", "Never these models", "In the same way."))
            @if form != Form::Configured {
                (fields.list("allowed_providers", "Only these providers", "Slugs, divided by commas; empty: all."))
                (fields.list("blocked_providers", "Never these providers", "In the same way."))
            }
        }
    }
}

/// When a limit may start again.
pub(in crate::console) fn resets() -> [(&'static str, &'static str); 4] {
    let [daily, weekly, monthly] = ResetPeriod::ALL.map(ResetPeriod::as_str);
    [("", "never"), (daily, daily), (weekly, weekly), (monthly, monthly)]
}

/// Shows the form of a key with what holds for it.
///
/// # Errors
/// 404 for an unknown name.
pub(in crate::console) async fn change(visit: Visit, name: PathName) -> Result<HttpResponse, ApiError> {
    let subject = Subject::find(&visit.worker, &name)?;
    let fields = Fields { entered: &subject.filled_in, error: None };
    Ok(answer::page(subject.page(&visit.frame, &visit.worker, fields, None)))
}

/// Changes an issued key, or shows the lines that would change one of the configuration. Only what differs is changed.
///
/// # Errors
/// 404 for an unknown name, 403 for a form of another session; others are shown on the page.
pub(in crate::console) async fn submit(
    visit: Visit,
    name: PathName,
    entered: Entered,
) -> Result<HttpResponse, ApiError> {
    let subject = Subject::find(&visit.worker, &name)?;
    let changes = entered.changes(&subject.form.fields(), &subject.filled_in);
    let done = match &subject.issued {
        Some(key) if entered.get("seen") != version(key) => Err(ApiError::changed_meanwhile()),
        Some(key) => change_key(&visit, key.id, changes.clone()).await.map(Some),
        None => check(&subject.caller, &changes, &visit.worker).map(|()| None),
    };
    match done {
        Ok(Some(key)) => Ok(answer::redirect(&format!("../../{}?done=changed", path(&key.name)))),
        Ok(None) => {
            let fields = Fields { entered: &entered, error: None };
            Ok(answer::page(subject.page(&visit.frame, &visit.worker, fields, Some(&changes))))
        }
        Err(error) => {
            let fields = Fields { entered: &entered, error: Some(&error) };
            Ok(answer::refused(&error, subject.page(&visit.frame, &visit.worker, fields, None)))
        }
    }
}

/// Checks what is wanted of a key of the configuration as if it were an issued one.
fn check(caller: &Caller, changes: &Map<String, Value>, worker: &Worker) -> Result<(), ApiError> {
    let spend = caller.key.spend.map(StoredLimit::new);
    let mut key = IssuedKey { name: caller.key.name.as_ref().to_owned(), spend, ..IssuedKey::default() };
    Ok(set_members(&mut key, changes, false, &worker.setup.catalog)?)
}

/// The key that a form changes.
struct Subject {
    caller: std::sync::Arc<Caller>,
    issued: Option<IssuedKey>,
    form: Form,
    filled_in: Entered,
}

impl Subject {
    fn find(worker: &Worker, name: &str) -> Result<Subject, ApiError> {
        if let Ok((caller, key)) = issued(worker, name) {
            let filled_in = of_issued(&key);
            return Ok(Subject { caller, issued: Some(key), form: Form::Issued, filled_in });
        }
        let caller = keys::find(worker, name)?;
        let filled_in = of_configured(&caller.key);
        Ok(Subject { caller, issued: None, form: Form::Configured, filled_in })
    }

    fn page(&self, frame: &Frame, worker: &Worker, fields: Fields<'_>, lines: Option<&Map<String, Value>>) -> Markup {
        let name = &*self.caller.key.name;
        let back = format!("{}{}", frame.root, path(name));
        let content = html! {
            p.crumbs { a href={ (frame.root) "keys" } { "Keys" } " / " a href=(back) { (format::name(name, 60)) } " / change" }
            h1 { "Change the key “" (format::plain_name(name, 60)) "”" }
            @if self.issued.is_none() { (in_file::note(in_file::place(worker, "keys", name).as_deref())) }
            (fields.general(&self.form.fields()))
            @if let Some(changes) = lines { (in_file::section("keys", name, changes)) }
            form.edit method="post" action="change" {
                (frame.token())
                @if let Some(key) = &self.issued { (seen(&version(key))) }
                (controls(worker, self.form, fields))
                div.act {
                    button.primary type="submit" { @if self.issued.is_some() { "Save" } @else { "Show the lines" } }
                    a.button href=(back) { "Cancel" }
                }
            }
        };
        frame.page("Change a key", Some(Nav::Keys), content)
    }
}

/// Year, month, day, hours and minutes, as browsers write a time.
fn minutes(unix_ms: i64) -> String {
    issued_keys::time(unix_ms).chars().take(16).collect()
}

fn of_issued(key: &IssuedKey) -> Entered {
    let mut entered = Entered::default();
    entered.add("name", &key.name);
    key.scopes.iter().for_each(|scope| entered.add("scopes", scope));
    entered.add_some("limit", key.spend.as_ref().map(|spend| &spend.amount));
    entered.add_some("limit_reset", key.spend.as_ref().and_then(|spend| spend.reset.as_ref()));
    entered.add_some("requests_per_minute", key.requests_per_minute);
    entered.add_some("tokens_per_minute", key.tokens_per_minute);
    entered.add_some("concurrency", key.concurrency);
    entered.add_some("expires_at", key.expires_ms.map(minutes));
    entered.add_some("objective", key.objective.as_ref());
    entered.add("allowed_models", key.allowed_models.join(", "));
    entered.add("blocked_models", key.blocked_models.join(", "));
    entered.add("allowed_providers", key.allowed_providers.join(", "));
    entered.add("blocked_providers", key.blocked_providers.join(", "));
    entered
}

/// What holds for a key of the configuration, with the defaults of the limits.
fn of_configured(key: &Key) -> Entered {
    let list = |patterns: &[pointsman_domain::ModelPattern]| {
        patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let mut entered = Entered::default();
    key.scopes.iter().for_each(|scope| entered.add("scopes", scope.as_str()));
    entered.add_some("limit", key.spend.map(|spend| spend.amount));
    entered.add_some("limit_reset", key.spend.and_then(|spend| spend.reset).map(ResetPeriod::as_str));
    entered.add_some("requests_per_minute", key.requests_per_minute);
    entered.add_some("tokens_per_minute", key.tokens_per_minute);
    entered.add_some("concurrency", key.concurrency);
    entered.add_some("expires_at", key.expires_at.map(|end| minutes(end.timestamp_millis())));
    entered.add("allowed_models", list(&key.allowed_models));
    entered.add("blocked_models", list(&key.blocked_models));
    entered
}
