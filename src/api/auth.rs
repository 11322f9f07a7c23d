//! Who is calling, as an argument of a handler: settled before anything of the body is read.
//!
//! The keys themselves are in [`crate::access::keys`].

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use actix_web::{FromRequest, HttpRequest, dev::Payload, http::header::HeaderMap};

use crate::{
    access::keys::{Caller, KeyTable},
    base::error::ApiError,
    state::gateway::Worker,
};

/// The caller: no handler with one is reached without a good key.
pub struct Authorized(pub Arc<Caller>);

impl FromRequest for Authorized {
    type Error = ApiError;
    type Future = Ready<Result<Authorized, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(checked(request, KeyTable::caller).map(Authorized))
    }
}

/// An administrator: no handler with one is reached without a key of that scope.
pub struct Administrator(pub Arc<Caller>);

impl FromRequest for Administrator {
    type Error = ApiError;
    type Future = Ready<Result<Administrator, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(checked(request, KeyTable::administrator).map(Administrator))
    }
}

/// A visitor of the catalog: anybody, unless the configuration closes it; a wrong key is ignored then.
pub struct Visitor;

impl FromRequest for Visitor {
    type Error = ApiError;
    type Future = Ready<Result<Visitor, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let open = Worker::of(request).is_some_and(|worker| worker.setup.config.auth.public_catalog);
        ready(if open { Ok(Visitor) } else { checked(request, KeyTable::caller).map(|_| Visitor) })
    }
}

/// Whose request it is, by the keys it came under.
fn checked(
    request: &HttpRequest,
    whose: fn(&KeyTable, &HeaderMap) -> Result<Arc<Caller>, ApiError>,
) -> Result<Arc<Caller>, ApiError> {
    let worker = Worker::of(request).ok_or_else(ApiError::internal)?;
    whose(&worker.setup.keys, request.headers())
}
