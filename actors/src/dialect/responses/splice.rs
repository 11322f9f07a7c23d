//! The Responses API on both sides: only what must change is rewritten, every other byte passes as it came.

use bytes::{Bytes, BytesMut};

use super::{
    encode::push_usage,
    models::{LEAST_OUTPUT, capabilities},
    provider_state::ProviderState,
};
use crate::{
    dialect::{
        json::{Fate, JsonFault, Raw, Splice, object, quoted},
        neutral::{EscapedText, ReportedTokens, StateKey},
        spliced_call::{MemberNames, SplicedCall},
    },
    domain::{AddedMember, Usage},
};

/// What `include` must have so that reasoning can be sent back to an API that keeps nothing.
const ENCRYPTED: &str = "reasoning.encrypted_content";

/// A client's body for an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplicedRequest {
    pub(crate) body: Bytes,
    /// Whether reasoning was cut that the upstream cannot take back: that of other providers, and such as it would have to
    /// have kept.
    pub(crate) without_reasoning: bool,
}

const NAMES: MemberNames = MemberNames { limit: "max_output_tokens", sampling: &["temperature", "top_p"] };

/// The body of a client for an upstream: with the upstream's name for the model, the limit on output and the defaults of `call`,
/// and without the members for the gateway, at the top and in `metadata`. Unless the provider may keep responses, `store` is
/// false and encrypted reasoning is asked for.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_request(
    body: &str,
    call: &SplicedCall<'_>,
    state: ProviderState,
) -> Result<SplicedRequest, JsonFault> {
    let is_stateless = state == ProviderState::Refused;
    let (mut has_store, mut has_include, mut without_reasoning) = (false, false, false);
    let mut reasons = None;
    let call = SplicedCall { most_output: call.most_output.map(|most| most.max(LEAST_OUTPUT)), ..*call };
    let mut own = call.begin(body, &NAMES, |name, value, splice| {
        match name {
            b"store" if is_stateless => {
                has_store = true;
                splice.replace(value, b"false");
            }
            b"include" if is_stateless => {
                has_include = true;
                if let Some(include) = with_encrypted(value) {
                    splice.replace(value, &include);
                }
            }
            b"reasoning" => {
                let effort = value.member(b"effort").and_then(Raw::text);
                reasons = effort.map(|effort| &*effort != "none");
            }
            b"input" => splice.elements(value, |item, _| {
                let is_cut = is_unusable(item, is_stateless);
                without_reasoning |= is_cut;
                if is_cut { Fate::Cut } else { Fate::Kept }
            }),
            _ => {}
        }
        Fate::Kept
    })?;
    if !capabilities(call.model).admits_sampling(reasons) {
        own.without_defaults();
    }
    if is_stateless && !has_store && !call.omits.has(AddedMember::Store) {
        own.add("store", false);
    }
    if is_stateless && !has_include && !call.omits.has(AddedMember::Include) {
        own.add("include", format_args!("[\"{ENCRYPTED}\"]"));
    }
    Ok(SplicedRequest { body: own.finish(), without_reasoning })
}

/// `include` with the wish for encrypted reasoning, if it lacks it.
fn with_encrypted(include: Raw<'_>) -> Option<Vec<u8>> {
    if include.elements().any(|wanted| wanted.text().as_deref() == Some(ENCRYPTED)) {
        return None;
    }
    let others: &[u8] = if include.is_array() && include.is_filled() { include.inner() } else { b"" };
    let comma: &[u8] = if others.is_empty() { b"" } else { b"," };
    Some([b"[", others, comma, quoted(ENCRYPTED).as_ref(), b"]"].concat())
}

/// Whether an item is reasoning that the upstream cannot take back.
fn is_unusable(item: Raw<'_>, is_stateless: bool) -> bool {
    if item.member(b"type").and_then(Raw::text).as_deref() != Some("reasoning") {
        return false;
    }
    match item.member(b"encrypted_content").and_then(Raw::filled_string).and_then(EscapedText::of) {
        Some(sealed) => sealed.unescaped().starts_with(StateKey::PREFIX),
        None => is_stateless,
    }
}

/// A whole response with our `model`, our `id` unless the provider keeps it under its own, and with counts of `usage` if it
/// has ended and has none.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_answer(
    body: &str,
    id: &str,
    model: &str,
    state: ProviderState,
    usage: impl FnOnce() -> Usage,
) -> Result<Bytes, JsonFault> {
    let response = object(body)?;
    let mut splice = Splice::new(body);
    identify(response, id, model, state, usage, &mut splice);
    Ok(splice.finish())
}

/// The data of a stream's event with our `id` and `model`, and with counts of `usage` if the response has ended and has none;
/// `None` if it passes as it came, as all do that have no response.
///
/// # Errors
/// When the data is not a JSON object.
pub(crate) fn splice_event(
    data: &str,
    id: &str,
    model: &str,
    state: ProviderState,
    usage: impl FnOnce() -> Usage,
) -> Result<Option<Bytes>, JsonFault> {
    // Within a text, the second quote would have a backslash before it. The name may be written with an escape.
    if memchr::memmem::find(data.as_bytes(), b"\"response\"").is_none() && !data.contains("\\u") {
        return Ok(None);
    }
    let event = object(data)?;
    let Some(response) = event.member(b"response").filter(|response| response.is_object()) else { return Ok(None) };
    let mut splice = Splice::new(data);
    identify(response, id, model, state, usage, &mut splice);
    Ok(Some(splice.finish()))
}

/// The number of the event that follows this one, if it has a number.
pub(crate) fn next_number(event: Raw<'_>) -> Option<u64> {
    Some(event.member(b"sequence_number")?.count()? + 1)
}

fn identify<'a>(
    response: Raw<'a>,
    id: &str,
    model: &str,
    state: ProviderState,
    usage: impl FnOnce() -> Usage,
    splice: &mut Splice<'a>,
) {
    let usage = lacks_counts(response).then(|| {
        let mut out = BytesMut::new();
        push_usage(&ReportedTokens::from(&usage()), &mut out);
        out
    });
    if let Some(usage) = usage.as_ref().filter(|_| response.member(b"usage").is_none()) {
        splice.add_first(response, &[b"\"usage\":", &usage[..]].concat());
    }
    for (key, value) in response.members() {
        match &*key.name() {
            b"id" if state == ProviderState::Refused => splice.replace(value, &quoted(id)),
            b"model" => splice.replace(value, &quoted(model)),
            b"store" if state == ProviderState::Refused => splice.replace(value, b"false"),
            b"usage" => usage.iter().for_each(|usage| splice.replace(value, usage)),
            _ => {}
        }
    }
}

/// Whether a response has ended without telling its tokens.
fn lacks_counts(response: Raw<'_>) -> bool {
    let status = response.member(b"status").and_then(Raw::text);
    let has = |name: &[u8]| response.member(b"usage")?.member(name)?.count();
    let is_told = [&b"input_tokens"[..], b"output_tokens", b"total_tokens"].iter().all(|name| has(name).is_some());
    matches!(status.as_deref(), Some("completed" | "incomplete")) && !is_told
}
