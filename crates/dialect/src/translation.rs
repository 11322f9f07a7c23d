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
    json::{Splice, SpliceAction, object},
    neutral::{Prompt, ToolNames, TranslatedRequest, UnsupportedFields, results_behind_calls},
    openai::{
        conversation_reader::{read_conversation, tool_choice},
        foreign_members::plain_chat,
        prompt_writer::{ChatServer, PromptWriter},
        request::{ChatExtras, default_parameters},
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

/// As [`chat_body`], with these signatures of thoughts where an endpoint wants any on calls.
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
    // Gateway fields and parameters that the endpoint does not list are removed here, for every dialect.
    let gated = request.limited_body(catalog, endpoint, most_output);
    let extras = request.extras;
    let outgoing = match endpoint.dialect {
        Dialect::OpenAi if request.message_source.is_some() => written_chat(request, gated, catalog, endpoint)?,
        Dialect::OpenAi if extras.reasoning || endpoint.reasoning_history == ReasoningHistory::Required => {
            without_foreign_reasoning(gated, extras, catalog, endpoint)
        }
        Dialect::OpenAi => gated,
        dialect => {
            let prompt = match &request.message_source {
                Some(source) => Some(source.prompt()?),
                None => None,
            };
            spelled(request, translated(&gated, dialect, endpoint, prompt, request.prompt_tokens, signatures)?)
        }
    };
    Some(match request.client.as_deref() {
        Some(client) => named(&client.unsupported, Some(client), outgoing),
        // One name needs no order.
        None if request.unsupported == UnsupportedFields::default()
            && outgoing.dropped.len() < 2
            && outgoing.emulated.len() < 2 =>
        {
            outgoing
        }
        None => named(&request.unsupported, None, outgoing),
    })
}

/// The body of an image request for one endpoint. `None` as for [`chat_body`].
pub fn image_body(request: &ImageRequest, catalog: &Catalog, endpoint: &Endpoint) -> Option<OutgoingBody> {
    let outgoing = request.upstream_body(catalog, endpoint);
    match endpoint.dialect {
        Dialect::OpenAi => Some(outgoing),
        dialect if endpoint.images_through_chat => {
            let emulated = outgoing.emulated.clone();
            let mut body =
                translated(&outgoing, dialect, endpoint, None, request.prompt_tokens, SignatureSources::default())?;
            body.emulated.extend(emulated);
            Some(named_as_image(request, body))
        }
        Dialect::Gemini | Dialect::Converse => {
            let mut unsupported = UnsupportedFields::default();
            outgoing.dropped.iter().for_each(|name| unsupported.drop(name));
            let asked = std::str::from_utf8(&outgoing.bytes).ok()?;
            let body = match endpoint.dialect {
                Dialect::Gemini => gemini::write_images(asked, &mut unsupported)?,
                _ => converse::write_images(asked, endpoint, &mut unsupported)?,
            };
            let (dropped, emulated) = (unsupported.dropped().to_vec(), unsupported.emulated().to_vec());
            Some(OutgoingBody { dropped, emulated, ..OutgoingBody::new(body) })
        }
        _ => Some(outgoing),
    }
}

/// Names the fields of an image request as the client wrote them: a chat has others for the shape of an image.
fn named_as_image(request: &ImageRequest, outgoing: OutgoingBody) -> OutgoingBody {
    let given = |field: &'static str| if request.gives(field) { field } else { "size" };
    let name_of = |name: &str| match name {
        "image_config.aspect_ratio" => given("aspect_ratio").to_owned(),
        "image_config.image_size" => given("resolution").to_owned(),
        name => name.to_owned(),
    };
    let mut unsupported = UnsupportedFields::default();
    outgoing.dropped.iter().for_each(|name| unsupported.drop(&name_of(name)));
    outgoing.emulated.iter().for_each(|name| unsupported.emulate(&name_of(name)));
    OutgoingBody { dropped: unsupported.dropped().to_vec(), emulated: unsupported.emulated().to_vec(), ..outgoing }
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

/// A chat body for a client of another API, with messages and tools as every chat server takes them.
fn written_chat(
    request: &ChatRequest,
    gated: OutgoingBody,
    catalog: &Catalog,
    endpoint: &Endpoint,
) -> Option<OutgoingBody> {
    let text = std::str::from_utf8(&gated.bytes).ok()?;
    let source = request.message_source.as_ref()?;
    let mut prompt = source.prompt()?;
    let mut unsupported = UnsupportedFields::default();
    prompt.turns = results_behind_calls(prompt.turns, false, &mut unsupported);
    let server = ChatServer::of(catalog, endpoint, &prompt.turns);
    let mut writer = PromptWriter::new(&server, &prompt, source.has_short_texts(), &mut unsupported);
    let whole = object(text).ok()?;
    if let Some(tools) = whole.member(b"tools") {
        writer.take_names(tools);
    }
    let mut splice = Splice::new(text);
    let mut cuts_mark = false;
    splice.members(whole, |key, value, splice| {
        match &*key.name() {
            b"messages" => splice.replace(value, &writer.messages()),
            b"tools" if !value.is_filled() => splice.replace(value, &writer.tools()),
            b"tools" => writer.rename_tools(value, splice),
            b"tool_choice" => {
                writer.tool_choice(&tool_choice(value)).into_iter().for_each(|choice| splice.replace(value, &choice))
            }
            b"cache_control" if !server.takes_marks => {
                cuts_mark = true;
                return SpliceAction::Cut;
            }
            _ => {}
        }
        SpliceAction::Kept
    });
    let names = writer.names;
    let (mut dropped, mut emulated) = (gated.dropped.clone(), gated.emulated.clone());
    dropped.extend(unsupported.dropped().iter().cloned().chain(cuts_mark.then(|| "cache_control".into())));
    emulated.extend_from_slice(unsupported.emulated());
    let bytes = splice.finish().into();
    Some(OutgoingBody { bytes, names, dropped, emulated, ..gated })
}

/// Names fields as the chat body does: the neutral form knows one name for each. What only the gateway asked for is not named.
fn spelled(request: &ChatRequest, outgoing: OutgoingBody) -> OutgoingBody {
    let mut unsupported = UnsupportedFields::default();
    outgoing.dropped.iter().filter_map(|name| request.spelling(name)).for_each(|name| unsupported.drop(&name));
    outgoing.emulated.iter().filter_map(|name| request.spelling(name)).for_each(|name| unsupported.emulate(&name));
    OutgoingBody { dropped: unsupported.dropped().to_vec(), emulated: unsupported.emulated().to_vec(), ..outgoing }
}

/// Names the fields in the client's spelling, and those that were lost on the way to the chat body.
fn named(unsupported: &UnsupportedFields, client: Option<&ClientRequest>, outgoing: OutgoingBody) -> OutgoingBody {
    let mut unsupported = unsupported.clone();
    let names = client.map(ClientRequest::field_names);
    let names_of = |name| names.as_ref().map_or_else(|| vec![Cow::Borrowed(name)], |names| names.of(name));
    outgoing.dropped.iter().flat_map(|name| names_of(&**name)).for_each(|name| unsupported.drop(&name));
    outgoing.emulated.iter().flat_map(|name| names_of(&**name)).for_each(|name| unsupported.emulate(&name));
    OutgoingBody { dropped: unsupported.dropped().to_vec(), emulated: unsupported.emulated().to_vec(), ..outgoing }
}

/// A body for an endpoint of another dialect. `prompt`: its messages and tools, if it has none.
fn translated(
    gated: &OutgoingBody,
    dialect: Dialect,
    endpoint: &Endpoint,
    prompt: Option<Prompt<'_>>,
    prompt_tokens: u32,
    signatures: SignatureSources<'_>,
) -> Option<OutgoingBody> {
    let text = std::str::from_utf8(&gated.bytes).ok()?;
    let mut conversation = read_conversation(text).ok()?;
    if let Some(Prompt { turns, tools }) = prompt {
        conversation.set_turns(turns);
        // The gate may have left them out.
        if !tools.is_empty() && object(text).ok()?.member(b"tools").is_some() {
            conversation.tools = tools;
        }
    }
    let mut unsupported = std::mem::take(&mut conversation.unsupported);
    gated.dropped.iter().for_each(|name| unsupported.drop(name));
    gated.emulated.iter().for_each(|name| unsupported.emulate(name));
    let (TranslatedRequest { body, names }, headers) = match dialect {
        Dialect::OpenAi => return None,
        Dialect::Anthropic => {
            anthropic::limit_to_context(&mut conversation, endpoint, prompt_tokens);
            let betas = anthropic::required_betas(&conversation, endpoint);
            let headers = (!betas.is_empty()).then(|| ("anthropic-beta".into(), betas.join(",")));
            let written = anthropic::write_request(&conversation, endpoint, &mut unsupported);
            let (body, headers) = anthropic::platform::adapted(written.body, headers.into_iter().collect(), endpoint);
            (TranslatedRequest { body, ..written }, headers)
        }
        Dialect::Gemini => {
            (gemini::write_request_with(&conversation, endpoint, signatures, &mut unsupported), Vec::new())
        }
        Dialect::Responses => (responses::write_request(&conversation, endpoint, &mut unsupported), Vec::new()),
        Dialect::Converse => (converse::write_request(&conversation, endpoint, &mut unsupported), Vec::new()),
    };
    Some(OutgoingBody {
        dropped: unsupported.dropped().to_vec(),
        emulated: unsupported.emulated().to_vec(),
        headers,
        translation: Some(Translation {
            signatures: signatures.memory.cloned(),
            ..Translation::new(dialect, names, endpoint)
        }),
        ..OutgoingBody::new(body)
    })
}

/// Whether an answer refuses a signature of a thought, so that the same chat may be accepted with stand-ins.
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
