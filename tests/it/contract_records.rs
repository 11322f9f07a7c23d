//! What is told of a generation afterwards, and to whom.

use std::time::Duration;

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    contract_route::{Field, explain, upstream},
    harness::{KEY, Reply, TestGateway},
    keyless::{model, provider, simple_model},
    scripted::{Gate, Script, Upstream},
    world::{and, ask, held_stream, refusal, stream_of},
};

const OTHER_KEY: &str = "sk-other-9876543210fedcba";
const ADMIN_KEY: &str = "sk-admin-5a5a1b1b2c2c3d3d";

/// The keys a generation's record must have.
pub const RECORD: [&str; 42] = [
    "id",
    "model",
    "created_at",
    "origin",
    "data_region",
    "total_cost",
    "usage",
    "is_byok",
    "upstream_id",
    "provider_name",
    "finish_reason",
    "native_finish_reason",
    "router",
    "external_user",
    "api_type",
    "http_referer",
    "user_agent",
    "service_tier",
    "preset_id",
    "web_search_engine",
    "workspace_id",
    "streamed",
    "cancelled",
    "cache_discount",
    "upstream_inference_cost",
    "latency",
    "generation_time",
    "moderation_latency",
    "tokens_prompt",
    "tokens_completion",
    "native_tokens_prompt",
    "native_tokens_completion",
    "native_tokens_completion_images",
    "native_tokens_reasoning",
    "native_tokens_cached",
    "num_media_prompt",
    "num_input_audio_prompt",
    "num_media_completion",
    "num_search_results",
    "num_fetches",
    "app_id",
    "provider_responses",
];

#[actix_web::test]
async fn explain_by_query_and_by_body_is_the_same_object_with_the_eight_fields() {
    let field = Field::new();
    let gateway = TestGateway::start(&field.config("")).await;
    for (body, router) in [(ask("service/auto"), json!("service/auto")), (ask("acme/shared"), Value::Null)] {
        let answer = gateway.chat(&body).await.expect(200);
        let id = answer["id"].as_str().unwrap();
        let explained = explain(&gateway, id).await;
        for path in [format!("?id={id}"), format!("?generation_id={id}&id=ignored")] {
            assert_eq!(gateway.get(&format!("/api/v1/route/explain{path}")).await.expect(200), explained);
        }
        for body in [json!({"generation_id": id}), json!({"id": id}), json!({"generation_id": id, "more": [1]})] {
            assert_eq!(gateway.post("/api/v1/route/explain", &body).await.expect(200), explained, "{body}");
        }
        let by_query = gateway.post(&format!("/api/v1/route/explain?generation_id={id}"), &json!({})).await;
        assert_eq!(by_query.expect(200), explained);
        let empty = gateway.call(Method::POST, &format!("/api/v1/route/explain?id={id}"), &[], Some(Vec::new())).await;
        assert_eq!(empty.expect(200), explained);

        assert_eq!(explained["generation_id"], id);
        assert_eq!((&explained["model"], &explained["provider_name"]), (&answer["model"], &answer["provider"]));
        assert!(explained["latency_ms"].is_u64() && explained["generation_time_ms"].is_u64(), "{explained}");
        assert_eq!(explained["router"], router);
        assert_eq!(explained["total_cost"], answer["usage"]["cost"]);
        assert!(!explained["decision_reason"].as_str().unwrap().is_empty());
        assert_eq!((&explained["status"], &explained["finish_reason"]), (&"completed".into(), &"stop".into()));
    }
}

/// The same number everywhere, to the last digit.
#[actix_web::test]
async fn the_cost_has_the_same_digits_in_the_answer_the_explanation_and_the_record() {
    let upstream = upstream(0);
    let odd = model("acme/odd", "", &[("acme", "0.000000123456789", "0.000000000000001")]);
    let gateway = TestGateway::start(&format!("{}{odd}", provider("acme", &upstream.url("")))).await;
    let answer = gateway.chat(&ask("acme/odd")).await;
    assert!(answer.text().contains(r#""cost":0.000001481481473"#), "{}", answer.text());
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.text();
    assert!(explained.contains(r#""total_cost":0.000001481481473,"#), "{explained}");
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.text();
    assert!(record.contains(r#""total_cost":0.000001481481473,"usage":0.000001481481473,"#), "{record}");
}

#[actix_web::test]
async fn explain_and_generation_succeed_at_once_a_thousand_times_in_a_row() {
    let plain = upstream(0);
    let streaming = Upstream::start([Script::answering(stream_of(&["This way."]))]);
    let config = [
        provider("plain", &plain.url("")),
        provider("streaming", &streaming.url("")),
        simple_model("acme/plain", "plain"),
        simple_model("acme/streamed", "streaming"),
    ];
    let gateway = TestGateway::start(&config.concat()).await;
    let client = awc::Client::builder().timeout(Duration::from_secs(20)).finish();
    let key = ("authorization", format!("Bearer {KEY}"));
    for round in 0..1000 {
        let body = match round % 4 {
            3 => and(ask("acme/streamed"), json!({"stream": true})),
            _ => ask("acme/plain"),
        };
        let url = gateway.url("/api/v1/chat/completions");
        let mut answer = client.post(url).insert_header(key.clone()).send_json(&body).await.unwrap();
        let whole = answer.body().await.unwrap();
        let id = answer.headers().get("x-generation-id").unwrap_or_else(|| panic!("{round}: {whole:?}"));
        let id = id.to_str().unwrap();
        for (path, member) in [("route/explain?generation_id", "/status"), ("generation?id", "/data/route/status")] {
            let url = gateway.url(&format!("/api/v1/{path}={id}"));
            let mut reply = client.get(url).insert_header(key.clone()).send().await.unwrap();
            assert_eq!(reply.status(), 200, "round {round}, {path}");
            let shown: Value = reply.json().limit(1 << 20).await.unwrap();
            assert_eq!(shown.pointer(member), Some(&json!("completed")), "round {round}, {path}: {shown}");
        }
    }
}

/// The record is there from admission on, so also while a stream still runs.
#[actix_web::test]
async fn a_running_stream_can_be_looked_up_by_the_id_it_already_told() {
    let gate = Gate::new();
    let script = held_stream(&["This "], &gate);
    let upstream = Upstream::start([script]);
    let config = format!("{}{}", provider("acme", &upstream.url("")), simple_model("acme/small", "acme"));
    let gateway = TestGateway::start(&config).await;
    let body = and(ask("acme/small"), json!({"stream": true}));
    let request = awc::Client::default().post(gateway.url("/api/v1/chat/completions"));
    let mut answer = request.insert_header(("authorization", format!("Bearer {KEY}"))).send_json(&body).await.unwrap();
    let id = answer.headers().get("x-generation-id").unwrap().to_str().unwrap().to_owned();

    let running = explain(&gateway, &id).await;
    assert_eq!((&running["status"], &running["generation_time_ms"]), (&"running".into(), &Value::Null), "{running}");
    assert_eq!((&running["generation_id"], &running["model"]), (&id.as_str().into(), &"acme/small".into()));
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    let missing: Vec<&str> = RECORD.into_iter().filter(|name| record["data"].get(name).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?} of {record}");

    gate.open();
    let whole = answer.body().await.unwrap();
    assert!(whole.ends_with(b"data: [DONE]\n\n"));
    let ended = explain(&gateway, &id).await;
    assert_eq!((&ended["status"], &ended["finish_reason"]), (&"completed".into(), &"stop".into()));
    // Both count from the dispatch; the latency counts from the acceptance, which may have been long before.
    let first_token = ended["attempts"][0]["first_token_ms"].as_u64();
    assert!(first_token.is_some() && ended["generation_time_ms"].as_u64() >= first_token, "{ended}");
}

/// A gateway with two ordinary keys and one of an administrator.
async fn three_keys(field: &Field, more: &str) -> TestGateway {
    let keys = "[[keys]]\nname = \"other\"\nenv = \"OTHER\"\n\
                [[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]\n";
    let config = format!("{}{keys}{more}", field.config(""));
    TestGateway::start_with(&config, &[("OTHER", OTHER_KEY), ("ADMIN", ADMIN_KEY)]).await
}

async fn look_up(gateway: &TestGateway, key: &str, path: &str) -> Reply {
    let bearer = format!("Bearer {key}");
    gateway.call(Method::GET, path, &[("authorization", &bearer), ("x-request-id", "same-for-all")], None).await
}

#[actix_web::test]
async fn an_unknown_a_malformed_and_another_keys_id_cannot_be_told_apart() {
    let field = Field::new();
    let gateway = three_keys(&field, "").await;
    let answer = gateway.chat(&ask("acme/shared")).await.expect(200);
    let mine = answer["id"].as_str().unwrap();
    for path in ["/api/v1/route/explain?generation_id=", "/api/v1/generation?id="] {
        assert_eq!(look_up(&gateway, KEY, &format!("{path}{mine}")).await.status, 200);
        assert_eq!(look_up(&gateway, ADMIN_KEY, &format!("{path}{mine}")).await.status, 200);
        let another = look_up(&gateway, OTHER_KEY, &format!("{path}{mine}")).await;
        assert_eq!(another.expect(404)["error"]["metadata"]["reason"], "generation_not_found");
        let unknown: String = mine.chars().take(mine.len() - 1).chain(['-']).collect();
        for id in [unknown.as_str(), "gen-1763629500-AbCdEfGhIjKlMnOpQrStUv", "nonsense", "%00", "gen-"] {
            let reply = look_up(&gateway, OTHER_KEY, &format!("{path}{id}")).await;
            assert_eq!((reply.status, reply.text()), (404, another.text()), "{id}");
            assert_eq!(reply.headers.len(), another.headers.len());
        }
    }
    let body = json!({"generation_id": mine}).to_string().into_bytes();
    let bearer = format!("Bearer {OTHER_KEY}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    assert_eq!(gateway.call(Method::POST, "/api/v1/route/explain", &headers, Some(body)).await.status, 404);
}

#[actix_web::test]
async fn a_missing_id_is_a_400_that_names_it() {
    let field = Field::new();
    let gateway = TestGateway::start(&field.config("")).await;
    for path in
        ["/api/v1/route/explain", "/api/v1/route/explain?generation_id=", "/api/v1/generation?id=", "/api/generation"]
    {
        let refused = gateway.get(path).await.expect(400);
        assert_eq!(refused["error"]["param"], "generation_id", "{path}");
        assert_eq!(refused["error"]["metadata"]["reason"], "missing_field", "{path}");
    }
    for (body, param) in [(json!({}), "generation_id"), (json!({"generation_id": 5}), "generation_id")] {
        let refused = gateway.post("/api/v1/route/explain", &body).await.expect(400);
        assert_eq!(refused["error"]["param"], param, "{body}");
    }
    let broken = gateway.call(Method::POST, "/api/v1/route/explain", &[], Some(b"{".to_vec())).await.expect(400);
    assert_eq!(broken["error"]["metadata"]["reason"], "invalid_json");
}

#[actix_web::test]
async fn a_record_that_made_room_is_as_unknown_as_one_that_never_was() {
    let field = Field::new();
    let gateway = three_keys(&field, "[ledger]\ncapacity = 100\n").await;
    let oldest = gateway.chat(&ask("quick/own")).await.expect(200);
    let path = format!("/api/v1/generation?id={}", oldest["id"].as_str().unwrap());
    let there = look_up(&gateway, KEY, &path).await;
    assert_eq!(there.status, 200);
    for _ in 0..100 {
        gateway.chat(&ask("quick/own")).await.expect(200);
    }
    let gone = look_up(&gateway, KEY, &path).await;
    let never = look_up(&gateway, KEY, "/api/v1/generation?id=gen-1763629500-AbCdEfGhIjKlMnOpQrStUv").await;
    assert_eq!((gone.status, gone.text()), (404, never.text()));
}

#[actix_web::test]
async fn after_a_failover_explain_lists_the_failed_attempt_and_names_the_fallback() {
    let broken = Upstream::start([Script::answering(refusal(500))]);
    let good = upstream(0);
    let config = [
        provider("broken", &broken.url("")),
        provider("good", &good.url("")),
        model("acme/both", "", &[("broken", "0", "0"), ("good", "0.001", "0.001")]),
        simple_model("acme/lost", "broken"),
        simple_model("acme/kept", "good"),
    ];
    let gateway = TestGateway::start(&config.concat()).await;
    let order = json!({"provider": {"order": ["broken", "good"]}});
    for (body, code, failed) in [
        (and(ask("acme/both"), &order), "provider_fallback", "acme/both"),
        (and(ask("acme/lost"), json!({"models": ["acme/lost", "acme/kept"]})), "model_fallback", "acme/lost"),
    ] {
        let reply = gateway.chat(&body).await;
        assert_eq!(reply.header("x-route-attempts"), Some("2"), "{body}");
        assert_eq!(reply.header("x-route-reason"), Some(code), "{body}");
        let answer = reply.expect(200);
        let explained = explain(&gateway, answer["id"].as_str().unwrap()).await;
        assert_eq!(explained["decision_code"], code, "{explained}");
        assert_eq!(explained["provider_name"], "good");
        let attempts = explained["attempts"].as_array().unwrap();
        assert_eq!(attempts.len(), 2, "{explained}");
        assert_eq!((&attempts[0]["n"], &attempts[0]["status"]), (&1.into(), &500.into()));
        assert_eq!((&attempts[0]["model"], &attempts[0]["provider_name"]), (&failed.into(), &"broken".into()));
        assert!(attempts[0]["error_type"].is_string() && attempts[1]["error_type"].is_null(), "{explained}");
        assert_eq!((&attempts[1]["n"], &attempts[1]["status"]), (&2.into(), &200.into()));
        let record =
            gateway.get(&format!("/api/v1/generation?id={}", answer["id"].as_str().unwrap())).await.expect(200);
        assert_eq!(record["data"]["provider_responses"].as_array().unwrap().len(), 2);
    }
}

#[actix_web::test]
async fn a_request_that_failed_everywhere_is_explained_too() {
    let broken = Upstream::start([Script::answering(refusal(500))]);
    let config = format!("{}{}", provider("broken", &broken.url("")), simple_model("acme/lost", "broken"));
    let gateway = TestGateway::start(&config).await;
    let reply = gateway.chat(&ask("acme/lost")).await;
    let id = reply.header("x-generation-id").unwrap().to_owned();
    assert_eq!(reply.expect(502)["error"]["metadata"]["generation_id"], id);
    let explained = explain(&gateway, &id).await;
    assert_eq!(
        (&explained["status"], &explained["model"], &explained["total_cost"]),
        (&"failed".into(), &Value::Null, &0.into())
    );
    assert_eq!(explained["attempts"][0]["status"], 500);
    assert!(!explained["decision_reason"].as_str().unwrap().is_empty());
}

#[actix_web::test]
async fn a_generation_record_has_all_42_keys() {
    let field = Field::new();
    let gateway = TestGateway::start(&field.config("")).await;
    let body = and(
        ask("service/auto"),
        json!({"user": "u-1", "session_id": "s-1", "metadata": {"ticket": "42", "nested": {"a": [1]}}}),
    );
    let answer = gateway.chat(&body).await.expect(200);
    let record = gateway.get(&format!("/api/v1/generation?id={}", answer["id"].as_str().unwrap())).await.expect(200);
    let data = record["data"].as_object().unwrap();
    let missing: Vec<&str> = RECORD.into_iter().filter(|name| !data.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {record}");
    let data = &record["data"];
    assert_eq!((&data["id"], &data["model"]), (&answer["id"], &answer["model"]));
    assert_eq!((&data["total_cost"], &data["usage"]), (&answer["usage"]["cost"], &answer["usage"]["cost"]));
    assert_eq!((&data["tokens_prompt"], &data["tokens_completion"]), (&12.into(), &5.into()));
    assert_eq!((&data["external_user"], &data["session_id"]), (&"u-1".into(), &"s-1".into()));
    assert_eq!((&data["upstream_id"], &data["api_type"]), (&"chatcmpl-private".into(), &"completions".into()));
    assert_eq!(
        (&data["streamed"], &data["cancelled"], &data["is_byok"]),
        (&false.into(), &false.into(), &false.into())
    );
    assert_eq!(data["metadata"], json!({"ticket": "42", "nested": "{\"a\":[1]}"}));
    assert!(data["created_at"].as_str().unwrap().ends_with('Z') && data["latency"].is_u64(), "{data}");
    assert_eq!(data["route"]["generation_id"], answer["id"]);
    let response = &data["provider_responses"][0];
    assert_eq!((&response["status"], &response["is_byok"]), (&200.into(), &false.into()));
}
