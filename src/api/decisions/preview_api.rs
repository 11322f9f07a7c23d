//! The API that the body of a preview belongs to.

use std::borrow::Cow;

use actix_web::HttpRequest;
use pointsman_base::clock;
use pointsman_dialect::shown;
use pointsman_domain::{Invalid, Modality, Target};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    access::keys::Caller, api::query_parameters::QueryParameters, base::error::ApiError, proxy::names::NameScope,
    state::gateway::Worker,
};

/// An API of the gateway whose requests can be previewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum PreviewApi {
    Chat,
    Messages,
    Responses,
    Embeddings,
    Completions,
}

const NAMES: [(&str, PreviewApi); 5] = [
    ("chat", PreviewApi::Chat),
    ("messages", PreviewApi::Messages),
    ("responses", PreviewApi::Responses),
    ("embeddings", PreviewApi::Embeddings),
    ("completions", PreviewApi::Completions),
];

/// The members that tell the APIs apart.
#[derive(Deserialize, Default)]
struct Members<'b> {
    #[serde(borrow)]
    model: Option<Cow<'b, str>>,
    #[serde(borrow)]
    messages: Option<&'b RawValue>,
    #[serde(borrow)]
    input: Option<&'b RawValue>,
    #[serde(borrow)]
    prompt: Option<&'b RawValue>,
    /// Chat has these instructions as a message.
    #[serde(borrow)]
    system: Option<&'b RawValue>,
}

/// The API that the query string names with `api`. Else: Messages with the header `anthropic-version` or a member `system`;
/// with `input` and without `messages`, embeddings if the model makes them, and Responses if it does not; with `prompt` and
/// without `messages`, completions; chat otherwise. Completions only where they are served.
///
/// # Errors
/// 400 for another `api`.
pub(in crate::api) fn api_of(
    request: &HttpRequest,
    query: &QueryParameters,
    body: &[u8],
    (worker, caller): (&Worker, &Caller),
) -> Result<PreviewApi, ApiError> {
    let has_completions = worker.setup.config.server.legacy_completions;
    let is_served = |api: PreviewApi| api != PreviewApi::Completions || has_completions;
    if let Some(name) = query.get("api") {
        let served = NAMES.into_iter().filter(|(_, api)| is_served(*api));
        let known = served.clone().find(|(known, _)| *known == name).map(|(_, api)| api);
        return known.ok_or_else(|| {
            let names: Vec<&str> = served.map(|(name, _)| name).collect();
            ApiError::invalid(Invalid::none_of("api", &shown(name), &names))
        });
    }
    // What is no such object is refused by the parser of chats.
    let members: Members<'_> = serde_json::from_slice(body).unwrap_or_default();
    let is_message = request.headers().contains_key("anthropic-version") || members.system.is_some();
    Ok(match (members.messages, members.input) {
        (None, Some(_)) if members.model.is_some_and(|model| makes_embeddings(&model, worker, caller)) => {
            PreviewApi::Embeddings
        }
        (None, Some(_)) => PreviewApi::Responses,
        (None, None) if members.prompt.is_some() && has_completions => PreviewApi::Completions,
        _ if is_message => PreviewApi::Messages,
        _ => PreviewApi::Chat,
    })
}

fn makes_embeddings(model: &str, worker: &Worker, caller: &Caller) -> bool {
    let (catalog, config) = (&*worker.setup.catalog, &worker.setup.config);
    let scope = NameScope { catalog, config, caller: Some(caller), is_messages: false, today: clock::today() };
    let Ok(Target::Model(index)) = scope.target(model, "model") else { return false };
    catalog.model(index).is_some_and(|model| model.architecture.output.contains(Modality::Embeddings))
}
