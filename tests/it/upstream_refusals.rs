//! Answers with an error status, early ones included, and refusals with a 200.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use pointsman_domain::{Evidence, FailureKind};
use pointsman_transport::UpstreamError;
use serde_json::json;

use crate::{
    scripted::{Script, Upstream},
    upstream_calls::{check, client, client_with_secret, failure, ok, outcome, plain, saying},
    world::{Model, World, and, ask, http},
};

fn refusal(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} No\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

async fn refused(answer: String) -> UpstreamError {
    let upstream = Upstream::start([Script::new().request().send(answer)]);
    client_with_secret(&upstream.url("/v1"), "provider-secret").send(plain("{}")).await.unwrap_err()
}

#[actix_web::test]
async fn every_status_has_its_kind() {
    let expected = [
        ("bad_request", vec![400, 405, 410, 418, 451]),
        ("auth", vec![401, 402]),
        ("forbidden", vec![403]),
        ("not_found", vec![404]),
        ("server", vec![408, 409, 425, 500, 501, 502, 504]),
        ("too_large", vec![413]),
        ("unprocessable", vec![422]),
        ("rate_limited", vec![429]),
        ("overloaded", vec![503, 529]),
    ];
    for (kind, statuses) in expected {
        for status in statuses {
            check(&saying(&refusal(status, "", "{}")), &format!("{kind} {status}")).await;
        }
    }
}

#[actix_web::test]
async fn the_body_tells_a_prompt_that_is_too_long() {
    let body = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":400}}"#;
    let error = refused(refusal(400, "", body)).await;
    assert_eq!(failure(&error), "context_length 400");
    assert_eq!(error.code.as_deref(), Some("400"));
    assert_eq!(error.raw.as_deref(), Some(body));
}

#[actix_web::test]
async fn a_refusal_whose_body_is_cut_late_or_missing_keeps_its_status() {
    let cut = "HTTP/1.1 429 No\r\nretry-after: 7\r\ncontent-length: 1000\r\n\r\n{\"err";
    check(&saying(cut), "rate_limited 429").await;
    check(&Script::new().request().send(cut).reset(), "rate_limited 429").await;
    let (begun, silent) = (std::time::Instant::now(), Script::new().request().send(cut));
    check(&silent, "rate_limited 429").await;
    assert!(begun.elapsed() < Duration::from_secs(20), "the body that never comes has a short clock of its own");
    let endless = "HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n";
    let flood = Script::new().request().send(endless).repeat(Script::new().send("5\r\nhello\r\n"));
    check(&flood, "server 500").await;
    check(&saying("HTTP/1.1 400 No\r\n\r\n"), "bad_request 400").await;
}

#[actix_web::test]
async fn the_wait_asked_for_is_taken_from_every_form() {
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
    let expected = [
        ("retry-after: 7\r\n".to_owned(), Some(7_000)),
        ("retry-after-ms: 250\r\nretry-after: 7\r\n".to_owned(), Some(250)),
        ("retry-after: 86400\r\n".to_owned(), Some(86_400_000)),
        ("retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned(), Some(0)),
        ("retry-after: soon\r\n".to_owned(), None),
        (String::new(), None),
    ];
    for (headers, wait) in expected {
        let error = refused(refusal(429, &headers, "{}")).await;
        assert_eq!(error.failure.retry_after, wait.map(Duration::from_millis), "{headers}");
    }
    let error = refused(refusal(429, &format!("retry-after: {date}\r\n"), "{}")).await;
    let wait = error.failure.retry_after.unwrap();
    assert!((Duration::from_secs(3500)..Duration::from_secs(3601)).contains(&wait), "{wait:?}");
}

#[actix_web::test]
async fn our_key_is_in_nothing_a_provider_echoes() {
    for status in [400, 401, 403, 413, 422, 500] {
        let body = r#"{"error":{"message":"Wrong key: provider-secret","code":"provider-secret"}}"#;
        let error = refused(refusal(status, "", body)).await;
        assert!(!format!("{error:?} {error}").contains("provider-secret"), "{error:?}");
    }
}

/// A refusal that comes while megabytes are still on their way.
async fn check_early(after_head: fn(Script) -> Script) {
    let answer = refusal(413, "content-type: application/json\r\n", r#"{"error":{"message":"Too much."}}"#);
    for megabytes in [1, 5, 20] {
        let early = after_head(Script::new().head().send(answer.clone()));
        let upstream = Upstream::start([early, Script::answering(ok("next"))]);
        let client = client(&upstream.url("/v1"));

        let error = client.send(plain(Bytes::from(vec![b' '; megabytes << 20]))).await.unwrap_err();

        assert_eq!(failure(&error), "too_large 413", "{megabytes} MB: {error}");
        assert!(error.raw.as_deref().is_some_and(|raw| raw.contains("Too much.")), "{error:?}");
        assert_eq!(outcome(&client, plain("{}")).await, "next");
        assert_eq!(upstream.connections(), 2, "half a request is left on the first connection");
    }
}

#[actix_web::test]
async fn an_early_413_before_a_reset_is_a_413() {
    check_early(Script::close).await;
}

#[actix_web::test]
async fn an_early_413_from_an_upstream_that_just_stops_reading_is_a_413() {
    check_early(|script| script.pause(Duration::from_secs(3))).await;
}

#[actix_web::test]
async fn an_early_413_that_trickles_in_is_a_413() {
    let answer = refusal(413, "", r#"{"error":{"message":"Too much."}}"#);
    let upstream = Upstream::start([Script::new().head().trickle(answer, 10, Duration::from_millis(2)).close()]);
    let error = client(&upstream.url("")).send(plain(Bytes::from(vec![b' '; 5 << 20]))).await.unwrap_err();
    assert_eq!(failure(&error), "too_large 413", "{error}");
}

#[actix_web::test]
async fn a_reset_while_the_request_is_sent_is_a_reset() {
    for (bytes, evidence) in [(5 << 20, Evidence::OF_ONE_CALLER), (1 << 10, Evidence::None)] {
        let upstream = Upstream::start([Script::new().head().close()]);
        let error = client(&upstream.url("")).send(plain(Bytes::from(vec![b' '; bytes]))).await.unwrap_err();
        assert_eq!((error.failure.kind, error.failure.evidence), (FailureKind::Reset, evidence), "{bytes}: {error}");
    }
}

/// As MiniMax does.
#[actix_web::test]
async fn an_account_that_is_refused_with_a_200_is_told_and_closed_as_with_any_status() {
    let refused =
        json!({"id": "x", "choices": null, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}});
    let event = format!("data: {refused}\n\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
    let stream = format!("{head}\r\ncontent-length: {}\r\n\r\n{event}", event.len());
    for (streamed, answer) in [(false, http(200, &refused)), (true, stream)] {
        let upstream = Upstream::start([Script::answering(answer)]);
        let model = Model::new("acme/small").at("acme", "0.001", "0.001");
        let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
        let asked = and(ask("acme/small"), json!({"stream": streamed}));
        for status in [502, 503] {
            let reply = gateway.chat(&asked).await;
            assert_eq!((reply.status, reply.header("x-should-retry")), (status, Some("false")), "{}", reply.text());
        }
        assert_eq!(upstream.requests().len(), 1, "{streamed}: the account is not asked again");
        let health = gateway.get("/api/v1/health/providers/acme").await.expect(200)["data"][0].take();
        assert_eq!(health["refusals"][0]["subject"], "key", "{health}");
    }
}
