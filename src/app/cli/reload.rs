//! `reload`: has a running gateway read its configuration again.

use std::fmt::Write as _;

use actix_web::http::Method;
use clap::Args;
use serde_json::Value;

use super::{
    CommandOutput,
    keys::{Failed, RunningGateway},
    success,
};
use crate::config::Environment;

/// The gateway whose configuration changed.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ReloadRequest {
    /// Admin address of the gateway
    #[arg(long, default_value = "http://127.0.0.1:8081")]
    url: String,
    /// Environment variable with a key of the scope admin; default: POINTSMAN_ADMIN_KEY
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Print the answer of the gateway as JSON
    #[arg(long)]
    json: bool,
}

/// Reloads, and says what changed and what waits for a restart. Faults of the configuration come as the gateway states them.
pub(super) fn run(request: &ReloadRequest, environment: &Environment) -> CommandOutput {
    let reloaded = RunningGateway::new(&request.url, request.key_env.as_deref(), environment)
        .and_then(|gateway| gateway.call(Method::POST, "/api/v1/admin/reload", None));
    match reloaded {
        Ok(page) if request.json => success(format!("{page}\n")),
        Ok(page) => success(report(&page)),
        Err(Failed { message, code }) => CommandOutput { text: format!("pointsman: {message}\n"), code },
    }
}

fn report(page: &Value) -> String {
    let text = |name| page.get(name).and_then(Value::as_str).unwrap_or_default();
    let list = |name| page.get(name).and_then(Value::as_array).into_iter().flatten();
    let version = page.get("version").and_then(Value::as_u64).unwrap_or_default();
    let mut report = format!("{}: version {version} is in force\n", text("result"));
    // Writing to a string cannot fail.
    for key in list("changes").filter_map(Value::as_str) {
        let _ = writeln!(report, "  changed  {key}");
    }
    for key in list("restart_pending").filter_map(|pending| pending.get("key")?.as_str()) {
        let _ = writeln!(report, "  waits for a restart  {key}");
    }
    report
}
