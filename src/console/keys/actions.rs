//! What stops a key or brings it back: disable, enable, rotate and delete. Whatever stops production is asked about first.

use std::sync::Arc;

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_base::clock;

use super::{
    super::{
        answer,
        form::{Entered, Question, to_copy},
        format,
        layout::{Frame, Nav},
        visit::Visit,
    },
    path, seen,
};
use crate::{
    access::{issued::IssuedKey, keys::Caller},
    api::{
        admin::keys,
        keys::issued_keys::{self, revoke_key, rotate_key},
        path_name::PathName,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Asks whether to disable a key.
///
/// # Errors
/// 404 for an unknown name.
pub(in crate::console) async fn ask_disable(visit: Visit, name: PathName) -> Result<HttpResponse, ApiError> {
    let caller = keys::find(&visit.worker, &name)?;
    let consequences = html! {
        (usage(&visit.worker, &caller))
        p { "Calls with it are refused with 401 from then on; those that run go on to their end. It can be enabled again at any time." }
    };
    let title = format!("Disable the key “{}”?", format::plain_name(&name, 60));
    Ok(ask(&visit.frame, &name, title, consequences, "disable", "Disable it", html! {}))
}

/// Disables a key. Running calls continue.
///
/// # Errors
/// As `POST /admin/keys/{name}/disable`, 403 for a form of another session.
pub(in crate::console) async fn disable(visit: Visit, name: PathName, _: Entered) -> Result<HttpResponse, ApiError> {
    keys::switch(&visit, &name, false).await?;
    Ok(answer::redirect(&format!("../../{}?done=disabled", path(&name))))
}

/// Enables a key.
///
/// # Errors
/// As `POST /admin/keys/{name}/enable`, 403 for a form of another session.
pub(in crate::console) async fn enable(visit: Visit, name: PathName, _: Entered) -> Result<HttpResponse, ApiError> {
    keys::switch(&visit, &name, true).await?;
    Ok(answer::redirect(&format!("../../{}?done=enabled", path(&name))))
}

/// Asks whether to rotate an issued key.
///
/// # Errors
/// 404 for a name that no issued key has.
pub(in crate::console) async fn ask_rotate(visit: Visit, name: PathName) -> Result<HttpResponse, ApiError> {
    let (caller, key) = issued(&visit.worker, &name)?;
    let consequences = html! {
        (usage(&visit.worker, &caller))
        p { "It gets a new text, which is shown once. The text in use, " code { (format::name(&key.label, 40)) } ", is refused at once: whoever has it needs the new one. Records, budget and limits stay." }
        @if caller.id == visit.caller.id { p { strong { "It is the key of this session." } " The next page needs a login with the new text." } }
    };
    let title = format!("Rotate the key “{}”?", format::plain_name(&name, 60));
    Ok(ask(&visit.frame, &name, title, consequences, "rotate", "Rotate it", seen(&version(&key))))
}

/// Gives an issued key a new text, and shows it.
///
/// # Errors
/// As `POST /keys/{hash}/rotate`, 409 for a key that was changed since the question, 403 for a form of another session.
pub(in crate::console) async fn rotate(
    visit: Visit,
    name: PathName,
    entered: Entered,
) -> Result<HttpResponse, ApiError> {
    let (_, key) = issued(&visit.worker, &name)?;
    // A form that is sent twice must not take away the text that the first answer shows.
    if entered.get("seen") != version(&key) {
        return Err(ApiError::changed_meanwhile());
    }
    let (key, text) = rotate_key(&visit, key.id).await?;
    Ok(answer::page(new_text(&visit.frame, "It has a new text", &key, text.expose(), None)))
}

/// Asks whether to delete an issued key.
///
/// # Errors
/// 404 for a name that no issued key has.
pub(in crate::console) async fn ask_delete(visit: Visit, name: PathName) -> Result<HttpResponse, ApiError> {
    let (caller, _) = issued(&visit.worker, &name)?;
    let consequences = html! {
        (usage(&visit.worker, &caller))
        p { strong { "This cannot be undone." } " Calls with it are refused from then on. Its records, its account and what it spent stay. To stop it for a time, disable it instead." }
    };
    let title = format!("Delete the key “{}”?", format::plain_name(&name, 60));
    Ok(ask(&visit.frame, &name, title, consequences, "delete", "Delete it for good", html! {}))
}

/// Deletes an issued key for good.
///
/// # Errors
/// As `DELETE /keys/{hash}`, 403 for a form of another session.
pub(in crate::console) async fn delete(visit: Visit, name: PathName, _: Entered) -> Result<HttpResponse, ApiError> {
    let (_, key) = issued(&visit.worker, &name)?;
    revoke_key(&visit, key.id).await?;
    Ok(answer::redirect("../../keys?done=deleted"))
}

fn ask(
    frame: &Frame,
    name: &str,
    title: String,
    consequences: Markup,
    action: &str,
    verb: &str,
    hidden: Markup,
) -> HttpResponse {
    let back = format!("../../{}", path(name));
    let question = Question { title, consequences, action, verb, back: &back, hidden };
    answer::page(frame.page(verb, Some(Nav::Keys), question.markup(frame)))
}

/// How much the key is in use.
fn usage(worker: &Worker, caller: &Caller) -> Markup {
    let life = &caller.state.life;
    let spent = caller.state.budget.read(clock::unix_millis()).spent;
    html! {
        p.lead {
            (format::count(life.calls())) " calls since the start, " (worker.setup.admission.in_flight_of(caller)) " in flight, "
            @if let Some(at) = life.last_call_ms() { "the last at " (format::time(&issued_keys::time(at))) ", " }
            (format::money(Some(spent.day))) " spent today."
        }
    }
}

/// The issued key of this name.
///
/// # Errors
/// 404 for an unknown name and for a key of the configuration.
pub(super) fn issued(worker: &Worker, name: &str) -> Result<(Arc<Caller>, IssuedKey), ApiError> {
    let caller = keys::find(worker, name)?;
    let key = worker.shared.access.registry.key(caller.id).ok_or_else(|| ApiError::no_such("issued key"))?;
    Ok((caller, key))
}

/// What tells whether the key was changed since a page was made.
pub(super) fn version(key: &IssuedKey) -> String {
    format!("{} {}", key.updated_ms, key.label)
}

/// The page with the text of a key, which is shown here and never again.
pub(super) fn new_text(frame: &Frame, title: &str, key: &IssuedKey, text: &str, trouble: Option<&ApiError>) -> Markup {
    let content = html! {
        h1 { "The key “" (format::plain_name(&key.name, 60)) "”" }
        p.lead { (title) ". Copy it now: it is shown only once, and the gateway keeps no copy." }
        (to_copy(text))
        @if let Some(trouble) = trouble { p.alert role="alert" { (trouble.message()) } }
        p { a.button href={ (frame.root) (path(&key.name)) } { "To the key" } " " a.button href={ (frame.root) "keys" } { "All keys" } }
    };
    frame.page(&format::plain_name(&key.name, 60), Some(Nav::Keys), content)
}
