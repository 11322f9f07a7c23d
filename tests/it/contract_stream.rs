//! Streams: their form, their ends, and who takes over.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    hostile::{
        CHUNKED, Seen, body, chunk, config, delta, event, events, finish, gateway, ok, record_line, saying, status,
        stream_in_order, stream_of, text, watched_chat,
    },
    scripted::{Gate, Script, Upstream},
};

/// What a client gets of these upstream events.
async fn relayed(body: &str) -> Reply {
    relayed_to(&crate::hostile::body(true), body).await
}

async fn relayed_to(request: &Value, body: &str) -> Reply {
    let upstream = Upstream::start([saying(&stream_of(body))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let reply = gateway.chat(request).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    stream_in_order(&reply);
    reply
}

fn with(members: &Value) -> Value {
    let mut request = body(true);
    request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    request
}

async fn record(gateway: &TestGateway, id: &str) -> Value {
    gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take()
}

#[actix_web::test]
async fn a_stream_is_events_of_json_and_one_done_at_the_end() {
    let reply = relayed(&format!(": hi\n\nevent: message\nid: 7\n{}", events("Hello"))).await;
    for (header, value) in [("cache-control", "no-cache, no-store"), ("x-accel-buffering", "no")] {
        assert_eq!(reply.header(header), Some(value));
    }
    assert!(reply.header("content-length").is_none() && reply.header("content-encoding").is_none());
    assert!(!reply.text().contains("event:") && !reply.text().contains("id: 7"));
}

/// Not even when the client could read it compressed.
#[actix_web::test]
async fn a_stream_is_never_compressed() {
    let upstream = Upstream::start([saying(&stream_of(&events("Hello")))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let headers = [("content-type", "application/json"), ("accept-encoding", "gzip, br, deflate")];
    let request = body(true).to_string().into_bytes();
    let path = "/api/v1/chat/completions";
    let reply = gateway.call(actix_web::http::Method::POST, path, &headers, Some(request)).await;
    assert!(reply.header("content-encoding").is_none());
    assert_eq!(reply.content(), "Hello");
}

/// The record is whole as soon as the last byte is here.
#[actix_web::test]
async fn all_chunks_share_one_id_which_the_ledger_knows_at_once() {
    let upstream = Upstream::start([Script::answering(stream_of(&events("Hello")))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    for _ in 0..200 {
        let reply = gateway.chat(&body(true)).await;
        let events = reply.events();
        let id = events[0]["id"].as_str().unwrap();
        assert!(id.starts_with("gen-") && events.iter().all(|event| event["id"] == id));
        assert_eq!(reply.header("x-generation-id"), Some(id));
        assert!(events.iter().all(|event| event["created"] == events[0]["created"] && event["model"] == "acme/small"));
        let record = record(&gateway, id).await;
        assert_eq!(record_line(&record), "completed | ok:200");
        assert_eq!((record["finish_reason"].as_str(), record["upstream_id"].as_str()), (Some("stop"), Some("up-1")));
        assert_eq!((&record["streamed"], &record["cancelled"]), (&json!(true), &json!(false)));
    }
}

/// Also for several choices and for an upstream that names the role in every delta or never.
#[actix_web::test]
async fn the_first_delta_has_the_role_and_one_chunk_the_finish() {
    let choice = |index: u32, delta: Value| event(&json!([{"index": index, "delta": delta, "finish_reason": null}]));
    let end = |index: u32| event(&json!([{"index": index, "delta": {}, "finish_reason": "stop"}]));
    let everywhere = |words: &str| json!({"role": "assistant", "content": words});
    let nowhere = |words: &str| json!({"content": words});
    for delta in [&everywhere as &dyn Fn(&str) -> Value, &nowhere] {
        let parts = [(0, "a"), (1, "b"), (0, "c"), (1, "d")].map(|(index, words)| choice(index, delta(words))).concat();
        let events = relayed(&format!("{parts}{}{}data: [DONE]\n\n", end(1), end(0))).await.events();
        for index in 0..2 {
            let choices = events.iter().flat_map(|event| event["choices"].as_array().unwrap());
            // The chunk with the usage has an empty delta for the first choice.
            let told = |choice: &&Value| choice["index"] == index && !choice["delta"].as_object().unwrap().is_empty();
            let roles: Vec<bool> =
                choices.clone().filter(told).map(|choice| choice["delta"]["role"].is_string()).collect();
            assert!(roles[0] && roles[1..].iter().all(|role| !role), "{roles:?}");
            let ends = choices.filter(|choice| choice["index"] == index && choice["finish_reason"].is_string());
            assert_eq!(ends.count(), 1);
        }
    }
}

/// Upstreams that spell out what is absent.
#[actix_web::test]
async fn nothing_absent_is_spelled_out_as_null() {
    let spelled =
        |event: String| event.replacen("{", r#"{"usage":null,"error":null,"system_fingerprint":null,"x":null,"#, 1);
    let events: String = events("Hello").split_inclusive("\n\n").map(|event| spelled(event.to_owned())).collect();
    let reply = relayed(&events).await;
    assert_eq!(reply.content(), "Hello");
    let text = reply.text();
    for null in ["\"usage\":null", "\"error\":null", "\"system_fingerprint\":null", "\"tool_calls\":null"] {
        assert!(!text.contains(null), "{text}");
    }
}

#[actix_web::test]
async fn usage_comes_once_and_in_the_form_that_was_asked_for() {
    let reported = format!(
        "{}{}data: {}\n\ndata: [DONE]\n\n",
        text("Hello"),
        finish("stop"),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 9}})
    );
    for (asked, form) in [
        (json!({"stream_options": {"include_usage": true}}), Some(json!([]))),
        (json!({"stream_options": {"include_usage": false}}), None),
        (json!({"stream_options": {"include_usage": false}, "usage": {"include": true}}), Some(empty_delta())),
        (json!({}), Some(empty_delta())),
    ] {
        let events = relayed_to(&with(&asked), &reported).await.events();
        let with_usage: Vec<&Value> = events.iter().filter(|event| event.get("usage").is_some()).collect();
        let Some(form) = form else {
            assert!(with_usage.is_empty(), "{asked}");
            continue;
        };
        assert_eq!(with_usage, [events.last().unwrap()], "{asked}");
        assert_eq!(with_usage[0]["choices"], form, "{asked}");
        let usage = &with_usage[0]["usage"];
        assert_eq!((&usage["total_tokens"], &usage["cost"]), (&json!(5), &json!(0.000_007)), "{usage}");
    }
}

fn empty_delta() -> Value {
    json!([{"index": 0, "delta": {}, "finish_reason": null, "native_finish_reason": null, "logprobs": null}])
}

/// The upstream is always asked to count; one that does not is counted for.
#[actix_web::test]
async fn usage_is_asked_for_and_else_estimated() {
    let upstream = Upstream::start([saying(&stream_of(&events("Hello over there")))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let reply = gateway.chat(&with(&json!({"stream_options": {"include_usage": false}}))).await;
    let sent = upstream.requests()[0].clone();
    assert!(sent.contains(r#""include_usage":true"#), "{sent}");
    let record = record(&gateway, reply.header("x-generation-id").unwrap()).await;
    assert!(record["tokens_completion"].as_u64().unwrap() > 0, "{record}");
}

/// More ways to split in `hostile_streams`.
#[actix_web::test]
async fn text_arrives_exactly_as_the_upstream_wrote_it() {
    let parts = ["\u{0}\u{7}", "\"\\/\n\r\t", "Grüße", " 🚂🚃", "\u{2028}", "</script>", " ", "\u{feff}", "[DONE]x"];
    let body: String = parts.iter().map(|part| text(part)).collect();
    let escaped = r#"data: {"choices":[{"index":0,"delta":{"content":"\u00e9\ud83d\ude82\u0041"}}]}"#;
    let upstream =
        Upstream::start([saying(&stream_of(&format!("{body}{escaped}\n\n{}data: [DONE]\n\n", finish("stop"))))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let reply = gateway.chat(&crate::hostile::body(true)).await;
    assert_eq!(reply.content(), format!("{}é🚂A", parts.concat()));
}

#[actix_web::test]
async fn tool_calls_are_relayed_in_order_with_index_id_and_name_in_the_first() {
    let call = |part: Value| delta(&json!({"tool_calls": [part]}));
    let parts = [
        call(json!({"index": 0, "id": "c0", "type": "function", "function": {"name": "f", "arguments": ""}})),
        call(json!({"index": 0, "function": {"arguments": "{\"a\":"}})),
        call(json!({"index": 1, "id": "c1", "type": "function", "function": {"name": "g", "arguments": "not"}})),
        call(json!({"index": 0, "function": {"arguments": " 1}"}})),
        call(json!({"index": 1, "function": {"arguments": " json"}})),
    ]
    .concat();
    let events = relayed(&format!("{parts}{}data: [DONE]\n\n", finish("tool_calls"))).await.events();
    for (index, (id, name, arguments)) in [("c0", "f", "{\"a\": 1}"), ("c1", "g", "not json")].into_iter().enumerate() {
        let calls = events.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array()).flatten();
        let mine: Vec<&Value> = calls.filter(|call| call["index"] == index).collect();
        assert_eq!((mine[0]["id"].as_str(), mine[0]["function"]["name"].as_str()), (Some(id), Some(name)));
        assert_eq!(mine[0]["type"], "function");
        assert!(mine[1..].iter().all(|call| call.get("id").is_none() && call["function"].get("name").is_none()));
        assert_eq!(
            mine.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect::<String>(),
            arguments
        );
    }
    let ends = events.iter().filter(|event| event["choices"][0]["finish_reason"] == "tool_calls");
    assert_eq!(ends.count(), 1);
}

/// A server that forgets the index, or gives a call whole.
#[actix_web::test]
async fn a_tool_call_without_an_index_gets_one() {
    let calls = json!({"tool_calls": [
        {"id": "c0", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "c1", "function": {"name": "g", "arguments": "{}"}},
    ]});
    let events = relayed(&format!("{}{}data: [DONE]\n\n", delta(&calls), finish("stop"))).await.events();
    let calls: Vec<&Value> =
        events.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].as_array()).flatten().collect();
    let begun = calls.iter().filter(|call| call["id"].is_string());
    let begun: Vec<_> = begun.map(|call| (call["index"].as_u64(), call["id"].as_str())).collect();
    assert_eq!(begun, [(Some(0), Some("c0")), (Some(1), Some("c1"))]);
    for index in [0, 1] {
        let pieces = calls.iter().filter(|call| call["index"] == index);
        let arguments: String = pieces.filter_map(|call| call["function"]["arguments"].as_str()).collect();
        assert_eq!(arguments, "{}");
    }
}

/// Every way to fail before content in `hostile_*`.
#[actix_web::test]
async fn a_failure_before_content_is_hidden_behind_the_next_candidate() {
    let role = delta(&json!({"role": "assistant", "content": ""}));
    let failing = Upstream::start([saying(&format!("{CHUNKED}{}", chunk(&role)))]);
    let healthy = Upstream::start([saying(&stream_of(&events("Hello")))]);
    let gateway = gateway(&[failing.url(""), healthy.url("")], "").await;
    let reply = gateway.chat(&body(true)).await;
    assert_eq!((reply.header("x-route-attempts"), reply.header("x-route-provider")), (Some("2"), Some("P1")));
    stream_in_order(&reply);
    assert!(reply.events().iter().all(|event| event["provider"] == "P1"));
    let explained = record(&gateway, reply.header("x-generation-id").unwrap()).await["route"].take();
    assert_eq!(explained["decision_code"], "provider_fallback");
}

/// With nobody left the client gets a status, not a stream.
#[actix_web::test]
async fn a_failure_before_content_with_nobody_left_is_an_ordinary_error() {
    let failing = || Upstream::start([saying(&status("500 Oops", "", ""))]);
    let (first, second) = (failing(), failing());
    let gateway = gateway(&[first.url(""), second.url("")], "").await;
    let reply = gateway.chat(&body(true)).await;
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(Seen::of(&gateway, reply).await.line(), "502 provider_unavailable | failed | server:500, server:500");
}

/// 5.2: of a generation that nobody served, no model, no provider and no times are told, though heads had come.
#[actix_web::test]
async fn a_failed_generation_has_no_winner() {
    for streamed in [false, true] {
        let headed = || Upstream::start([saying(&ok("{}"))]);
        let (first, second) = (headed(), headed());
        let gateway = gateway(&[first.url(""), second.url("")], "").await;
        let reply = gateway.chat(&body(streamed)).await;
        let record = record(&gateway, reply.header("x-generation-id").unwrap()).await;
        assert!(record_line(&record).starts_with("failed | "), "{record}");
        assert_eq!(record["route"]["attempts"].as_array().unwrap().len(), 2, "{record}");
        for field in ["latency", "generation_time", "provider_name"] {
            assert_eq!(record[field], Value::Null, "{field}, streamed {streamed}: {record}");
        }
    }
}

/// A display name that fits no header is replaced by the provider's short name.
#[actix_web::test]
async fn a_provider_whose_name_fits_no_header_goes_by_its_short_name() {
    let upstream = Upstream::start([saying(&stream_of(&events("Hello")))]);
    let named = config(&[upstream.url("")], "").replace("\"P0\"", "\"Größe\"");
    let gateway = TestGateway::start_with(&named, &[("PROVIDER_KEY", "sk-upstream")]).await;
    let reply = gateway.chat(&body(true)).await;
    assert_eq!((reply.status, reply.header("x-route-provider")), (200, Some("p0")));
}

/// Reasoning that the client does not want to see is work all the same: the clock of the first content waits.
#[actix_web::test]
async fn hidden_reasoning_keeps_the_first_content_clock_waiting() {
    let thought = chunk(&delta(&json!({"reasoning": "Hm. "})));
    let mut script = Script::new().request().send(CHUNKED);
    for _ in 0..5 {
        script = script.send(thought.clone()).pause(Duration::from_millis(500));
    }
    let rest = format!("{}0\r\n\r\n", chunk(&format!("{}{}data: [DONE]\n\n", text("Hello"), finish("stop"))));
    let upstream = Upstream::start([script.send(rest).fin()]);
    let gateway = gateway(&[upstream.url("")], "[timeouts]\nfirst_content = \"1500ms\"\n").await;
    let mut asked = body(true);
    asked["reasoning"] = json!({"exclude": true});
    let reply = gateway.chat(&asked).await;
    assert_eq!((reply.status, reply.content().as_str()), (200, "Hello"), "{}", reply.text());
}

/// Every way to fail behind content in `hostile_streams`.
#[actix_web::test]
async fn a_failure_after_content_is_one_error_chunk_and_done() {
    let broken = format!("{CHUNKED}{}", chunk(&text("Hel")));
    let gate = Gate::new();
    let failing = Upstream::start([Script::new().request().send(broken).wait(&gate).fin()]);
    let healthy = Upstream::start([saying(&stream_of(&events("spare")))]);
    let gateway = gateway(&[failing.url(""), healthy.url("")], "").await;
    let reply = watched_chat(&gateway, &body(true), &gate).await;
    stream_in_order(&reply);
    assert_eq!(reply.content(), "Hel");
    let events = reply.events();
    let last = events.last().unwrap();
    assert_eq!(last["error"]["code"], 502);
    assert_eq!((&last["error"]["type"], &last["error"]["param"]), (&json!("provider_error"), &Value::Null));
    assert_eq!(last["error"]["metadata"]["error_type"], "provider_unavailable");
    assert_eq!(last["error"]["metadata"]["provider_name"], "P0");
    let choices = json!([{"index": 0, "delta": {"content": "", "annotations": {}}, "finish_reason": "error",
        "native_finish_reason": null}]);
    assert_eq!(last["choices"], choices);
    assert_eq!(events.iter().filter(|event| event.get("error").is_some()).count(), 1);
    assert_eq!(healthy.connections(), 0);
    let record = record(&gateway, events[0]["id"].as_str().unwrap()).await;
    assert_eq!(record_line(&record), "failed | truncated:200");
    assert_eq!((&record["finish_reason"], &record["provider_name"]), (&json!("error"), &json!("P0")));
    assert!(record["total_cost"].as_f64().unwrap() > 0.0);
}

/// A provider without a key is asked without one; the client's own goes nowhere.
#[actix_web::test]
async fn a_provider_without_a_key_streams_too() {
    let upstream = Upstream::start([saying(&stream_of(&events("Hello")))]);
    let keyless = config(&[upstream.url("")], "").replace("api_key_env", "# api_key_env");
    let gateway = TestGateway::start(&keyless).await;
    assert_eq!(gateway.chat(&body(true)).await.content(), "Hello");
    assert!(!upstream.requests()[0].to_lowercase().contains("authorization"));
}

/// The odd member can be switched off.
#[actix_web::test]
async fn the_error_chunk_without_its_odd_member() {
    let broken = format!("{CHUNKED}{}", chunk(&text("Hel")));
    let gate = Gate::new();
    let upstream = Upstream::start([Script::new().request().send(broken).wait(&gate).fin()]);
    let gateway = gateway(&[upstream.url("")], "[stream]\nerror_compat = false\n").await;
    let reply = watched_chat(&gateway, &body(true), &gate).await;
    assert_eq!(reply.events().last().unwrap()["choices"][0]["delta"], json!({"content": ""}));
}
