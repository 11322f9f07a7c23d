//! `GET /models` and what stands below it: lists, counts, single entries, endpoints of a model.
//!
//! Open to visitors unless the configuration closes the catalog. Every answer speaks of one published
//! catalog version; what an entry looks like is in [`super::model_entry`], which are listed in
//! [`super::model_list`].

use actix_web::{HttpRequest, HttpResponse, http::header};
use pointsman_actors::domain::{Catalog, Modalities, Modality, Resolved, Target};
use serde::Serialize;

use super::{
    answer::Data,
    caching::{self, Cache},
    endpoint_entry::ModelEndpoints,
    model_entry::ModelEntry,
    model_list::{Envelope, ModelList, select},
    model_query::{ModelQuery, Outputs},
    named::Named,
    offer::{Names, Offer},
    readings::Readings,
};
use crate::{
    api::auth::Visitor,
    base::{clock, error::ApiError},
    proxy::unknown_fields,
    state::gateway::Worker,
};

const TEXT: Outputs = Outputs::OneOf(Modalities::TEXT);
const IMAGES: Outputs = Outputs::OneOf(Modalities::NONE.with(Modality::Image));

/// Lists models; those that write text, unless the query says otherwise.
///
/// # Errors
/// 400 for a malformed query.
pub(crate) async fn list_text(_: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    list(&worker, &request, TEXT).await
}

/// Lists models; of every kind, unless the query says otherwise.
///
/// # Errors
/// 400 for a malformed query.
pub(crate) async fn list_all(_: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    list(&worker, &request, Outputs::Any).await
}

/// Lists models; those that make images, unless the query says otherwise.
///
/// # Errors
/// 400 for a malformed query.
pub(crate) async fn list_images(_: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    list(&worker, &request, IMAGES).await
}

/// Counts the models that a list with the same filters would hold.
///
/// # Errors
/// 400 for a malformed query.
pub(crate) async fn count(_: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let query = ModelQuery::parse(request.query_string(), TEXT)?;
    let catalog = &worker.setup.catalog;
    let offers = Offer::all(catalog, clock::today(), names(&worker));
    let count = select(offers, catalog, &query, &Readings::default()).len();
    caching::respond(&request, cache(&worker), &Data { data: CountBody { count } })
}

/// One entry by itself, as OpenAI's clients retrieve it.
///
/// # Errors
/// 404 for a name that nobody knows or that is gone.
pub(crate) async fn bare(
    _: Visitor,
    worker: Worker,
    name: Named,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let catalog = &worker.setup.catalog;
    let offer = offer(&worker, catalog, &name)?;
    caching::respond(&request, cache(&worker), &ModelEntry::new(&offer, &catalog.parameters))
}

/// One entry in an envelope, as OpenRouter's clients retrieve it.
///
/// # Errors
/// As [`bare`].
pub(crate) async fn wrapped(
    _: Visitor,
    worker: Worker,
    name: Named,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let catalog = &worker.setup.catalog;
    let offer = offer(&worker, catalog, &name)?;
    let data = ModelEntry::new(&offer, &catalog.parameters);
    caching::respond(&request, cache(&worker), &Data { data })
}

/// One model and who serves it, with measurements.
///
/// # Errors
/// As [`bare`].
pub(crate) async fn endpoints(
    _: Visitor,
    worker: Worker,
    name: Named,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let readings = Readings::recent(&worker).await?;
    let catalog = &worker.setup.catalog;
    let offer = offer(&worker, catalog, &name)?;
    let data = ModelEndpoints::new(&offer, catalog, &readings);
    caching::respond(&request, cache(&worker), &Data { data })
}

#[derive(Serialize)]
struct CountBody {
    count: usize,
}

async fn list(worker: &Worker, request: &HttpRequest, default: Outputs) -> Result<HttpResponse, ApiError> {
    let query = ModelQuery::parse(request.query_string(), default)?;
    let readings = if query.needs_readings() { Readings::recent(worker).await? } else { Readings::default() };
    let catalog = &worker.setup.catalog;
    let offers = Offer::all(catalog, clock::today(), names(worker));
    let offers = select(offers, catalog, &query, &readings);
    let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let envelope = Envelope::choose(worker.setup.config.catalog.envelope, &query, agent);
    let body = ModelList::new(&offers, catalog, &query, envelope, request.path());
    caching::respond(request, cache(worker), &body)
}

/// What `name` stands for in the catalog.
fn offer<'a>(worker: &Worker, catalog: &'a Catalog, name: &str) -> Result<Offer<'a>, ApiError> {
    let today = clock::today();
    let unknown = || unknown_fields::models(catalog, name, today).unknown("model", name);
    match catalog.resolve(name, today) {
        Resolved::Found(Target::Model(position)) => {
            let model = catalog.model(position).and_then(|model| Offer::of_model(catalog, model, today));
            model.ok_or_else(unknown)
        }
        Resolved::Found(Target::Alias(position)) => {
            let id = catalog.alias(position).map(|alias| alias.id.as_str()).ok_or_else(unknown)?;
            let offers = Offer::all(catalog, today, names(worker));
            offers.into_iter().find(|offer| offer.id == id).ok_or_else(unknown)
        }
        Resolved::Retired(date) => Err(ApiError::retired_model("model", name, date, Vec::new())),
        Resolved::Unknown => Err(unknown()),
    }
}

fn names(worker: &Worker) -> Names {
    if worker.setup.config.catalog.list_aliases { Names::ModelsAndAliases } else { Names::Models }
}

fn cache(worker: &Worker) -> Cache {
    Cache::of_catalog(&worker.setup.config.auth)
}
