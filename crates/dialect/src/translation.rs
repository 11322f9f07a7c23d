//! Chats for endpoints of every dialect: the body that is sent.
//!
//! A chat in the endpoint's own dialect is spliced. For another dialect it is read into the neutral form and written anew. How its
//! answer is read: [`crate::answer_stream`], [`crate::whole_answer`].

use std::{borrow::Cow, sync::Arc, time::Duration};

use pointsman_domain::{Catalog, Dialect, Endpoint, ReasoningHistory, RequestedService};

use super::{
    ChatRequest, ImageRequest, anthropic,
    body_edits::BodyEdits,
    client_request::{ClientRequest, ClientShape},
    converse,
    gemini::{self, SignatureSources},
    neutral::{Conversation, ToolNames, TranslatedRequest, UnsupportedFields, results_behind_calls},
    openai::{
        foreign_members::plain_chat,
        prompt_writer::ChatServer,
        request::{ChatExtras, default_parameters},
        request_writer::write_request,
        text_completion,
    },
    outgoing::{OutgoingBody, Translation},
    responses::{self, provider_state::ProviderState},
};

/// Path of chats, relative to the base address of the upstream. `client`: of another API than chat, if it is.
pub fn chat_path(client: Option<&ClientRequest>, endpoint: &Endpoint, streamed: bool) -> Arc<str> {
    match endpoint.dialect {
        Dialect::OpenAi if client.is_some_and(|client| client.is_native_at(endpoint)) => text_completion::PATH.into(),
        Dialect::OpenAi => "/chat/completions".into(),
        Dialect::Anthropic => anthropic::platform::path(endpoint, streamed),
        Dialect::Gemini => gemini::path(endpoint, streamed).into(),
        Dialect::Responses => "/responses".into(),
        Dialect::Converse => converse::path(endpoint, streamed).into(),
    }
}

/// The body of a chat for one endpoint. `most_output` lowers the limit on output tokens. `None` if the body of the request
/// is nested too deeply to be translated.
pub fn chat_body(
    request: &ChatRequest,
    catalog: &Catalog,
    endpoint: &Endpoint,
    most_output: Option<u32>,
) -> Option<OutgoingBody> {
    chat_body_with(request, catalog, endpoint, most_output, SignatureSources::default())
}

/// As [`chat_body`], with these signatures of reasoning where an endpoint wants any on calls.
pub fn chat_body_with(
    request: &ChatRequest,
    catalog: &Catalog,
    endpoint: &Endpoint,
    most_output: Option<u32>,
    signatures: SignatureSources<'_>,
) -> Option<OutgoingBody> {
    if let Some(client) = request.client.as_deref().filter(|client| client.is_native_at(endpoint))
        && let Some(own) = clients_own(client, catalog, endpoint, most_output, request.service)
    {
        return Some(own);
    }
    let extras = request.extras;
    let outgoing = match endpoint.dialect {
        Dialect::OpenAi if request.message_source.is_some() => written_chat(request, catalog, endpoint, most_output)?,
        Dialect::OpenAi => {
            let gated = request.limited_body(catalog, endpoint, most_output);
            match extras.reasoning || endpoint.reasoning_history == ReasoningHistory::Required {
                true => without_foreign_reasoning(gated, extras, catalog, endpoint),
                false => gated,
            }
        }
        _ => {
            let conversation = request.conversation_for(catalog, endpoint, most_output)?;
            translated(conversation, endpoint, request.prompt_tokens, signatures)?
        }
    };
    Some(named(request, outgoing))
}

/// Names the fields as the client does, and those that were lost on the way to the neutral form. What only the gateway asked for
/// is not named.
fn named(request: &ChatRequest, outgoing: OutgoingBody) -> OutgoingBody {
    let client = request.client.as_deref();
    let lost = client.map_or(&request.unsupported, |client| &client.unsupported);
    if outgoing.dropped.is_empty() && outgoing.emulated.is_empty() && *lost == UnsupportedFields::default() {
        return outgoing;
    }
    let names = client.map(ClientRequest::field_names);
    outgoing.renamed(lost, |name| match (request.spelling(name), &names) {
        (Some(name), Some(names)) => names.of(&name).into_iter().map(Cow::into_owned).collect(),
        (name, _) => name.map(Cow::into_owned).into_iter().collect(),
    })
}

/// The body of an image request for one endpoint. `None` as for [`chat_body`].
pub fn image_body(request: &ImageRequest, catalog: &Catalog, endpoint: &Endpoint) -> Option<OutgoingBody> {
    if endpoint.images_through_chat {
        let asked = request.conversation_for(catalog, endpoint)?;
        return match endpoint.dialect {
            Dialect::OpenAi => {
                let server = ChatServer::new(catalog, endpoint, &[]);
                Some(chat_of(asked, &server, endpoint, true))
            }
            _ => {
                let (tokens, signatures) = (request.prompt_tokens, SignatureSources::default());
                Some(named_as_image(request, translated(asked, endpoint, tokens, signatures)?))
            }
        };
    }
    let outgoing = request.upstream_body(catalog, endpoint);
    match endpoint.dialect {
        Dialect::Gemini | Dialect::Converse => {
            let mut unsupported = UnsupportedFields::default();
            outgoing.dropped.iter().for_each(|name| unsupported.drop(name));
            let asked = std::str::from_utf8(&outgoing.bytes).ok()?;
            let body = match endpoint.dialect {
                Dialect::Gemini => gemini::write_images(asked, &mut unsupported)?,
                _ => converse::write_images(asked, endpoint, &mut unsupported)?,
            };
            Some(OutgoingBody::without(body, unsupported))
        }
        _ => Some(outgoing),
    }
}

/// Names the fields of an image request as the client wrote them: a chat has others for the shape of an image.
fn named_as_image(request: &ImageRequest, outgoing: OutgoingBody) -> OutgoingBody {
    let given = |field: &'static str| if request.gives(field) { field } else { "size" };
    outgoing.renamed(&UnsupportedFields::default(), |name| {
        vec![match name {
            "image_config.aspect_ratio" => given("aspect_ratio").to_owned(),
            "image_config.image_size" => given("resolution").to_owned(),
            name => name.to_owned(),
        }]
    })
}

/// Path of image requests, relative to the base address of the upstream.
pub fn image_path(endpoint: &Endpoint) -> Arc<str> {
    match endpoint.dialect {
        _ if endpoint.images_through_chat => chat_path(None, endpoint, false),
        Dialect::Gemini => gemini::images_path(endpoint).into(),
        Dialect::Converse => converse::images_path(endpoint).into(),
        _ => "/images/generations".into(),
    }
}

/// Whether an endpoint can be asked for images. `through_chat`: as a chat.
pub fn makes_images(dialect: Dialect, upstream_model: &str, through_chat: bool) -> bool {
    match dialect {
        Dialect::OpenAi | Dialect::Responses | Dialect::Gemini => true,
        Dialect::Anthropic => false,
        Dialect::Converse => through_chat || converse::makes_images(upstream_model),
    }
}

/// The client's own body, with the endpoint's name of the model and without the gateway's fields. `None` if it is no JSON.
fn clients_own(
    client: &ClientRequest,
    catalog: &Catalog,
    endpoint: &Endpoint,
    most_output: Option<u32>,
    service: RequestedService,
) -> Option<OutgoingBody> {
    let text = std::str::from_utf8(&client.body).ok()?;
    let defaults = default_parameters(catalog, endpoint);
    let without: Vec<&str> = service.unpriced(endpoint.pricing.as_deref()).collect();
    let call = BodyEdits {
        model: &endpoint.upstream_model,
        most_output,
        defaults: &defaults,
        omits: endpoint.omits,
        without: &without,
    };
    let state = ProviderState::at(endpoint);
    let mut emulated = Vec::new();
    let body = match client.shape {
        ClientShape::Completion { .. } => text_completion::splice::splice_request(text, &call).ok()?,
        ClientShape::Messages { has_blank_answers, .. } => {
            let said = has_blank_answers.then(|| anthropic::splice::without_blank_answers(text)).transpose().ok()?;
            let text = said.as_ref().map_or(Some(text), |said| std::str::from_utf8(said).ok())?;
            let cut = anthropic::without_foreign_reasoning(text);
            let own = cut.as_ref().map_or(Some(text), |cut| std::str::from_utf8(&cut.body).ok())?;
            let spliced = anthropic::splice::splice_request(own, &call).ok()?;
            let without_thinking = cut.as_ref().is_some_and(|cut| cut.without_thinking);
            emulated.extend(cut.is_some().then(|| "messages[].content[].thinking".into()));
            emulated.extend((without_thinking || spliced.limits_thinking).then(|| "thinking".into()));
            spliced.body
        }
        ClientShape::Responses(_) => {
            let spliced = responses::splice::splice_request(text, &call, state).ok()?;
            emulated.extend(spliced.without_reasoning.then(|| "input[].encrypted_content".into()));
            spliced.body
        }
    };
    let translation = Some(Translation::new(client.dialect(), ToolNames::default(), endpoint));
    let (body, headers) = anthropic::platform::adapted(body, client.headers.clone(), endpoint);
    let dropped = without.into_iter().map(Into::into).collect();
    Some(OutgoingBody {
        is_clients_own: true,
        state,
        translation,
        headers,
        dropped,
        emulated,
        ..OutgoingBody::new(body)
    })
}

/// A chat body without reasoning of earlier turns that the endpoint must not get.
fn without_foreign_reasoning(
    gated: OutgoingBody,
    extras: ChatExtras,
    catalog: &Catalog,
    endpoint: &Endpoint,
) -> OutgoingBody {
    let plain = plain_chat(&gated.bytes, extras, catalog, endpoint);
    let Some((body, cut_reasoning)) = plain else { return gated };
    let mut emulated = gated.emulated;
    emulated.extend(cut_reasoning.into_iter().map(Into::into));
    OutgoingBody { bytes: body.into(), emulated, ..gated }
}

/// A chat body for a client of another API.
fn written_chat(
    request: &ChatRequest,
    catalog: &Catalog,
    endpoint: &Endpoint,
    most_output: Option<u32>,
) -> Option<OutgoingBody> {
    let mut conversation = request.conversation_for(catalog, endpoint, most_output)?;
    conversation.turns = results_behind_calls(conversation.turns, false, &mut conversation.unsupported);
    let mut server = ChatServer::new(catalog, endpoint, &conversation.turns);
    server.takes_effort |= request.takes_tools_only_without_reasoning(endpoint);
    let has_short_texts = request.message_source.as_ref().is_some_and(|source| source.has_short_texts);
    Some(chat_of(conversation, &server, endpoint, has_short_texts))
}

fn chat_of(
    mut conversation: Conversation<'_>,
    server: &ChatServer,
    endpoint: &Endpoint,
    has_short_texts: bool,
) -> OutgoingBody {
    let mut unsupported = std::mem::take(&mut conversation.unsupported);
    let written = write_request(&conversation, server, endpoint, has_short_texts, &mut unsupported);
    OutgoingBody { names: written.names, ..OutgoingBody::without(written.body, unsupported) }
}

/// A body for an endpoint of another dialect.
fn translated(
    mut conversation: Conversation<'_>,
    endpoint: &Endpoint,
    prompt_tokens: u32,
    signatures: SignatureSources<'_>,
) -> Option<OutgoingBody> {
    conversation.settle_turns();
    let mut unsupported = std::mem::take(&mut conversation.unsupported);
    if endpoint.dialect == Dialect::Anthropic {
        anthropic::limit_to_context(&mut conversation, endpoint, prompt_tokens);
    }
    let TranslatedRequest { body, names, headers } = written(&conversation, endpoint, signatures, &mut unsupported)?;
    Some(OutgoingBody {
        headers,
        translation: Some(Translation {
            signatures: signatures.memory.cloned(),
            ..Translation::new(endpoint.dialect, names, endpoint)
        }),
        ..OutgoingBody::without(body, unsupported)
    })
}

/// The body in the dialect of an endpoint that does not speak chat.
pub(crate) fn written(
    conversation: &Conversation<'_>,
    endpoint: &Endpoint,
    signatures: SignatureSources<'_>,
    unsupported: &mut UnsupportedFields,
) -> Option<TranslatedRequest> {
    Some(match endpoint.dialect {
        Dialect::OpenAi => return None,
        Dialect::Anthropic => anthropic::write_request(conversation, endpoint, unsupported),
        Dialect::Gemini => gemini::write_request_with(conversation, endpoint, signatures, unsupported),
        Dialect::Responses => responses::write_request(conversation, endpoint, unsupported),
        Dialect::Converse => converse::write_request(conversation, endpoint, unsupported),
    })
}

/// Whether a response refuses a signature of reasoning, so that the same chat may be accepted with stand-ins.
pub fn refuses_signature(dialect: Dialect, status: u16, body: &[u8]) -> bool {
    dialect == Dialect::Gemini && gemini::refuses_signature(status, body)
}

/// The time to wait that the body of an error names, where a dialect has no header for it.
pub fn retry_delay(dialect: Dialect, body: &[u8]) -> Option<Duration> {
    match dialect {
        Dialect::OpenAi | Dialect::Anthropic | Dialect::Responses | Dialect::Converse => None,
        Dialect::Gemini => gemini::retry_delay(body),
    }
}
