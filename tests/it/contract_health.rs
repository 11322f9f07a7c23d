//! Pages about the state of a gateway. That readiness turns on SIGTERM is shown on the real binary, in `lifecycle`.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    keyless::{model, provider, simple_model},
    patience::{PATIENCE, eventually},
    scripted::{Gate, Script, Upstream},
    world::{and, ask, completion, http, refusal, saying},
};

/// The page of one provider.
async fn health(gateway: &TestGateway, slug: &str) -> Value {
    gateway.get(&format!("/api/v1/health/providers/{slug}")).await.expect(200)["data"][0].clone()
}

/// Reads the page again until it shows what is wanted.
async fn health_until(gateway: &TestGateway, slug: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(slug, async || health(gateway, slug).await, wanted).await
}

/// The reason that a preview gives for leaving a provider out, if it does.
async fn excluded(gateway: &TestGateway, body: &Value, provider: &str) -> Option<String> {
    let shown = gateway.post("/api/v1/route/preview", body).await.expect(200);
    let excluded = shown["excluded"].as_array().unwrap();
    let entry = excluded.iter().find(|one| one["provider_name"] == provider);
    entry.map(|one| one["reason"].as_str().unwrap().to_owned())
}

/// What `/metrics` shows of an endpoint's breaker, once it moved.
async fn circuit_gauge(gateway: &TestGateway, provider: &str) -> Option<String> {
    let text = gateway.get("/metrics").await.text();
    let name = format!("pointsman_circuit_open{{model=\"acme/small\",provider=\"{provider}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).map(str::to_owned)
}

#[actix_web::test]
async fn a_failing_provider_is_shut_out_and_comes_back_through_a_probe_without_restart() {
    let probe = Gate::new();
    let ill = Upstream::start([Script::new()
        .request()
        .send(refusal(500))
        .request()
        .send(refusal(500))
        .request()
        .send(refusal(500))
        .request()
        .wait(&probe)
        .send(http(200, &completion("Back again.")))
        .repeat(Script::new().request().send(http(200, &completion("Well."))))]);
    let well = saying("Well.");
    let config = [
        "[routing.breaker]\nconsecutive = 3\nbase = \"3s\"\n".to_owned(),
        provider("ill", &ill.url("")),
        provider("well", &well.url("")),
        model("acme/small", "", &[("ill", "0.000001", "0.000001"), ("well", "0.000001", "0.000001")]),
    ];
    let gateway = TestGateway::start(&config.concat()).await;
    let body = and(ask("acme/small"), json!({"provider": {"order": ["ill", "well"]}}));

    for round in 1..=3 {
        assert_eq!(gateway.chat(&body).await.expect(200)["provider"], "well", "round {round}");
        assert_eq!(ill.log().requests.len(), round, "asked first, and failed");
    }
    let shut = health(&gateway, "ill").await;
    assert_eq!((&shut["circuit"], &shut["state"]), (&"open".into(), &"down".into()), "{shut}");
    assert!(shut["open_until"].is_string() && shut["consecutive_failures"] == 3, "{shut}");
    assert_eq!((&shut["errors"]["server"], &shut["successes"]), (&3.into(), &0.into()), "{shut}");
    assert_eq!(shut["last_error"]["status"], 500, "{shut}");
    assert_eq!(excluded(&gateway, &body, "ill").await.as_deref(), Some("circuit_open"));
    assert_eq!(circuit_gauge(&gateway, "ill").await.as_deref(), Some("1"));
    assert_eq!(gateway.chat(&body).await.expect(200)["provider"], "well");
    assert_eq!(ill.log().requests.len(), 3, "an open circuit lets nothing pass");
    assert_eq!(health(&gateway, "well").await["circuit"], "closed");

    // When its time is up the next request is the probe; everybody else goes on elsewhere.
    let mut probing = loop {
        let mut asked = Box::pin(gateway.chat(&body));
        let arrived = ill.eventually(PATIENCE, |log| log.requests.len() == 4);
        tokio::select! {
            biased;
            reply = &mut asked => assert_eq!(reply.expect(200)["provider"], "well"),
            arrived = arrived => {
                assert!(arrived, "neither probed nor answered");
                break asked;
            }
        }
    };
    let half = tokio::select! {
        half = health_until(&gateway, "ill", |shown| shown["circuit"] == "half_open") => half,
        _ = &mut probing => panic!("the probe was answered before its upstream was"),
    };
    assert_eq!(half["in_flight"], 1, "{half}");
    let reason = tokio::select! {
        reason = excluded(&gateway, &body, "ill") => reason,
        _ = &mut probing => panic!("the probe was answered before its upstream was"),
    };
    assert_eq!(reason.as_deref(), Some("probe_in_flight"));
    probe.open();
    assert_eq!(probing.await.expect(200)["provider"], "ill");
    let back = health_until(&gateway, "ill", |shown| shown["circuit"] == "closed").await;
    assert_eq!((&back["open_until"], &back["consecutive_failures"]), (&Value::Null, &0.into()), "{back}");
    assert_eq!(circuit_gauge(&gateway, "ill").await.as_deref(), Some("0"), "the probe's success closed it");
    assert_eq!(excluded(&gateway, &body, "ill").await, None);
    assert_eq!(gateway.chat(&body).await.expect(200)["provider"], "ill");
}

#[actix_web::test]
async fn mistakes_of_the_client_do_not_change_a_providers_success_rate() {
    let mistake = |status, code: &str| {
        http(status, &json!({"error": {"message": "This is wrong.", "type": "invalid_request_error", "code": code}}))
    };
    let upstream = Upstream::start([Script::new()
        .request()
        .send(http(200, &completion("Right.")))
        .request()
        .send(mistake(400, "bad"))
        .request()
        .send(mistake(413, "large"))
        .request()
        .send(mistake(422, "odd"))
        .request()
        .send(mistake(400, "context_length_exceeded"))
        .request()
        .send(mistake(418, "teapot"))]);
    let gateway =
        TestGateway::start(&format!("{}{}", provider("acme", &upstream.url("")), simple_model("acme/small", "acme")))
            .await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    let before = health(&gateway, "acme").await;
    assert_eq!((&before["success_rate"], &before["requests"]), (&1.into(), &1.into()), "{before}");

    for wrong in [json!({"messages": []}), json!({"temperature": 9}), json!({"model": "acme/nope"}), json!({"n": 0})] {
        let status = gateway.chat(&and(ask("acme/small"), &wrong)).await.status;
        assert!([400, 404].contains(&status), "{wrong}: {status}");
    }
    for status in [400, 413, 422, 400, 400] {
        gateway.chat(&ask("acme/small")).await.expect(status);
    }
    assert_eq!(upstream.log().requests.len(), 6);
    let after = health(&gateway, "acme").await;
    for name in ["success_rate", "state", "circuit", "successes", "errors", "consecutive_failures", "last_error"] {
        assert_eq!(after[name], before[name], "{name}: {after}");
    }
    assert_eq!(excluded(&gateway, &ask("acme/small"), "acme").await, None);
}

#[actix_web::test]
async fn a_provider_that_refuses_our_key_shows_a_config_fault_and_the_client_a_502() {
    let wrong = json!({"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}});
    let upstream = Upstream::start([Script::answering(http(401, &wrong))]);
    let gateway =
        TestGateway::start(&format!("{}{}", provider("acme", &upstream.url("")), simple_model("acme/small", "acme")))
            .await;
    gateway.chat(&ask("acme/small")).await.expect(502);
    let shown = health(&gateway, "acme").await;
    assert_eq!((&shown["state"], &shown["errors"]["auth"]), (&"down".into(), &1.into()), "{shown}");
    assert!(shown["reason"].as_str().unwrap().contains("key"), "{shown}");
    assert_eq!(excluded(&gateway, &ask("acme/small"), "acme").await.as_deref(), Some("config_fault"));
}

#[actix_web::test]
async fn a_provider_that_limits_us_is_left_alone_for_the_time_it_says() {
    let limited = "HTTP/1.1 429 No\r\nretry-after: 30\r\ncontent-length: 2\r\n\r\n{}";
    let upstream = Upstream::start([Script::answering(limited)]);
    let gateway =
        TestGateway::start(&format!("{}{}", provider("acme", &upstream.url("")), simple_model("acme/small", "acme")))
            .await;
    for calls in [1, 1] {
        let refused = gateway.chat(&ask("acme/small")).await;
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((28..=30).contains(&wait), "{wait}");
        assert_eq!(refused.expect(429)["error"]["metadata"]["reason"], "provider");
        assert_eq!(upstream.log().requests.len(), calls, "the second is refused without asking");
    }
    assert_eq!(excluded(&gateway, &ask("acme/small"), "acme").await.as_deref(), Some("rate_limited"));
    let shown = health(&gateway, "acme").await;
    assert!(shown["cooldown_until"].is_string() && shown["circuit"] == "closed", "{shown}");
}

#[actix_web::test]
async fn the_health_pages_have_their_fields_and_an_off_provider_says_why() {
    let config = [
        provider("acme", "http://127.0.0.1:9"),
        "[providers.keyless]\nbase_url = \"https://h/v1\"\napi_key_env = \"KEYLESS_API_KEY\"\n".to_owned(),
        model("acme/small", "", &[("acme", "0", "0"), ("keyless", "0", "0")]),
    ];
    let gateway = TestGateway::start(&config.concat()).await;
    assert_eq!(gateway.get("/health/live").await.expect(200), json!({"status": "ok"}));
    let ready = gateway.get("/readyz").await.expect(200);
    assert_eq!(ready["status"], "ready");
    assert_eq!(ready["checks"]["providers"], json!({"ok": true, "available": 1, "configured": 2}));
    assert_eq!(ready["checks"]["catalog"], json!({"ok": true, "models": 1}));
    let status = gateway.get("/health").await.expect(200);
    assert!(
        status["build"]["revision"].is_string()
            && status["version"].is_string()
            && status["uptime_secs"].is_u64()
            && status["started_at"].is_string(),
        "{status}"
    );

    let all = gateway.get("/api/v1/health/providers").await.expect(200);
    for one in all["data"].as_array().unwrap() {
        for name in [
            "slug",
            "name",
            "state",
            "circuit",
            "open_until",
            "cooldown_until",
            "silent",
            "in_flight",
            "window_secs",
            "requests",
            "successes",
            "errors",
            "success_rate",
            "latency_ms",
            "ttft_ms",
            "throughput_tps",
            "last_error",
            "consecutive_failures",
        ] {
            assert!(one.get(name).is_some(), "{name} is missing: {one}");
        }
        for name in ["p50", "p90", "p99", "ewma"] {
            assert!(one["latency_ms"].get(name).is_some(), "latency_ms.{name} is missing: {one}");
        }
    }
    let off = health(&gateway, "keyless").await;
    assert_eq!(off["state"], "off");
    assert!(off["reason"].as_str().unwrap().contains("KEYLESS_API_KEY"), "{off}");
    assert_eq!(gateway.get("/api/v1/health/providers/nobody").await.status, 404);

    let stats = gateway.get("/api/v1/models/stats?model=acme/small").await.expect(200);
    assert_eq!(stats["data"].as_array().unwrap().len(), 1, "only what can be called: {stats}");
    for objective in ["cheapest", "fastest", "reliable", "balanced"] {
        assert!(stats["data"][0]["score"][objective].is_number(), "{stats}");
    }
    assert_eq!(gateway.get("/api/v1/models/stats?model=acme/nope").await.status, 404);
}

#[actix_web::test]
async fn metrics_are_prometheus_text_and_can_be_switched_off() {
    let upstream = saying("This way.");
    let config = format!("{}{}", provider("acme", &upstream.url("")), simple_model("acme/small", "acme"));
    let gateway = TestGateway::start(&config).await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    gateway.get("/no/such/path/of-mine").await.expect(404);
    let metrics = gateway.get("/metrics").await;
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = metrics.text();
    for line in [
        "pointsman_upstream_attempts_total{model=\"acme/small\",outcome=\"ok\",provider=\"acme\"} 1",
        "pointsman_requests_total{route=\"/api/v1/chat/completions\",status=\"200\"} 1",
        "pointsman_tokens_total{kind=\"prompt\",model=\"acme/small\",provider=\"acme\"} 12",
        "pointsman_tokens_total{kind=\"completion\",model=\"acme/small\",provider=\"acme\"} 5",
        "pointsman_cost_usd_total{model=\"acme/small\",provider=\"acme\"} 0.000017",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing:\n{text}");
    }
    for name in [
        "pointsman_ttft_seconds_bucket",
        "pointsman_overhead_seconds_count 1",
        "pointsman_in_flight_requests",
        "pointsman_mailbox_depth{actor=\"ledger\"}",
    ] {
        assert!(text.contains(name), "{name}");
    }
    assert!(!text.contains("of-mine"), "a path of a stranger became a label");

    let off = TestGateway::start_with(&config, &[("POINTSMAN__METRICS__ENABLED", "false")]).await;
    let reply = off.call(Method::GET, "/metrics", &[], None).await;
    assert_eq!(reply.status, 404, "{}", reply.text());
}
