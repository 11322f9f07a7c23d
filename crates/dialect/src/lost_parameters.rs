//! Parameters that a request requires and that an endpoint would not get.
//!
//! A listed parameter is left out for endpoints that do not list it, whatever their API. Of the others, a chat upstream gets
//! those that the gateway knows, and an upstream of another API those that its API has a form for. Only the translation shows
//! whether it has, so the parameters are translated without the conversation.

use std::sync::Arc;

use pointsman_domain::{
    Catalog, Dialect, Endpoint, Invalid, InvalidReason, LostParameter, Model, ParameterNames, ServicePreference, Target,
};

use super::{
    ChatRequest,
    gemini::SignatureSources,
    neutral::{Conversation, UnsupportedFields},
    translation::written,
};

/// The first parameter that each endpoint of these targets would not get, if the request requires all of its parameters.
pub fn lost_parameters(request: &ChatRequest, catalog: &Catalog, targets: &[Target]) -> Vec<LostParameter> {
    let may_serve = |endpoint: &&Endpoint| {
        targets.iter().any(|target| match target {
            Target::Model(position) => endpoint.model == *position,
            // It may stand for any of them.
            Target::Alias(_) => true,
        })
    };
    lost_at(request, &catalog.parameters, catalog.endpoints.iter().filter(may_serve))
}

/// The mistake of requiring a parameter of exactly this model that none of its endpoints would get.
pub fn unmet_translation(request: &ChatRequest, catalog: &Catalog, model: &Model) -> Option<Invalid> {
    let endpoints = catalog.endpoints_of(model).map(|(_, endpoint)| endpoint);
    let lost = lost_at(request, &catalog.parameters, endpoints);
    if lost.len() < catalog.endpoints_of(model).count() {
        return None;
    }
    let name = lost.first()?.name.to_string();
    let why = match request.routing.provider.require_parameters {
        true => ", and the request has 'provider.require_parameters': true",
        false => ", which is never left out",
    };
    let message = format!("Model '{}' does not support '{name}'{why}.", model.id);
    Some(Invalid::field(InvalidReason::UnsupportedParameter, name, message))
}

fn lost_at<'e>(
    request: &ChatRequest,
    names: &ParameterNames,
    endpoints: impl Iterator<Item = &'e Endpoint>,
) -> Vec<LostParameter> {
    let is_native_at =
        |endpoint: &Endpoint| request.client.as_deref().is_some_and(|client| client.is_native_at(endpoint));
    // Where data may be processed is no parameter that may be left out.
    let unpriced_geography = |endpoint: &Endpoint| {
        let mut unpriced = request.service.unpriced(endpoint.pricing.as_deref());
        is_native_at(endpoint) && unpriced.any(|name| name == "inference_geo")
    };
    if !request.routing.provider.require_parameters {
        let lost = |endpoint: &Endpoint| LostParameter { endpoint: endpoint.id, name: "inference_geo".into() };
        return match request.service.geography {
            ServicePreference::Open => Vec::new(),
            _ => endpoints.filter(|endpoint| unpriced_geography(endpoint)).map(lost).collect(),
        };
    }
    // A parameter that an endpoint lists is lost all the same where its dialect has none.
    let (Some(parameters), unknown) = (request.parameters(), request.unknown_parameter(names)) else {
        return Vec::new();
    };
    let lost = endpoints.filter_map(|endpoint| {
        let name = first_lost(request, unknown.as_deref(), &parameters, endpoint)?;
        Some(LostParameter { endpoint: endpoint.id, name })
    });
    lost.collect()
}

/// The first parameter that the endpoint would not get, by the client's name. `unknown` is one that the gateway does not know;
/// `parameters` holds all.
fn first_lost(
    request: &ChatRequest,
    unknown: Option<&str>,
    parameters: &Conversation<'_>,
    endpoint: &Endpoint,
) -> Option<Arc<str>> {
    if let Some(unpriced) = request.service.unpriced(endpoint.pricing.as_deref()).next() {
        return Some(unpriced.into());
    }
    let client = request.client.as_deref();
    if client.is_some_and(|client| client.is_native_at(endpoint)) {
        return None;
    }
    // The client's dialect may have lost a parameter before. A name with `[]` is a member of a message or a tool, no parameter.
    let before = client.and_then(|client| client.unsupported.dropped().iter().find(|name| !name.contains("[]")));
    if let Some(lost) = before {
        return Some(Arc::clone(lost));
    }
    let lost: Arc<str> = match endpoint.dialect {
        Dialect::OpenAi => unknown.filter(|_| !endpoint.forwards_unknown_fields)?.into(),
        _ => lost_in_translation(request, parameters, endpoint)?,
    };
    match client {
        Some(client) => client.field_names().of(&lost).first().map(|name| Arc::from(&**name)),
        None => Some(lost),
    }
}

/// The first parameter that the translation for an endpoint leaves out.
fn lost_in_translation(request: &ChatRequest, parameters: &Conversation<'_>, endpoint: &Endpoint) -> Option<Arc<str>> {
    let mut unsupported = UnsupportedFields::default();
    written(parameters, endpoint, SignatureSources::default(), &mut unsupported)?;
    unsupported.dropped().iter().find_map(|name| request.spelling(name)).map(Arc::from)
}
