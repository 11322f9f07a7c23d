//! `Expect: 100-continue`: only a caller with a good key is told to go on, with a body that may be read.
//!
//! The HTTP server asks here as soon as it has such a head, before the request meets anything else of the gateway. So
//! whoever is refused here is counted and given a request id here. What else may be wrong with a request is told later,
//! without its body being read either, but behind the 100.

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
    http::connections::OngoingCall,
    proxy::body,
    state::gateway::Shared,
};

/// Lets nobody send a body whose key is not good.
#[derive(Clone)]
pub(crate) struct KeyFirst {
    shared: Arc<Shared>,
}

impl KeyFirst {
    /// By the keys that are in force when a request comes.
    pub(crate) fn new(shared: &Arc<Shared>) -> KeyFirst {
        KeyFirst { shared: Arc::clone(shared) }
    }

    fn refused(&self, request: &Request, error: ApiError) -> Response<BoxBody> {
        let begun = Instant::now();
        let id = RequestId::chosen_by(request.headers());
        let mut answer = error.with_request_id(id.as_str()).respond();
        answer.head_mut().set_connection_type(ConnectionType::Close);
        let status = answer.status().as_u16();
        events::Answered { route: None, status, took: begun.elapsed(), request_id: id.as_str(), generation: None }
            .emit(&self.shared.metrics);
        if let Some(connection) = request.conn_data() {
            OngoingCall::on(connection).refused();
        }
        answer.into()
    }
}

impl ServiceFactory<Request> for KeyFirst {
    type Response = Request;
    type Error = Response<BoxBody>;
    type Config = ();
    type Service = KeyFirst;
    type InitError = ();
    type Future = Ready<Result<KeyFirst, ()>>;

    fn new_service(&self, (): ()) -> Self::Future {
        ready(Ok(self.clone()))
    }
}

impl Service<Request> for KeyFirst {
    type Response = Request;
    type Error = Response<BoxBody>;
    type Future = Ready<Result<Request, Response<BoxBody>>>;

    always_ready!();

    fn call(&self, request: Request) -> Self::Future {
        // Whatever takes a body is posted, and needs a key.
        let checked = match *request.method() {
            Method::POST => {
                let setup = self.shared.setup.load();
                let caller = setup.keys.caller(request.headers());
                caller.and_then(|_| body::check_head(request.headers(), setup.config.limits.max_body_bytes))
            }
            _ => Ok(()),
        };
        ready(match checked {
            Ok(()) => Ok(request),
            Err(error) => Err(self.refused(&request, error)),
        })
    }
}
