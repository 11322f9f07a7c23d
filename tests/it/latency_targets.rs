//! Latency targets: who serves under one, what counts as kept, and where it can be read.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    patience::eventually,
    scripted::{Script, Upstream},
    world::{Model, World, always, and, ask, completion, http, saying, stream_of},
};

const ALIAS: &str = "[[aliases]]\nname = \"quick\"\nobjective = \"cheapest\"\npreferred_max_latency = { p95 = 0.4 }\n";

/// A cheap model whose first token takes a second, and a dear one that answers at once; both were measured.
async fn cheap_slow_and_dear_quick() -> (TestGateway, [Upstream; 2]) {
    let answer = stream_of(&["on", "wards"]);
    let slow = Script::new().request().pause(Duration::from_millis(1000)).send(answer.clone());
    let upstreams = [Upstream::start([Script::new().repeat(slow)]), Upstream::start([Script::answering(answer)])];
    let world = World::new().provider("slow", upstreams[0].address()).provider("quick", upstreams[1].address());
    let shared = Model::new("acme/shared").at("slow", "0.000001", "0.000001").at("quick", "0.000009", "0.000009");
    let gateway = world.model(&shared).with(ALIAS).start().await;
    for _ in 0..6 {
        for only in ["slow", "quick"] {
            stream(&gateway, "acme/shared", json!({"provider": {"only": [only]}})).await;
        }
    }
    let request = and(ask("service/quick"), json!({"stream": true}));
    let preview = async || gateway.post("/api/v1/route/preview", &request).await.expect(200);
    let is_quick = |preview: &Value| preview["candidates"][0]["provider_slug"] == "quick";
    eventually("both are measured", preview, is_quick).await;
    (gateway, upstreams)
}

/// The provider that streamed the answer.
async fn stream(gateway: &TestGateway, model: &str, more: Value) -> String {
    let reply = gateway.chat(&and(and(ask(model), json!({"stream": true})), more)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.header("x-route-provider").unwrap().to_lowercase()
}

/// The rows of the page.
async fn targets(gateway: &TestGateway) -> Vec<Value> {
    let body = gateway.get("/api/v1/health/slo").await.expect(200);
    assert_eq!(body["object"], "health.slo");
    body["data"].as_array().unwrap().clone()
}

/// Requests, met and missed in the last five minutes, of the only row of this source.
async fn counted(gateway: &TestGateway, source: &str) -> (u64, u64, u64) {
    let rows: Vec<Value> = targets(gateway).await.into_iter().filter(|row| row["source"] == source).collect();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let window = &row["windows"][0];
    let number = |name: &str| window[name].as_u64().unwrap();
    (number("requests"), number("met"), number("missed"))
}

#[actix_web::test]
async fn under_a_target_the_cheapest_that_keeps_it_serves() {
    let (gateway, _upstreams) = cheap_slow_and_dear_quick().await;
    assert_eq!(stream(&gateway, "service/auto", json!({"objective": "cheapest"})).await, "slow");
    assert_eq!(stream(&gateway, "service/quick", json!({})).await, "quick");
    assert_eq!(stream(&gateway, "service/quick", json!({"preferred_max_latency": 5})).await, "slow");
    for at in [json!({"preferred_max_latency": {"p95": 0.4}}), json!({"provider": {"preferred_max_latency": 0.25}})] {
        let wanted = and(json!({"objective": "cheapest"}), at);
        assert_eq!(stream(&gateway, "service/auto", wanted).await, "quick");
    }
    let id = {
        let request = and(ask("service/quick"), json!({"stream": true}));
        gateway.chat(&request).await.header("x-generation-id").unwrap().to_owned()
    };
    let told = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
    let target = &told["parameters"]["preferred_max_latency"];
    assert_eq!((&target["value"], &target["source"]), (&json!({"p95": 0.4}), &json!("alias")));
    assert!(target["margin"].is_number(), "{target}");
}

#[actix_web::test]
async fn what_was_kept_and_missed_is_read_at_health_slo() {
    let (gateway, _upstreams) = cheap_slow_and_dear_quick().await;
    let before = targets(&gateway).await;
    assert_eq!(before.len(), 1, "a configured target is listed before the first request: {before:?}");
    assert_eq!(before[0]["windows"][0]["attainment"], Value::Null);
    for _ in 0..3 {
        stream(&gateway, "service/quick", json!({})).await;
    }
    let hopeless = json!({"preferred_max_latency": 0.25, "provider": {"only": ["slow"]}, "objective": "cheapest"});
    for _ in 0..2 {
        stream(&gateway, "acme/shared", hopeless.clone()).await;
    }
    let rows = targets(&gateway).await;
    let seen: Vec<Vec<&Value>> = rows
        .iter()
        .map(|row| ["target", "objective", "source", "percentile", "max_ttft_ms"].map(|name| &row[name]).to_vec())
        .collect();
    assert_eq!(
        seen,
        [
            vec![&json!("service/quick"), &json!("cheapest"), &json!("alias"), &json!("p95"), &json!(400)],
            vec![&json!("acme/shared"), &json!("cheapest"), &json!("request"), &json!("p50"), &json!(250)],
        ]
    );
    assert_eq!(counted(&gateway, "alias").await, (3, 3, 0));
    assert_eq!(
        rows[1]["windows"][0],
        json!({"window_secs": 300, "requests": 2, "met": 0, "missed": 2, "attainment": 0,
        "allowed_misses": 1, "error_budget_left": -1, "burn_rate": 2})
    );
    let lengths: Vec<&Value> = rows[0]["windows"].as_array().unwrap().iter().map(|w| &w["window_secs"]).collect();
    assert_eq!(lengths, [300, 3600, 86_400]);
    assert!(rows[0]["margin"].as_f64().unwrap() < 1.0, "{}", rows[0]);
    assert!(rows[1]["margin"].as_f64().unwrap() > 1.0, "{}", rows[1]);
}

#[actix_web::test]
async fn targets_are_metrics_with_bounded_labels() {
    let (gateway, _upstreams) = cheap_slow_and_dear_quick().await;
    stream(&gateway, "service/quick", json!({})).await;
    for bound in 1..=100 {
        let wanted = json!({"preferred_max_latency": 10 + bound, "provider": {"only": ["quick"]}});
        stream(&gateway, "service/quick", wanted).await;
    }
    let text = gateway.get("/metrics").await.text();
    let labels = "bound_seconds=\"0.4\",objective=\"cheapest\",percentile=\"p95\",target=\"service/quick\"";
    for line in [
        format!("pointsman_slo_margin{{{labels}}} 0."),
        format!("pointsman_slo_requests{{{labels},window_seconds=\"300\"}} 1"),
        format!("pointsman_slo_attainment_ratio{{{labels},window_seconds=\"86400\"}} 1"),
        format!("pointsman_slo_error_budget_left_ratio{{{labels},window_seconds=\"3600\"}} 1"),
        format!("pointsman_slo_burn_rate{{{labels},window_seconds=\"300\"}} 0"),
    ] {
        assert!(text.lines().any(|found| found.starts_with(&line)), "{line}\n{text}");
    }
    let rows = text.lines().filter(|line| line.starts_with("pointsman_slo_margin{")).count();
    assert_eq!(rows, 65, "the alias's own and the newest 64 that requests brought along");
}

#[actix_web::test]
async fn plain_answers_are_not_counted_and_neither_is_a_clients_mistake() {
    let mistake = http(400, &json!({"error": {"message": "no such thing"}}));
    let script = Script::new().request().send(mistake).request().send(http(200, &completion("x")));
    let upstream = Upstream::start([script]);
    let world = World::new().provider("acme", upstream.address()).with(ALIAS);
    let gateway = world.model(&Model::new("acme/small").at("acme", "0.000001", "0.000001")).start().await;
    let wanted = and(ask("service/quick"), json!({"stream": true}));
    assert_eq!(gateway.chat(&wanted).await.status, 400);
    assert_eq!(gateway.chat(&ask("service/quick")).await.status, 200);
    assert_eq!(counted(&gateway, "alias").await, (0, 0, 0));
}

#[actix_web::test]
async fn failures_are_misses_asked_or_refused_for_lack_of_capacity() {
    let upstream = always(429, &json!({"error": {"message": "slow down"}}));
    let world = World::new().provider("acme", upstream.address()).with(ALIAS);
    let gateway = world.model(&Model::new("acme/small").at("acme", "0.000001", "0.000001")).start().await;
    let wanted = and(ask("service/quick"), json!({"stream": true}));
    for missed in 1..=3 {
        assert_eq!(gateway.chat(&wanted).await.status, 429);
        assert_eq!(counted(&gateway, "alias").await, (missed, 0, missed));
    }
    assert_eq!(upstream.requests().len(), 1, "the others were refused before anybody was asked");
    assert_eq!(targets(&gateway).await[0]["margin"], 1, "being stricter would not help");
    let nobody = and(wanted, json!({"provider": {"only": ["nobody"]}}));
    assert_eq!(gateway.chat(&nobody).await.status, 404);
    assert_eq!(counted(&gateway, "alias").await.0, 3, "nothing could have served that");
}

#[actix_web::test]
async fn a_preview_counts_nothing() {
    let upstream = saying("x");
    let world = World::new().provider("acme", upstream.address());
    let gateway = world.model(&Model::new("acme/small").at("acme", "0.000001", "0.000001")).start().await;
    let request = and(ask("acme/small"), json!({"stream": true, "preferred_max_latency": 1}));
    gateway.post("/api/v1/route/preview", &request).await.expect(200);
    assert!(targets(&gateway).await.is_empty());
}
