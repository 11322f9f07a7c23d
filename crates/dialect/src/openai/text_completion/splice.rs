//! The API on both sides: only what must change is rewritten, every other byte passes as it came.

use bytes::Bytes;
use pointsman_domain::AddedMember;

use crate::{
    body_edits::{BodyEdits, MemberNames},
    json::{JsonFault, Raw, Splice, SpliceAction, object, quoted},
};

const NAMES: MemberNames =
    MemberNames { limit: "max_tokens", sampling: &["temperature", "top_p", "frequency_penalty", "presence_penalty"] };

/// The body of a client for an upstream: with the upstream's name for the model, the limit on output and the defaults of `call`,
/// and without the members for the gateway. A stream always ends with its usage.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_request(body: &str, call: &BodyEdits<'_>) -> Result<Bytes, JsonFault> {
    let mut is_stream = false;
    let mut own = call.begin(body, &NAMES, |name, value, _| match name {
        b"stream_options" => SpliceAction::Cut,
        b"stream" => {
            is_stream = value.bytes() == b"true";
            SpliceAction::Kept
        }
        _ => SpliceAction::Kept,
    })?;
    if is_stream && !call.omits.has(AddedMember::StreamOptions) {
        own.add("stream_options", "{\"include_usage\":true}");
    }
    Ok(own.finish())
}

/// A whole answer with our `id` and `model`.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_answer(body: &str, id: &str, model: &str) -> Result<Bytes, JsonFault> {
    Ok(splice_chunk(body, object(body)?, id, model))
}

/// The same of an answer, or a chunk of a stream, that was read.
pub(crate) fn splice_chunk(body: &str, answer: Raw<'_>, id: &str, model: &str) -> Bytes {
    let mut splice = Splice::new(body);
    for (key, value) in answer.members() {
        match &*key.name() {
            b"id" => splice.replace(value, &quoted(id)),
            b"model" => splice.replace(value, &quoted(model)),
            _ => {}
        }
    }
    splice.finish()
}

/// Whether a chunk only reports usage, which not every client wants to see.
pub(crate) fn is_usage_only(chunk: Raw<'_>) -> bool {
    let choices = chunk.member(b"choices");
    choices.is_none_or(|choices| !choices.is_filled()) && chunk.member(b"usage").is_some_and(Raw::is_object)
}
