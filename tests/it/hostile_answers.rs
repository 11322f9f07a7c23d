//! Plain 200s that are no answer, and odd ones that are.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    hostile::{
        CHUNKED, Case, PROVIDER_KEY, body, check, chunk, completion, finish, gateway, head_of, ok, saying, status,
        stream_of,
    },
    scripted::{Script, Upstream},
};

const MALFORMED: &str = "502 provider_unavailable | failed | malformed:200";
const TRUNCATED: &str = "502 provider_unavailable | failed | truncated:200";
const HELLO: &str = "200 'Hello' stop | completed | ok:200";

async fn plain(bytes: &str, expected: &'static str) {
    check(Case::plain(&saying(bytes), expected)).await;
}

#[actix_web::test]
async fn a_body_shorter_than_announced() {
    let whole = completion("Hello");
    plain(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{whole}", whole.len() + 1), TRUNCATED).await;
    plain("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", TRUNCATED).await;
}

#[actix_web::test]
async fn a_chunked_body_without_its_last_chunk() {
    let head = CHUNKED.replace("text/event-stream", "application/json");
    let whole = chunk(&completion("Hello"));
    plain(&format!("{head}{whole}0\r\n\r\n"), HELLO).await;
    plain(&format!("{head}{whole}"), TRUNCATED).await;
    plain(&format!("{head}{}", head_of(&whole)), TRUNCATED).await;
    plain(&format!("{head}zz\r\n{whole}0\r\n\r\n"), MALFORMED).await;
}

#[actix_web::test]
async fn a_body_that_stops_coming() {
    let stalled = Script::new().request().send("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"id\"");
    check(Case::plain(&stalled, "504 timeout | failed | timeout:200").waiting()).await;
}

#[actix_web::test]
async fn a_body_byte_by_byte() {
    let slowly = Script::new().request().trickle(ok(&completion("Hello")), 1, Duration::from_micros(100));
    check(Case::plain(&slowly, HELLO)).await;
}

#[actix_web::test]
async fn a_200_with_something_else_in_it() {
    plain("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>", MALFORMED).await;
    for body in [
        "",
        "null",
        "[]",
        "7",
        "<html></html>",
        "{\"id\":\"up-1\",\"choices\":[{\"index\":0,}]}",
        "{}",
        r#"{"choices":null}"#,
        r#"{"choices":[]}"#,
        r#"{"choices":[{"index":0,"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"index":0,"message":null,"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"index":0,"message":"Hello","finish_reason":"stop"}]}"#,
        "data: {\"choices\":[]}\n\n",
    ] {
        let expected = if body.is_empty() { "502 provider_unavailable | failed | truncated:200" } else { MALFORMED };
        plain(&ok(body), expected).await;
    }
    let deep = format!("{{\"choices\":[{{\"message\":{}1{}}}]}}", "[".repeat(100_000), "]".repeat(100_000));
    plain(&ok(&deep), MALFORMED).await;
    plain(&ok(&format!("{} trailing", completion("Hello"))), MALFORMED).await;
    let choice = r#"{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}"#;
    plain(&ok(&format!("{{\"choices\":[{}{choice}]}}", format!("{choice},").repeat(200_000))), MALFORMED).await;
}

#[actix_web::test]
async fn a_200_with_members_of_the_wrong_type_in_it() {
    let message =
        |members: &str| format!(r#"{{"choices":[{{"index":0,"message":{members},"finish_reason":"stop"}}]}}"#);
    for members in [
        r#"{"content":42}"#,
        r#"{"content":true}"#,
        r#"{"content":{}}"#,
        r#"{"content":["x"]}"#,
        r#"{"content":null,"refusal":7}"#,
        r#"{"content":"x","tool_calls":"call"}"#,
        r#"{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"arguments":"{}"}}]}"#,
        r#"{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"","arguments":"{}"}}]}"#,
    ] {
        plain(&ok(&message(members)), MALFORMED).await;
        let streamed = json!({"choices": [{"index": 0, "delta": serde_json::from_str::<Value>(members).unwrap()}]});
        let streamed = stream_of(&format!("data: {streamed}\n\n{}data: [DONE]\n\n", finish("stop")));
        check(Case::streamed(&saying(&streamed), MALFORMED)).await;
    }
    plain(&ok(&message(r#"{"content":"Hello","tool_calls":[],"refusal":null}"#)), HELLO).await;
}

/// An error inside a plain 200 is no answer, whatever it says: an upstream that means it sends a status.
#[actix_web::test]
async fn a_200_with_an_error_in_it() {
    for code in ["server_error", "rate_limit_exceeded", "invalid_request_error", PROVIDER_KEY] {
        let error = json!({"message": format!("Wrong key {PROVIDER_KEY}"), "type": code, "code": code});
        plain(&ok(&json!({ "error": error }).to_string()), MALFORMED).await;
    }
    plain(&ok(r#"{"error":"No."}"#), MALFORMED).await;
    let beside = completion("Hello").replacen('{', r#"{"error":{"code":500},"#, 1);
    plain(&ok(&beside), "502 provider_unavailable | failed | server:200").await;
    let nothing = completion("Hello").replacen('{', r#"{"error":null,"#, 1);
    plain(&ok(&nothing), HELLO).await;
}

/// Nobody asked for an encoding; one that is claimed anyway is not believed, and never inflated.
#[actix_web::test]
async fn an_encoding_that_nobody_asked_for() {
    for encoding in ["gzip", "br", "deflate", "zstd", "gzip, identity"] {
        let header = format!("content-encoding: {encoding}\r\n");
        plain(&status("200 OK", &header, &completion("Hello")), MALFORMED).await;
    }
    plain(&status("200 OK", "content-encoding: identity\r\n", &completion("Hello")), HELLO).await;
}

/// A hundred megabytes of one letter in a hundred kilobytes: whoever inflates it has lost.
#[actix_web::test]
async fn a_bomb() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..100 {
        std::io::Write::write_all(&mut bomb, &[b' '; 1_000_000]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    for (head, streamed) in
        [("content-encoding: gzip\r\n", MALFORMED), ("content-encoding: x-gzip\r\n", MALFORMED), ("", TRUNCATED)]
    {
        let mut answer = format!("HTTP/1.1 200 OK\r\n{head}content-length: {}\r\n\r\n", bomb.len()).into_bytes();
        answer.extend_from_slice(&bomb);
        let script = Script::new().request().send(answer).fin();
        check(Case::of(&script, MALFORMED, streamed)).await;
    }
}

#[actix_web::test]
async fn an_answer_larger_than_allowed() {
    let upstream = Upstream::start([saying(&ok(&completion(&"x".repeat(100_000))))]);
    let gateway = gateway(&[upstream.url("")], "[limits]\nupstream_body = 65536\n").await;
    assert_eq!(gateway.chat(&body(false)).await.status, 502);
}

/// What the upstream counts is repaired, not believed.
#[actix_web::test]
async fn odd_usage() {
    for (usage, expected) in [
        (json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 500}), Some((3, 2))),
        (json!({"prompt_tokens": 3.0, "completion_tokens": 2.0}), Some((3, 2))),
        (json!({"prompt_tokens": -3, "completion_tokens": -2, "total_tokens": -5}), None),
        (json!({"prompt_tokens": "3", "completion_tokens": []}), None),
        (json!({}), None),
        (Value::Null, None),
    ] {
        check_usage(&usage.to_string(), expected).await;
    }
    check_usage(r#"{"prompt_tokens":99999999999999999999999999,"completion_tokens":1e400}"#, None).await;
}

/// The usage a client is told, of an upstream that told this; `None`: it is some estimate.
async fn check_usage(told: &str, expected: Option<(u64, u64)>) {
    let mut answer = completion("Hello");
    let at = answer.find(r#""usage":"#).unwrap();
    answer.truncate(at);
    answer.push_str(&format!(r#""usage":{told}}}"#));
    let upstream = Upstream::start([saying(&ok(&answer))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let usage = gateway.chat(&body(false)).await.expect(200)["usage"].take();
    let [prompt, completion, total] =
        ["prompt_tokens", "completion_tokens", "total_tokens"].map(|name| usage[name].as_u64().unwrap());
    assert_eq!(total, prompt + completion, "{told}");
    assert!(usage["cost"].is_number(), "{told}: {usage}");
    match expected {
        Some(expected) => assert_eq!((prompt, completion), expected, "{told}"),
        None => assert!(prompt < 1000 && completion < 1000, "{told}: {usage}"),
    }
}

/// No header of the upstream's is passed on, whatever it is called.
#[actix_web::test]
async fn headers_that_are_meant_for_the_client() {
    let evil = "set-cookie: evil=1\r\naccess-control-allow-origin: *\r\nx-generation-id: gen-evil\r\n\
                x-request-id: evil\r\nserver: evil\r\nretry-after: 9\r\nlocation: http://evil.example\r\n";
    let stream = crate::hostile::stream_of(&crate::hostile::events("Hello"));
    for (answer, streamed, expected) in [
        (status("200 OK", evil, &completion("Hello")), false, 200),
        (stream.replacen("\r\n", &format!("\r\n{evil}"), 1), true, 200),
        (status("400 Bad Request", evil, "{}"), false, 400),
        (status("500 Oops", evil, "{}"), true, 502),
    ] {
        let upstream = Upstream::start([saying(&answer)]);
        let gateway = gateway(&[upstream.url("")], "").await;
        let reply = gateway.chat(&body(streamed)).await;
        let shown: Vec<_> = reply.headers.iter().filter(|(_, value)| value.contains("evil")).collect();
        assert_eq!((reply.status, shown.len()), (expected, 0), "{:?}", reply.headers);
        for name in ["set-cookie", "access-control-allow-origin", "location", "server"] {
            assert!(reply.header(name).is_none(), "{name}");
        }
        // A wait that is asked for is told, as ours.
        assert_eq!(reply.header("retry-after"), (reply.status >= 500).then_some("9"));
    }
}

/// Ids and names of the upstream are data: cleaned, cut, and kept from the client.
#[actix_web::test]
async fn odd_names() {
    let answer = json!({"id": format!("up\u{1b}[31m{}", "x".repeat(5000)), "model": "<script>", "object": "odd",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "done\u{7}"}]});
    let upstream = Upstream::start([saying(&ok(&answer.to_string()))]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let reply = gateway.chat(&body(false)).await;
    let answer = reply.expect(200);
    assert_eq!((answer["model"].as_str(), answer["object"].as_str()), (Some("acme/small"), Some("chat.completion")));
    let id = answer["id"].as_str().unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take();
    let upstream_id = record["upstream_id"].as_str().unwrap();
    assert!(upstream_id.len() <= 200 && !upstream_id.contains('\u{1b}'), "{upstream_id}");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert!(!reply.text().contains("\\u0007") && !reply.text().contains("script"));
}

/// Our key as an id, a model, a fingerprint, a finish.
#[actix_web::test]
async fn our_key_in_the_names_of_a_good_answer() {
    let answer = json!({"id": PROVIDER_KEY, "model": PROVIDER_KEY, "object": PROVIDER_KEY,
        "system_fingerprint": PROVIDER_KEY, "provider": PROVIDER_KEY, "service_tier": PROVIDER_KEY,
        "choices": [{"index": 0, "message": {"role": PROVIDER_KEY, "content": "Hello"},
            "finish_reason": PROVIDER_KEY}]});
    let event = json!({"id": PROVIDER_KEY, "model": PROVIDER_KEY, "object": PROVIDER_KEY,
        "system_fingerprint": PROVIDER_KEY, "provider": PROVIDER_KEY, "service_tier": PROVIDER_KEY,
        "choices": [{"index": 0, "delta": {"role": PROVIDER_KEY, "content": "Hello"},
            "finish_reason": PROVIDER_KEY}]});
    check(Case::plain(&saying(&ok(&answer.to_string())), HELLO)).await;
    let stream = crate::hostile::stream_of(&format!("data: {event}\n\ndata: [DONE]\n\n"));
    check(Case::streamed(&saying(&stream), HELLO)).await;
}
