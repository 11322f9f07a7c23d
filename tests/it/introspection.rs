//! What a gateway says about itself, its providers, a key and a generation, and the shapes of its pages.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    contract_records::RECORD,
    harness::{KEY, TestGateway},
};

/// One completion at the simulated model that costs something.
async fn complete(gateway: &TestGateway) -> Value {
    let body = json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Which way?"}]});
    gateway.chat(&body).await.expect(200)
}

fn all_keys(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(object.get(key).is_some(), "{key} in {object}");
    }
}

#[actix_web::test]
async fn explain_by_query_and_by_body_gives_the_same_object_with_the_eight_fields() {
    let gateway = TestGateway::simulated().await;
    let answer = complete(&gateway).await;
    let id = answer["id"].as_str().unwrap();
    let by_query = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
    let by_body = gateway.post("/api/v1/route/explain", &json!({"generation_id": id})).await.expect(200);
    assert_eq!(by_query, by_body);
    all_keys(
        &by_query,
        &[
            "generation_id",
            "model",
            "provider_name",
            "latency_ms",
            "generation_time_ms",
            "router",
            "total_cost",
            "decision_reason",
        ],
    );
    assert_eq!(by_query["total_cost"], answer["usage"]["cost"]);
    assert!(by_query["total_cost"].as_f64().unwrap() > 0.0);
    let parts = by_query["cost_breakdown"].as_object().unwrap();
    let sum: f64 = parts.values().map(|part| part.as_f64().unwrap()).sum();
    assert!((sum - by_query["total_cost"].as_f64().unwrap()).abs() < 1e-12, "{parts:?}");
}

#[actix_web::test]
async fn a_record_has_all_42_keys() {
    let gateway = TestGateway::simulated().await;
    let answer = complete(&gateway).await;
    let id = answer["id"].as_str().unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take();
    all_keys(&record, &RECORD);
    assert_eq!((&record["total_cost"], &record["usage"]), (&answer["usage"]["cost"], &answer["usage"]["cost"]));
    assert_eq!(record["tokens_prompt"], answer["usage"]["prompt_tokens"]);
    assert_eq!(record["route"]["generation_id"], record["id"]);
}

#[actix_web::test]
async fn a_key_shows_what_it_spent_as_soon_as_it_did() {
    let gateway = TestGateway::simulated().await;
    let before = gateway.get("/api/v1/key").await.expect(200)["data"].take();
    assert_eq!((&before["usage"], &before["label"]), (&json!(0), &json!("test")));
    let cost = complete(&gateway).await["usage"]["cost"].take();
    let after = gateway.get("/api/v1/auth/key").await.expect(200)["data"].take();
    for period in ["usage", "usage_daily", "usage_weekly", "usage_monthly"] {
        assert_eq!(after[period], cost, "{period}");
    }
    let credits = gateway.get("/api/v1/credits").await.expect(200);
    assert_eq!(credits, json!({"data": {"total_credits": 0, "total_usage": cost}}));
}

#[actix_web::test]
async fn a_live_and_ready_gateway_says_so_to_anybody() {
    let gateway = TestGateway::simulated().await;
    let visit = async |path: &str| gateway.call(Method::GET, path, &[("authorization", "")], None).await;
    for path in ["/health/live", "/healthz", "/api/v1/health/live"] {
        assert_eq!(visit(path).await.expect(200), json!({"status": "ok"}), "{path}");
    }
    let ready = visit("/health/ready").await.expect(200);
    assert_eq!(ready["status"], "ready");
    for check in ["catalog", "providers", "router", "ledger"] {
        assert_eq!(ready["checks"][check]["ok"], true, "{check}");
    }
    assert!(ready["checks"]["providers"]["available"].as_u64() <= ready["checks"]["providers"]["configured"].as_u64());
    all_keys(&visit("/health").await.expect(200), &["status", "version", "build", "uptime_secs", "started_at"]);
}

#[actix_web::test]
async fn every_provider_shows_how_it_stands_to_holders_of_a_key() {
    let gateway = TestGateway::simulated().await;
    complete(&gateway).await;
    let listed = gateway.get("/api/v1/health/providers").await.expect(200)["data"].take();
    let requests: u64 = listed.as_array().unwrap().iter().map(|provider| provider["requests"].as_u64().unwrap()).sum();
    assert_eq!(requests, 1);
    let off = listed.as_array().unwrap().iter().find(|provider| provider["slug"] == "openai").unwrap();
    assert_eq!((&off["state"], &off["reason"]), (&json!("off"), &json!("OPENAI_API_KEY is not set")));
    let states = || listed.as_array().unwrap().iter().map(|provider| provider["state"] == "off");
    assert!(states().any(|off| off) && states().is_sorted(), "those that are on come first: {listed}");
    let one = gateway.get("/api/v1/health/providers/sim-swift").await.expect(200)["data"].take();
    assert_eq!((one.as_array().unwrap().len(), &one[0]["slug"]), (1, &json!("sim-swift")));
    assert_eq!(gateway.get("/api/v1/health/providers/nobody").await.status, 404);
    let visitor = [("authorization", "")];
    assert_eq!(gateway.call(Method::GET, "/api/v1/health/providers", &visitor, None).await.status, 401);
}

#[actix_web::test]
async fn every_model_at_every_provider_shows_its_figures_and_scores() {
    let gateway = TestGateway::simulated().await;
    complete(&gateway).await;
    let all = gateway.get("/api/v1/models/stats").await.expect(200)["data"].take();
    let small = gateway.get("/api/v1/models/stats?model=meadow/small").await.expect(200)["data"].take();
    assert!(all.as_array().unwrap().len() > small.as_array().unwrap().len());
    let requests: u64 = small.as_array().unwrap().iter().map(|it| it["requests"].as_u64().unwrap()).sum();
    assert_eq!(requests, 1);
    for endpoint in small.as_array().unwrap() {
        assert_eq!(endpoint["model"], "meadow/small");
        for objective in ["cheapest", "fastest", "reliable", "balanced"] {
            assert!(endpoint["score"][objective].is_number(), "{objective} in {endpoint}");
        }
    }
    assert_eq!(gateway.get("/api/v1/models/stats?model=no/pe").await.status, 404);
    assert_eq!(gateway.get("/api/v1/models/stats?model=a&model=no/pe").await.status, 404);
}

#[actix_web::test]
async fn answers_about_a_key_and_its_work_are_kept_by_nobody() {
    let gateway = TestGateway::simulated().await;
    let bearer = format!("Bearer {KEY}");
    for path in ["/api/v1/key", "/api/v1/credits", "/api/v1/health/providers", "/api/v1/models/stats", "/health/ready"]
    {
        let answer = gateway.call(Method::GET, path, &[("authorization", &bearer)], None).await;
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")), "{path}");
    }
}

#[actix_web::test]
async fn a_record_keeps_the_tags_and_the_trace_of_its_request_as_they_were_sent() {
    let gateway = TestGateway::simulated().await;
    let trace = json!({"trace_id": "t-1", "nested": [1, {"a": null}]});
    let answer = gateway
        .chat(&json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Which way?"}],
            "trace": trace, "metadata": {"team": "blue", "objective": "cheapest"}}))
        .await
        .expect(200);
    let record = gateway.get(&format!("/api/v1/generation?id={}", answer["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(record["data"]["trace"], trace);
    assert_eq!(record["data"]["metadata"], json!({"team": "blue"}));
}
