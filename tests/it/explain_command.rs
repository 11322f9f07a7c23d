//! `pointsman models`, `preview` and `explain`, as a stranger calls them.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use actix_web::rt::time::timeout;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    gateway_commands::reads_of,
    harness::KEY,
    patience::PATIENCE,
    process::{Process, run},
    scripted::{Script, Upstream},
    world::{http, refusal},
};

const SIMULATED: [(&str, &str); 4] = [
    ("POINTSMAN__SIMULATION__MODE", "on"),
    ("POINTSMAN__SERVER__BIND", "127.0.0.1:0"),
    ("POINTSMAN__KEYS", "[{ name = \"test\", env = \"TEST_KEY\" }]"),
    ("TEST_KEY", KEY),
];

#[actix_web::test]
async fn preview_and_explain_say_the_sentence_of_the_gateway_and_its_json_unchanged() {
    let folder = Folder::new();
    let ledger = folder.at("ledger").to_str().unwrap().to_owned();
    let durable = [("POINTSMAN__LEDGER__DATA_DIR", ledger.as_str()), ("POINTSMAN__LEDGER__DURABILITY", "group")];
    let process = Process::start(&[], &[SIMULATED.as_slice(), &durable].concat());
    let gateway = process.gateway();
    let body = json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Which way?"}]});
    let id = gateway.chat(&body).await.expect(200)["id"].as_str().unwrap().to_owned();
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
    let (url, key) = (gateway.url(""), [("POINTSMAN_API_KEY", KEY)]);

    let text = run(&["explain", &id, "--url", &url], &key);
    let said = String::from_utf8_lossy(&text.stdout).into_owned();
    assert_eq!(text.status.code(), Some(0), "{}", String::from_utf8_lossy(&text.stderr));
    let page = explained.get("data").unwrap_or(&explained);
    let in_one_line = said.replace('\n', " ");
    assert!(in_one_line.starts_with(&format!("{id} · ")) && in_one_line.contains(" · test · "), "{said}");
    let told = ["summary", "decision_reason", "request_id"].map(|member| page[member].as_str().unwrap());
    assert!(told.iter().all(|text| in_one_line.contains(text)), "{said}");
    let last = run(&["explain"], &[("POINTSMAN_API_KEY", KEY), ("POINTSMAN_URL", &url)]);
    assert_eq!(
        String::from_utf8_lossy(&last.stdout),
        said,
        "without an id the last one, at the gateway of the variable"
    );
    let config = folder.at("config.toml");
    std::fs::write(&config, format!("[server]\nbind = \"{}\"\n", url.trim_start_matches("http://"))).unwrap();
    let elsewhere = [("POINTSMAN_API_KEY", KEY), ("POINTSMAN_URL", "http://127.0.0.1:1")];
    for named in [["explain", "-c", config.to_str().unwrap()], ["-c", config.to_str().unwrap(), "explain"]] {
        let output = run(&named, &elsewhere);
        assert_eq!(String::from_utf8_lossy(&output.stdout), said, "at the gateway of the configuration: {output:?}");
    }
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

#[actix_web::test]
async fn explain_and_preview_answer_why_not_and_what_if_and_explain_finds_the_newest_generation_itself() {
    let folder = Folder::new();
    let data = folder.at("data").display().to_string();
    let environment =
        [&SIMULATED[..], &[("POINTSMAN__LEDGER__DURABILITY", "group"), ("POINTSMAN__LEDGER__DATA_DIR", data.as_str())]];
    let process = Process::start(&[], &environment.concat());
    let (gateway, key) = (process.gateway(), [("POINTSMAN_API_KEY", KEY)]);
    let url = gateway.url("");
    let said = |arguments: &[&str], code: i32| {
        let output = run(&[arguments, &["--url", url.as_str()]].concat(), &key);
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(if code == 0 { &output.stdout } else { &output.stderr }).into_owned()
    };
    assert!(said(&["explain", "--last"], 2).contains("no generation of the key in POINTSMAN_API_KEY"));
    let body = json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Which way?"}]});
    let id = gateway.chat(&body).await.expect(200)["id"].as_str().unwrap().to_owned();
    assert_eq!(said(&["explain", "--last", "--json"], 0), said(&["explain", &id, "--json"], 0));
    assert!(said(&["explain", &id, "--why-not", "sim-thrift"], 0).contains("WHY NOT sim-thrift"), "{id}");

    let preview = ["preview", "Which way?", "-m", "meadow/small", "-o", "cheapest", "--json"];
    let page: Value = serde_json::from_str(&said(&preview, 0)).unwrap();
    assert_eq!((&page["objective"], &page["what_if"]), (&json!("cheapest"), &Value::Null), "{page}");
    let closed = [&preview[..6], &["--what-if", "sim-thrift.circuit=open", "--why-not", "sim-swift"]].concat();
    let text = said(&closed, 0);
    assert!(text.contains("WHAT IF") && text.contains("WHY NOT sim-swift"), "{text}");
    let page: Value = serde_json::from_str(&said(&[&closed[..], &["--json"]].concat(), 0)).unwrap();
    assert_eq!(page["what_if"]["changed"], true, "thrift was the cheapest: {page}");
    assert!(said(&["preview", "Hello", "--what-if", "circuit=open"], 2).contains("is no condition"));
    let bought = said(&[&preview[..6], &["--budget", "5"]].concat(), 0);
    assert!(bought.contains("\n$5 pays for about ") && bought.contains(" such calls, each about $0.0"), "{bought}");
    assert!(said(&["preview", "Hello", "--budget", "much"], 2).contains("an amount of US dollars"));
}

#[actix_web::test]
async fn models_with_an_address_lists_how_the_endpoints_of_the_gateway_do() {
    let process = Process::start(&[], &SIMULATED);
    let gateway = process.gateway();
    let body = json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5});
    gateway.chat(&body).await.expect(200);
    let (url, key) = (gateway.url(""), [("POINTSMAN_API_KEY", KEY)]);
    let table = run(&["models", "meadow/small", "--url", &url], &key);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert!(table.starts_with("MODEL") && rows.iter().all(|line| line.starts_with("meadow/small ")), "{table}");
    assert!(rows.len() > 1 && rows.iter().any(|line| line.contains(" healthy ")), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let listed = run(&["models", "--json", "--url", &url], &key);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let stats = gateway.get("/api/v1/models/stats").await.expect(200);
    let names = |page: &Value| -> Vec<String> {
        let rows = page["data"].as_array().unwrap().iter();
        rows.map(|row| format!("{} {} {}", row["model"], row["provider_slug"], row["requests"])).collect()
    };
    assert_eq!(names(&listed), names(&stats));
    assert_eq!(run(&["models", "--url", &url, "--all"], &key).status.code(), Some(2));
    assert_eq!(run(&["models", "--url", "http://127.0.0.1:1"], &[]).status.code(), Some(4));
}

#[actix_web::test]
async fn explain_watch_explains_what_ends_from_now_on_and_nothing_before() {
    let folder = Folder::new();
    let data = folder.at("data").display().to_string();
    let stored = [("POINTSMAN__LEDGER__DURABILITY", "group"), ("POINTSMAN__LEDGER__DATA_DIR", data.as_str())];
    let process = Process::start(&[], &[&SIMULATED[..], &stored].concat());
    let gateway = process.gateway();
    let body =
        json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Which way?"}], "max_tokens": 5});
    let before = gateway.chat(&body).await.header("x-generation-id").unwrap().to_owned();
    let mut watching = Watch::start(&gateway.url(""));
    // It has read what was there before.
    reads_of(&gateway, "/generations", 1).await;
    let after = gateway.chat(&body).await.header("x-generation-id").unwrap().to_owned();
    assert_eq!(watching.next_explained().await["generation_id"], after, "and not {before}");
    let kill = Command::new("kill").args(["-TERM", &watching.child.id().to_string()]).status().unwrap();
    assert!(kill.success() && watching.child.wait().unwrap().success());
}

#[actix_web::test]
async fn explain_watch_passes_over_deleted_records_and_asks_again_when_the_gateway_is_busy() {
    let ids = ["gen-1763629501-AbCdEfGhIjKlMnOpQrStUv", "gen-1763629500-AbCdEfGhIjKlMnOpQrStUv"];
    let list =
        |ids: &[&str]| http(200, &json!({ "data": ids.iter().map(|id| json!({ "id": id })).collect::<Vec<_>>() }));
    let answers = [
        list(&[]),
        refusal(503),
        list(&ids),
        refusal(404),
        refusal(429),
        list(&ids),
        http(200, &json!({ "generation_id": ids[0] })),
        list(&ids),
    ];
    let gateway = Upstream::start(answers.map(Script::answering));
    let mut watching = Watch::start(&gateway.url(""));
    assert_eq!(watching.next_explained().await["generation_id"], ids[0]);
    let explained: Vec<bool> = gateway.requests().iter().map(|request| request.contains("/explain?")).collect();
    assert_eq!(explained[..7], [false, false, false, true, true, false, true], "{:?}", gateway.requests());
}

/// A running `explain --watch --json`. Ends with the test.
struct Watch {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(url: &str) -> Watch {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pointsman"))
            .args(["explain", "--watch", "--json", "--url", url])
            .env_clear()
            .env("POINTSMAN_API_KEY", KEY)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = child.stdout.take().map(BufReader::new);
        Watch { child, output }
    }

    async fn next_explained(&mut self) -> Value {
        let mut output = self.output.take().unwrap();
        let read = actix_web::rt::task::spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            (line, output)
        });
        let (line, output) = timeout(PATIENCE, read).await.expect("a line in time").unwrap();
        self.output = Some(output);
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
