//! The routes of a simulated provider, and its short answers.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Data, Path, ServiceConfig, get, post, resource, to},
};
use serde_json::{Value, json};

use super::{
    SimulatedModel, anthropic, chat, converse, embeddings, gemini, images, provider::Provider, rejection::Rejection,
    responses,
};

/// Creation time of all simulated models: 2025-01-01.
const CREATED: u64 = 1_735_689_600;

/// Registers all routes.
pub(super) fn routes(config: &mut ServiceConfig) {
    let only = |path: &str| resource(path).default_service(to(wrong_method));
    config
        .service(only("/v1/chat/completions").route(post().to(chat::create)))
        .service(only("/v1/messages").route(post().to(anthropic::create)))
        .service(only("/v1/messages/count_tokens").route(post().to(anthropic::count_tokens)))
        .service(only("/v1/responses").route(post().to(responses::create)))
        .service(only("/v1/model/{target:.+}").route(post().to(converse::create)))
        .service(only("/v1/images/generations").route(post().to(images::create)))
        .service(only("/v1/embeddings").route(post().to(embeddings::create)))
        .service(only("/v1/models").route(get().to(models)))
        .service(only("/v1/models/{id:.+}").route(get().to(one_model)).route(post().to(gemini::create)));
}

/// Answers all other paths.
pub(super) async fn unknown_path(request: HttpRequest) -> Result<HttpResponse, Rejection> {
    Err(Rejection::UnknownPath { method: request.method().to_string(), path: request.path().to_owned() })
}

async fn wrong_method(request: HttpRequest) -> Result<HttpResponse, Rejection> {
    Err(Rejection::WrongMethod { method: request.method().to_string(), path: request.path().to_owned() })
}

async fn models(provider: Data<Provider>) -> HttpResponse {
    let settings = provider.settings();
    let data: Vec<Value> = settings.models.iter().map(|model| entry(model, &settings.slug)).collect();
    HttpResponse::Ok().json(json!({ "object": "list", "data": data }))
}

async fn one_model(provider: Data<Provider>, id: Path<String>) -> Result<HttpResponse, Rejection> {
    let settings = provider.settings();
    let model = settings.model(&id).ok_or_else(|| Rejection::UnknownModel(id.into_inner()))?;
    Ok(HttpResponse::Ok().json(entry(model, &settings.slug)))
}

fn entry(model: &SimulatedModel, owner: &str) -> Value {
    json!({ "id": model.id, "object": "model", "created": CREATED, "owned_by": owner })
}
