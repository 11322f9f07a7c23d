//! Streams that give too much: too long, too deep, too large, for ever; and what they say of themselves.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    hostile::{
        CHUNKED, Case, SHORT, body, check, chunk, delta, event, finish, gateway, record_line, saying, stream_in_order,
        stream_of, text,
    },
    scripted::{Script, Upstream},
};

const HELLO: &str = "200 'Hello' stop | completed | ok:200";
const TOO_LONG: &str = "502 provider_unavailable | failed | gateway_limit:200";
const MALFORMED: &str = "502 provider_unavailable | failed | malformed:200";
const TRUNCATED: &str = "502 provider_unavailable | failed | truncated:200";

#[actix_web::test]
async fn a_stream_that_stalls_after_any_number_of_events() {
    let role = delta(&json!({"role": "assistant", "content": ""}));
    let cases = [
        (format!("{role}{}", text("a")), "200 'a' error 504 timeout | failed | timeout:200"),
        (format!("{role}{}{}", text("a"), text("b")), "200 'ab' error 504 timeout | failed | timeout:200"),
        (text("a").repeat(20), "200 'aaaaaaaaaaaaaaaaaaaa' error 504 timeout | failed | timeout:200"),
    ];
    let stalls = |events: &str| Script::new().request().send(format!("{CHUNKED}{}", chunk(events)));
    join_all(cases.map(|(events, got)| check(Case::streamed(&stalls(&events), got).waiting()))).await;
}

/// Sixty-four megabytes without a line's end, within the shipped limits.
#[actix_web::test]
async fn an_event_of_64_megabytes() {
    let megabyte = Script::new().send(chunk(&"x".repeat(1 << 20)));
    let mut script =
        Script::new().request().send(CHUNKED).send(chunk("data: {\"choices\":[{\"delta\":{\"content\":\""));
    for _ in 0..64 {
        script = script.then(&megabyte);
    }
    check(Case::streamed(&script, TOO_LONG)).await;
}

/// A stream of content that never ends has the total clock, and what was said until then.
#[actix_web::test]
async fn an_endless_stream() {
    let word = Script::new().send(chunk(&text("more "))).pause(Duration::from_millis(5));
    let upstream = Upstream::start([Script::new().request().send(CHUNKED).repeat(word)]);
    let gateway = gateway(&[upstream.url("")], SHORT).await;
    let reply = gateway.chat(&body(true)).await;
    stream_in_order(&reply);
    assert!(reply.content().starts_with("more more more "), "{}", reply.text());
    let events = reply.events();
    let error = events.iter().find_map(|event| event.get("error")).expect("no error chunk");
    assert_eq!((&error["code"], &error["metadata"]["error_type"]), (&json!(504), &json!("timeout")), "{error}");
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take();
    assert_eq!(record_line(&record), "failed | deadline:200");
    assert!(record["tokens_completion"].as_u64().unwrap() > 0);
    assert!(upstream.eventually(Duration::from_secs(5), |log| log.closed.len() == 1).await, "the upstream was kept");
}

#[actix_web::test]
async fn events_too_deep_or_too_odd_to_be_any() {
    let deep = format!("data: {{\"choices\":{}1{}}}\n\n", "[".repeat(100_000), "]".repeat(100_000));
    check(Case::streamed(&saying(&stream_of(&deep)), MALFORMED)).await;
    for event in
        ["data: []\n\n", "data: 7\n\n", "data: \"text\"\n\n", "data: {\n\n", "data: {}{}\n\n", "data: \u{1}\n\n"]
    {
        check(Case::streamed(&saying(&stream_of(event)), MALFORMED)).await;
    }
    check(Case::streamed(&saying(&stream_of("data: null\n\n")), MALFORMED)).await;
}

/// A stream may announce its length; then it is held to it.
#[actix_web::test]
async fn a_stream_with_a_length() {
    let events = crate::hostile::events("Hello");
    let says = |length: usize| {
        saying(&format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{events}"
        ))
    };
    check(Case::streamed(&says(events.len()), HELLO)).await;
    check(Case::streamed(&says(0), TRUNCATED)).await;
    // `[DONE]` came: what was announced beyond it is no loss.
    check(Case::streamed(&says(events.len() + 100), HELLO)).await;
}

/// What the upstream counts is repaired, not believed.
#[actix_web::test]
async fn odd_usage_in_a_stream() {
    for (told, expected) in [
        (json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 500}), Some((3, 2))),
        (json!({"prompt_tokens": -3, "completion_tokens": -2}), None),
        (json!({"prompt_tokens": "3", "completion_tokens": []}), None),
        (json!({"prompt_tokens": 1e30, "completion_tokens": 2}), None),
        (json!({}), None),
        (json!("none"), None),
        (Value::Null, None),
    ] {
        let last = json!({"id": "up-1", "object": "chat.completion.chunk", "choices": [], "usage": told});
        let stream = format!("{}{}data: {last}\n\ndata: [DONE]\n\n", text("Hello"), finish("stop"));
        let upstream = Upstream::start([saying(&stream_of(&stream))]);
        let gateway = gateway(&[upstream.url("")], "").await;
        let reply = gateway.chat(&body(true)).await;
        stream_in_order(&reply);
        let events = reply.events();
        let usages: Vec<&Value> = events.iter().filter_map(|event| event.get("usage")).collect();
        let [usage] = usages[..] else { panic!("{told}: {} usages", usages.len()) };
        let [prompt, completion, total] =
            ["prompt_tokens", "completion_tokens", "total_tokens"].map(|name| usage[name].as_u64().unwrap());
        assert_eq!(total, prompt + completion, "{told}");
        match expected {
            Some(expected) => assert_eq!((prompt, completion), expected, "{told}"),
            None => assert!(prompt < 1000 && completion < 1000, "{told}: {usage}"),
        }
    }
}

/// Names of the upstream in a stream are data too.
#[actix_web::test]
async fn odd_names_in_a_stream() {
    let odd = format!("up\u{1b}[31m<script>{}", "x".repeat(5000));
    let event = json!({"id": odd, "model": odd, "object": odd, "created": "yesterday", "system_fingerprint": odd,
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello"}, "finish_reason": odd}]});
    let upstream = Upstream::start([saying(&stream_of(&format!("data: {event}\n\ndata: [DONE]\n\n")))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let reply = gateway.chat(&body(true)).await;
    stream_in_order(&reply);
    assert_eq!(reply.content(), "Hello");
    assert!(!reply.text().contains("\\u001b"), "{}", reply.text());
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take();
    let upstream_id = record["upstream_id"].as_str().unwrap();
    assert!(upstream_id.len() <= 200 && !upstream_id.contains('\u{1b}'), "{upstream_id}");
}

/// More choices than were asked for, without an index, or with an absurd one, are no reason to fail or to grow.
#[actix_web::test]
async fn choices_that_nobody_asked_for() {
    let absurd = event(&json!([{"index": 4_000_000_000_u64, "delta": {"content": "?"}, "finish_reason": null}]));
    let negative = event(&json!([{"index": -1, "delta": {"content": "?"}, "finish_reason": null}]));
    for odd in [absurd, negative] {
        let upstream =
            Upstream::start([saying(&stream_of(&format!("{odd}{}{}data: [DONE]\n\n", text("Hello"), finish("stop"))))]);
        let gateway = gateway(&[upstream.url("")], "").await;
        let reply = gateway.chat(&body(true)).await;
        assert!(matches!(reply.status, 200 | 502), "{}", reply.text());
        assert!(reply.body.len() < 10_000);
        assert!(gateway.get("/metrics").await.text().contains("panics_total 0"));
    }
}
