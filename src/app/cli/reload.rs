//! `reload`: has a running gateway read its configuration again.

use std::fmt::Write as _;

use actix_web::http::Method;
use clap::Args;
use pointsman_config::Environment;
use serde_json::Value;

use super::{
    CommandOutput, EXIT_CONFIGURATION, Finished,
    admin_place::{AdminClient, admin_url},
};

/// The gateway whose configuration changed.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ReloadRequest {
    /// Admin address of the gateway; default: POINTSMAN_ADMIN_URL, else http://127.0.0.1:8081
    #[arg(long)]
    url: Option<String>,
    /// Environment variable with a key of the scope admin; default: POINTSMAN_ADMIN_KEY
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Print the answer of the gateway as JSON
    #[arg(long)]
    json: bool,
}

/// Reloads, and says what changed and what waits for a restart; or only what would. Faults of the configuration come as the
/// gateway states them.
pub(super) fn run(request: &ReloadRequest, environment: &Environment) -> Finished {
    let (method, path) = match request.dry_run {
        true => (Method::GET, "/api/v1/admin/reload/preview"),
        false => (Method::POST, "/api/v1/admin/reload"),
    };
    let url = admin_url(request.url.as_deref(), environment);
    let gateway = AdminClient::new(&url, request.key_env.as_deref(), environment)?;
    let page = gateway.call(method, path, None)?;
    let is_refused = page.get("result").and_then(Value::as_str) == Some("refused");
    let text = match (request.json, request.dry_run) {
        (true, _) => format!("{page}\n"),
        (false, true) => difference(&page),
        (false, false) => report(&page),
    };
    Ok(CommandOutput { text, code: if is_refused { EXIT_CONFIGURATION } else { 0 } })
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
    for name in list("reopened").filter_map(Value::as_str) {
        let _ = writeln!(report, "  tried again at once  {name}");
    }
    for key in list("restart_pending").filter_map(|pending| pending.get("key")?.as_str()) {
        let _ = writeln!(report, "  waits for a restart  {key}");
    }
    report
}

/// What a reload would change: a line for each key, with the value in force and the one on disk.
fn difference(page: &Value) -> String {
    let list = |name| page.get(name).and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value, name| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let result = text(page, "result").unwrap_or_default();
    let version = page.get("version").and_then(Value::as_u64).unwrap_or_default();
    let mut report = match &*result {
        "refused" => format!("a reload would be refused: version {version} would stay in force\n"),
        "changed" => format!("a reload would change version {version}, which is in force\n"),
        _ if list("restart_pending").next().is_some() => {
            format!("a reload would change nothing before a restart: version {version} is in force\n")
        }
        _ => format!("a reload would change nothing: version {version} is in force\n"),
    };
    // Writing to a string cannot fail.
    for fault in list("faults").filter_map(Value::as_str) {
        let _ = writeln!(report, "  {fault}");
    }
    for change in list("changes") {
        let value = |name| text(change, name).unwrap_or_else(|| "not set".to_owned());
        let key = text(change, "key").unwrap_or_default();
        let _ = writeln!(report, "  {key}: {} -> {}", value("in_force"), value("on_disk"));
    }
    let hidden = page.get("changes_total").and_then(Value::as_u64).unwrap_or_default();
    let hidden = hidden.saturating_sub(list("changes").count() as u64);
    if hidden > 0 {
        let _ = writeln!(report, "  and {hidden} more");
    }
    if result == "changed" && list("changes").next().is_none() {
        report.push_str("  the order of a list, or the content of a file or variable\n");
    }
    for name in list("reopens").filter_map(Value::as_str) {
        let _ = writeln!(report, "  would be tried again at once  {name}");
    }
    for key in list("restart_pending").filter_map(|pending| pending.get("key")?.as_str()) {
        let _ = writeln!(report, "  would wait for a restart  {key}");
    }
    report
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dry_run_lists_each_key_with_the_value_in_force_and_the_one_on_disk() {
        let page = json!({
            "result": "changed", "version": 3, "faults": [], "changes_total": 3,
            "changes": [
                {"key": "limits.max_n", "in_force": "4", "on_disk": "5", "place": "config.toml:9:1"},
                {"key": "server.bind", "in_force": null, "on_disk": "\"127.0.0.1:9\"", "place": "config.toml:2:1"},
            ],
            "restart_pending": [{"key": "server.bind", "in_force": "a", "wanted": "b"}],
        });
        let expected = "a reload would change version 3, which is in force\n  limits.max_n: 4 -> 5\n  \
                        server.bind: not set -> \"127.0.0.1:9\"\n  and 1 more\n  would wait for a restart  server.bind\n";
        assert_eq!(difference(&page), expected);
        let page = json!({
            "result": "unchanged", "version": 3, "faults": [], "changes_total": 1,
            "changes": [{"key": "server.workers", "in_force": "2", "on_disk": "4", "place": "config.toml:2:1"}],
            "restart_pending": [{"key": "server.workers", "in_force": "2", "wanted": "4"}],
        });
        let expected = "a reload would change nothing before a restart: version 3 is in force\n  server.workers: 2 -> 4\n  \
                        would wait for a restart  server.workers\n";
        assert_eq!(difference(&page), expected);
        let page = json!({"result": "unchanged", "version": 3, "changes": [], "changes_total": 0});
        assert_eq!(difference(&page), "a reload would change nothing: version 3 is in force\n");
        let page =
            json!({"result": "refused", "version": 3, "faults": ["config.toml:9:1: limits.max_nn: unknown key"]});
        let expected = "a reload would be refused: version 3 would stay in force\n  config.toml:9:1: limits.max_nn: \
                        unknown key\n";
        assert_eq!(difference(&page), expected);
        let page = json!({"result": "changed", "version": 3, "changes": [], "changes_total": 0});
        assert!(difference(&page).ends_with("  the order of a list, or the content of a file or variable\n"));
    }
}
