//! `explain` and `preview`: why a request went, or would go, where it did.

mod what_if;

use std::fmt::Write as _;

use actix_web::http::Method;
use bytes::Bytes;
use clap::Args;
use pointsman_actors::{dialect::percent, domain::GenerationId};
use serde_json::{Map, Value, json};

use super::{CommandOutput, failure, gateway::GatewayArguments, names, success};
use crate::config::Environment;

/// The generation to explain.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExplainRequest {
    /// Id of the generation
    #[arg(required_unless_present = "last")]
    generation: Option<String>,
    /// The newest generation of the key, instead of an id
    #[arg(long, conflicts_with = "generation")]
    last: bool,
    /// Say why this was not chosen: a model, a provider, or model@provider
    #[arg(long, value_name = "NAME", add = names::models_and_providers())]
    why_not: Option<String>,
    #[command(flatten)]
    gateway: GatewayArguments,
}

/// The request to preview.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PreviewRequest {
    /// The prompt
    prompt: String,
    /// Model or alias; default: the gateway's own choice
    #[arg(short, long, add = names::models())]
    model: Option<String>,
    /// Objective: cheapest, fastest, reliable or balanced; default: that of the key or the gateway
    #[arg(short, long)]
    objective: Option<String>,
    /// Say why this would not be chosen: a model, a provider, or model@provider
    #[arg(long, value_name = "NAME", add = names::models_and_providers())]
    why_not: Option<String>,
    /// Decide under this condition too; may be repeated: objective=NAME, weights.latency=0.2, or of an endpoint
    /// MODEL@PROVIDER.circuit=open, .price=*0.5, .ttft_ms=300, .tokens_per_second=80, .failure_probability=0.1,
    /// .in_flight=20
    #[arg(long, value_name = "CONDITION")]
    what_if: Vec<String>,
    #[command(flatten)]
    gateway: GatewayArguments,
}

/// Explains a recorded generation.
pub(super) fn explain(request: &ExplainRequest, environment: &Environment) -> CommandOutput {
    let named = match request.generation.as_deref() {
        Some(id) => Ok(id.to_owned()),
        None => newest(&request.gateway, environment),
    };
    let named = match named {
        Ok(named) => named,
        Err(output) => return output,
    };
    // Validated here, so that the path cannot contain anything else.
    let Some(id) = GenerationId::parse(&named) else {
        return failure(format!("pointsman: '{named}' is not a generation id (gen-<seconds>-…)\n"));
    };
    let question = request.why_not.as_ref().map(|name| format!("&why_not={}", percent::encoded(name)));
    let path = format!("/api/v1/route/explain?generation_id={id}{}", question.unwrap_or_default());
    finish(&request.gateway, request.gateway.call((Method::GET, &path), None, environment))
}

/// The id of the newest generation of the key.
fn newest(gateway: &GatewayArguments, environment: &Environment) -> Result<String, CommandOutput> {
    let body = gateway.call((Method::GET, "/api/v1/generations?limit=1"), None, environment)?;
    let page: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = page.pointer("/data/0/id").and_then(Value::as_str).map(str::to_owned);
    id.ok_or_else(|| failure("pointsman: no generation of this key is stored yet\n".to_owned()))
}

/// Shows where a request would go; no provider is called.
pub(super) fn preview(request: &PreviewRequest, environment: &Environment) -> CommandOutput {
    let mut body = Map::from_iter([("messages".to_owned(), json!([{ "role": "user", "content": request.prompt }]))]);
    let named = [("model", &request.model), ("objective", &request.objective), ("why_not", &request.why_not)];
    body.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?)))));
    match what_if::conditions(&request.what_if) {
        Ok(conditions) => body.extend(conditions.map(|conditions| ("what_if".to_owned(), conditions))),
        Err(why) => return failure(format!("pointsman: --what-if {why}\n")),
    }
    let body = Bytes::from(Value::Object(body).to_string());
    let call = (Method::POST, "/api/v1/route/preview");
    finish(&request.gateway, request.gateway.call(call, Some(body), environment))
}

fn finish(gateway: &GatewayArguments, called: Result<Bytes, CommandOutput>) -> CommandOutput {
    match called {
        Err(output) => output,
        Ok(body) if gateway.json => success(format!("{}\n", String::from_utf8_lossy(&body))),
        Ok(body) => match serde_json::from_slice::<Value>(&body) {
            Ok(page) => success(decision(page.get("data").unwrap_or(&page))),
            Err(error) => failure(format!("pointsman: the answer of the gateway cannot be read: {error}\n")),
        },
    }
}

/// The decision as text: the sentence, the candidates, who is left out, the attempts, the cost.
fn decision(page: &Value) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_decision(&mut text, page);
    text
}

fn write_decision(text: &mut String, page: &Value) -> std::fmt::Result {
    writeln!(text, "{}", shown(page, "/decision_reason"))?;
    writeln!(text, "\nrequested {}, objective {}", shown(page, "/requested_model"), shown(page, "/objective"))?;
    for warning in list(page, "warnings") {
        writeln!(text, "warning: {}", shown(warning, "/message"))?;
    }
    if page.pointer("/what_if/sentence").is_some() {
        writeln!(text, "\nWHAT IF\n{}", shown(page, "/what_if/sentence"))?;
    }
    if page.pointer("/why_not/sentence").is_some() {
        writeln!(text, "\nWHY NOT {}\n{}", shown(page, "/why_not/asked"), shown(page, "/why_not/sentence"))?;
    }
    if !list(page, "candidates").is_empty() {
        writeln!(
            text,
            "\n  {:<40} {:>8} {:>8} {:>10} {:>7}",
            "CANDIDATE", "FIRST MS", "TOKENS/S", "COST $", "FAILS %"
        )?;
    }
    for candidate in list(page, "candidates") {
        writeln!(
            text,
            "{} {:<40} {:>8} {:>8} {:>10} {:>7}",
            if candidate.get("selected") == Some(&Value::Bool(true)) { '*' } else { ' ' },
            endpoint(candidate),
            number(candidate, "/predicted/ttft_ms/p50", 1.0, 0),
            number(candidate, "/predicted/throughput_tps", 1.0, 1),
            number(candidate, "/predicted/cost", 1.0, 6),
            number(candidate, "/predicted/failure_probability", 100.0, 1)
        )?;
    }
    if !list(page, "excluded").is_empty() {
        writeln!(text, "\n  EXCLUDED")?;
    }
    for excluded in list(page, "excluded") {
        writeln!(text, "  {:<40} {}: {}", endpoint(excluded), shown(excluded, "/reason"), shown(excluded, "/detail"))?;
    }
    if !list(page, "attempts").is_empty() {
        writeln!(text, "\n  {:<40} {:>8} {:>8} {:>6}  OUTCOME", "ATTEMPT", "START MS", "MS", "STATUS")?;
    }
    for attempt in list(page, "attempts") {
        writeln!(
            text,
            "  {:<40} {:>8} {:>8} {:>6}  {}",
            endpoint(attempt),
            shown(attempt, "/started_ms"),
            shown(attempt, "/duration_ms"),
            shown(attempt, "/status"),
            shown(attempt, "/outcome")
        )?;
    }
    if page.get("total_cost").is_some() {
        writeln!(text, "\ncost $ {}, status {}", shown(page, "/total_cost"), shown(page, "/status"))?;
    }
    Ok(())
}

fn list<'a>(page: &'a Value, member: &str) -> &'a [Value] {
    page.get(member).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn endpoint(page: &Value) -> String {
    format!("{} @ {}", shown(page, "/model"), shown(page, "/provider_slug"))
}

/// The member without quotes and control characters; `-` where it is unknown.
fn shown(page: &Value, pointer: &str) -> String {
    match page.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.chars().filter(|letter| !letter.is_control()).collect(),
        Some(value) => value.to_string(),
    }
}

fn number(page: &Value, pointer: &str, factor: f64, decimals: usize) -> String {
    let number = page.pointer(pointer).and_then(Value::as_f64);
    number.map_or_else(|| "-".to_owned(), |number| format!("{:.decimals$}", number * factor))
}
