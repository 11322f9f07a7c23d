//! `pointsman models`, `preview` and `explain`, as a stranger calls them.

use serde_json::{Value, json};

use crate::{
    harness::KEY,
    process::{Process, run},
};

const SIMULATED: [(&str, &str); 4] = [
    ("POINTSMAN__SIMULATION__MODE", "on"),
    ("POINTSMAN__SERVER__BIND", "127.0.0.1:0"),
    ("POINTSMAN__KEYS", "[{ name = \"test\", env = \"TEST_KEY\" }]"),
    ("TEST_KEY", KEY),
];

#[actix_web::test]
async fn preview_and_explain_say_the_sentence_of_the_gateway_and_its_json_unchanged() {
    let process = Process::start(&[], &SIMULATED);
    let gateway = process.gateway();
    let body = json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Which way?"}]});
    let id = gateway.chat(&body).await.expect(200)["id"].as_str().unwrap().to_owned();
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
    let (url, key) = (gateway.url(""), [("POINTSMAN_API_KEY", KEY)]);

    let text = run(&["explain", &id, "--url", &url], &key);
    let said = String::from_utf8_lossy(&text.stdout).into_owned();
    assert_eq!(text.status.code(), Some(0), "{}", String::from_utf8_lossy(&text.stderr));
    let page = explained.get("data").unwrap_or(&explained);
    assert!(said.starts_with(page["decision_reason"].as_str().unwrap()), "{said}");
    assert!(said.contains("ATTEMPT") && said.contains("meadow/small @ "), "{said}");
    let as_json = run(&["explain", &id, "--url", &url, "--json"], &key);
    assert_eq!(serde_json::from_slice::<Value>(&as_json.stdout).unwrap(), explained);

    let preview = run(&["preview", "Which way?", "-m", "meadow/small", "--url", &url], &key);
    let said = String::from_utf8_lossy(&preview.stdout).into_owned();
    assert!(preview.status.code() == Some(0) && said.contains("requested meadow/small"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("* ")).count(), 1, "{said}");
}

#[test]
fn a_gateway_that_cannot_be_reached_is_exit_code_4_with_nothing_on_stdout() {
    let output = run(&["preview", "Hello", "--url", "http://127.0.0.1:1"], &[]);
    assert_eq!(output.status.code(), Some(4));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("name its address with --url"));
}

#[test]
fn what_is_no_generation_id_is_refused_without_a_call() {
    let output = run(&["explain", "../keys"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not a generation id"));
}

#[test]
fn models_lists_what_can_be_called_as_a_table_and_as_json() {
    let table = run(&["models", "meadow/small"], &SIMULATED);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.starts_with("MODEL") && table.lines().skip(1).all(|line| line.contains("meadow/small")), "{table}");
    let listed = run(&["models", "meadow/small", "--json"], &SIMULATED);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let rows = listed["data"].as_array().unwrap();
    assert!(!rows.is_empty() && rows.len() + 1 == table.lines().count(), "{listed}");
    assert!(rows.iter().all(|row| row["model"] == "meadow/small" && row["callable"] == true), "{listed}");
}
