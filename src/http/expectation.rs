//! `Expect: 100-continue`: a request gets `100 Continue` only if its key is valid and its head allows reading the body.
//!
//! The HTTP server calls this check as soon as it has decoded such a head, before the middleware. A refusal here
//! therefore counts the request and assigns its request id itself. All other checks run after the `100 Continue`; they
//! too refuse a request before its body is read.

use std::{
    future::{Ready, ready},
    sync::Arc,
    time::Instant,
};

use actix_http::{Request, Response};
use actix_service::{Service, ServiceFactory, always_ready};
use actix_web::{
    HttpMessage as _,
    body::BoxBody,
    http::{ConnectionType, Method},
};

use crate::{
    base::{error::ApiError, events, request_id::RequestId},
    http::connections::OngoingRequest,
    proxy::body,
    state::gateway::Shared,
};

/// Checks key and head of a request before its body is sent.
#[derive(Clone)]
pub(crate) struct ContinueCheck {
    shared: Arc<Shared>,
}

impl ContinueCheck {
    /// Checks against the keys in force when the request arrives.
    pub(crate) fn new(shared: &Arc<Shared>) -> ContinueCheck {
        ContinueCheck { shared: Arc::clone(shared) }
    }

    fn refuse(&self, request: &Request, error: ApiError) -> Response<BoxBody> {
        let started = Instant::now();
        let id = RequestId::chosen_by(request.headers());
        let mut answer = error.with_request_id(id.as_str()).respond();
        answer.head_mut().set_connection_type(ConnectionType::Close);
        let status = answer.status().as_u16();
        let (took, request_id) = (started.elapsed(), id.as_str());
        events::Answered {
            route: None,
            status,
            took,
            reason: None,
            request_id,
            generation: None,
            key: None,
            key_name: None,
        }
        .emit(&self.shared.process.metrics);
        if let Some(connection) = request.conn_data() {
            OngoingRequest::on(connection).end_refused();
        }
        answer.into()
    }
}

impl ServiceFactory<Request> for ContinueCheck {
    type Response = Request;
    type Error = Response<BoxBody>;
    type Config = ();
    type Service = ContinueCheck;
    type InitError = ();
    type Future = Ready<Result<ContinueCheck, ()>>;

    fn new_service(&self, (): ()) -> Self::Future {
        ready(Ok(self.clone()))
    }
}

impl Service<Request> for ContinueCheck {
    type Response = Request;
    type Error = Response<BoxBody>;
    type Future = Ready<Result<Request, Response<BoxBody>>>;

    always_ready!();

    fn call(&self, request: Request) -> Self::Future {
        // Every request with a body is a POST and needs a key.
        let checked = match *request.method() {
            Method::POST => {
                let setup = self.shared.setup.load();
                let caller = setup.keys.caller(request.headers());
                caller.and_then(|_| body::check_head(request.headers(), setup.config.limits.max_body_bytes)).map(|_| ())
            }
            _ => Ok(()),
        };
        ready(match checked {
            Ok(()) => Ok(request),
            Err(error) => Err(self.refuse(&request, error)),
        })
    }
}
