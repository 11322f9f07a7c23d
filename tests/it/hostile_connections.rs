//! Connections that are refused, hang, break, or carry more or less than HTTP allows.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    hostile::{
        CHUNKED, Case, Seen, UNTIL_CLOSE, body, check, chunk, completion, events, gateway, head_of, ok, saying, status,
        stream_of, text,
    },
    patience::eventually,
    scripted::{Gate, Script, Upstream},
};

const UNAVAILABLE_RESET: &str = "502 provider_unavailable | failed | reset";
const UNAVAILABLE_MALFORMED: &str = "502 provider_unavailable | failed | malformed";

/// A whole plain and a whole streamed answer behind `before`.
fn whole(before: &str) -> (Script, Script) {
    (
        saying(&format!("{before}{}", ok(&completion("Hello")))),
        saying(&format!("{before}{}", stream_of(&events("Hello")))),
    )
}

/// A case whose plain and streamed answers both come through, behind `before`.
async fn comes_through(before: &str) {
    let (plain, streamed) = whole(before);
    check(Case::plain(&plain, "200 'Hello' stop | completed | ok:200")).await;
    check(Case::streamed(&streamed, "200 'Hello' stop | completed | ok:200")).await;
}

#[actix_web::test]
async fn nobody_listening() {
    check(Case::refused("502 provider_unavailable | failed | connect")).await;
}

#[actix_web::test]
async fn an_upstream_that_hangs_before_its_head() {
    let timeout = "504 timeout | failed | timeout";
    let half = Script::new().request().send("HTTP/1.1 200 OK\r\ncont");
    tokio::join!(
        check(Case::of(&Script::new().request(), timeout, timeout).waiting()),
        check(Case::of(&Script::new(), timeout, timeout).waiting()),
        check(Case::of(&half, timeout, timeout).waiting()),
    );
}

#[actix_web::test]
async fn a_connection_that_breaks_before_or_inside_the_head() {
    let half = "HTTP/1.1 200 OK\r\ncontent-le";
    for script in [
        Script::new().reset(),
        Script::new().request().reset(),
        Script::new().request().fin(),
        Script::new().request().send(half).fin(),
    ] {
        check(Case::of(&script, UNAVAILABLE_RESET, UNAVAILABLE_RESET)).await;
    }
}

#[actix_web::test]
async fn a_connection_that_breaks_behind_the_head() {
    let reset = "502 provider_unavailable | failed | reset:200";
    // A reset throws away what the gateway has not read yet; nobody can see when it has.
    let breaking = |sent: String| Script::new().request().send(sent).pause(Duration::from_millis(100)).reset();
    check(Case::plain(&breaking("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"id\"".into()), reset)).await;
    check(Case::streamed(&breaking(CHUNKED.into()), reset)).await;
    check(Case::streamed(&breaking(UNTIL_CLOSE.into()), reset)).await;
    let gate = Gate::new();
    let begun = Script::new().request().send(format!("{CHUNKED}{}", chunk(&text("Hel")))).wait(&gate).reset();
    let broken = "200 'Hel' error 502 provider_unavailable | failed | reset:200";
    check(Case::streamed(&begun, broken).with_gate(&gate)).await;
}

#[actix_web::test]
async fn interim_heads_before_the_answer() {
    comes_through("HTTP/1.1 100 Continue\r\n\r\n").await;
    comes_through("HTTP/1.1 102 Processing\r\n\r\n").await;
    comes_through(&"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n".repeat(8)).await;
}

#[actix_web::test]
async fn interim_heads_instead_of_the_answer() {
    let only_interim = saying("HTTP/1.1 100 Continue\r\n\r\n");
    check(Case::of(&only_interim, UNAVAILABLE_RESET, UNAVAILABLE_RESET)).await;
    let flood = saying(&"HTTP/1.1 102 Processing\r\n\r\n".repeat(9));
    check(Case::of(&flood, UNAVAILABLE_MALFORMED, UNAVAILABLE_MALFORMED)).await;
    let switching = saying("HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n");
    let unexpected = "502 provider_unavailable | failed | unexpected_status:101";
    check(Case::of(&switching, unexpected, unexpected)).await;
}

#[actix_web::test]
async fn an_interim_head_behind_the_answer_changes_nothing() {
    let answer = format!("{}HTTP/1.1 103 Early Hints\r\n\r\n", ok(&completion("Hello")));
    check(Case::plain(&saying(&answer), "200 'Hello' stop | completed | ok:200")).await;
    let stream = format!("{}HTTP/1.1 103 Early Hints\r\n\r\n", stream_of(&events("Hello")));
    check(Case::streamed(&saying(&stream), "200 'Hello' stop | completed | ok:200")).await;
}

#[actix_web::test]
async fn contradicting_lengths() {
    let body = completion("Hello");
    for headers in [
        "transfer-encoding: chunked\r\n".to_owned(),
        format!("content-length: {}\r\n", body.len() + 1),
        "content-length: +3\r\n".to_owned(),
        "content-length: -1\r\n".to_owned(),
    ] {
        let answer = saying(&status("200 OK", &headers, &body));
        check(Case::of(&answer, UNAVAILABLE_MALFORMED, UNAVAILABLE_MALFORMED)).await;
    }
}

#[actix_web::test]
async fn a_head_without_end() {
    let trickle =
        format!("HTTP/1.1 200 OK\r\n{}", "x-filler: 0123456789012345678901234567890123456789\r\n".repeat(4000));
    check(Case::of(&saying(&trickle), UNAVAILABLE_MALFORMED, UNAVAILABLE_MALFORMED)).await;
    let noise = saying("220 mail.example ESMTP ready\r\n\r\n");
    check(Case::of(&noise, UNAVAILABLE_MALFORMED, UNAVAILABLE_MALFORMED)).await;
}

#[actix_web::test]
async fn http_1_0_without_any_length() {
    let plain = format!("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{}", completion("Hello"));
    check(Case::plain(&saying(&plain), "200 'Hello' stop | completed | ok:200")).await;
    let streamed = format!("HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{}", events("Hello"));
    check(Case::streamed(&saying(&streamed), "200 'Hello' stop | completed | ok:200")).await;
    let cut = format!("HTTP/1.0 200 OK\r\n\r\n{}", head_of(&completion("Hello")));
    check(Case::plain(&saying(&cut), "502 provider_unavailable | failed | truncated:200")).await;
}

/// Bytes behind the body belong to nobody: the answer counts, the connection is not used again.
#[actix_web::test]
async fn bytes_behind_the_body_reach_nobody() {
    for streamed in [false, true] {
        let answer = if streamed { stream_of(&events("Hello")) } else { ok(&completion("Hello")) };
        let foreign = format!("{answer}{}", ok(&completion("somebody else's")));
        let upstream = Upstream::start([Script::new().request().send(foreign), Script::answering(answer.clone())]);
        let gateway = gateway(&[upstream.url("")], "").await;
        for _ in 0..3 {
            let seen = Seen::of(&gateway, gateway.chat(&body(streamed)).await).await;
            assert_eq!(seen.line(), "200 'Hello' stop | completed | ok:200");
        }
        assert_eq!((upstream.connections(), upstream.log().requests.len()), (2, 3));
    }
}

/// A kept connection that is found closed before anything was written to it costs a fresh one, and no attempt.
#[actix_web::test]
async fn a_kept_connection_that_closed_between_two_calls_costs_no_attempt() {
    for streamed in [false, true] {
        let answer = if streamed { stream_of(&events("Hello")) } else { ok(&completion("Hello")) };
        let closed = Script::new().request().send(answer.clone()).fin();
        let upstream = Upstream::start([closed, Script::answering(answer)]);
        let gateway = gateway(&[upstream.url("")], "").await;
        for _ in 0..2 {
            let seen = Seen::of(&gateway, gateway.chat(&body(streamed)).await).await;
            assert_eq!(seen.line(), "200 'Hello' stop | completed | ok:200");
            // The close is on its way, and nobody can see when it has come.
            actix_web::rt::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!((upstream.connections(), upstream.log().requests.len()), (2, 2));
    }
}

/// The provider may have been at work, and may ask to be paid: it hears of the request once, and the record says so.
#[actix_web::test]
async fn a_paid_request_is_never_sent_twice_in_silence() {
    for streamed in [false, true] {
        for spared in [false, true] {
            let answer = if streamed { stream_of(&events("Hello")) } else { ok(&completion("Hello")) };
            let at_work = Script::new().request().pause(Duration::from_millis(300)).reset();
            let first = Upstream::start([Script::new().request().send(answer.clone()).then(&at_work)]);
            let spare = Upstream::start([Script::answering(answer.replace("Hello", "spare"))]);
            let providers = [first.url(""), spare.url("")];
            let gateway = gateway(&providers[..1 + usize::from(spared)], "").await;
            let seen = Seen::of(&gateway, gateway.chat(&body(streamed)).await).await;
            assert_eq!(seen.line(), "200 'Hello' stop | completed | ok:200");
            let health = async || gateway.get("/api/v1/health/providers/p0").await.expect(200)["data"][0].take();
            let before = eventually("the answer is counted", health, |health| health["successes"] == 1).await;

            let seen = Seen::of(&gateway, gateway.chat(&body(streamed)).await).await;

            let told = match spared {
                true => "200 'spare' stop | completed | reset, ok:200",
                false => UNAVAILABLE_RESET,
            };
            assert_eq!(seen.line(), told, "streamed: {streamed}");
            assert_eq!((first.connections(), first.requests().len()), (1, 2), "every request was sent once");
            let counted = |health: &Value| health["errors"]["connect"] == 1 && health["consecutive_failures"] == 1;
            let health = eventually("the failure is counted", health, counted).await;
            assert_eq!((&health["successes"], &health["last_error"]["error_type"]), (&json!(1), &json!("reset")));
            for learned in ["latency_ms", "ttft_ms"] {
                assert_eq!(health[learned]["p99"], before[learned]["p99"], "a failed attempt teaches no {learned}");
            }
        }
    }
}

/// Only a connection that worked before is given that second chance.
#[actix_web::test]
async fn a_fresh_connection_that_dies_is_not_tried_again() {
    let upstream = Upstream::start([Script::new().request().fin()]);
    let gateway = gateway(&[upstream.url("")], "").await;
    let seen = Seen::of(&gateway, gateway.chat(&body(false)).await).await;
    assert_eq!(seen.line(), UNAVAILABLE_RESET);
    assert_eq!(upstream.connections(), 1);
}

#[actix_web::test]
async fn a_connection_that_is_reset_inside_the_head() {
    let half = Script::new().request().send("HTTP/1.1 200 OK\r\ncontent-le").pause(Duration::from_millis(100)).reset();
    check(Case::of(&half, UNAVAILABLE_RESET, UNAVAILABLE_RESET)).await;
}

/// The clock of the head is for the whole of it: a byte now and then does not wind it up again.
#[actix_web::test]
async fn a_head_that_trickles_in_for_ever() {
    let timeout = "504 timeout | failed | timeout";
    let head = format!("HTTP/1.1 200 OK\r\nx-filler: {}", "y".repeat(1000));
    let slowly = Script::new().request().trickle(head, 1, Duration::from_millis(20));
    check(Case::of(&slowly, timeout, timeout).waiting()).await;
}

#[actix_web::test]
async fn too_many_headers() {
    let headers: String = (0..500).map(|number| format!("x-h{number}: 1\r\n")).collect();
    let answer = saying(&status("200 OK", &headers, &completion("Hello")));
    check(Case::of(&answer, UNAVAILABLE_MALFORMED, UNAVAILABLE_MALFORMED)).await;
}

#[actix_web::test]
async fn header_lines_that_are_none() {
    for line in ["no colon\r\n", " folded: 1\r\n", "x-null: a\0b\r\n", "content-length : 5\r\n", "x: \u{7f}\r\n"] {
        let answer = saying(&status("200 OK", line, &completion("Hello")));
        check(Case::of(&answer, UNAVAILABLE_MALFORMED, UNAVAILABLE_MALFORMED)).await;
    }
}

/// An answer whose framing or status was irregular in any way is the last one of its connection, although the upstream
/// kept it open.
#[actix_web::test]
async fn no_connection_is_used_again_behind_an_irregular_answer() {
    let (plain, stream) = (ok(&completion("Hello")), stream_of(&events("Hello")));
    let irregular = [
        (false, status("200 OK", "content-encoding: gzip\r\n", "{}")),
        (false, status("302 Found", "location: /\r\n", "")),
        (false, status("999 Odd", "", "{}")),
        (false, "HTTP/1.1 204 No Content\r\n\r\n".to_owned()),
        (false, plain.replace("HTTP/1.1", "HTTP/1.0")),
        (false, plain.replace("200 OK\r\n", "200 OK\r\nconnection: close\r\n")),
        (false, format!("{plain}\r\n")),
        (true, stream_of("data: {\"choices\":[{]}\n\n")),
        (true, format!("{stream}HTTP/1.1 103 Early Hints\r\n\r\n")),
        (true, format!("{CHUNKED}{}", chunk(&events("Hello")))),
    ];
    for (streamed, answer) in irregular {
        let good = if streamed { stream.clone() } else { plain.clone() };
        let again = good.replace("Hello", "again");
        let upstream = Upstream::start([Script::new().request().send(answer.clone()), Script::answering(again)]);
        let gateway = gateway(&[upstream.url("")], "").await;
        gateway.chat(&body(streamed)).await;
        let seen = Seen::of(&gateway, gateway.chat(&body(streamed)).await).await;
        assert!(seen.line().starts_with("200 'again' stop"), "{answer}: {}", seen.line());
        assert_eq!((upstream.connections(), upstream.log().requests.len()), (2, 2), "{answer}");
    }
}
