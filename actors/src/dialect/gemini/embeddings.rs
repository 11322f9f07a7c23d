//! Embeddings: the body of `batchEmbedContents`, and its answer in the form of the OpenAI API.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{error, request::path_of};
use crate::{
    dialect::{
        answer::AnswerFault,
        json::{Cursor, Raw, push_member, push_string, push_u64},
        neutral::{EscapedText, FieldFates, json_value},
    },
    domain::Endpoint,
};

/// The path of a call, relative to the base address.
pub(crate) fn embeddings_path(endpoint: &Endpoint) -> String {
    path_of(endpoint, ":batchEmbedContents")
}

/// The body for an endpoint: one request for each input, in order. Fields without a place in this API are named in `fates`.
/// `None` if the input is not text: this API takes no token ids.
pub(crate) fn write_embeddings(body: &str, endpoint: &Endpoint, fates: &mut FieldFates) -> Option<Bytes> {
    let body = json_value(body)?;
    let input = body.member(b"input")?;
    let texts: Vec<EscapedText<'_>> = match EscapedText::of(input) {
        Some(text) => vec![text],
        None => input.elements().map(EscapedText::of).collect::<Option<_>>()?,
    };
    if texts.is_empty() {
        return None;
    }
    let mut dimensions = None;
    for (key, value) in body.members().filter(|(_, value)| !value.is_null()) {
        match &*key.name() {
            // The gateway itself writes vectors in the format that the client wants.
            b"model" | b"input" | b"encoding_format" => {}
            b"dimensions" if value.count().is_some() => dimensions = Some(value),
            name => fates.drop(&String::from_utf8_lossy(name)),
        }
    }
    let model = format!("models/{}", endpoint.upstream_model);
    let mut out = BytesMut::with_capacity(input.bytes().len() + 128 * texts.len());
    out.put_slice(b"{\"requests\":[");
    for (place, text) in texts.iter().enumerate() {
        out.put_slice(if place > 0 { b",{\"model\":" } else { b"{\"model\":" });
        push_string(&mut out, &model);
        push_member(&mut out, b"content", b"{\"parts\":[{\"text\":");
        text.push_quoted(&mut out);
        out.put_slice(b"}]}");
        if let Some(dimensions) = dimensions {
            push_member(&mut out, b"outputDimensionality", dimensions.bytes());
        }
        out.put_u8(b'}');
    }
    out.put_slice(b"]}");
    Some(out.freeze())
}

/// The answer as one of the OpenAI API; numbers are copied as they were written. Whether there is a vector for each input is
/// checked by whoever reads it.
///
/// # Errors
/// When the upstream reports an error, or the body is no answer.
pub(crate) fn embeddings_of(body: &str) -> Result<Bytes, AnswerFault> {
    let mut cursor = Cursor::new(body.strip_prefix('\u{feff}').unwrap_or(body));
    let answer = cursor.value()?;
    cursor.end()?;
    if let Some(fault) = error::fault(answer) {
        return Err(fault);
    }
    let list = answer.member(b"embeddings").filter(|list| list.is_array());
    let vectors: Vec<Raw<'_>> = match (list, answer.member(b"embedding")) {
        (Some(list), _) => list.elements().collect(),
        (None, Some(only)) => vec![only],
        (None, None) => return Err(AnswerFault::malformed("no list of embeddings")),
    };
    let mut out = BytesMut::with_capacity(body.len() + 64 * vectors.len());
    out.put_slice(b"{\"data\":[");
    for (place, vector) in vectors.into_iter().enumerate() {
        let Some(values) = vector.member(b"values").filter(|values| values.is_array()) else {
            return Err(AnswerFault::malformed("an embedding without values"));
        };
        out.put_slice(if place > 0 { b",{\"index\":" } else { b"{\"index\":" });
        push_u64(&mut out, place as u64);
        push_member(&mut out, b"embedding", values.bytes());
        out.put_u8(b'}');
    }
    out.put_u8(b']');
    let usage = answer.member(b"usageMetadata").and_then(|usage| usage.member(b"promptTokenCount"));
    if let Some(tokens) = usage.and_then(Raw::count) {
        push_member(&mut out, b"usage", b"{\"prompt_tokens\":");
        push_u64(&mut out, tokens);
        push_member(&mut out, b"total_tokens", b"");
        push_u64(&mut out, tokens);
        out.put_u8(b'}');
    }
    out.put_u8(b'}');
    Ok(out.freeze())
}
