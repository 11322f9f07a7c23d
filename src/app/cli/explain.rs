//! `explain` and `preview`: why a request went, or would go, where it did.

use std::fmt::Write as _;

use actix_web::http::Method;
use bytes::Bytes;
use clap::Args;
use pointsman_actors::domain::GenerationId;
use serde_json::{Map, Value, json};

use super::{CommandOutput, failure, gateway::GatewayArguments, success};
use crate::config::Environment;

/// The generation to explain.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExplainRequest {
    /// Id of the generation
    generation: String,
    #[command(flatten)]
    gateway: GatewayArguments,
}

/// The request to preview.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PreviewRequest {
    /// The prompt
    prompt: String,
    /// Model or alias; default: the gateway's own choice
    #[arg(short, long)]
    model: Option<String>,
    #[command(flatten)]
    gateway: GatewayArguments,
}

/// Explains a recorded generation.
pub(super) fn explain(request: &ExplainRequest, environment: &Environment) -> CommandOutput {
    // Validated here, so that the path cannot contain anything else.
    let Some(id) = GenerationId::parse(&request.generation) else {
        return failure(format!("pointsman: '{}' is not a generation id (gen-<seconds>-…)\n", request.generation));
    };
    let path = format!("/api/v1/route/explain?generation_id={id}");
    finish(&request.gateway, request.gateway.call((Method::GET, &path), None, environment))
}

/// Shows where a request would go; no provider is called.
pub(super) fn preview(request: &PreviewRequest, environment: &Environment) -> CommandOutput {
    let mut body = Map::from_iter([("messages".to_owned(), json!([{ "role": "user", "content": request.prompt }]))]);
    body.extend(request.model.as_ref().map(|model| ("model".to_owned(), json!(model))));
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
