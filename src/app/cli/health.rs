//! `health`: whether a gateway can take requests.

use std::fmt::Write as _;

use actix_web::http::Method;
use clap::Args;
use serde_json::{Map, Value};

use super::{CommandOutput, EXIT_DIFFERENT, failure, gateway::GatewayArguments, success};

/// The gateway to ask.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct HealthRequest {
    #[command(flatten)]
    gateway: GatewayArguments,
}

/// Asks a gateway for its readiness, without a key.
pub(super) fn run(request: &HealthRequest) -> CommandOutput {
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
