//! `GET /providers`: the enabled providers.

use actix_web::{HttpRequest, HttpResponse};

use super::providers_view::ProvidersBody;
use crate::{
    api::{
        auth::CatalogReader,
        caching::{self, Cache},
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Lists the enabled providers. Needs no key unless `auth.public_catalog` is off.
///
/// # Errors
/// 401 without a required key, 500 when the body cannot be serialized.
pub(crate) async fn list(_: CatalogReader, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let cache = Cache::of_catalog(&worker.setup.config.auth);
    let catalog = &worker.setup.catalog;
    caching::respond(&request, cache, &ProvidersBody::new(catalog))
}
