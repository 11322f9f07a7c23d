//! What a provider receives: our headers, their key, the body as it was given, and nothing else.

use bytes::Bytes;
use expect_test::expect;
use pointsman_base::secret::Secret;
use pointsman_transport::Connection;

use crate::{
    scripted::{Script, Upstream},
    upstream_calls::{client, client_of, client_with_secret, ok, outcome, plain, streamed},
};

/// The request as received, with the line that differs from run to run made equal.
fn normal(upstream: &Upstream) -> String {
    let request = upstream.requests().remove(0).replace(&upstream.address().to_string(), "HOST:PORT");
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<&str> = head.lines().collect();
    lines[1..].sort_unstable();
    format!("{}\n\n{body}\n", lines.join("\n"))
}

#[actix_web::test]
async fn a_plain_call_carries_the_key_and_nothing_of_the_clients() {
    let upstream = Upstream::start([Script::answering(ok("{}"))]);
    outcome(&client_with_secret(&upstream.url("/v1/"), "sk-provider"), plain(r#"{"model":"m"}"#)).await;
    expect![[r#"
        POST /v1/chat/completions HTTP/1.1
        accept-encoding: identity
        accept: application/json
        authorization: Bearer sk-provider
        content-length: 13
        content-type: application/json
        host: HOST:PORT
        user-agent: pointsman/0.1.0

        {"model":"m"}
    "#]]
    .assert_eq(&normal(&upstream));
}

#[actix_web::test]
async fn a_streamed_call_with_another_header_for_the_key_and_further_ones() {
    let upstream = Upstream::start([Script::answering(ok("{}"))]);
    let connection = Connection::new(&upstream.url("/openai?api-version=1"))
        .and_then(|connection| connection.with_secret("api-key", "", Secret::from("k-123")))
        .and_then(|connection| connection.with_header("x-title", "Pointsman"))
        .and_then(|connection| connection.with_header("user-agent", "mine/1"))
        .unwrap();
    outcome(&client_of(connection), streamed("{}")).await;
    expect![[r#"
        POST /openai/chat/completions?api-version=1 HTTP/1.1
        accept-encoding: identity
        accept: text/event-stream
        api-key: k-123
        content-length: 2
        content-type: application/json
        host: HOST:PORT
        user-agent: mine/1
        x-title: Pointsman

        {}
    "#]]
    .assert_eq(&normal(&upstream));
}

#[actix_web::test]
async fn bodies_of_every_size_arrive_as_they_are() {
    let upstream = Upstream::start([Script::answering(ok("{}"))]);
    let client = client(&upstream.url(""));
    for size in [0, 1, 8_192, 131_072, 131_073, 5 << 20] {
        let body: Bytes = (0..size).map(|position| b'a' + (position % 23) as u8).collect();
        assert_eq!(outcome(&client, plain(body.clone())).await, "{}", "{size} bytes");
        let received = upstream.log().requests.pop().unwrap();
        assert!(received.ends_with(&body), "{size} bytes");
        let announced = format!("\r\ncontent-length: {size}\r\n");
        assert!(String::from_utf8_lossy(&received).contains(&announced), "{size} bytes");
    }
    assert_eq!(upstream.connections(), 1);
}

#[actix_web::test]
async fn the_key_is_in_no_debug_output_of_a_client() {
    let client = client_with_secret("http://127.0.0.1:9", "sk-provider");
    assert!(!format!("{client:?}").contains("sk-provider"));
}
