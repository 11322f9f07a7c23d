//! The Responses API on both sides: only what must change is rewritten, every other byte passes as it came.

use std::{borrow::Cow, sync::Arc};

use bytes::{Bytes, BytesMut};
use pointsman_domain::{AddedMember, Usage};

use super::{
    encode::push_usage,
    inbound::{ResponseEcho, echo},
    models::{LEAST_OUTPUT, capabilities},
    provider_state::ProviderState,
};
use crate::{
    answer::AnswerContext,
    body_edits::{BodyEdits, MemberNames},
    json::{JsonFault, Raw, Splice, SpliceAction, object, push_member, quoted},
    neutral::{EscapedText, ReportedTokens, StateKey, settled_arguments},
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
    call: &BodyEdits<'_>,
    state: ProviderState,
) -> Result<SplicedRequest, JsonFault> {
    let is_stateless = state == ProviderState::Refused;
    let (mut has_store, mut has_include, mut without_reasoning) = (false, false, false);
    let mut reasons = None;
    let call = BodyEdits { most_output: call.most_output.map(|most| most.max(LEAST_OUTPUT)), ..*call };
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
                let [kind, role, content, sealed] = item.pick([b"type", b"role", b"content", b"encrypted_content"]);
                let is_cut = match kind.and_then(Raw::text).as_deref() {
                    Some("reasoning") => is_unusable(sealed, is_stateless),
                    None | Some("message") => says_nothing(role, content),
                    _ => false,
                };
                without_reasoning |= is_cut && kind.is_some_and(|kind| kind.inner() == b"reasoning");
                if is_cut { SpliceAction::Cut } else { SpliceAction::Kept }
            }),
            _ => {}
        }
        SpliceAction::Kept
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

/// Whether a message is an answer without content: upstreams take none back.
fn says_nothing(role: Option<Raw<'_>>, content: Option<Raw<'_>>) -> bool {
    let is_empty = content.is_none_or(|content| content.is_null() || (content.is_array() && !content.is_filled()));
    is_empty && role.and_then(Raw::text).as_deref() == Some("assistant")
}

/// Whether reasoning with this encrypted content is such as the upstream cannot take back.
fn is_unusable(sealed: Option<Raw<'_>>, is_stateless: bool) -> bool {
    match sealed.and_then(EscapedText::filled) {
        Some(sealed) => sealed.unescaped().starts_with(StateKey::PREFIX),
        None => is_stateless,
    }
}

/// Length of the first part of `own` in [`ResponseIdentity::identify`]: members that are never null.
const NEVER_NULL: usize = 5;

/// What the client sees of a response that passes.
#[derive(Debug)]
pub(crate) struct ResponseIdentity {
    /// Our id, which takes the place of the provider's unless the provider keeps the response.
    pub(crate) id: String,
    pub(crate) model: Arc<str>,
    pub(crate) state: ProviderState,
    /// When the request was admitted, Unix seconds.
    pub(crate) created: i64,
    /// Reads the wall clock, Unix seconds.
    pub(crate) clock: fn() -> i64,
    /// Stands for the members that the provider leaves out.
    pub(crate) echo: ResponseEcho,
}

impl ResponseIdentity {
    pub(crate) fn new(context: &AnswerContext, state: ProviderState, echo: &ResponseEcho) -> ResponseIdentity {
        ResponseIdentity {
            id: context.generation.as_str().to_owned(),
            model: Arc::clone(&context.model),
            state,
            created: context.created,
            clock: context.clock,
            echo: echo.clone(),
        }
    }
}

/// A whole response with our `model`, our `id` unless the provider keeps it under its own, what the provider leaves out, and
/// counts of `usage` if it has ended and has none.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_answer(
    body: &str,
    identity: &ResponseIdentity,
    usage: impl FnOnce() -> Usage,
) -> Result<Bytes, JsonFault> {
    let response = object(body)?;
    let mut splice = Splice::new(body);
    identity.identify(response, usage, &mut splice);
    Ok(splice.finish())
}

/// The data of a stream's event with what [`splice_answer`] changes in a response; `None` if it passes as it came, as all do
/// that have no response.
///
/// # Errors
/// When the data is not a JSON object.
pub(crate) fn splice_event(
    data: &str,
    identity: &ResponseIdentity,
    usage: impl FnOnce() -> Usage,
) -> Result<Option<Bytes>, JsonFault> {
    // Within a text, the second quote would have a backslash before it. The name may be written with an escape.
    if memchr::memmem::find(data.as_bytes(), b"\"response\"").is_none() && !data.contains("\\u") {
        return Ok(None);
    }
    let event = object(data)?;
    let Some(response) = event.member(b"response").filter(|response| response.is_object()) else { return Ok(None) };
    let mut splice = Splice::new(data);
    identity.identify(response, usage, &mut splice);
    Ok(Some(splice.finish()))
}

/// Makes the arguments of a call of a function one object. `None` if they are, or it is another item. The arguments of a call
/// that has not ended may still come.
pub(super) fn settle_call<'a>(item: Raw<'a>, splice: &mut Splice<'a>) -> Option<()> {
    let [kind, status, arguments] = item.pick([b"type", b"status", b"arguments"]);
    kind.filter(|kind| kind.inner() == b"function_call")?;
    let arguments = arguments?;
    let is_open = matches!(status.and_then(Raw::text).as_deref(), Some("in_progress" | "incomplete"));
    if is_open && (arguments.is_null() || !arguments.is_filled()) {
        return None;
    }
    settle_arguments(arguments, splice)
}

/// Makes arguments one object. `None` if they are, or are no text.
pub(super) fn settle_arguments<'a>(arguments: Raw<'a>, splice: &mut Splice<'a>) -> Option<()> {
    let settled = match arguments.is_null() {
        true => settled_arguments(b"")?,
        false => settled_arguments(arguments.is_string().then_some(arguments.inner())?)?,
    };
    splice.replace(arguments, &[b"\"", &settled[..], b"\""].concat());
    Some(())
}

/// The number of the event that follows this one, if it has a number.
pub(crate) fn next_number(event: Raw<'_>) -> Option<u64> {
    Some(event.member(b"sequence_number")?.count()? + 1)
}

impl ResponseIdentity {
    fn identify<'a>(&self, response: Raw<'a>, usage: impl FnOnce() -> Usage, splice: &mut Splice<'a>) {
        let names: Vec<Cow<'_, [u8]>> = response.members().map(|(key, _)| key.name()).collect();
        let has = |name: &[u8]| names.iter().any(|known| **known == *name);
        let [status, reported] = response.pick([b"status", b"usage"]);
        let status = status.and_then(Raw::text);
        let usage = (has_ended(status.as_deref()) && !is_whole(reported)).then(|| {
            let mut out = BytesMut::new();
            push_usage(&ReportedTokens::from(&usage()), &mut out);
            out
        });
        let mut missing = self.echo.members_but(has);
        let completed = (status.as_deref() == Some("completed")).then(|| (self.clock)().max(self.created).to_string());
        let (id, model, created) = (quoted(&self.id), quoted(&self.model), self.created.to_string());
        let own: [(&str, &[u8]); 9] = [
            ("object", b"\"response\""),
            ("id", &id),
            ("model", &model),
            ("created_at", created.as_bytes()),
            ("output", b"[]"),
            ("completed_at", completed.as_deref().unwrap_or("null").as_bytes()),
            ("error", b"null"),
            ("incomplete_details", b"null"),
            ("usage", usage.as_deref().unwrap_or(b"null")),
        ];
        for (name, value) in own {
            if !has(name.as_bytes()) {
                push_member(&mut missing, name.as_bytes(), value);
            }
        }
        if let Some((_, members)) = missing.split_first() {
            splice.add_first(response, members);
        }
        for (key, value) in response.members() {
            let name = key.name();
            match &*name {
                b"id" if self.state == ProviderState::Refused => splice.replace(value, &id),
                b"model" => splice.replace(value, &model),
                b"store" if self.state == ProviderState::Refused => splice.replace(value, b"false"),
                b"usage" => usage.iter().for_each(|usage| splice.replace(value, usage)),
                _ if value.is_null() => {
                    let own = own.iter().take(NEVER_NULL).find(|(own, _)| *own.as_bytes() == *name);
                    let echoed = || if echo::may_be_null(&name) { None } else { self.echo.member(&name) };
                    if let Some(own) = own.map(|(_, own)| own.to_vec()).or_else(echoed) {
                        splice.replace(value, &own);
                    }
                }
                b"output" => splice.elements(value, |item, splice| {
                    let _ = settle_call(item, splice);
                    SpliceAction::Kept
                }),
                name => echo::complete(name, value, splice),
            }
        }
    }
}

fn has_ended(status: Option<&str>) -> bool {
    matches!(status, Some("completed" | "incomplete"))
}

/// Whether all counts are given.
fn is_whole(usage: Option<Raw<'_>>) -> bool {
    let has = |name: &[u8]| usage?.member(name)?.count();
    [&b"input_tokens"[..], b"output_tokens", b"total_tokens"].iter().all(|name| has(name).is_some())
}
