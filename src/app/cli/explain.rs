//! `explain` and `preview`: why a request went, or would go, where it did.

mod text;
mod watch;
mod what_if;

use actix_web::http::Method;
use bytes::Bytes;
use clap::Args;
use pointsman_config::{Environment, spend_amount};
use pointsman_dialect::percent;
use pointsman_domain::{GenerationId, Usd};
use serde_json::{Map, Value, json};

use super::{
    CommandOutput, Finished,
    columns::{dollars, list},
    gateway::GatewayArguments,
    names, refused, success,
};

/// The generation to explain.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ExplainRequest {
    /// Id of the generation; default: the newest one of the key
    generation: Option<String>,
    /// The newest generation of the key; the same as without an id
    #[arg(long, conflicts_with = "generation")]
    last: bool,
    /// Explain every generation of the key that ends from now on, until Ctrl-C
    #[arg(long, conflicts_with_all = ["generation", "last"])]
    watch: bool,
    /// Say why this was not chosen: a model, a provider, or model@provider
    #[arg(long, value_name = "NAME", add = names::models_and_providers())]
    why_not: Option<String>,
    #[command(flatten)]
    pub(super) gateway: GatewayArguments,
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
    /// Least quality of the endpoints for the class of the task, 0 to 1; default: that of the alias or the key
    #[arg(long, value_name = "QUALITY")]
    min_quality: Option<String>,
    /// Say why this would not be chosen: a model, a provider, or model@provider
    #[arg(long, value_name = "NAME", add = names::models_and_providers())]
    why_not: Option<String>,
    /// Decide under this condition too; may be repeated: objective=NAME, weights.latency=0.2 (or .cost,
    /// .quality), or of an endpoint MODEL@PROVIDER.circuit=open, .price=*0.5, .ttft_ms=300, .tokens_per_second=80,
    /// .failure_probability=0.1, .in_flight=20, .quality=0.8
    #[arg(long, value_name = "CONDITION")]
    what_if: Vec<String>,
    /// Say for how many such calls this many US dollars pay, such as 5
    #[arg(long, value_name = "USD", value_parser = |text: &str| spend_amount(text).ok_or("an amount of US dollars, such as 5 or 0.50"))]
    budget: Option<Usd>,
    #[command(flatten)]
    pub(super) gateway: GatewayArguments,
}

/// Explains a recorded generation.
pub(super) fn explain(request: &ExplainRequest, environment: &Environment) -> Finished {
    if request.watch {
        return watch::run(request, environment);
    }
    let named = match request.generation.as_deref() {
        Some(id) => id.to_owned(),
        None => newest(&request.gateway, environment)?,
    };
    // Validated here, so that the path cannot contain anything else.
    let Some(id) = GenerationId::parse(&named) else {
        return Err(refused(format!("'{named}' is not a generation id (gen-<seconds>-…)")));
    };
    let body = request.gateway.call((Method::GET, &request.path(&id)), None, environment)?;
    finish(&request.gateway, &body, |_| String::new())
}

impl ExplainRequest {
    fn path(&self, id: &GenerationId) -> String {
        let question = self.why_not.as_ref().map(|name| format!("&why_not={}", percent::encoded(name)));
        format!("/api/v1/route/explain?generation_id={id}{}", question.unwrap_or_default())
    }
}

/// The id of the newest generation of the key.
fn newest(gateway: &GatewayArguments, environment: &Environment) -> Result<String, CommandOutput> {
    let body = gateway.call((Method::GET, "/api/v1/generations?limit=1"), None, environment)?;
    let page: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = page.pointer("/data/0/id").and_then(Value::as_str).map(str::to_owned);
    id.ok_or_else(|| refused(format!("no generation of {} is stored yet", gateway.key_name(environment))))
}

/// Shows where a request would go; no provider is called.
pub(super) fn preview(request: &PreviewRequest, environment: &Environment) -> Finished {
    let mut body = Map::from_iter([("messages".to_owned(), json!([{ "role": "user", "content": request.prompt }]))]);
    let named = [("model", &request.model), ("objective", &request.objective), ("why_not", &request.why_not)];
    body.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?)))));
    body.extend(request.min_quality.as_ref().map(|least| ("min_quality".to_owned(), what_if::number(least))));
    let conditions = what_if::conditions(&request.what_if).map_err(|why| refused(format!("--what-if {why}")))?;
    body.extend(conditions.map(|conditions| ("what_if".to_owned(), conditions)));
    let body = Bytes::from(Value::Object(body).to_string());
    let call = (Method::POST, "/api/v1/route/preview");
    let body = request.gateway.call(call, Some(body), environment)?;
    finish(&request.gateway, &body, |page| request.budget.map_or_else(String::new, |budget| purchase(budget, page)))
}

/// How many calls like the previewed one `budget` pays for.
fn purchase(budget: Usd, page: &Value) -> String {
    let chosen =
        list(page, "candidates").iter().find(|candidate| candidate.get("selected") == Some(&Value::Bool(true)));
    let cost = chosen.and_then(|candidate| candidate.pointer("/predicted/cost")).and_then(Value::as_number);
    match cost.and_then(|cost| Some((cost, Usd::from_number(&cost.to_string())?))) {
        Some((shown, cost)) if !cost.is_zero() => {
            let calls = budget.femto() / cost.femto();
            format!("\n${budget} pays for about {calls} such calls, each about ${}.\n", dollars(&json!(shown), ""))
        }
        Some(_) => "\nSuch calls cost nothing.\n".to_owned(),
        None => "\nWhat such a call costs is not known.\n".to_owned(),
    }
}

fn finish(gateway: &GatewayArguments, body: &[u8], more: impl FnOnce(&Value) -> String) -> Finished {
    if gateway.json {
        return Ok(success(format!("{}\n", String::from_utf8_lossy(body))));
    }
    let page = serde_json::from_slice::<Value>(body);
    let page = page.map_err(|error| refused(format!("the answer of the gateway cannot be read: {error}")))?;
    let page = page.get("data").unwrap_or(&page);
    Ok(success(text::decision(page) + &more(page)))
}
