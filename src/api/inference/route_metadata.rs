//! Member `openrouter_metadata` of answers: how the request was routed. Added when the request has the header
//! `X-OpenRouter-Metadata: enabled`.

use actix_web::{HttpRequest, http::header::HeaderName};
use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_actors::router::Routed;
use pointsman_domain::{AttemptRecord, Catalog, Generation};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::base::error::{ApiError, PreviousError};

static HEADER: HeaderName = HeaderName::from_static("x-openrouter-metadata");

/// How the request was routed, in the form of OpenRouter; only for requests with the header `X-OpenRouter-Metadata:
/// enabled`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct RouteMetadata<'a> {
    /// Name of the model or alias as the client wrote it.
    requested: &'a str,
    /// `fallback`: there was more than one attempt. Otherwise what was asked for: a model (`direct`), an alias that
    /// ends in `/auto` or `/free`, or another alias.
    #[cfg_attr(test, schemars(extend("enum" = ["fallback", "direct", "auto", "free", "alias"])))]
    strategy: &'static str,
    /// Always `null`. Client libraries require the member; the gateway has no value for it.
    #[cfg_attr(test, schemars(with = "()"))]
    region: Option<&'a str>,
    /// Objective and number of candidates, as a phrase.
    summary: String,
    /// Number of attempts, at least 1.
    attempt: usize,
    /// Always `false`.
    is_byok: bool,
    endpoints: Endpoints<'a>,
    /// The attempts, in their order; in an error those that failed.
    attempts: Vec<Attempt<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Endpoints<'a> {
    /// Endpoints of the requested models: candidates and excluded ones.
    total: usize,
    /// The candidates.
    available: Vec<Available<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Available<'a> {
    /// Display name of the provider.
    provider: &'a str,
    /// Id of the model, such as `meadow/small`.
    model: &'a str,
    /// Whether it served.
    selected: bool,
}

view! {
    struct Attempt<'a> {
        fn of_record(record: &'a AttemptRecord) {}

        /// Display name of the provider.
        provider: &'a str = &record.provider_name,
        /// Id of the model, such as `meadow/small`.
        model: &'a str = &record.model,
        /// The HTTP status that the provider gave; `null` if it gave none.
        status: Option<u16> = record.status,
    }
}

/// Whether the request asks for the member.
pub fn is_wanted(request: &HttpRequest) -> bool {
    request.headers().get(&HEADER).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"enabled"))
}

/// Appends the member to an unstreamed answer. An answer that is not a JSON object is returned unchanged.
pub fn add_to_answer(body: Bytes, generation: &Generation, routed: &Routed) -> Bytes {
    let attempts: Vec<Attempt<'_>> = generation.attempts.iter().map(Attempt::of_record).collect();
    let served = generation.attempts.iter().find(|attempt| attempt.served).map(|attempt| attempt.endpoint);
    let Some(metadata) = build(&generation.requested_model, routed, served, attempts) else { return body };
    let Some(start) = body.trim_ascii_end().strip_suffix(b"}") else { return body };
    let mut extended = BytesMut::with_capacity(body.len() + metadata.get().len() + 32);
    extended.put_slice(start);
    extended.put_slice(b",\"openrouter_metadata\":");
    extended.put_slice(metadata.get().as_bytes());
    extended.put_u8(b'}');
    extended.freeze()
}

/// Adds the member to an error, except to a 500.
pub fn add_to_error(error: ApiError, requested: &str, routed: &Routed) -> ApiError {
    let attempts = error.previous().iter().map(Attempt::of_error).collect();
    match build(requested, routed, None, attempts) {
        Some(metadata) if error.status().as_u16() != 500 => error.with_route(metadata),
        _ => error,
    }
}

fn build(requested: &str, routed: &Routed, served: Option<u32>, attempts: Vec<Attempt<'_>>) -> Option<Box<RawValue>> {
    let decision = &routed.decision;
    let available: Vec<Available<'_>> = decision
        .candidates
        .iter()
        .filter_map(|candidate| names(&routed.catalog, candidate.index).map(|names| (candidate.index, names)))
        .map(|(index, (provider, model))| Available { provider, model, selected: served == Some(index) })
        .collect();
    let metadata = RouteMetadata {
        requested,
        strategy: strategy(decision.router.as_deref(), attempts.len()),
        region: None,
        summary: format!(
            "{}, {} of {} endpoints available",
            decision.objective.value,
            available.len(),
            available.len() + decision.excluded.len()
        ),
        attempt: attempts.len().max(1),
        is_byok: false,
        endpoints: Endpoints { total: available.len() + decision.excluded.len(), available },
        attempts,
    };
    to_raw_value(&metadata).ok()
}

fn strategy(router: Option<&str>, attempts: usize) -> &'static str {
    match router {
        _ if attempts > 1 => "fallback",
        None => "direct",
        Some(name) if name.ends_with("/auto") => "auto",
        Some(name) if name.ends_with("/free") => "free",
        Some(_) => "alias",
    }
}

fn names(catalog: &Catalog, endpoint: u32) -> Option<(&str, &str)> {
    let endpoint = catalog.endpoint(endpoint)?;
    Some((&catalog.provider_of(endpoint)?.name, catalog.model_of(endpoint)?.id.as_str()))
}

impl<'a> Attempt<'a> {
    fn of_error(previous: &'a PreviousError) -> Attempt<'a> {
        Attempt { provider: &previous.provider, model: &previous.model, status: previous.status }
    }
}
