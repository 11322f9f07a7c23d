//! `promote`: asks a running gateway whether a shadow may be tried on a share of the requests, and prints the lines that do it.

use std::fmt::Write as _;

use actix_web::http::Method;
use clap::Args;
use pointsman_config::Environment;
use pointsman_dialect::percent::encoded;
use serde_json::{Value, json};

use super::{
    CommandOutput, EXIT_DIFFERENT, Finished,
    admin_place::{AdminClient, admin_url},
    columns::{list, shown},
};

/// The shadow, and what the canary is to be like.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct PromoteRequest {
    /// Name of the shadow
    name: String,
    /// Share of the requests of its alias, at most 0.5
    #[arg(long, value_name = "SHARE", value_parser = finite)]
    share: f64,
    /// The fingerprint of the shadow in /api/v1/health/shadows: it is refused if it changed meanwhile
    #[arg(long, value_name = "FINGERPRINT")]
    expect: String,
    /// By which share it may cost more; default: 0.1
    #[arg(long, value_name = "SHARE", value_parser = finite)]
    max_spend: Option<f64>,
    /// By how much its share of failed requests may be higher; default: 0.005
    #[arg(long, value_name = "SHARE", value_parser = finite)]
    max_failures: Option<f64>,
    /// By which share its first tokens may be later; default: 0.2
    #[arg(long, value_name = "SHARE", value_parser = finite)]
    max_ttft: Option<f64>,
    /// Allow it although too little is known of it or a limit is exceeded; the log and the audit log show the reason
    #[arg(long = "override", value_name = "REASON")]
    reason: Option<String>,
    /// Admin address of the gateway; default: POINTSMAN_ADMIN_URL, else http://127.0.0.1:8081
    #[arg(long)]
    url: Option<String>,
    /// Environment variable with a key of the scope admin; default: POINTSMAN_ADMIN_KEY
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Print the answer of the gateway as JSON
    #[arg(long)]
    json: bool,
}

/// A number that JSON can hold. Any other would become `null`, which means the default.
fn finite(text: &str) -> Result<f64, &'static str> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or("needs a finite number, such as 0.05")
}

/// Asks the gateway. A refusal is a finding.
pub(super) fn run(request: &PromoteRequest, environment: &Environment) -> Finished {
    let url = admin_url(request.url.as_deref(), environment);
    let gateway = AdminClient::new(&url, request.key_env.as_deref(), environment)?;
    let path = format!("/api/v1/admin/shadows/{}/promote", encoded(&request.name));
    let body = json!({
        "share": request.share, "expect": request.expect, "max_spend": request.max_spend,
        "max_failures": request.max_failures, "max_ttft": request.max_ttft, "override": request.reason,
    });
    let page = gateway.call(Method::POST, &path, Some(body))?;
    Ok(output(&page, request.json))
}

fn output(page: &Value, json: bool) -> CommandOutput {
    let verdict = shown(page, "/data/verdict");
    let code = if ["allowed", "overridden"].contains(&verdict.as_str()) { 0 } else { EXIT_DIFFERENT };
    CommandOutput { text: if json { format!("{page}\n") } else { report(page, &verdict) }, code }
}

fn report(page: &Value, verdict: &str) -> String {
    let mut text = format!("{verdict}: {} ({})\n", shown(page, "/data/shadow"), shown(page, "/data/overrides"));
    let checks = page.get("data").map(|data| list(data, "checks")).unwrap_or_default();
    for check in checks {
        let ok = if check.get("ok") == Some(&json!(true)) { "ok" } else { "NO" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {ok}  {:<12} {}", shown(check, "/check"), shown(check, "/sentence"));
    }
    if let Some(lines) = page.pointer("/data/lines").and_then(Value::as_str) {
        let _ = write!(
            text,
            "\nNothing was changed. Add these lines, then 'pointsman check' and 'pointsman reload':\n\n{lines}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_limits_are_finite_numbers() {
        for (text, number) in [("0.05", 0.05), ("9", 9.0), ("1e-3", 0.001)] {
            assert_eq!(finite(text), Ok(number), "{text}");
        }
        for text in ["inf", "-inf", "infinity", "nan", "NaN", "1e999", "", "5 %"] {
            assert_eq!(finite(text), Err("needs a finite number, such as 0.05"), "{text}");
        }
    }

    #[test]
    fn a_refusal_is_a_finding_and_what_is_allowed_comes_with_its_lines() {
        let page = |verdict: &str, lines: Value| {
            let checks = json!([{"check": "window", "ok": verdict == "allowed", "sentence": "1.0 h"}]);
            json!({"data": {"shadow": "thrifty", "overrides": "a = 1", "verdict": verdict, "checks": checks, "lines": lines}})
        };
        let refused = output(&page("refused", Value::Null), false);
        assert_eq!((refused.code, &*refused.text), (1, "refused: thrifty (a = 1)\n  NO  window       1.0 h\n"));
        let allowed = output(&page("allowed", json!("[aliases.canary]\n")), false);
        assert!(
            allowed.code == 0
                && allowed.text.contains("  ok  window")
                && allowed.text.ends_with("\n\n[aliases.canary]\n")
        );
        assert_eq!(output(&page("overridden", Value::Null), true).code, 0);
        assert_eq!(output(&json!({}), false).code, 1, "what cannot be read allows nothing");
    }
}
