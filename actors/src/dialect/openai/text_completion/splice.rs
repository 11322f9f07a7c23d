//! The API on both sides: only what must change is rewritten, every other byte passes as it came.

use bytes::Bytes;

use crate::dialect::{
    json::{Fate, JsonFault, Raw, Splice, object, quoted},
    openai::request::{is_for_gateway, is_routing_parameter},
    spliced_call::{AddedMembers, SplicedCall},
};

/// Parameters of sampling that the API has.
const SAMPLING: [&str; 4] = ["temperature", "top_p", "frequency_penalty", "presence_penalty"];

/// The body of a client for an upstream: with the upstream's name for the model, the limit on output and the defaults of `call`,
/// and without the members for the gateway. A stream always ends with its usage.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_request(body: &str, call: &SplicedCall<'_>) -> Result<Bytes, JsonFault> {
    let whole = object(body)?;
    let name = quoted(call.model);
    let mut open = call.defaults_among(&SAMPLING);
    let (mut has_model, mut has_limit, mut is_stream) = (false, false, false);
    let mut splice = Splice::new(body);
    splice.members(whole, |key, value, splice| {
        let key = key.name();
        open.retain(|(name, _)| name.as_bytes() != &*key);
        match &*key {
            b"model" => {
                has_model = true;
                splice.replace(value, &name);
            }
            b"max_tokens" => {
                has_limit = true;
                if let Some(lower) = call.lower_than(value.count()) {
                    splice.replace(value, lower.to_string().as_bytes());
                }
            }
            b"metadata" => splice.members(value, |key, _, _| {
                let name = key.name();
                let is_ours = std::str::from_utf8(&name).is_ok_and(is_routing_parameter);
                if is_ours { Fate::Cut } else { Fate::Kept }
            }),
            b"stream_options" => return Fate::Cut,
            b"stream" => is_stream = value.bytes() == b"true",
            name if std::str::from_utf8(name).is_ok_and(is_for_gateway) => return Fate::Cut,
            _ => {}
        }
        Fate::Kept
    });
    let mut added = AddedMembers::default();
    if !has_model {
        added.push("model", String::from_utf8_lossy(&name));
    }
    if let Some(most) = call.most_output.filter(|_| !has_limit) {
        added.push("max_tokens", most);
    }
    if is_stream {
        added.push("stream_options", "{\"include_usage\":true}");
    }
    open.iter().for_each(|(name, value)| added.push(name, value));
    Ok(added.before(splice.finish()))
}

/// A whole answer, or a chunk of a stream, with our `id` and `model`.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_answer(body: &str, id: &str, model: &str) -> Result<Bytes, JsonFault> {
    let answer = object(body)?;
    let mut splice = Splice::new(body);
    for (key, value) in answer.members() {
        match &*key.name() {
            b"id" => splice.replace(value, &quoted(id)),
            b"model" => splice.replace(value, &quoted(model)),
            _ => {}
        }
    }
    Ok(splice.finish())
}

/// Whether a chunk only reports usage, which not every client wants to see.
pub(crate) fn is_usage_only(chunk: &str) -> bool {
    object(chunk).is_ok_and(|chunk| {
        let choices = chunk.member(b"choices");
        choices.is_none_or(|choices| !choices.is_filled()) && chunk.member(b"usage").is_some_and(Raw::is_object)
    })
}
