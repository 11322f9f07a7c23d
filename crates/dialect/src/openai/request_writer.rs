//! Writes a conversation as the body of `POST /chat/completions`.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::{AddedMember, Endpoint};

use super::{
    prompt_writer::{ChatServer, PromptWriter},
    request::MAX_STOPS,
    tool_writer::push_choice,
};
use crate::{
    json::{push_count, push_member, push_string_member},
    neutral::{
        AnswerFormat, CHAT_NAMES, Conversation, Reasoning, ToolChoice, ToolNames, TranslatedRequest, UnsupportedFields,
        with_lone_references,
    },
};

/// The body for an endpoint. What it cannot carry is named in `unsupported`. `has_short_texts`: a single text is a string, not a
/// list of one part.
pub(crate) fn write_request(
    conversation: &Conversation<'_>,
    server: &ChatServer,
    endpoint: &Endpoint,
    has_short_texts: bool,
    unsupported: &mut UnsupportedFields,
) -> TranslatedRequest {
    let Conversation { turns, tools, tool_choice, .. } = conversation;
    let names = ToolNames::collect(turns, tools, CHAT_NAMES);
    let mut out = BytesMut::with_capacity(1_024);
    push!(out; br#"{"model":"#, endpoint.upstream_model);
    if let Some(limit) = conversation.max_tokens {
        let is_newer = endpoint.wants_max_completion_tokens;
        push_count(&mut out, if is_newer { b"max_completion_tokens" } else { b"max_tokens" }, limit);
    }
    let mut prompt = PromptWriter::new(server, &names, has_short_texts, unsupported, &mut out);
    prompt.messages(turns);
    prompt.tools(tools);
    if !matches!(tool_choice, ToolChoice::Unspecified) {
        push_member(&mut out, b"tool_choice", b"");
        push_choice(tool_choice, tools, &names, &mut out);
    }
    if let Some(is_parallel) = conversation.parallel_tool_calls {
        push_member(&mut out, b"parallel_tool_calls", if is_parallel { b"true" } else { b"false" });
    }
    push_reasoning(&conversation.reasoning, server.takes_effort, &mut out, unsupported);
    push_format(&conversation.format, &mut out, unsupported);
    conversation.push_stop(b"stop", MAX_STOPS, |_| true, &mut out, unsupported);
    for parameter in &conversation.parameters {
        if parameter.name == "cache_control" && !server.takes_marks {
            unsupported.drop("cache_control");
        } else {
            push_member(&mut out, parameter.name.as_bytes(), parameter.value().bytes());
        }
    }
    if conversation.stream {
        push_member(&mut out, b"stream", b"true");
        if !endpoint.omits.has(AddedMember::StreamOptions) {
            push_member(&mut out, b"stream_options", b"{\"include_usage\":true}");
        }
    }
    out.put_u8(b'}');
    TranslatedRequest { body: out.freeze(), names, ..TranslatedRequest::default() }
}

/// Appends `reasoning`, or the effort that comes closest.
fn push_reasoning(reasoning: &Reasoning, takes_effort: bool, out: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    if takes_effort {
        if reasoning.max_tokens.is_some() {
            unsupported.emulate("reasoning");
        }
        if let Some(effort) = reasoning.closest_effort() {
            push_string_member(out, b"reasoning_effort", effort.as_str());
        }
        return;
    }
    let effort = reasoning.effort.map(|effort| format!("\"effort\":\"{}\"", effort.as_str()));
    let budget = reasoning.max_tokens.map(|tokens| format!("\"max_tokens\":{tokens}"));
    let enabled = reasoning.enabled.map(|enabled| format!("\"enabled\":{enabled}"));
    let members: Vec<String> = [effort, budget, enabled].into_iter().flatten().collect();
    if !members.is_empty() {
        push_member(out, b"reasoning", format!("{{{}}}", members.join(",")).as_bytes());
    }
}

fn push_format(format: &AnswerFormat<'_>, out: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    match format {
        AnswerFormat::Text => {}
        AnswerFormat::JsonObject => push_member(out, b"response_format", b"{\"type\":\"json_object\"}"),
        AnswerFormat::Schema { name, description, schema, strict } => {
            push!(out; br#","response_format":{"type":"json_schema","json_schema":{"name":"#, name);
            if let Some(description) = description {
                description.push_member(out, b"description");
            }
            if let Some(strict) = strict {
                push_member(out, b"strict", if *strict { b"true" } else { b"false" });
            }
            // OpenAI's strict schemas have nothing beside a reference.
            let schema = match strict {
                Some(true) => with_lone_references(*schema, "response_format.json_schema.schema", unsupported),
                _ => schema.bytes().into(),
            };
            push!(out; br#","schema":"#, schema, b"}}");
        }
    }
}

/// The body that a server is sent which takes everything.
#[cfg(test)]
pub(crate) fn whole_chat(conversation: &Conversation<'_>, has_short_texts: bool) -> serde_json::Value {
    let id = pointsman_domain::EndpointId::new("acme/m", "acme", "");
    let endpoint = Endpoint::with_defaults(id, 0, 0, "m");
    let server = ChatServer::taking_everything(&conversation.turns);
    let written = write_request(conversation, &server, &endpoint, has_short_texts, &mut UnsupportedFields::default());
    serde_json::from_slice(&written.body).unwrap()
}
