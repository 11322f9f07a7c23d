//! What the gateway itself lacks, and what it holds of the machine: descriptors, names, threads.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    harness::KEY,
    keyless::{provider, simple_model},
    patience::{PATIENCE, eventually},
    process::{ConfigFile, Process},
    raw_client::RawClient,
    scripted::{Script, Upstream},
    world::{ask, completion, http_with},
};

/// A server with one model at the address of `upstream`, `acme/by-address`, and one at its name, `acme/by-name`.
fn config(upstream: &Upstream) -> ConfigFile {
    let url = upstream.url("");
    let named = url.replace("127.0.0.1", "localhost");
    ConfigFile::new(
        &[
            "[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n[simulation]\nmode = \"off\"\n".to_owned(),
            "[[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n".to_owned(),
            provider("address", &url),
            provider("name", &named),
            simple_model("acme/by-address", "address"),
            simple_model("acme/by-name", "name"),
        ]
        .concat(),
    )
}

/// Answers every call and keeps no connection.
fn forgetful() -> Upstream {
    let answer = http_with(200, "connection: close\r\n", &completion("x"));
    Upstream::start([Script::new().request().send(answer).fin()])
}

/// Sends a request on a connection that stands, and gives status and body of the answer.
async fn call(client: &mut RawClient, method: &str, path: &str, body: &str) -> (u16, Value) {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert!(client.say(head).await);
    let head = client.until("\r\n\r\n").await.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let body = client.exactly(length).await;
    (*client.statuses().last().unwrap(), serde_json::from_str(&body).unwrap())
}

#[actix_web::test]
async fn a_shortage_of_our_own_descriptors_is_a_clear_503_and_no_fault_of_the_provider() {
    let upstream = forgetful();
    let config = config(&upstream);
    let arguments = ["--config", config.path()];
    let process = Process::start_with_descriptors(120, &arguments, &[("TEST_KEY", KEY)]);
    let gateway = process.gateway();
    let mut inside = RawClient::connect(gateway.address).await;
    call(&mut inside, "GET", "/health/live", "").await;
    let crowd = futures_util::future::join_all((0..300).map(|_| RawClient::connect(gateway.address))).await;
    process.has_opened(120).await;

    for model in ["acme/by-address", "acme/by-name"] {
        for _ in 0..3 {
            let (status, body) = call(&mut inside, "POST", "/api/v1/chat/completions", &ask(model).to_string()).await;
            assert_eq!(status, 503, "{body}");
            let metadata = &body["error"]["metadata"];
            assert_eq!(
                (&metadata["reason"], body["error"]["message"].as_str().unwrap().contains("descriptors")),
                (&json!("gateway_shortage"), true),
                "{body}"
            );
            assert_eq!(metadata["previous_errors"][0]["code"], "shortage", "{body}");
        }
    }
    process.says("the gateway lacks descriptors", 6).await;
    for provider in ["address", "name"] {
        let path = format!("/api/v1/health/providers/{provider}");
        let health = async || call(&mut inside, "GET", &path, "").await.1["data"][0].take();
        let health = eventually("all is counted", health, |health| health["in_flight"] == 0).await;
        assert_eq!((&health["circuit"], &health["last_error"]), (&json!("closed"), &Value::Null), "{health}");
        assert_eq!((&health["consecutive_failures"], &health["errors"]["connect"]), (&json!(0), &json!(0)), "{health}");
        assert_eq!(health["success_rate"].as_f64().unwrap_or(1.0), 1.0, "{health}");
    }

    drop(crowd);
    let calm = async || process.open_descriptors();
    eventually("the crowd is gone", calm, |open| *open < 60).await;
    for model in ["acme/by-address", "acme/by-name"] {
        // A failed lookup is repeated only after a pause; until then the shortage is still the answer.
        let again = async || {
            let answer = call(&mut inside, "POST", "/api/v1/chat/completions", &ask(model).to_string()).await;
            let reason = &answer.1["error"]["metadata"]["reason"];
            assert!(answer.0 == 200 || *reason == "gateway_shortage", "no breaker is open: {answer:?}");
            answer
        };
        eventually("the model answers again", again, |(status, _)| *status == 200).await;
    }
}

#[actix_web::test]
async fn looking_a_name_up_leaves_no_thread_behind() {
    let upstream = forgetful();
    let config = config(&upstream);
    let process = Process::start(&["--config", config.path()], &[("TEST_KEY", KEY)]);
    let gateway = process.gateway();
    gateway.chat(&ask("acme/by-address")).await.expect(200);
    let before = process.threads();

    futures_util::future::join_all((0..40).map(async |_| gateway.chat(&ask("acme/by-name")).await.expect(200))).await;

    // The runtime's own threads for what blocks would stay for ten seconds.
    let begun = Instant::now();
    let threads = eventually("they end", async || process.threads(), |threads| *threads <= before).await;
    assert!(threads <= before && begun.elapsed() < Duration::from_secs(9), "{:?} of {PATIENCE:?}", begun.elapsed());
}

#[actix_web::test]
async fn an_idle_connection_to_a_provider_is_closed_when_its_configured_time_is_over() {
    let upstream = Upstream::start([Script::answering(http_with(200, "", &completion("x")))]);
    let file = config(&upstream);
    let idle = ("POINTSMAN__TIMEOUTS__PROVIDER_IDLE", "300ms");
    let process = Process::start(&["--config", file.path()], &[("TEST_KEY", KEY), idle]);
    let gateway = process.gateway();
    for _ in 0..2 {
        gateway.chat(&ask("acme/by-address")).await.expect(200);
    }
    assert!(upstream.eventually(PATIENCE, |log| log.connections > 0 && log.closed.len() == log.connections).await);
}
