//! Activity: sums of requests, tokens and cost from the durable ledger.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    generation_lists::{Stage, admin, chat, get, one_of_each},
    harness::KEY,
    hostile::{CHUNKED, chunk, text},
    issued_keys,
    patience::{PATIENCE, eventually},
    raw_client::RawClient,
    scripted::{Script, Upstream},
    world::{Model, World, and, answer, ask, error_of, http, saying},
};

const OTHER: &str = "sk-other-0a1b2c3d4e5f6a7b";
const CALLER: &str = "sk-caller-0a1b2c3d4e5f6a7";

/// The rows of this model added up. Midnight may come while a test runs.
fn sums(page: &Value, model: &str) -> (u64, u64, u64, u64) {
    let rows = page["data"].as_array().unwrap().iter().filter(|row| row["model"] == model);
    let count = |row: &Value, name: &str| row[name].as_u64().unwrap_or_else(|| panic!("no {name}: {row}"));
    rows.fold((0, 0, 0, 0), |sum, row| {
        (
            sum.0 + count(row, "requests"),
            sum.1 + count(row, "failed"),
            sum.2 + count(row, "prompt_tokens"),
            sum.3 + count(row, "completion_tokens"),
        )
    })
}

#[actix_web::test]
async fn activity_counts_requests_failures_tokens_and_cost_per_model_provider_and_key() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    chat(&gateway, KEY, &ask("acme/small")).await.expect(200);
    chat(&gateway, OTHER, &ask("acme/small")).await.expect(200);
    for group in ["", "?group=day", "?group=hour&tz_offset_minutes=-330"] {
        let reply = gateway.get(&format!("/api/v1/activity{group}")).await;
        let page = reply.expect(200);
        assert_eq!(sums(&page, "acme/small"), (2, 0, 24, 10), "{group}");
        assert_eq!(sums(&page, "acme/broken"), (1, 1, 0, 0), "{group}");
        assert_eq!(sums(&page, "acme/saved"), (1, 0, 12, 5), "{group}");
        assert!(reply.text().contains(r#""cost":0.0017}"#), "the dear one: {}", reply.text());
        for row in page["data"].as_array().unwrap() {
            assert_eq!(row["key"], "test");
            let failed = row["model"] == "acme/broken";
            assert_eq!(row["provider_slug"], if failed { Value::Null } else { json!("good") }, "{row}");
            assert!(row["start"].as_str().unwrap() >= page["since"].as_str().unwrap(), "{row}");
        }
    }
    let of_other = get(&gateway, OTHER, "/api/v1/activity").await.expect(200);
    assert_eq!(sums(&of_other, "acme/small"), (1, 0, 12, 5));
    assert_eq!(sums(&of_other, "acme/broken"), (0, 0, 0, 0));

    assert_eq!(sums(&admin(&gateway, "activity").await.expect(200), "acme/small"), (3, 0, 36, 15));
    assert_eq!(admin(&gateway, "activity?key=other").await.expect(200)["data"], of_other["data"]);
    assert_eq!(gateway.get("/api/v1/activity?until=2026-01-01").await.expect(200)["data"], json!([]));
}

#[actix_web::test]
async fn the_activity_of_a_day_runs_from_its_local_midnight() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    chat(&gateway, KEY, &ask("acme/small")).await.expect(200);
    for (offset, midnight) in [(0, "T00:00:00.000Z"), (330, "T18:30:00.000Z"), (-720, "T12:00:00.000Z")] {
        let page = gateway.get(&format!("/api/v1/activity?tz_offset_minutes={offset}")).await.expect(200);
        let row = &page["data"][0];
        assert!(row["start"].as_str().unwrap().ends_with(midnight), "{offset}: {row}");
        assert!(page["since"].as_str().unwrap().ends_with(midnight), "{offset}: {page}");
        assert_eq!(row["date"].as_str().unwrap().len(), 10);
    }
}

#[actix_web::test]
async fn bad_parameters_a_missing_scope_and_a_missing_ledger_are_told_apart() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    for (param, query) in [
        ("group", "group=week"),
        ("tz_offset_minutes", "tz_offset_minutes=20"),
        ("tz_offset_minutes", "tz_offset_minutes=900"),
        ("since", "since=2026-01-01&until=2026-12-01"),
        ("since", "since=now"),
        ("until", "since=2026-02-01T00:07:00Z&until=2026-02-01T00:05:00Z"),
        ("key", "key=other"),
        ("modle", "modle=acme/small"),
        ("group", "group=day&group_by=team"),
    ] {
        let error = error_of(&gateway.get(&format!("/api/v1/activity?{query}")).await, 400);
        assert_eq!(error["param"], param, "{query}");
    }
    assert_eq!(error_of(&get(&gateway, CALLER, "/api/v1/activity").await, 403)["metadata"]["reason"], "scope");

    let upstream = saying("Hello");
    let world = World::new().provider("good", upstream.address());
    let gateway = world.model(&Model::new("acme/small").at("good", "0", "0")).start().await;
    let error = error_of(&gateway.get("/api/v1/activity").await, 404);
    assert_eq!(error["metadata"]["reason"], "no_durable_ledger");
}

#[actix_web::test]
async fn a_call_whose_client_left_is_no_failure() {
    let folder = Folder::new();
    let upstream = Upstream::start([Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Hello"))))]);
    let model = Model::new("acme/left").at("acme", "0.001", "0.002");
    let gateway = issued_keys::world(&upstream, &folder).model(&model).start().await;
    let mut client = RawClient::chat(&gateway, &and(ask("acme/left"), json!({"stream": true}))).await;
    client.until("Hello").await;
    let id = client.generation();
    client.hang_up();
    assert!(upstream.eventually(PATIENCE, |log| log.closed.len() == 1).await);
    let path = format!("/api/v1/generation?id={id}");
    let look = async || gateway.get(&path).await.text();
    let record = eventually("the record is there", look, |record| record.contains("\"cancelled\"")).await;
    assert!(record.contains("\"cancelled\":true"), "{record}");
    let sum = gateway.get("/api/v1/activity").await.expect(200)["data"][0].take();
    assert_eq!((&sum["requests"], &sum["failed"]), (&json!(1), &json!(0)), "{sum}");
}

#[actix_web::test]
async fn every_class_of_tokens_and_searches_is_billed_and_counted_in_sums_rows_and_csv() {
    let usage = json!({
        "prompt_tokens": 100, "completion_tokens": 20, "cache_creation_input_tokens": 60,
        "prompt_tokens_details": {"cached_tokens": 10, "audio_tokens": 5},
        "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 6},
        "server_tool_use": {"web_search_requests": 3},
    });
    let answer = answer(json!({ "role": "assistant", "content": "x" }), usage);
    let upstream = Upstream::start([Script::answering(http(200, &answer))]);
    let prices = "prompt = \"1\", input_cache_read = \"0.1\", input_cache_write = \"2\", input_cache_write_1h = \"3\", \
                  audio = \"4\", completion = \"1\", internal_reasoning = \"5\", audio_output = \"6\", web_search = \"7\"";
    let folder = Folder::new();
    let model = Model::new("acme/rich").priced("acme", prices);
    let gateway = issued_keys::world(&upstream, &folder).model(&model).start().await;
    gateway.chat(&ask("acme/rich")).await.expect(200);
    let row = gateway.get("/api/v1/generations").await.expect(200)["data"][0].take();
    let sum = gateway.get("/api/v1/activity").await.expect(200)["data"][0].take();
    for (name, amount) in [
        ("cached_tokens", 10),
        ("cache_write_tokens", 60),
        ("cache_write_1h_tokens", 20),
        ("audio_tokens", 5),
        ("reasoning_tokens", 4),
        ("audio_output_tokens", 6),
        ("images", 0),
        ("web_searches", 3),
        // 25 + 10 · 0.1 + 40 · 2 + 20 · 3 + 5 · 4 + 10 + 4 · 5 + 6 · 6 + 3 · 7.
        ("cost", 273),
    ] {
        assert_eq!((&row[name], &sum[name]), (&json!(amount), &json!(amount)), "{name}");
    }
    let admin = gateway.admin();
    let read = |path: &'static str| issued_keys::call(&admin, Method::GET, path, issued_keys::ADMIN, None);
    let csv = read("/api/v1/admin/generations.csv").await.text();
    assert!(csv.contains(",100,20,10,4,60,20,5,6,0,3,273,"), "{csv}");
    // Records are moved into the database some seconds after they were journaled.
    let verified = crate::patience::eventually(
        "the record is stored",
        async || read("/api/v1/admin/ledger/verification").await.expect(200)["data"].take(),
        |verified| verified["records"] == 1,
    )
    .await;
    assert_eq!(verified["fault_count"], 0, "{verified}");
}

#[actix_web::test]
async fn the_sources_of_live_search_are_billed_as_searches_whole_and_streamed() {
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "num_sources_used": 3});
    let whole = answer(json!({"role": "assistant", "content": "x"}), usage.clone());
    let choices = json!([{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]);
    let last = json!({"id": "x", "object": "chat.completion.chunk", "choices": choices, "usage": usage});
    let body = format!("data: {last}\n\ndata: [DONE]\n\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
    let stream = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    for (streamed, answer) in [(false, http(200, &whole)), (true, stream)] {
        let upstream = Upstream::start([Script::answering(answer)]);
        let model = Model::new("acme/live").taking(&["search_parameters"]);
        let model = model.priced("acme", "prompt = \"1\", completion = \"1\", web_search = \"7\"");
        let folder = Folder::new();
        let gateway = issued_keys::world(&upstream, &folder).model(&model).start().await;
        let search = json!({"mode": "on", "max_search_results": 3});
        let asked = json!({"search_parameters": search, "stream": streamed});
        let reply = gateway.chat(&and(ask("acme/live"), asked)).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(upstream.last_body()["search_parameters"], search);
        let row = gateway.get("/api/v1/generations").await.expect(200)["data"][0].take();
        assert_eq!((&row["web_searches"], &row["cost"]), (&json!(3), &json!(141)), "{streamed}: {row}");
    }
}
