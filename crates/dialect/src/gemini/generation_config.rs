//! `generationConfig` and `serviceTier`: sampling, the form of the answer, and reasoning.

use bytes::BytesMut;
use pointsman_domain::Endpoint;

use super::{models::Capabilities, schema, thinking};
use crate::{
    json::{Raw, push_count, push_member, push_object},
    neutral::{AnswerFormat, Conversation, UnsupportedFields, with_lone_references},
};

/// Most texts that end the answer.
const MAX_STOPS: usize = 5;

/// Appends the members. Parameters without a place in this API are dropped and named. Returns an instruction for a format
/// that the model cannot be held to.
pub(super) fn push(
    conversation: &Conversation<'_>,
    endpoint: &Endpoint,
    capabilities: Capabilities,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) -> Option<String> {
    let mut config = BytesMut::new();
    let mut tier = None;
    if let Some(limit) = conversation.limit_within(endpoint.limits.longest_answer().into(), unsupported) {
        push_count(&mut config, b"maxOutputTokens", limit);
    }
    let has_logprobs = conversation.parameter("logprobs").is_some_and(|value| value.bytes() == b"true");
    for parameter in &conversation.parameters {
        let (name, value) = (&*parameter.name, parameter.value());
        let is_kept = match name {
            "service_tier" => {
                tier = service_tier(value);
                tier.is_some() || value.text().as_deref() == Some("auto")
            }
            "top_logprobs" if !has_logprobs => value.count() == Some(0),
            "image_config" => push_image_config(value, &mut config, unsupported),
            _ => push_parameter(name, value, conversation.stream, &mut config),
        };
        if !is_kept {
            unsupported.drop(name);
        }
    }
    conversation.push_stop(b"stopSequences", MAX_STOPS, |text| !text.is_empty(), &mut config, unsupported);
    let instruction = push_format(conversation, capabilities, &mut config, unsupported);
    thinking::push(&conversation.reasoning, capabilities, &endpoint.effort_budgets, &mut config, unsupported);
    push_object(out, b"generationConfig", &config);
    if let Some(tier) = tier {
        push_member(out, b"serviceTier", tier);
    }
    instruction
}

/// False if the parameter has no place here.
fn push_parameter(name: &str, value: Raw<'_>, stream: bool, config: &mut BytesMut) -> bool {
    let is_number = value.bytes().first().is_some_and(|byte| *byte == b'-' || byte.is_ascii_digit());
    let member: &[u8] = match name {
        "temperature" if is_number => b"temperature",
        "top_p" if is_number => b"topP",
        "top_k" if is_number => b"topK",
        "frequency_penalty" if is_number => b"frequencyPenalty",
        "presence_penalty" if is_number => b"presencePenalty",
        "seed" if is_small_integer(value) => b"seed",
        "logprobs" if value.bytes() == b"true" => b"responseLogprobs",
        "logprobs" | "store" => return value.bytes() == b"false",
        "top_logprobs" if is_number => b"logprobs",
        "n" if value.count() == Some(1) => return true,
        "n" if !stream => b"candidateCount",
        "modalities" => return push_modalities(value, config),
        _ => return false,
    };
    push_member(config, member, value.bytes());
    true
}

/// A seed has 32 bits.
fn is_small_integer(value: Raw<'_>) -> bool {
    std::str::from_utf8(value.bytes()).is_ok_and(|text| text.parse::<i32>().is_ok())
}

/// False if one was left out: chat has no form for audio of this API.
fn push_modalities(value: Raw<'_>, config: &mut BytesMut) -> bool {
    let mut is_whole = true;
    let mut names = Vec::new();
    for modality in value.elements() {
        match modality.text().as_deref() {
            Some("text") => names.push("\"TEXT\""),
            Some("image") => names.push("\"IMAGE\""),
            _ => is_whole = false,
        }
    }
    if !names.is_empty() && names != ["\"TEXT\""] {
        push_member(config, b"responseModalities", format!("[{}]", names.join(",")).as_bytes());
    }
    is_whole && !names.is_empty()
}

fn push_image_config(value: Raw<'_>, config: &mut BytesMut, unsupported: &mut UnsupportedFields) -> bool {
    let mut members = BytesMut::new();
    for (key, value) in value.members() {
        let member: &[u8] = match &*key.name() {
            b"aspect_ratio" => b"aspectRatio",
            b"image_size" => b"imageSize",
            other => {
                unsupported.drop(&format!("image_config.{}", String::from_utf8_lossy(other)));
                continue;
            }
        };
        push_member(&mut members, member, value.bytes());
    }
    push_object(config, b"imageConfig", &members);
    value.is_object()
}

fn service_tier(value: Raw<'_>) -> Option<&'static [u8]> {
    Some(match value.text().as_deref()? {
        "default" => b"\"standard\"",
        "flex" => b"\"flex\"",
        "priority" => b"\"priority\"",
        _ => return None,
    })
}

/// Appends the format of the answer. Returns an instruction for what the model cannot be held to.
fn push_format(
    conversation: &Conversation<'_>,
    capabilities: Capabilities,
    config: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) -> Option<String> {
    let schema = match &conversation.format {
        AnswerFormat::Text => return None,
        AnswerFormat::JsonObject => None,
        AnswerFormat::Schema { schema, .. } => Some(*schema),
    };
    let can_be_held = conversation.tools.is_empty() || capabilities.json_with_tools;
    let lowered = schema.filter(|_| !capabilities.json_schema).map(schema::lower);
    if can_be_held && !matches!(lowered, Some(None)) {
        push_member(config, b"responseMimeType", b"\"application/json\"");
        match (schema, lowered.flatten()) {
            (_, Some(lowered)) => push_member(config, b"responseSchema", &lowered),
            (Some(schema), None) => {
                let schema = with_lone_references(schema, "response_format.json_schema.schema", unsupported);
                push_member(config, b"responseJsonSchema", &schema);
            }
            (None, None) => {}
        }
        return None;
    }
    if can_be_held {
        push_member(config, b"responseMimeType", b"\"application/json\"");
    }
    conversation.format.instruction(unsupported)
}
