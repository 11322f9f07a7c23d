//! Parameters that the API of an endpoint has no form for, of those that no endpoint lists.
//!
//! A listed parameter is left out for endpoints that do not list it, whatever their API. Any other is translated as far as
//! the API has a form for it, and only the translation shows whether it has. So that it shows, the parameters are translated
//! by themselves.

use super::{
    ChatRequest, anthropic, converse,
    gemini::{self, SignatureSources},
    neutral::FieldFates,
    openai::conversation_reader::read_conversation,
    responses,
};
use crate::domain::{
    Catalog, Dialect, DialectSet, Endpoint, EndpointId, Invalid, InvalidReason, Model, ParameterNames,
};

/// The dialects in which a parameter of the request has no form, if the request requires all of its parameters. That of
/// chats is among them if the gateway does not know a parameter, which only some endpoints are sent.
#[must_use]
pub fn lossy_dialects(request: &ChatRequest, names: &ParameterNames) -> DialectSet {
    if !request.routing.provider.require_parameters {
        return DialectSet::NONE;
    }
    let lossy = |dialect: &Dialect| first_lost(request, names, *dialect).is_some();
    Dialect::ALL.into_iter().filter(lossy).fold(DialectSet::NONE, DialectSet::with)
}

/// The mistake of requiring a parameter of exactly this model for which none of its endpoints has a form.
#[must_use]
pub fn unmet_translation(request: &ChatRequest, catalog: &Catalog, model: &Model) -> Option<Invalid> {
    let lossy = lossy_dialects(request, &catalog.parameters);
    let is_sent = |endpoint: &Endpoint| endpoint.dialect == Dialect::OpenAi && endpoint.forwards_unknown_fields;
    let is_lossy = |endpoint: &Endpoint| lossy.has(endpoint.dialect) && !is_sent(endpoint);
    if !catalog.endpoints_of(model).all(|(_, endpoint)| is_lossy(endpoint)) {
        return None;
    }
    let (_, endpoint) = catalog.endpoints_of(model).next()?;
    let name = first_lost(request, &catalog.parameters, endpoint.dialect)?;
    let message = format!(
        "Model '{}' does not support '{name}', and the request has 'provider.require_parameters': true.",
        model.id
    );
    Some(Invalid::field(InvalidReason::UnsupportedParameter, name, message))
}

/// The first parameter without a form in the dialect, by the client's name.
fn first_lost(request: &ChatRequest, names: &ParameterNames, dialect: Dialect) -> Option<String> {
    let client = request.client.as_deref();
    if client.is_some_and(|client| client.dialect() == dialect && dialect != Dialect::OpenAi) {
        return None;
    }
    if let Some(lost) = client.and_then(|client| client.fates.dropped().first()) {
        return Some(lost.to_string());
    }
    let (members, unknown) = request.unlisted_members(names);
    let lost = match dialect {
        Dialect::OpenAi => unknown?,
        dialect => lost_in(&members, dialect)?,
    };
    Some(client.map_or(lost.clone(), |client| client.shape.field_name(&lost).to_owned()))
}

/// The first of the parameters that a translation leaves out.
fn lost_in(members: &str, dialect: Dialect) -> Option<String> {
    if members.is_empty() {
        return None;
    }
    let body = format!("{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"x\"}}]{members}}}");
    let conversation = read_conversation(&body).ok()?;
    let endpoint = Endpoint { dialect, ..Endpoint::with_defaults(EndpointId::of("m", "m", ""), 0, 0, "m") };
    let mut fates = FieldFates::default();
    match dialect {
        Dialect::OpenAi => return None,
        Dialect::Anthropic => drop(anthropic::write_request(&conversation, &endpoint, &mut fates)),
        Dialect::Gemini => {
            drop(gemini::write_request_with(&conversation, &endpoint, SignatureSources::default(), &mut fates))
        }
        Dialect::Responses => drop(responses::write_request(&conversation, &endpoint, &mut fates)),
        Dialect::Converse => drop(converse::write_request(&conversation, &endpoint, &mut fates)),
    }
    fates.dropped().first().map(|name| name.to_string())
}
