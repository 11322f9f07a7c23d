//! Extractors of a request and its caller, checked before the body is read. [`crate::access::keys`] holds the keys.

use std::{
    future::{Ready, ready},
    ops::Deref,
    sync::Arc,
};

use actix_web::{
    FromRequest, HttpMessage as _, HttpRequest, dev,
    http::header::HeaderMap,
    web::{Bytes, Payload},
};
use pointsman_config::Scope;

use crate::{
    access::keys::{Caller, KeyTable},
    base::error::ApiError,
    proxy::body,
    state::gateway::Worker,
};

/// A request with a valid key.
pub struct Authorized {
    pub(crate) caller: Arc<Caller>,
    pub(crate) worker: Worker,
    pub(crate) request: HttpRequest,
}

impl Authorized {
    fn of(
        request: &HttpRequest,
        find: fn(&KeyTable, &HeaderMap) -> Result<Arc<Caller>, ApiError>,
    ) -> Result<Authorized, ApiError> {
        let worker = Worker::of(request).ok_or_else(ApiError::internal)?;
        let caller = find(&worker.setup.keys, request.headers())?;
        request.extensions_mut().insert(KnownCaller(Arc::clone(&caller)));
        Ok(Authorized { caller, worker, request: request.clone() })
    }

    /// The query string.
    pub(crate) fn query(&self) -> &str {
        self.request.query_string()
    }

    /// The body, which must be JSON.
    ///
    /// # Errors
    /// As [`body::read_json`].
    pub(crate) async fn read_json(&self, payload: Payload) -> Result<Bytes, ApiError> {
        body::read_json(&self.request, payload, self.worker.setup.body_limits(&self.caller)).await
    }
}

impl FromRequest for Authorized {
    type Error = ApiError;
    type Future = Ready<Result<Authorized, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut dev::Payload) -> Self::Future {
        ready(Authorized::of(request, KeyTable::caller))
    }
}

/// A request whose key has the scope `read`.
pub struct Reader(Authorized);

impl Deref for Reader {
    type Target = Authorized;

    fn deref(&self) -> &Authorized {
        &self.0
    }
}

impl FromRequest for Reader {
    type Error = ApiError;
    type Future = Ready<Result<Reader, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut dev::Payload) -> Self::Future {
        let by = Authorized::of(request, KeyTable::caller);
        ready(by.and_then(|by| by.caller.require(Scope::Read).map(|()| Reader(by))))
    }
}

/// A request whose key has the scope `admin`.
pub struct Administrator(Authorized);

impl Deref for Administrator {
    type Target = Authorized;

    fn deref(&self) -> &Authorized {
        &self.0
    }
}

impl FromRequest for Administrator {
    type Error = ApiError;
    type Future = Ready<Result<Administrator, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut dev::Payload) -> Self::Future {
        ready(Authorized::of(request, KeyTable::administrator).map(Administrator))
    }
}

/// A reader of the catalog, with the caller if there is a valid key. It is needed only if `auth.public_catalog` is off.
pub struct CatalogReader {
    pub(crate) caller: Option<Arc<Caller>>,
    pub(crate) worker: Worker,
    pub(crate) request: HttpRequest,
}

impl FromRequest for CatalogReader {
    type Error = ApiError;
    type Future = Ready<Result<CatalogReader, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut dev::Payload) -> Self::Future {
        let public = Worker::of(request).filter(|worker| worker.setup.config.auth.public_catalog);
        ready(match public {
            Some(worker) => {
                let caller = worker.setup.keys.caller(request.headers()).ok();
                Ok(CatalogReader { caller, worker, request: request.clone() })
            }
            None => Authorized::of(request, KeyTable::caller)
                .map(|Authorized { caller, worker, request }| CatalogReader { caller: Some(caller), worker, request }),
        })
    }
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
