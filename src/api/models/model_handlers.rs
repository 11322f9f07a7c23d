//! `GET /models` and below: lists, counts, single entries, endpoints of a model.
//!
//! Needs no key unless `auth.public_catalog` is off. Each answer uses one version of the catalog.
//! [`super::model_entry`] gives the JSON of an entry, [`super::model_list`] filters and sorts.

use actix_web::{HttpRequest, HttpResponse, http::header};
use pointsman_base::clock;
use pointsman_domain::{Modalities, Modality, Target};
use serde::Serialize;

use super::{
    endpoint_entry::ModelEndpoints,
    listed_model::{ListedKinds, ListedModel},
    measurements::Measurements,
    messages_models::{CodexModelList, MessagesModel, MessagesModelList},
    model_entry::ModelEntry,
    model_list::{Envelope, ModelList, select},
    model_query::{ModelQuery, Outputs},
};
use crate::{
    api::{
        answer::Data,
        auth::CatalogReader,
        caching::{self, Cache},
        path_name::PathName,
        query_parameters::QueryParameters,
    },
    base::error::ApiError,
    proxy::{names::NameScope, unknown_fields},
    state::gateway::Worker,
};

const TEXT: Outputs = Outputs::OneOf(Modalities::TEXT);
const IMAGES: Outputs = Outputs::OneOf(Modalities::NONE.with(Modality::Image));

/// Lists models; by default those that generate text.
///
/// # Errors
/// 400 for a malformed query.
pub(crate) async fn list_text(reader: CatalogReader) -> Result<HttpResponse, ApiError> {
    list(&reader, TEXT, None).await
}

/// Lists models as [`list_text`] does, with the member `object` that clients of the OpenAI API expect.
///
/// # Errors
/// 400 for a malformed query.
pub(crate) async fn list_for_openai(reader: CatalogReader) -> Result<HttpResponse, ApiError> {
    list(&reader, TEXT, Some("list")).await
}

/// Lists models; by default those of every output kind.
///
/// # Errors
/// 400 for a malformed query.
pub(crate) async fn list_all(reader: CatalogReader) -> Result<HttpResponse, ApiError> {
    list(&reader, Outputs::Any, None).await
}

/// Lists models; by default those that generate images.
///
/// # Errors
/// 400 for a malformed query.
pub(crate) async fn list_images(reader: CatalogReader) -> Result<HttpResponse, ApiError> {
    list(&reader, IMAGES, None).await
}

/// Counts the models that [`list_text`] lists with the same filters.
///
/// # Errors
/// 400 for a malformed query.
pub(crate) async fn count_text(reader: CatalogReader) -> Result<HttpResponse, ApiError> {
    count(&reader, TEXT)
}

/// Counts the models that [`list_all`] lists with the same filters.
///
/// # Errors
/// 400 for a malformed query.
pub(crate) async fn count_all(reader: CatalogReader) -> Result<HttpResponse, ApiError> {
    count(&reader, Outputs::Any)
}

/// Shows one entry without an envelope, as OpenAI clients expect it.
///
/// # Errors
/// 404 for an unknown or retired name.
pub(crate) async fn retrieve(reader: CatalogReader, name: PathName) -> Result<HttpResponse, ApiError> {
    let (model, cache) = find(&reader, &name)?;
    if is_messages_client(&reader.request) {
        return Ok(HttpResponse::Ok().json(MessagesModel::new(&model)));
    }
    caching::respond(&reader.request, cache, &ModelEntry::new(&model, &reader.worker.setup.catalog.parameters))
}

/// Shows one entry in an envelope, as OpenRouter clients expect it.
///
/// # Errors
/// As [`retrieve`].
pub(crate) async fn retrieve_enveloped(reader: CatalogReader, name: PathName) -> Result<HttpResponse, ApiError> {
    let (model, cache) = find(&reader, &name)?;
    let data = ModelEntry::new(&model, &reader.worker.setup.catalog.parameters);
    caching::respond(&reader.request, cache, &Data { data })
}

/// Shows a model and its endpoints, with measurements.
///
/// # Errors
/// As [`retrieve`].
pub(crate) async fn endpoints(reader: CatalogReader, name: PathName) -> Result<HttpResponse, ApiError> {
    let measurements = Measurements::recent(&reader.worker).await?;
    let (model, cache) = find(&reader, &name)?;
    let data = ModelEndpoints::new(&model, &reader.worker.setup.catalog, &measurements);
    caching::respond(&reader.request, cache, &Data { data })
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct CountBody {
    /// Number of models that the list without `limit` has.
    count: usize,
}

fn count(reader: &CatalogReader, default: Outputs) -> Result<HttpResponse, ApiError> {
    let CatalogReader { worker, request, .. } = reader;
    let query = ModelQuery::parse(request.query_string(), default)?;
    let catalog = &worker.setup.catalog;
    let models = ListedModel::all(catalog, clock::today(), listed_kinds(worker));
    let count = select(models, catalog, &query, &Measurements::default()).len();
    caching::respond(request, cache(worker), &Data { data: CountBody { count } })
}

async fn list(
    CatalogReader { worker, request, .. }: &CatalogReader,
    default: Outputs,
    object: Option<&'static str>,
) -> Result<HttpResponse, ApiError> {
    if is_messages_client(request) {
        return list_for_messages(worker, request);
    }
    if is_codex(request) {
        // An entry of its form carries instructions, which replace those that it has for a model. Without entries it keeps them.
        return Ok(HttpResponse::Ok().json(CodexModelList::default()));
    }
    let query = ModelQuery::parse(request.query_string(), default)?;
    let measurements =
        if query.needs_measurements() { Measurements::recent(worker).await? } else { Measurements::default() };
    let catalog = &worker.setup.catalog;
    let models = ListedModel::all(catalog, clock::today(), listed_kinds(worker));
    let models = select(models, catalog, &query, &measurements);
    let agent = request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let envelope = Envelope::choose(worker.setup.config.catalog.envelope, &query, agent);
    let mut body = ModelList::new(&models, catalog, &query, envelope, request.path());
    body.object = object;
    caching::respond(request, cache(worker), &body)
}

/// The model or alias that `name` means in a request of the reader, and who may keep the answer: only the caller, if its key
/// gives names a meaning.
fn find<'r>(reader: &'r CatalogReader, name: &str) -> Result<(ListedModel<'r>, Cache), ApiError> {
    let CatalogReader { caller, worker, request } = reader;
    let (catalog, today, caller) = (&*worker.setup.catalog, clock::today(), caller.as_deref());
    let is_messages = is_messages_client(request);
    let scope = NameScope { catalog, config: &worker.setup.config, caller, is_messages, today };
    let found = match scope.target(name, "model")? {
        Target::Model(position) => {
            catalog.model(position).and_then(|model| ListedModel::of_model(catalog, model, today))
        }
        Target::Alias(position) => catalog.alias(position).and_then(|alias| {
            let models = ListedModel::all(catalog, today, ListedKinds::ModelsAndAliases);
            models.into_iter().find(|model| model.id == alias.id)
        }),
    };
    let cache =
        if caller.is_some_and(|caller| !caller.key.aliases.is_empty()) { Cache::Private } else { cache(worker) };
    let found = found.ok_or_else(|| unknown_fields::models(catalog, name, today).unknown("model", name))?;
    Ok((found, cache))
}

/// Whether the client speaks the Messages API, which has lists of models of its own.
fn is_messages_client(request: &HttpRequest) -> bool {
    request.headers().contains_key("anthropic-version")
}

/// Whether Codex asks, for models in a form of its own.
fn is_codex(request: &HttpRequest) -> bool {
    request.query_string().split('&').any(|parameter| parameter.starts_with("client_version="))
}

fn list_for_messages(worker: &Worker, request: &HttpRequest) -> Result<HttpResponse, ApiError> {
    let models = ListedModel::all(&worker.setup.catalog, clock::today(), ListedKinds::ModelsAndAliases);
    let texts = models.iter().filter(|model| model.output.contains(Modality::Text));
    let models: Vec<_> = texts.map(MessagesModel::new).collect();
    let query = QueryParameters::lenient(request.query_string())?;
    Ok(HttpResponse::Ok().json(MessagesModelList::new(&models, &query)?))
}

fn listed_kinds(worker: &Worker) -> ListedKinds {
    if worker.setup.config.catalog.list_aliases { ListedKinds::ModelsAndAliases } else { ListedKinds::Models }
}

fn cache(worker: &Worker) -> Cache {
    Cache::of_catalog(&worker.setup.config.auth)
}
