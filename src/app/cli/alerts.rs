//! `alerts`: has a running gateway send a test to the receivers of alerts.

use actix_web::http::Method;
use clap::{Args, Subcommand};
use pointsman_config::Environment;
use pointsman_dialect::percent::encoded;
use serde_json::Value;

use super::{
    CommandOutput, EXIT_DIFFERENT, Finished,
    admin_place::{AdminClient, admin_url},
};

/// What to do with the receivers of alerts.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AlertsRequest {
    #[command(subcommand)]
    action: AlertsAction,
    /// Admin address of the gateway; default: POINTSMAN_ADMIN_URL, else http://127.0.0.1:8081
    #[arg(long, global = true)]
    url: Option<String>,
    /// Environment variable with a key of the scope admin; default: POINTSMAN_ADMIN_KEY
    #[arg(long, global = true, value_name = "NAME")]
    key_env: Option<String>,
    /// Print the answer of the gateway as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
enum AlertsAction {
    /// Send a test to all receivers, or to one, and say whether they took it
    Test {
        /// Name of the receiver
        name: Option<String>,
    },
}

/// Sends the test. A receiver that did not take it is a finding.
pub(super) fn run(request: &AlertsRequest, environment: &Environment) -> Finished {
    let AlertsAction::Test { name } = &request.action;
    let receiver = name.as_ref().map_or_else(String::new, |name| format!("?receiver={}", encoded(name)));
    let url = admin_url(request.url.as_deref(), environment);
    let gateway = AdminClient::new(&url, request.key_env.as_deref(), environment)?;
    let page = gateway.call(Method::POST, &format!("/api/v1/admin/alerts/test{receiver}"), None)?;
    Ok(output(&page, request.json))
}

fn output(page: &Value, json: bool) -> CommandOutput {
    let tests: Vec<&Value> = page.get("data").and_then(Value::as_array).into_iter().flatten().collect();
    let is_ok = |test: &&Value| test.get("ok").and_then(Value::as_bool) == Some(true);
    let code = if tests.iter().all(is_ok) { 0 } else { EXIT_DIFFERENT };
    let sentences = tests.iter().filter_map(|test| test.get("sentence")?.as_str());
    let text = if json { format!("{page}\n") } else { sentences.map(|sentence| format!("{sentence}\n")).collect() };
    CommandOutput { text, code }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_receiver_has_a_sentence_and_one_that_failed_is_a_finding() {
        let took = json!({"receiver": "ops", "ok": true, "sentence": "'ops' took the test."});
        let failed = json!({"receiver": "chat", "ok": false, "sentence": "'chat' did not."});
        let both = output(&json!({"data": [took, failed]}), false);
        assert_eq!((&*both.text, both.code), ("'ops' took the test.\n'chat' did not.\n", EXIT_DIFFERENT));
        assert_eq!(output(&json!({"data": [took]}), false).code, 0);
        assert!(output(&json!({"data": [took]}), true).text.starts_with('{'));
    }
}
