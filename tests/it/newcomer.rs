//! The first minutes: a start without any configuration, a first call, why it went there, on the console and in the terminal.

use std::time::{Duration, Instant};

use actix_web::http::Method;
use serde_json::json;

use crate::{
    console_login::Browser,
    harness::KEY,
    openapi::admin_address,
    process::{Process, run},
};

#[actix_web::test]
async fn from_the_start_to_the_first_explained_decision_it_takes_no_configuration_and_less_than_two_minutes() {
    let begun = Instant::now();
    let environment = [
        ("POINTSMAN__SIMULATION__MODE", "on"),
        ("POINTSMAN__SERVER__BIND", "127.0.0.1:0"),
        ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
    ];
    let process = Process::start(&[], &environment);
    let (url, development) = (process.gateway().url(""), "sk-pointsman-development");
    let previewed = run(&["preview", "Which way?", "--url", &url], &[]);
    assert_eq!(previewed.status.code(), Some(0), "{}", String::from_utf8_lossy(&previewed.stderr));

    let bearer = format!("Bearer {development}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = json!({"model": "service/auto", "messages": [{"role": "user", "content": "Hello"}]}).to_string();
    let gateway = process.gateway();
    let called = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body.into_bytes()));
    let id = called.await.expect(200)["id"].as_str().unwrap().to_owned();
    let explained = run(&["explain", &id, "--url", &url], &[]);
    let told = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.status.success() && told.starts_with(&id) && told.contains(" answered: "), "{told}");

    // The start printed a key for the console, because none was configured.
    let said = process.stdout();
    let key = said.split_whitespace().find(|word| word.starts_with("sk-") && *word != development && *word != KEY);
    let key = key.unwrap_or_else(|| panic!("no key for administrators: {said}"));
    let browser = Browser::logged_in_at(admin_address(&process), key).await;
    let page = browser.page(&format!("/console/decisions/{id}")).await;
    let sentence = told.split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
    assert!(!sentence.is_empty() && page.contains(&sentence) && page.contains("Candidates"), "{sentence}: {page}");
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}
