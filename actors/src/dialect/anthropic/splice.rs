//! The Messages API on both sides: only what must change is rewritten, every other byte passes as it came.

use bytes::Bytes;

use crate::dialect::{
    json::{Fate, JsonFault, Raw, Splice, object, quoted, with_first_member},
    openai::request::{is_for_gateway, is_routing_parameter},
};

/// The body of a client for an upstream: `model` is the upstream's name for the model, and the members for the gateway, at
/// the top and in `metadata`, are cut.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_request(body: &str, model: &str) -> Result<Bytes, JsonFault> {
    let whole = object(body)?;
    let name = quoted(model);
    let mut has_model = false;
    let mut splice = Splice::new(body);
    splice.members(whole, |key, value, splice| {
        match &*key.name() {
            b"model" => {
                has_model = true;
                splice.replace(value, &name);
            }
            // Other members of it are for the upstream.
            b"metadata" => splice.members(value, |key, _, _| {
                let name = key.name();
                let is_ours = std::str::from_utf8(&name).is_ok_and(is_routing_parameter);
                if is_ours { Fate::Cut } else { Fate::Kept }
            }),
            b"stream_options" => {}
            name if std::str::from_utf8(name).is_ok_and(is_for_gateway) => return Fate::Cut,
            _ => {}
        }
        Fate::Kept
    });
    let spliced = splice.finish();
    Ok(if has_model { spliced } else { with_first_member(&spliced, b"model", &name) })
}

/// A whole message with our `id` and `model`.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_answer(body: &str, id: &str, model: &str) -> Result<Bytes, JsonFault> {
    let message = object(body)?;
    let mut splice = Splice::new(body);
    identify(message, id, model, &mut splice);
    Ok(splice.finish())
}

/// The data of a stream's event with our `id` and `model`; `None` if it passes as it came, as all do but `message_start`.
///
/// # Errors
/// When the data is not a JSON object.
pub(crate) fn splice_event(data: &str, id: &str, model: &str) -> Result<Option<Bytes>, JsonFault> {
    // Most events are deltas of text, in which the word stands at most by chance. It may be written with an escape.
    if memchr::memmem::find(data.as_bytes(), b"message_start").is_none() && !data.contains("\\u") {
        return Ok(None);
    }
    let event = object(data)?;
    if event.member(b"type").and_then(Raw::text).as_deref() != Some("message_start") {
        return Ok(None);
    }
    let Some(message) = event.member(b"message").filter(|message| message.is_object()) else { return Ok(None) };
    let mut splice = Splice::new(data);
    identify(message, id, model, &mut splice);
    Ok(Some(splice.finish()))
}

fn identify<'a>(message: Raw<'a>, id: &str, model: &str, splice: &mut Splice<'a>) {
    for (key, value) in message.members() {
        match &*key.name() {
            b"id" => splice.replace(value, &quoted(id)),
            b"model" => splice.replace(value, &quoted(model)),
            _ => {}
        }
    }
}
