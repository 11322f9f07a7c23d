//! The API on both sides: only what must change is rewritten, every other byte passes as it came.

use bytes::Bytes;

use crate::dialect::{
    json::{Fate, JsonFault, Raw, Splice, object, quoted, with_first_member},
    openai::request::{is_for_gateway, is_routing_parameter},
};

/// The body of a client for an upstream: `model` is the upstream's name for the model, the members for the gateway are cut, a
/// stream always ends with its usage, and `most_output` lowers the limit on output tokens.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_request(body: &str, model: &str, most_output: Option<u32>) -> Result<Bytes, JsonFault> {
    let whole = object(body)?;
    let (name, most) = (quoted(model), most_output.map(|most| most.to_string()));
    let (mut has_model, mut has_limit, mut is_stream) = (false, false, false);
    let mut splice = Splice::new(body);
    splice.members(whole, |key, value, splice| {
        match &*key.name() {
            b"model" => {
                has_model = true;
                splice.replace(value, &name);
            }
            b"max_tokens" => {
                has_limit = true;
                let is_above = |most: &u32| value.count().is_none_or(|given| given > u64::from(*most));
                if let Some(lower) = most_output.filter(is_above) {
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
    let mut body = splice.finish();
    if is_stream {
        body = with_first_member(&body, b"stream_options", b"{\"include_usage\":true}");
    }
    if let Some(most) = most.filter(|_| !has_limit) {
        body = with_first_member(&body, b"max_tokens", most.as_bytes());
    }
    if !has_model {
        body = with_first_member(&body, b"model", &name);
    }
    Ok(body)
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
