//! `health`: whether a gateway can take requests; on request its verdict, the worst thing first.

use std::fmt::Write as _;

use actix_web::http::Method;
use clap::Args;
use serde_json::{Map, Value};

use super::{
    CommandOutput, EXIT_DIFFERENT, failure,
    gateway::GatewayArguments,
    keys::{Failed, RunningGateway},
    success,
};
use crate::config::Environment;

/// The admin address of a gateway, by default.
const ADMIN_URL: &str = "http://127.0.0.1:8081";

/// The gateway to ask.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct HealthRequest {
    #[command(flatten)]
    gateway: GatewayArguments,
    /// Print the verdict and everything that needs attention. Asks the admin address, by default
    /// http://127.0.0.1:8081, with a key of the scope admin; --key-env is then POINTSMAN_ADMIN_KEY by default
    #[arg(long)]
    verbose: bool,
}

/// Asks a gateway for its readiness, without a key, or for its verdict.
pub(super) fn run(request: &HealthRequest, environment: &Environment) -> CommandOutput {
    if request.verbose {
        return verdict(&request.gateway, environment);
    }
    let gateway = match request.gateway.connect_without_key() {
        Ok(gateway) => gateway,
        Err(output) => return output,
    };
    let asked = gateway.page((Method::GET, "/health/ready"), None);
    let (status, body) = match actix_web::rt::System::new().block_on(asked) {
        Ok(answer) => answer,
        Err(output) => return output,
    };
    let page = serde_json::from_slice::<Map<String, Value>>(&body);
    let text = match page {
        Ok(_) if request.gateway.json => format!("{}\n", String::from_utf8_lossy(&body)),
        Ok(page) => report(&page),
        Err(_) => {
            return failure(format!("pointsman: {} answers {status}, and not as a gateway does\n", gateway.url()));
        }
    };
    if status == 200 { success(text) } else { CommandOutput { text, code: EXIT_DIFFERENT } }
}

/// The verdict of a gateway. What is critical is a finding.
fn verdict(arguments: &GatewayArguments, environment: &Environment) -> CommandOutput {
    let url = arguments.url.as_deref().unwrap_or(ADMIN_URL);
    let page = RunningGateway::new(url, arguments.key_env.as_deref(), environment)
        .and_then(|gateway| gateway.call(Method::GET, "/api/v1/admin/verdict", None));
    let page = match page {
        Ok(page) => page,
        Err(Failed { message, code }) => return CommandOutput { text: format!("pointsman: {message}\n"), code },
    };
    let verdict = page.get("data").unwrap_or(&page);
    let text = |of: &Value, name| of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut told = format!("{}\n", text(verdict, "sentence"));
    for notice in verdict.get("notices").and_then(Value::as_array).into_iter().flatten() {
        // Writing to a string cannot fail.
        let _ = writeln!(told, "  {:<9} {}", text(notice, "severity"), text(notice, "sentence"));
    }
    let told = if arguments.json { format!("{page}\n") } else { told };
    CommandOutput { text: told, code: if text(verdict, "severity") == "critical" { EXIT_DIFFERENT } else { 0 } }
}

/// The status, and a line per check.
fn report(page: &Map<String, Value>) -> String {
    let status = page.get("status").and_then(Value::as_str).unwrap_or("unknown");
    let mut text = format!("{status}\n");
    for (name, check) in page.get("checks").and_then(Value::as_object).into_iter().flatten() {
        let Some(check) = check.as_object() else { continue };
        let state = match check.get("ok").and_then(Value::as_bool) {
            Some(true) => "ok",
            Some(false) => "FAILED",
            None => "",
        };
        let details = check.iter().filter(|(detail, _)| *detail != "ok");
        let details: Vec<String> = details.map(|(detail, value)| format!("{detail} {}", plain(value))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", format!("  {name:<10} {state:<7} {}", details.join(", ")).trim_end());
    }
    text
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
