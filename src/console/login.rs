//! Login with an administrator's key, and log-out.

use std::time::{Duration, Instant};

use actix_web::{HttpRequest, HttpResponse, http::header, web};
use maud::html;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{Console, answer, layout::Frame, visitor::Visitor};
use crate::{
    base::{
        error::{ApiError, KeyFault},
        events,
    },
    state::gateway::Worker,
};

/// Shortest time of an answer to a login, so that guessing is slow.
const MIN_ANSWER: Duration = Duration::from_millis(300);
const KEY_IN_ADDRESS: &str = "A key in the address is not read, and browsers and proxies keep addresses. Disable the key if it is a real \
                              one, and enter another here.";

const USED_LINK: &str = "This link has been used, or is of an earlier start. Log in with the key.";

#[derive(Deserialize)]
pub(super) struct LoginForm {
    #[serde(default)]
    key: String,
    /// The text of the link that the start prints.
    #[serde(default)]
    once: String,
}

#[derive(Deserialize)]
pub(super) struct LogoutForm {
    #[serde(default)]
    token: String,
}

/// Shows the form, with the link that the start prints as a form of one button. An address that holds a key gets 405: it is not
/// read, and it now stands in the history of the browser.
pub(super) async fn show(request: HttpRequest) -> HttpResponse {
    let frame = Frame::of(&request);
    if request.query_string().split('&').any(|part| part.split('=').next() == Some("key")) {
        let error = ApiError::method_not_allowed("POST");
        return answer::refused(&error, login_page(&frame, Some(KEY_IN_ADDRESS), None));
    }
    let once =
        request.query_string().strip_prefix("once=").filter(|text| text.bytes().all(|it| it.is_ascii_hexdigit()));
    answer::page(login_page(&frame, None, once))
}

/// Begins a session, if the key has the scope `admin`.
pub(super) async fn submit(
    console: web::Data<Console>,
    worker: Worker,
    request: HttpRequest,
    form: web::Form<LoginForm>,
) -> HttpResponse {
    let began = tokio::time::Instant::now();
    let from = request.peer_addr().map(|address| address.ip().to_string()).unwrap_or_default();
    let result = try_login(&console, &worker, &form, &from);
    tokio::time::sleep_until(began + MIN_ANSWER).await;
    match result {
        Ok(text) => {
            if let Some(former) = console.transport.session_text(request.headers()) {
                console.sessions.end(former);
            }
            let mut response = answer::redirect("./");
            if let Ok(cookie) = console.transport.set_cookie(&text).parse() {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Err(error) => answer::refused(&error, login_page(&Frame::of(&request), Some(refusal(&form, &error)), None)),
    }
}

/// Ends the session on the server.
pub(super) async fn end(
    console: web::Data<Console>,
    visitor: Visitor,
    request: HttpRequest,
    form: web::Form<LogoutForm>,
) -> Result<HttpResponse, ApiError> {
    visitor.check(&form.token)?;
    if let Some(text) = console.transport.session_text(request.headers()) {
        console.sessions.end(text);
    }
    let mut response = answer::redirect("login");
    if let Ok(cookie) = console.transport.remove_cookie().parse() {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Why the login was refused.
fn refusal<'e>(form: &LoginForm, error: &'e ApiError) -> &'e str {
    if form.once.is_empty() || error.status().as_u16() == 429 { error.message() } else { USED_LINK }
}

/// The text of a new session.
fn try_login(console: &Console, worker: &Worker, form: &LoginForm, from: &str) -> Result<String, ApiError> {
    let now = Instant::now();
    if let Some(wait) = console.sessions.login_pause(now) {
        return Err(ApiError::too_many_logins(wait));
    }
    let key = form.key.trim();
    let digest = match &*form.once {
        "" => Some(Sha256::digest(key.as_bytes()).into()).filter(|_| !key.is_empty()),
        once => console.sessions.take_once(once),
    };
    let digest = digest.ok_or_else(|| ApiError::unauthorized(KeyFault::Invalid));
    let caller = digest.and_then(|digest| Ok((worker.setup.keys.administrator_by_digest(&digest)?, digest)));
    let by = caller.as_ref().ok().map(|(caller, _)| &*caller.key.name);
    events::console_login(from, by);
    if caller.is_err() {
        console.sessions.count_wrong_login(now);
    }
    caller.map(|(_, digest)| console.sessions.begin(digest, now))
}

fn login_page(frame: &Frame, refusal: Option<&str>, once: Option<&str>) -> maud::Markup {
    frame.page(
        "Log in",
        None,
        html! {
            div.login {
                h1 { "Log in" }
                p.muted { "With a key of this gateway that has the scope " code { "admin" } ". It is checked, and not kept." }
                @if let Some(refusal) = refusal { p.alert role="alert" { (refusal) } }
                @if let Some(once) = once {
                    form method="post" action="login" {
                        input type="hidden" name="once" value=(once);
                        button.primary type="submit" { "Log in once, with the key of this start" }
                    }
                    p.muted { "Or with a key:" }
                }
                form method="post" action="login" {
                    label for="key" { "Key" }
                    input #key type="password" name="key" required autocomplete="current-password" spellcheck="false"
                        autofocus maxlength="512";
                    button.primary type="submit" { "Log in" }
                }
                p.muted {
                    "No key? A gateway on this machine without an administrator's key prints one at each start, in the line "
                    code { "Admin key" } ", and a link that logs in once, in the line " code { "Log in once" } ". "
                    code { "pointsman keygen" } " makes a lasting one."
                }
            }
        },
    )
}
