//! `health`: whether a gateway can take requests; on request its verdict, the worst thing first.

use std::{fmt::Write as _, sync::Arc};

use actix_web::http::Method;
use clap::Args;
use pointsman_config::{Environment, Listeners};
use pointsman_transport::own_config;
use serde_json::{Map, Value};

use super::{
    CommandOutput, EXIT_DIFFERENT, Finished,
    admin_place::AdminClient,
    failure,
    gateway::{GatewayArguments, ReachedGateway, no_address},
    refused,
};

/// The gateway to ask.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct HealthRequest {
    #[command(flatten)]
    pub(super) gateway: GatewayArguments,
    /// Print the verdict and everything that needs attention. Asks the admin address with a key of the scope admin;
    /// --key-env is then POINTSMAN_ADMIN_KEY by default
    #[arg(long)]
    verbose: bool,
}

/// Asks a gateway for its readiness, without a key, or for its verdict.
pub(super) fn run(request: &HealthRequest, environment: &Environment) -> Finished {
    if request.verbose {
        return verdict(request, environment);
    }
    let mut answer = Err(no_address("server.bind"));
    let gateways = reached(request, environment)?;
    let system = actix_web::rt::System::new();
    let mut url = String::new();
    for gateway in &gateways {
        answer = system.block_on(gateway.page((Method::GET, "/health/ready"), None));
        gateway.url().clone_into(&mut url);
        if answer.is_ok() {
            break;
        }
    }
    let (status, body) = answer?;
    let page = serde_json::from_slice::<Map<String, Value>>(&body);
    let text = match page {
        Ok(_) if request.gateway.json => format!("{}\n", String::from_utf8_lossy(&body)),
        Ok(page) => report(&page),
        Err(_) => return Err(refused(format!("{url} answers {status}, and not as a gateway does"))),
    };
    Ok(CommandOutput { text, code: if status == 200 { 0 } else { EXIT_DIFFERENT } })
}

/// The gateway that is named, or those that listen at the addresses in the configuration, which is one gateway.
fn reached(request: &HealthRequest, environment: &Environment) -> Result<Vec<ReachedGateway>, CommandOutput> {
    if request.gateway.url.is_some() {
        return request.gateway.connect_without_key().map(|gateway| vec![gateway]);
    }
    let listeners = listeners(request, environment)?;
    // No key is sent, and the gateway may still show the certificate before the one in the file.
    let tls = own_config(None).map_err(refused)?;
    let urls = listeners.server_urls();
    urls.iter().map(|url| ReachedGateway::without_key(url, Arc::clone(&tls))).collect()
}

fn listeners(request: &HealthRequest, environment: &Environment) -> Result<Listeners, CommandOutput> {
    Listeners::read(request.gateway.config.as_deref(), environment).map_err(|faults| failure(super::report(&faults)))
}

/// The gateway whose admin address is asked with a key.
fn administered(request: &HealthRequest, environment: &Environment) -> Result<AdminClient, CommandOutput> {
    let key_env = request.gateway.key_env.as_deref();
    match request.gateway.url.as_deref() {
        Some(url) => AdminClient::new(url, key_env, environment),
        None => AdminClient::of_configuration(request.gateway.config.as_deref(), key_env, environment),
    }
}

/// The verdict of a gateway. What is critical is a finding.
fn verdict(request: &HealthRequest, environment: &Environment) -> Finished {
    let page = administered(request, environment)?.call(Method::GET, "/api/v1/admin/verdict", None)?;
    let verdict = page.get("data").unwrap_or(&page);
    let text = |of: &Value, name| of.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut printed = format!("{}\n", text(verdict, "sentence"));
    for notice in verdict.get("notices").and_then(Value::as_array).into_iter().flatten() {
        // Writing to a string cannot fail.
        let _ = writeln!(printed, "  {:<9} {}", text(notice, "severity"), text(notice, "sentence"));
    }
    let printed = if request.gateway.json { format!("{page}\n") } else { printed };
    Ok(CommandOutput { text: printed, code: if text(verdict, "severity") == "critical" { EXIT_DIFFERENT } else { 0 } })
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
