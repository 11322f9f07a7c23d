//! Log lines of the real binary: formats, the line per call, and what never stands in them.

use serde_json::{Value, json};

use crate::{
    harness::KEY,
    keyless::{model, provider},
    process::{ConfigFile, Process},
    scripted::{Script, Upstream},
    world::{and, ask, refusal, saying, stream_of},
};

/// A process in front of an upstream that fails and one that streams. `log` stands in the section.
fn start(log: &str) -> (Process, Vec<Upstream>, ConfigFile) {
    let upstreams = vec![
        Upstream::start([Script::answering(refusal(500))]),
        Upstream::start([Script::answering(stream_of(&["a", "b"]))]),
    ];
    let toml = format!(
        "[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n[simulation]\nmode = \"off\"\n[log]\n{log}\n\
         [[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n[routing]\nexploration = 0\nobjective = \"cheapest\"\n{}{}{}",
        provider("ill", &upstreams[0].url("")),
        provider("well", &upstreams[1].url("")),
        model("acme/small", "", &[("ill", "0.000001", "0.000001"), ("well", "0.000002", "0.000002")])
    );
    let file = ConfigFile::new(&toml);
    let process = Process::start(&["serve", "--config", file.path()], &[("TEST_KEY", KEY)]);
    (process, upstreams, file)
}

fn json_lines(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[actix_web::test]
async fn with_json_every_line_is_an_object_and_a_call_has_one_line_with_its_facts() {
    let (process, _upstreams, _file) = start("format = \"json\"\nrequests = true");
    let gateway = process.gateway();
    let secret = "canary-of-a-prompt";
    let request = json!({"model": "acme/small", "stream": true, "messages": [{"role": "user", "content": secret}]});
    let reply = gateway.chat(&request).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    gateway.chat(&ask("nobody/nothing")).await.expect(404);
    process.says("\"event\":\"call\"", 2).await;
    let log = process.stderr();
    let lines = json_lines(&log);
    for line in &lines {
        for key in ["ts", "level", "target", "msg", "event"] {
            assert!(line[key].is_string(), "{key} is missing: {line}");
        }
        assert!(line.to_string().len() <= 4096 && !line.to_string().contains('\u{1b}'), "{line}");
    }
    let calls: Vec<&Value> = lines.iter().filter(|line| line["event"] == "call").collect();
    let [served, refused] = calls[..] else { panic!("{calls:?}") };
    assert_eq!(served["generation_id"], json!(reply.header("x-generation-id").unwrap()));
    assert_eq!(served["request_id"], json!(reply.header("x-request-id").unwrap()));
    for (key, value) in [
        ("key", json!("test")),
        ("result", json!("rescued")),
        ("model", json!("acme/small")),
        ("provider", json!("well")),
        ("objective", json!("cheapest")),
        ("code", json!("provider_fallback")),
        ("attempts", json!(2)),
    ] {
        assert_eq!(served[key], value, "{key} of {served}");
    }
    for key in ["ms", "ttft_ms", "prompt_tokens", "completion_tokens"] {
        assert!(served[key].is_u64(), "{key} of {served}");
    }
    assert!(served["cost_usd"].as_str().unwrap().parse::<f64>().unwrap() > 0.0, "{served}");
    assert_eq!((&refused["status"], &refused["key"]), (&json!(404), &json!("test")));
    assert!(refused["generation_id"].is_null(), "{refused}");
    assert!(lines.iter().any(|line| line["event"] == "attempt_failed" && line["provider"] == "ill"), "{log}");
    assert!(!log.contains(secret) && !log.contains(KEY), "{log}");
}

#[actix_web::test]
async fn without_the_switch_a_call_has_no_line_and_text_is_no_json() {
    let (process, _upstreams, _file) = start("");
    let gateway = process.gateway();
    gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await;
    process.says("ill failed: server", 1).await;
    gateway.chat(&ask("nobody/nothing")).await.expect(404);
    let log = process.stderr();
    assert!(!log.contains("tokens,") && !log.contains("refused with"), "{log}");
    assert!(log.lines().all(|line| serde_json::from_str::<Value>(line).is_err()), "{log}");
}

#[actix_web::test]
async fn a_reload_changes_the_format_of_the_lines_that_follow() {
    let (process, _upstreams, file) = start("format = \"text\"");
    let text = std::fs::read_to_string(file.path())
        .unwrap()
        .replace("format = \"text\"", "format = \"json\"\nlevel = \"debug\"");
    std::fs::write(file.path(), text).unwrap();
    process.signal("HUP");
    process.says("\"event\":\"config\"", 1).await;
}

#[actix_web::test]
async fn a_log_that_nobody_reads_delays_no_call_and_the_lost_lines_are_counted() {
    let upstream = saying("This way.");
    let toml = format!(
        "[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n[simulation]\nmode = \"off\"\n[log]\nlevel = \"trace\"\n\
         [[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n{}{}",
        provider("acme", &upstream.url("")),
        model("acme/small", "", &[("acme", "0.000001", "0.000001")])
    );
    let file = ConfigFile::new(&toml);
    let process = Process::start_unread(&["serve", "--config", file.path()], &[("TEST_KEY", KEY)]);
    let gateway = process.gateway();
    let mut calls = 0;
    loop {
        gateway.chat(&ask("acme/small")).await.expect(200);
        calls += 1;
        let metrics = gateway.get("/metrics").await.text();
        let line = metrics.lines().find_map(|line| line.strip_prefix("pointsman_log_lines_dropped_total "));
        if line.unwrap().parse::<f64>().unwrap() > 0.0 {
            break;
        }
        assert!(calls < 2_000, "no line was dropped");
    }
}
