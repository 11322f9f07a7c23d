//! Extractors of the caller, checked before the body is read. [`crate::access::keys`] holds the keys.

use std::{
    future::{Ready, ready},
    sync::Arc,
};

use actix_web::{FromRequest, HttpMessage as _, HttpRequest, dev::Payload, http::header::HeaderMap};

use crate::{
    access::keys::{Caller, KeyTable},
    base::error::ApiError,
    state::gateway::Worker,
};

/// A caller with a valid key.
pub struct Authorized(pub Arc<Caller>);

impl FromRequest for Authorized {
    type Error = ApiError;
    type Future = Ready<Result<Authorized, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(authenticate(request, KeyTable::caller).map(Authorized))
    }
}

/// A caller whose key has the scope `admin`.
pub struct Administrator(pub Arc<Caller>);

impl FromRequest for Administrator {
    type Error = ApiError;
    type Future = Ready<Result<Administrator, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(authenticate(request, KeyTable::administrator).map(Administrator))
    }
}

/// A reader of the catalog, with the caller if there is a valid key. It is needed only if `auth.public_catalog` is off.
pub struct CatalogReader(pub Option<Arc<Caller>>);

impl FromRequest for CatalogReader {
    type Error = ApiError;
    type Future = Ready<Result<CatalogReader, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let public = Worker::of(request).filter(|worker| worker.setup.config.auth.public_catalog);
        ready(match public {
            Some(worker) => Ok(CatalogReader(worker.setup.keys.caller(request.headers()).ok())),
            None => authenticate(request, KeyTable::caller).map(|caller| CatalogReader(Some(caller))),
        })
    }
}

/// The caller of the request, according to `find` in the keys of the request's setup.
fn authenticate(
    request: &HttpRequest,
    find: fn(&KeyTable, &HeaderMap) -> Result<Arc<Caller>, ApiError>,
) -> Result<Arc<Caller>, ApiError> {
    let worker = Worker::of(request).ok_or_else(ApiError::internal)?;
    let caller = find(&worker.setup.keys, request.headers())?;
    request.extensions_mut().insert(KnownCaller(Arc::clone(&caller)));
    Ok(caller)
}

/// The caller of a request with a valid key, attached to it.
#[derive(Clone)]
pub(crate) struct KnownCaller(pub(crate) Arc<Caller>);

impl KnownCaller {
    /// The caller of the request.
    pub(crate) fn of(request: &HttpRequest) -> Option<Arc<Caller>> {
        request.extensions().get::<KnownCaller>().map(|known| Arc::clone(&known.0))
    }
}
