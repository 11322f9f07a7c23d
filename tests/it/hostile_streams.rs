//! Streams that are cut, stall, never end, or are framed as oddly as the format allows.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use crate::{
    hostile::{
        CHUNKED, Case, PROVIDER_KEY, UNTIL_CLOSE, check, chunk, delta, event, events, finish, head_of, ok, saying,
        status, stream_of, text,
    },
    scripted::{Gate, Script},
};

const HELLO: &str = "200 'Hello' stop | completed | ok:200";
const MALFORMED: &str = "502 provider_unavailable | failed | malformed:200";
const TOO_LONG: &str = "502 provider_unavailable | failed | gateway_limit:200";
const SERVER: &str = "502 provider_unavailable | failed | server:200";
const SAID: &str = "200 'Hel' error 502 provider_unavailable | failed | server:200";
const TRUNCATED: &str = "502 provider_unavailable | failed | truncated:200";
const CUT: &str = "200 'Hel' error 502 provider_unavailable | failed | truncated:200";
const TOO_LONG_LATER: &str = "200 'Hel' error 502 provider_unavailable | failed | gateway_limit:200";
const BROKEN: &str = "200 'Hel' error 502 provider_unavailable | failed | malformed:200";

/// A provider that says these events in a whole chunked body.
async fn streamed(body: &str, expected: &'static str) {
    check(Case::streamed(&saying(&stream_of(body)), expected)).await;
}

/// A chunk, and when the client has seen it, whatever `then` does.
fn in_two(first: &str, then: impl Fn(Script) -> Script, expected: &'static str) -> Case {
    let gate = Gate::new();
    let sent = format!("{CHUNKED}{}", chunk(first));
    Case::streamed(&then(Script::new().request().send(sent).wait(&gate)), expected).with_gate(&gate)
}

async fn twice(first: &str, second: &str, expected: &'static str) {
    check(in_two(first, |script| script.send(second).fin(), expected)).await;
}

fn role() -> String {
    delta(&json!({"role": "assistant", "content": ""}))
}

#[actix_web::test]
async fn a_stream_cut_before_its_content() {
    check(Case::streamed(&saying(CHUNKED), TRUNCATED)).await;
    check(Case::streamed(&saying(UNTIL_CLOSE), TRUNCATED)).await;
    streamed("", TRUNCATED).await;
    streamed(&role(), TRUNCATED).await;
    check(Case::streamed(&saying(&format!("{CHUNKED}{}", chunk(&role()))), TRUNCATED)).await;
    streamed(head_of(&text("Hello")), TRUNCATED).await;
}

#[actix_web::test]
async fn a_stream_cut_between_or_inside_its_events() {
    twice(&text("Hel"), "", CUT).await;
    twice(&text("Hel"), "0\r\n\r\n", CUT).await;
    twice(&text("Hel"), &chunk(head_of(&text("lo"))), CUT).await;
    twice(&text("Hel"), head_of(&text("lo")), BROKEN).await;
    let gate = Gate::new();
    let begun = Script::new().request().send(format!("{UNTIL_CLOSE}{}", text("Hel"))).wait(&gate);
    check(Case::streamed(&begun.send(head_of(&text("lo"))).fin(), CUT).with_gate(&gate)).await;
}

/// Every choice had its finish: what broke behind it is no loss to the client.
#[actix_web::test]
async fn a_stream_cut_behind_its_finish_is_whole() {
    let finished = format!("{}{}", text("Hello"), finish("stop"));
    twice(&finished, "", HELLO).await;
    twice(&finished, "0\r\n\r\n", HELLO).await;
    twice(&finished, &chunk(head_of(&event(&json!([])))), HELLO).await;
    let role_and_text = format!("{}{}", role(), text("Hello"));
    check(in_two(&role_and_text, |script| script.send(chunk(&finish("stop"))).fin(), HELLO)).await;
    let silent = Script::new().request().send(format!("{CHUNKED}{}", chunk(&finished)));
    check(Case::streamed(&silent, HELLO).waiting()).await;
}

#[actix_web::test]
async fn a_stream_that_stalls() {
    let stalls = |body: &str| Script::new().request().send(format!("{CHUNKED}{}", chunk(body)));
    let silent = Script::new().request().send(CHUNKED);
    let before = "504 timeout | failed | timeout:200";
    let after = "200 'Hel' error 504 timeout | failed | timeout:200";
    tokio::join!(
        check(Case::streamed(&silent, before).waiting()),
        check(Case::streamed(&stalls(&role()), before).waiting()),
        check(Case::streamed(&stalls(&text("Hel")), after).waiting()),
    );
}

/// Comments are a sign of life, not content: they must not keep a dead call alive.
#[actix_web::test]
async fn heart_beats_for_ever() {
    let beats = || Script::new().repeat(Script::new().send(chunk(": beat\n\n")).pause(Duration::from_millis(20)));
    let before = Script::new().request().send(CHUNKED).repeat(beats());
    let after = Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Hel")))).repeat(beats());
    let empty = Script::new().send(chunk(&delta(&json!({})))).pause(Duration::from_millis(20));
    let roles = Script::new().request().send(CHUNKED).repeat(empty);
    tokio::join!(
        check(Case::streamed(&before, "504 timeout | failed | timeout:200").waiting()),
        check(Case::streamed(&after, "200 'Hel' error 504 timeout | failed | timeout:200").waiting()),
        check(Case::streamed(&roles, "504 timeout | failed | timeout:200").waiting()),
    );
}

/// Bytes of an event that is never whole are no sign of life either.
#[actix_web::test]
async fn an_event_that_never_ends_a_byte_at_a_time() {
    let bytes = || Script::new().repeat(Script::new().send(chunk("x")).pause(Duration::from_millis(20)));
    let begun = chunk("data: {\"choices\":[{\"delta\":{\"content\":\"");
    let before = Script::new().request().send(format!("{CHUNKED}{begun}")).repeat(bytes());
    let after = Script::new().request().send(format!("{CHUNKED}{}{begun}", chunk(&text("Hel")))).repeat(bytes());
    tokio::join!(
        check(Case::streamed(&before, "504 timeout | failed | timeout:200").waiting()),
        check(Case::streamed(&after, "200 'Hel' error 504 timeout | failed | timeout:200").waiting()),
    );
}

/// Events without anything in them are comments by another name.
#[actix_web::test]
async fn empty_events_for_ever() {
    let each = async |nothing: &str| {
        let again = || Script::new().repeat(Script::new().send(chunk(nothing)).pause(Duration::from_millis(20)));
        let before = Script::new().request().send(CHUNKED).repeat(again());
        let after = Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Hel")))).repeat(again());
        let whole = format!("{nothing}{}", events("Hello"));
        tokio::join!(
            check(Case::streamed(&before, "504 timeout | failed | timeout:200").waiting()),
            check(Case::streamed(&after, "200 'Hel' error 504 timeout | failed | timeout:200").waiting()),
            streamed(&whole, HELLO),
        );
    };
    let nothings = ["data:\n\n", "data: {}\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n", "\n", &text("")];
    join_all(nothings.map(each)).await;
}

/// Behind the finish nothing is waited for that a client could want.
#[actix_web::test]
async fn heart_beats_behind_the_finish() {
    let whole = format!("{CHUNKED}{}", chunk(&format!("{}{}", text("Hello"), finish("stop"))));
    let beat = Script::new().send(chunk(": beat\n\n")).pause(Duration::from_millis(20));
    check(Case::streamed(&Script::new().request().send(whole).repeat(beat), HELLO).waiting()).await;
}

/// What may stand beside chunks: a trailer is lawful, an extension too, and neither without end.
#[actix_web::test]
async fn trailers_and_extensions() {
    let body = chunk(&events("Hello"));
    let extended = body.replacen("\r\n", ";name=value\r\n", 1);
    for whole in [format!("{body}0\r\nx-trailer: 1\r\n\r\n"), format!("{extended}0\r\n\r\n")] {
        check(Case::streamed(&saying(&format!("{CHUNKED}{whole}")), HELLO)).await;
    }
    let trailers = Script::new().send("x-trailer: 0123456789012345678901234567890123456789\r\n".repeat(1000));
    let begun = Script::new().request().send(format!("{CHUNKED}{body}0\r\n"));
    check(Case::streamed(&begun.repeat(trailers), HELLO)).await;
    let begun = Script::new().request().send(format!("{CHUNKED}5;")).pause(Duration::from_millis(100));
    check(Case::streamed(&begun.repeat(Script::new().send("x".repeat(60_000))), MALFORMED).waiting()).await;
}

/// No byte is lost or changed, wherever the upstream's writes end.
#[actix_web::test]
async fn a_stream_split_at_every_byte() {
    let body = format!("{}{}{}data: [DONE]\n\n", text("Grüße, 世"), text("界 🚂"), finish("stop"));
    let slowly = Script::new().request().trickle(stream_of(&body), 1, Duration::from_micros(200));
    check(Case::streamed(&slowly, "200 'Grüße, 世界 🚂' stop | completed | ok:200")).await;
    let mut apart = CHUNKED.as_bytes().to_vec();
    for part in body.as_bytes().chunks(3) {
        apart.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        apart.extend_from_slice(part);
        apart.extend_from_slice(b"\r\n");
    }
    apart.extend_from_slice(b"0\r\n\r\n");
    let script = Script::new().request().send(apart).fin();
    check(Case::streamed(&script, "200 'Grüße, 世界 🚂' stop | completed | ok:200")).await;
}

#[actix_web::test]
async fn every_line_ending() {
    let body = events("Hello");
    for ending in ["\r\n", "\r", "\n"] {
        streamed(&body.replace('\n', ending), HELLO).await;
    }
    let mixed = body.replacen('\n', "\r\n", 3).replacen("\n\n", "\r\r", 1);
    streamed(&mixed, HELLO).await;
}

#[actix_web::test]
async fn every_odd_framing() {
    let whole = events("Hello");
    streamed(&format!("\u{feff}{whole}"), HELLO).await;
    streamed(&whole.replace("data: ", "data:"), HELLO).await;
    streamed(&format!(": hi\n\nretry: 3\n\nid: 7\nevent: message\n{whole}"), HELLO).await;
    streamed(&whole.replace(",\"", ",\ndata: \""), HELLO).await;
    streamed(whole.trim_end(), HELLO).await;
}

#[actix_web::test]
async fn an_event_longer_than_allowed() {
    let long = text(&"x".repeat(200_000));
    let limit = "[stream]\nmax_event = 65536\n";
    check(Case::streamed(&saying(&stream_of(&long)), TOO_LONG).with(limit)).await;
    check(in_two(&text("Hel"), |script| script.send(chunk(&long)).fin(), TOO_LONG_LATER).with(limit)).await;
    let endless =
        Script::new().request().send(CHUNKED).send(chunk("data: ")).repeat(Script::new().send(chunk(&"x".repeat(150))));
    check(Case::streamed(&endless, TOO_LONG).with(limit)).await;
}

#[actix_web::test]
async fn no_done_or_no_finish() {
    streamed(&format!("{}{}", text("Hello"), finish("stop")), HELLO).await;
    streamed(&format!("{}data: [DONE]\n\n", text("Hello")), HELLO).await;
    streamed("data: [DONE]\n\n", MALFORMED).await;
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
        "function": {"name": "f", "arguments": "{}"}}]});
    streamed(&format!("{}data: [DONE]\n\n", delta(&call)), "200 '' tool_calls | completed | ok:200").await;
    twice(&text("Hello"), &format!("{}0\r\n\r\n", chunk("data: [DONE]\n\n")), HELLO).await;
}

#[actix_web::test]
async fn an_error_event_before_any_content() {
    let error = |kind: &str| format!("data: {}\n\n", json!({"error": {"message": "No.", "type": kind}}));
    streamed(&error("server_error"), SERVER).await;
    streamed(&format!("{}{}", role(), error("server_error")), SERVER).await;
    streamed(&error("rate_limit_exceeded"), "429 rate_limit_exceeded | failed | rate_limited:200").await;
    streamed(&error("overloaded_error"), "503 provider_overloaded | failed | overloaded:200").await;
    streamed(&error("invalid_request_error"), "400 invalid_request | failed | bad_request:200").await;
    streamed("event: error\ndata: oops\n\n", SERVER).await;
    streamed(&error(PROVIDER_KEY), SERVER).await;
}

#[actix_web::test]
async fn an_error_event_in_mid_stream() {
    let error = format!("data: {}\n\n", json!({"error": {"message": PROVIDER_KEY, "type": "server_error"}}));
    twice(&text("Hel"), &chunk(&error), SAID).await;
    twice(&text("Hel"), &chunk("event: error\ndata: oops\n\n"), SAID).await;
    for (kind, expected) in [
        ("rate_limit_exceeded", "200 'Hel' error 429 rate_limit_exceeded | failed | rate_limited:200"),
        ("overloaded_error", "200 'Hel' error 503 provider_overloaded | failed | overloaded:200"),
        ("invalid_request_error", "200 'Hel' error 400 invalid_request | failed | bad_request:200"),
        ("authentication_error", "200 'Hel' error 502 provider_unavailable | failed | auth:200"),
    ] {
        let error = format!("data: {}\n\n", json!({"error": {"message": "No.", "type": kind}}));
        twice(&text("Hel"), &chunk(&error), expected).await;
    }
    twice(&text("Hel"), &chunk("data: {\"choices\":[{]}\n\n"), BROKEN).await;
    twice(&text("Hel"), &chunk("data: <html>\n\n"), BROKEN).await;
    twice(&text("Hel"), "zz\r\n", BROKEN).await;
}

#[actix_web::test]
async fn a_200_that_is_no_stream() {
    check(Case::streamed(&saying(&ok("")), TRUNCATED)).await;
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>";
    check(Case::streamed(&saying(page), MALFORMED)).await;
    check(Case::streamed(&saying(&ok("{\"choices\":")), TRUNCATED)).await;
    check(Case::streamed(&saying(&ok(r#"{"error":{"message":"No."}}"#)), MALFORMED)).await;
    check(Case::streamed(&saying(&ok("[]")), TRUNCATED)).await;
    let zipped = status("200 OK", "content-encoding: gzip\r\n", &events("Hello"));
    check(Case::streamed(&saying(&zipped), MALFORMED)).await;
}

#[actix_web::test]
async fn events_without_choices_or_delta() {
    streamed(&format!("{}{}", event(&json!([])), events("Hello")), HELLO).await;
    streamed(&format!("{}{}", event(&json!(null)), events("Hello")), HELLO).await;
    streamed(&format!("{}{}", event(&json!([{"index": 0}])), events("Hello")), HELLO).await;
    streamed(&format!("{}data: [DONE]\n\n", event(&json!([]))), MALFORMED).await;
}

/// Whatever comes behind `[DONE]` is nobody's.
#[actix_web::test]
async fn events_behind_done() {
    streamed(&format!("{}{}", events("Hello"), events("somebody else's")), HELLO).await;
    let endless = Script::new().request().send(format!("{CHUNKED}{}", chunk(&events("Hello"))));
    check(Case::streamed(&endless.repeat(Script::new().send(chunk(&text("more")))), HELLO)).await;
}
