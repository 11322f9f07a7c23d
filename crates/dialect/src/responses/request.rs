//! Writes a conversation as the body of `POST /responses`.
//!
//! `input` comes last and nothing before it depends on later turns, so that the body for a conversation is a prefix of the
//! body for the same conversation with one more turn.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::Endpoint;

use super::{
    input::push_input,
    models::{LEAST_OUTPUT, NAMES, capabilities, takes_cache_breakpoints},
    parameters::Parameters,
    reasoning,
    tools::push_tools,
};
use crate::{
    json::{push_count, push_member, push_string_member},
    neutral::{
        AnswerFormat, Content, Conversation, EscapedText, ToolNames, TranslatedRequest, UnsupportedFields,
        name_of_cache_mark, with_lone_references,
    },
};

/// The body for an endpoint. What the endpoint cannot carry is named in `unsupported`.
pub(crate) fn write_request(
    conversation: &Conversation<'_>,
    endpoint: &Endpoint,
    unsupported: &mut UnsupportedFields,
) -> TranslatedRequest {
    let capabilities = capabilities(&endpoint.upstream_model);
    let names = ToolNames::new(conversation, NAMES);
    let reasoning = reasoning::plan(&conversation.reasoning, capabilities, endpoint.omits, unsupported);
    let parameters = Parameters::new(conversation, reasoning.admits_sampling(capabilities), unsupported);

    let mut out = BytesMut::with_capacity(1_024);
    push!(out; br#"{"model":"#, endpoint.upstream_model);
    if conversation.stream {
        push_member(&mut out, b"stream", b"true");
    }
    parameters.push(endpoint.omits, &mut out);
    push_limit(conversation.max_tokens, &mut out, unsupported);
    if !conversation.stop.is_empty() {
        unsupported.drop("stop");
    }
    reasoning.push(&mut out);
    push_text(&conversation.format, parameters.verbosity, &mut out, unsupported);
    push_tools(conversation, &names, &mut out, unsupported);
    let takes_breakpoints = takes_cache_breakpoints(&endpoint.upstream_model);
    // Instructions cannot be marked.
    let has_breakpoints = takes_breakpoints && conversation.system.iter().any(|part| part.cache_control.is_some());
    let instructions = instructions(conversation).filter(|_| !has_breakpoints);
    if let Some(text) = instructions {
        text.push_member(&mut out, b"instructions");
        for mark in conversation.system.iter().filter_map(|part| part.cache_control) {
            unsupported.drop(&format!("messages[].content[].{}", name_of_cache_mark(mark)));
        }
    }
    let system = if instructions.is_some() { &[][..] } else { conversation.system.as_slice() };
    push_input(system, &conversation.turns, takes_breakpoints, &names, &mut out, unsupported);
    out.put_u8(b'}');
    TranslatedRequest { body: out.freeze(), names, ..TranslatedRequest::default() }
}

/// The instructions, if they are exactly one text: several have no form but messages.
fn instructions<'c, 'a>(conversation: &'c Conversation<'a>) -> Option<&'c EscapedText<'a>> {
    match conversation.system.as_slice() {
        [part] => match &part.content {
            Content::Text(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn push_limit(max_tokens: Option<u64>, out: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    let Some(wanted) = max_tokens else { return };
    let least = u64::from(LEAST_OUTPUT);
    if wanted < least {
        unsupported.emulate("max_tokens");
    }
    push_count(out, b"max_output_tokens", wanted.max(least));
}

/// Appends `text`: the format of the answer and how wordy it is.
fn push_text(
    format: &AnswerFormat<'_>,
    verbosity: Option<&[u8]>,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    if matches!(format, AnswerFormat::Text) && verbosity.is_none() {
        return;
    }
    push_member(out, b"text", b"{\"format\":{\"type\":");
    match format {
        AnswerFormat::Text => out.put_slice(b"\"text\""),
        AnswerFormat::JsonObject => out.put_slice(b"\"json_object\""),
        AnswerFormat::Schema { name, description, schema, strict } => {
            out.put_slice(b"\"json_schema\"");
            let given = name.unescaped();
            let given = if given.is_empty() { "output" } else { &*given };
            push_string_member(out, b"name", &NAMES.fitting(given));
            if let Some(description) = description {
                description.push_member(out, b"description");
            }
            let path = "response_format.json_schema.schema";
            let schema = match strict {
                Some(true) => with_lone_references(*schema, path, unsupported),
                _ => schema.bytes().into(),
            };
            push_member(out, b"schema", &schema);
            if let Some(strict) = strict {
                push_member(out, b"strict", if *strict { b"true" } else { b"false" });
            }
        }
    }
    out.put_u8(b'}');
    if let Some(verbosity) = verbosity {
        push_member(out, b"verbosity", verbosity);
    }
    out.put_u8(b'}');
}
