//! `GET /providers`: who can serve.

use actix_web::{HttpRequest, HttpResponse};

use super::{
    caching::{self, Cache},
    providers_view::ProvidersBody,
};
use crate::{api::auth::Visitor, base::error::ApiError, state::gateway::Worker};

/// Lists the providers that are on. Open to visitors unless the configuration closes the catalog.
///
/// # Errors
/// Only our own.
pub(crate) async fn list(_: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let cache = Cache::of_catalog(&worker.setup.config.auth);
    let catalog = &worker.setup.catalog;
    caching::respond(&request, cache, &ProvidersBody::new(catalog))
}
