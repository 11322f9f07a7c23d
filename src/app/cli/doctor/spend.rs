//! One real call of every endpoint, which costs money: only with `--spend`, and after the most that it can cost was said.
//!
//! The calls go through a gateway of this process on a port of its own, with the same providers, so that they are signed,
//! translated and priced as those of callers are. It keeps no record and shares nothing.

use std::{
    io::{self, Write as _},
    net::Ipv4Addr,
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use actix_web::http::Method;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use pointsman_base::secret::Secret;
use pointsman_config::{Config, Durability, Key};
use pointsman_domain::{Catalog, Endpoint, FailureKind, Modalities, RequestedService, Usd};
use pointsman_transport::{Connection, UpstreamError, call_page, client_config};
use serde_json::{Value, json};

use super::{super::is_agreed as is_answered_yes, Check, Status, count};
use crate::{access::keys, app::server::Server};

const PROMPT: &str = "Say ok.";
/// More tokens than any tokenizer makes of the prompt and what providers put around it.
const PROMPT_TOKENS: u64 = 64;
/// Longest answer of a model that does not reason, tokens.
const ANSWER_TOKENS: u32 = 16;
/// The same of one that does: with less room some refuse the request.
const REASONING_TOKENS: u32 = 64;
/// Timeout of one call.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Most calls at once.
const MOST_AT_ONCE: usize = 4;

/// A request to make.
pub(super) struct PaidRequest {
    /// `model at provider`.
    subject: String,
    body: Value,
    /// The most that it can cost.
    most: Usd,
}

/// The calls, and the endpoints that are not called and why. `has_failed`: whether a free check of this provider failed.
pub(super) fn plan(
    config: &Config,
    catalog: &Catalog,
    only: Option<&str>,
    has_failed: impl Fn(&str) -> bool,
) -> (Vec<PaidRequest>, Vec<Check>) {
    let (mut calls, mut skipped) = (Vec::new(), Vec::new());
    for endpoint in catalog.endpoints.iter().filter(|endpoint| !endpoint.disabled) {
        let is_real = config.providers.iter().any(|provider| provider.index == endpoint.provider);
        let (Some(provider), Some(model)) = (catalog.provider_of(endpoint), catalog.model_of(endpoint)) else {
            continue;
        };
        if !is_real || only.is_some_and(|only| only != provider.slug.as_str()) {
            continue;
        }
        let slug = match endpoint.variant.as_str() {
            "" => provider.slug.to_string(),
            variant => format!("{}/{variant}", provider.slug),
        };
        let subject = format!("{} at {slug}", model.id);
        let skip = |why: &str| Check::new(&subject, "call", Status::Skipped, why);
        if has_failed(provider.slug.as_str()) {
            skipped.push(skip("a free check of its provider failed"));
        } else if !model.architecture.output.covers(Modalities::TEXT) {
            skipped.push(skip("answers with no text"));
        } else if let Some(pricing) = &endpoint.pricing {
            let tokens = answer_tokens(catalog, endpoint);
            let most = pricing.worst_case(&RequestedService::default(), PROMPT_TOKENS, u64::from(tokens), 0);
            let body = json!({
                "model": model.id.to_string(), "stream": true, "max_tokens": tokens,
                "messages": [{ "role": "user", "content": PROMPT }],
                "provider": { "only": [slug], "allow_fallbacks": false },
            });
            calls.push(PaidRequest { subject, body, most });
        } else {
            skipped.push(skip("its price is unknown, so it is not known what a call can cost"));
        }
    }
    (calls, skipped)
}

fn answer_tokens(catalog: &Catalog, endpoint: &Endpoint) -> u32 {
    let lists = |name| catalog.parameters.lists(endpoint.parameters, name);
    let reasons = lists("reasoning") || lists("reasoning_effort");
    if reasons { REASONING_TOKENS } else { ANSWER_TOKENS }.min(endpoint.limits.longest_answer())
}

/// The most that all calls can cost together.
pub(super) fn most(calls: &[PaidRequest]) -> Usd {
    calls.iter().map(|call| call.most).sum()
}

/// Whether to go on, asked on a terminal. Elsewhere `--spend` alone says so.
pub(super) fn is_agreed(calls: &[PaidRequest], assumed: bool) -> bool {
    let said = format!("{} of at most ${} in all", count(calls.len(), "call"), most(calls));
    let agreed = if assumed { None } else { is_answered_yes(&format!("{said}; go on?")) };
    if agreed.is_none() {
        let _ = writeln!(io::stderr(), "{said}.");
    }
    agreed != Some(false)
}

/// Makes the calls. Their results are in the same order.
pub(super) async fn run(config: Config, calls: &[PaidRequest]) -> Vec<Check> {
    // What the gateway of this process would log is in the results.
    log::set_max_level(log::LevelFilter::Error);
    let (server, key) = match own_gateway(config).await {
        Ok(started) => started,
        Err(why) => {
            return vec![Check::failed("machine", "call", why, "correct what 'pointsman check' names")];
        }
    };
    let (url, handle) = (format!("http://{}", server.address()), server.handle());
    let serving = actix_web::rt::spawn(server.run());
    let checks = stream::iter(calls).map(|call| checked(&url, &key, call)).buffered(MOST_AT_ONCE).collect().await;
    handle.stop(false).await;
    let _ = serving.await;
    checks
}

/// A gateway for nobody else, and the key to call it.
async fn own_gateway(mut config: Config) -> Result<(Server, Secret), String> {
    let (text, key) = keys::generate_startup_key(&config);
    let key = Key { sha256: key.sha256, name: Arc::from("doctor"), ..Key::anonymous() };
    config.server.bind = (Ipv4Addr::LOCALHOST, 0).into();
    config.server.workers = NonZeroUsize::new(1);
    config.admin.bind = None;
    config.tls = None;
    (config.keys, config.accounts, config.teams) = (vec![key], Vec::new(), Vec::new());
    config.ledger.durability = Durability::Off;
    config.ledger.required = false;
    config.routing.memory.path = None;
    (config.shared.postgres, config.shared.redis) = (None, None);
    config.traces.collector = None;
    let server = Server::bind(config).await.map_err(|error| error.to_string())?;
    Ok((server, text))
}

async fn checked(url: &str, key: &Secret, call: &PaidRequest) -> Check {
    match explained(url, key, call).await {
        Ok(report) => outcome(call, &report),
        Err(error) => {
            let remedy = "raise the limits of this machine for open files and memory";
            Check::failed(&call.subject, "call", error.to_string(), remedy)
        }
    }
}

/// What is known of a request.
struct RequestReport {
    /// Why it failed.
    message: Option<String>,
    explanation: Value,
}

async fn explained(url: &str, key: &Secret, call: &PaidRequest) -> Result<RequestReport, UpstreamError> {
    let failed = |why: String| UpstreamError::new(FailureKind::Connect, why);
    let connection = Connection::new(url).and_then(|connection| connection.with_bearer(key.clone()));
    let connection = connection.map_err(|fault| failed(fault.to_string()))?;
    let tls = client_config(None).map_err(|fault| failed(fault.to_string()))?;
    let chat = (Method::POST, "/api/v1/chat/completions");
    let body = Bytes::from(call.body.to_string());
    let (_, answer) = call_page(&connection, &tls, chat, Some(body), TIMEOUT).await?;
    let answer = String::from_utf8_lossy(&answer);
    // An error before the stream is one object, as is each event of a stream.
    let events = answer.lines().filter_map(|line| serde_json::from_str(line.trim_start_matches("data: ")).ok());
    let events: Vec<Value> = events.collect();
    let text = |pointer: &str| {
        events.iter().find_map(|event| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned))
    };
    let (message, id) = (text("/error/message"), text("/id").or_else(|| text("/error/metadata/generation_id")));
    let Some(id) = id else { return Ok(RequestReport { message, explanation: Value::Null }) };
    let path = format!("/api/v1/route/explain?generation_id={id}");
    let (_, page) = call_page(&connection, &tls, (Method::GET, &path), None, TIMEOUT).await?;
    let page: Value = serde_json::from_slice(&page).unwrap_or_default();
    Ok(RequestReport { message, explanation: page.get("data").cloned().unwrap_or(page) })
}

fn outcome(call: &PaidRequest, RequestReport { message, explanation }: &RequestReport) -> Check {
    let text = |pointer: &str| explanation.pointer(pointer).and_then(Value::as_str);
    let number = |pointer: &str| explanation.pointer(pointer).and_then(Value::as_f64);
    if text("/status") != Some("completed") {
        let kind = text("/attempts/0/outcome").unwrap_or("failed");
        let status = number("/attempts/0/status").map(|status| format!("status {status}"));
        let known = [status, text("/attempts/0/cause").map(str::to_owned)];
        let facts: Vec<String> = [kind.to_owned()].into_iter().chain(known.into_iter().flatten()).collect();
        let why = match message {
            Some(message) if text("/attempts/0/outcome").is_none() => message.clone(),
            _ => facts.join(", "),
        };
        return Check::failed(&call.subject, "call", why, remedy(kind));
    }
    let tokens = number("/usage/completion_tokens").unwrap_or(0.0);
    let mut facts = Vec::new();
    facts.extend(number("/attempts/0/first_token_ms").map(|ms| format!("first token {ms} ms")));
    let seconds = number("/attempts/0/stream_ms").filter(|ms| *ms > 0.0).map(|ms| ms / 1e3);
    facts.extend(seconds.map(|seconds| format!("{:.0} tokens/s", tokens / seconds)));
    facts.push(format!("{} + {tokens} tokens", number("/usage/prompt_tokens").unwrap_or(0.0)));
    let said =
        number("/reported_cost").map_or_else(String::new, |cost| format!(", the provider says ${}", shown(cost)));
    facts.push(format!("${}{said}", shown(number("/total_cost").unwrap_or(0.0))));
    Check::new(&call.subject, "call", Status::Passed, facts.join(", "))
}

/// Without an exponent, and with the digits that matter.
fn shown(dollars: f64) -> String {
    let text = format!("{dollars:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What to do about a failure of this kind.
fn remedy(kind: &str) -> &'static str {
    match kind {
        "auth" | "forbidden" => "set the provider's variable (api_key_env) to a key that may call this model",
        "not_found" => "correct upstream_model, or set disabled = true at the endpoint",
        "rate_limited" => "wait, or ask the provider for a higher limit",
        "bad_request" | "unprocessable" => "correct supported_parameters or lacks of the endpoint",
        _ => "try again; if it stays, see the status page of the provider",
    }
}
