//! What an operator finds out about a provider that cannot be reached, and what a client does not.

use serde_json::json;

use crate::{
    harness::KEY,
    keyless::{provider, simple_model},
    process::{ConfigFile, Process},
    scripted::refused_address,
    world::{always, ask, error_of},
};

/// One failure opens a circuit for longer than any test runs.
const SHUT_FOR_GOOD: &str = "[routing.breaker]\nconsecutive = 1\nbase = \"3600s\"\n";

fn process(base_url: &str, toml: &str) -> (Process, ConfigFile) {
    let file = ConfigFile::new(
        &[
            "[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n[simulation]\nmode = \"off\"\n".to_owned(),
            "[[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n".to_owned(),
            toml.to_owned(),
            provider("acme", base_url),
            simple_model("acme/small", "acme"),
        ]
        .concat(),
    );
    let environment = [("TEST_KEY", KEY), ("RUST_LOG", "pointsman=debug")];
    (Process::start(&["--config", file.path()], &environment), file)
}

/// The place of the first line of the log that holds all of these.
fn line(log: &str, parts: &[&str]) -> usize {
    let found = log.lines().position(|line| parts.iter().all(|part| line.contains(part)));
    found.unwrap_or_else(|| panic!("no line holds {parts:?}: {log}"))
}

#[actix_web::test]
async fn the_log_says_where_and_why_nobody_was_reached_and_the_client_hears_why_alone() {
    let address = refused_address().to_string();
    let (mut process, _file) = process(&format!("http://{address}/v1"), SHUT_FOR_GOOD);
    let gateway = process.gateway();
    let headers = [("content-type", "application/json"), ("x-request-id", "mine-1")];
    let body = Some(ask("acme/small").to_string().into_bytes());
    let reply = gateway.call(actix_web::http::Method::POST, "/api/v1/chat/completions", &headers, body).await;
    let error = error_of(&reply, 502);
    assert_eq!(error["metadata"]["previous_errors"][0]["code"], "connect");
    let wait: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!(wait > 60, "this failure shut the only circuit, but the client is told to come back in {wait} s");
    let id = reply.header("x-generation-id").unwrap().to_owned();
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await;
    assert_eq!(explained.expect(200)["attempts"][0]["cause"], "refused");
    for told in [reply.text(), explained.text()] {
        assert!(!told.contains(&address), "{told}");
    }

    process.signal("TERM");
    process.end().await;
    let log = process.stderr();
    let failed = line(&log, &["acme/small at acme failed: connect", &format!("{address}: refused: "), &id]);
    let opened = line(&log, &["acme/small at acme: circuit open for"]);
    assert!(failed < opened, "the cause stands before its effect: {log}");
    line(&log, &[&id, "failed after 1 attempt", "mine-1"]);
    line(&log, &["chat/completions", " 502 in ", "mine-1", &id]);
}

#[actix_web::test]
async fn as_long_as_a_circuit_lets_calls_pass_the_wait_is_a_second() {
    let failing = always(500, &json!({"error": {"message": "down"}}));
    let (process, _file) = process(&failing.url("/v1"), "[routing.breaker]\nconsecutive = 9\n");
    let reply = process.gateway().chat(&ask("acme/small")).await;
    error_of(&reply, 502);
    assert_eq!(reply.header("retry-after"), Some("1"));
}
