//! `generationConfig` and `serviceTier`: sampling, the form of the answer, and reasoning.

use bytes::{BufMut as _, BytesMut};

use super::models::{Capabilities, ThinkingControl};
use crate::dialect::{
    json::{Raw, push_member, push_u64},
    neutral::{AnswerFormat, Conversation, Effort, FieldFates, Reasoning},
};

/// Most texts that end the answer.
const MAX_STOPS: usize = 5;

/// Appends the members. Parameters without a place in this API are dropped and named.
pub(super) fn push(
    conversation: &Conversation<'_>,
    capabilities: Capabilities,
    out: &mut BytesMut,
    fates: &mut FieldFates,
) {
    let mut config = BytesMut::new();
    let mut tier = None;
    if let Some(most) = conversation.max_tokens {
        push_member(&mut config, b"maxOutputTokens", b"");
        push_u64(&mut config, most);
    }
    for parameter in &conversation.parameters {
        let (name, value) = (&*parameter.name, parameter.value);
        if name == "service_tier" {
            tier = service_tier(value);
            if tier.is_none() && value.text().as_deref() != Some("auto") {
                fates.drop(name);
            }
        } else if !push_parameter(name, value, conversation.stream, &mut config) {
            fates.drop(name);
        }
    }
    push_stops(conversation, &mut config, fates);
    push_format(&conversation.format, &mut config);
    push_thinking(&conversation.reasoning, capabilities, &mut config, fates);
    if let Some(members) = config.get(1..) {
        push_member(out, b"generationConfig", b"{");
        out.put_slice(members);
        out.put_u8(b'}');
    }
    if let Some(tier) = tier {
        push_member(out, b"serviceTier", tier);
    }
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
        "image_config" => return push_image_config(value, config),
        _ => return false,
    };
    push_member(config, member, value.bytes());
    true
}

/// A seed has 32 bits.
fn is_small_integer(value: Raw<'_>) -> bool {
    std::str::from_utf8(value.bytes()).is_ok_and(|text| text.parse::<i32>().is_ok())
}

fn push_modalities(value: Raw<'_>, config: &mut BytesMut) -> bool {
    let names: Option<Vec<&str>> = value
        .elements()
        .map(|modality| match modality.text().as_deref() {
            Some("text") => Some("\"TEXT\""),
            Some("image") => Some("\"IMAGE\""),
            Some("audio") => Some("\"AUDIO\""),
            _ => None,
        })
        .collect();
    let Some(names) = names.filter(|names| !names.is_empty()) else { return false };
    if names != ["\"TEXT\""] {
        push_member(config, b"responseModalities", format!("[{}]", names.join(",")).as_bytes());
    }
    true
}

fn push_image_config(value: Raw<'_>, config: &mut BytesMut) -> bool {
    let members = [(&b"aspect_ratio"[..], &b"aspectRatio"[..]), (b"image_size", b"imageSize")];
    let given: Vec<_> = members.iter().filter_map(|(name, member)| Some((*member, value.member(name)?))).collect();
    let Some(((first, value), others)) = given.split_first() else { return false };
    push_member(config, b"imageConfig", b"{\"");
    config.put_slice(first);
    config.put_slice(b"\":");
    config.put_slice(value.bytes());
    others.iter().for_each(|(name, value)| push_member(config, name, value.bytes()));
    config.put_u8(b'}');
    true
}

fn service_tier(value: Raw<'_>) -> Option<&'static [u8]> {
    Some(match value.text().as_deref()? {
        "default" => b"\"standard\"",
        "flex" => b"\"flex\"",
        "priority" => b"\"priority\"",
        _ => return None,
    })
}

fn push_stops(conversation: &Conversation<'_>, config: &mut BytesMut, fates: &mut FieldFates) {
    let stops = &conversation.stop;
    if stops.is_empty() {
        return;
    }
    if stops.len() > MAX_STOPS {
        fates.drop("stop");
    }
    push_member(config, b"stopSequences", b"[");
    for (place, stop) in stops.iter().take(MAX_STOPS).enumerate() {
        if place > 0 {
            config.put_u8(b',');
        }
        stop.push_quoted(config);
    }
    config.put_u8(b']');
}

fn push_format(format: &AnswerFormat<'_>, config: &mut BytesMut) {
    if matches!(format, AnswerFormat::Text) {
        return;
    }
    push_member(config, b"responseMimeType", b"\"application/json\"");
    if let AnswerFormat::Schema { schema, .. } = format {
        push_member(config, b"responseJsonSchema", schema.bytes());
    }
}

fn push_thinking(reasoning: &Reasoning, capabilities: Capabilities, config: &mut BytesMut, fates: &mut FieldFates) {
    if !reasoning.is_on() && !reasoning.is_off() {
        return;
    }
    let shown: &[u8] = if reasoning.is_on() && !reasoning.exclude { b",\"includeThoughts\":true" } else { b"" };
    let mut push = |member: &[u8], value: &[u8]| {
        push_member(config, b"thinkingConfig", b"{\"");
        config.put_slice(member);
        config.put_slice(b"\":");
        config.put_slice(value);
        config.put_slice(shown);
        config.put_u8(b'}');
    };
    match capabilities.thinking {
        ThinkingControl::Never if reasoning.is_off() => {}
        ThinkingControl::Never => fates.drop("reasoning"),
        ThinkingControl::Budget { least, most } => {
            let (budget, is_exact) = budget(reasoning, least, most);
            if !is_exact {
                fates.emulate("reasoning");
            }
            push(b"thinkingBudget", budget.as_bytes());
        }
        ThinkingControl::Level => {
            let (level, is_exact) = level(reasoning);
            if !is_exact {
                fates.emulate("reasoning");
            }
            match level {
                Some(level) => push(b"thinkingLevel", level),
                None if reasoning.exclude => {}
                None => push_member(config, b"thinkingConfig", b"{\"includeThoughts\":true}"),
            }
        }
    }
}

/// The budget, and whether it is what was asked for. -1: as much as the model finds right.
fn budget(reasoning: &Reasoning, least: u64, most: u64) -> (String, bool) {
    if reasoning.is_off() {
        return (least.to_string(), least == 0);
    }
    let wanted = match (reasoning.max_tokens, reasoning.effort) {
        (Some(tokens), _) => tokens,
        (None, Some(effort)) => effort.budget(),
        (None, None) => return ("-1".to_owned(), true),
    };
    let given = wanted.clamp(least.max(1), most);
    (given.to_string(), given == wanted)
}

/// The level, and whether it is what was asked for. `None`: as much as the model finds right.
fn level(reasoning: &Reasoning) -> (Option<&'static [u8]>, bool) {
    let (level, is_exact): (&[u8], bool) = match (reasoning.is_off(), reasoning.max_tokens, reasoning.effort) {
        (true, ..) => (b"\"MINIMAL\"", false),
        (_, Some(tokens), None) => return (level_of(Effort::of_budget(tokens)).0.into(), false),
        (_, _, Some(effort)) => level_of(effort),
        (_, None, None) => return (None, true),
    };
    (Some(level), is_exact)
}

const fn level_of(effort: Effort) -> (&'static [u8], bool) {
    match effort {
        Effort::None => (b"\"MINIMAL\"", false),
        Effort::Minimal => (b"\"MINIMAL\"", true),
        Effort::Low => (b"\"LOW\"", true),
        Effort::Medium => (b"\"MEDIUM\"", true),
        Effort::High => (b"\"HIGH\"", true),
        // Not all models know a higher level.
        Effort::XHigh | Effort::Max => (b"\"HIGH\"", false),
    }
}
