//! The person behind a request, according to the session in its cookie.

use std::{
    future::{Ready, ready},
    sync::Arc,
    time::Instant,
};

use actix_web::{FromRequest, HttpMessage as _, HttpRequest, dev::Payload, web};

use super::{Console, session::Usage};
use crate::{access::keys::Caller, base::error::ApiError, state::gateway::Worker};

/// The person behind a request: a session whose key is valid now.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) caller: Arc<Caller>,
    /// Text that every form has to send as `token`.
    pub(super) form_token: String,
}

impl Visitor {
    /// The visitor, if the session and its key are valid now. A session whose key is not valid any more ends.
    pub(super) fn of(request: &HttpRequest) -> Option<Visitor> {
        let console = request.app_data::<web::Data<Console>>()?;
        let text = console.transport.session_text(request.headers())?;
        // Browsers send `empty` with what a script fetches.
        let is_script = request.headers().get("sec-fetch-dest").is_some_and(|purpose| purpose == "empty");
        let usage = if is_script { Usage::ByPage } else { Usage::ByPerson };
        let session = console.sessions.find(text, Instant::now(), usage)?;
        let caller = Worker::of(request)?.setup.keys.administrator_by_digest(&session.key);
        match caller {
            Ok(caller) => Some(Visitor { caller, form_token: session.form_token }),
            Err(_) => {
                console.sessions.end(text);
                None
            }
        }
    }

    /// Refuses a form of another session.
    ///
    /// # Errors
    /// 403.
    pub(super) fn check(&self, token: &str) -> Result<(), ApiError> {
        if token == self.form_token { Ok(()) } else { Err(ApiError::stale_form()) }
    }
}

impl FromRequest for Visitor {
    type Error = ApiError;
    type Future = Ready<Result<Visitor, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(request.extensions().get::<Visitor>().cloned().ok_or_else(ApiError::internal))
    }
}
