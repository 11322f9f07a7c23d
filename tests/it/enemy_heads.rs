//! Hostile heads: bombs, noise, `Expect`.

use actix_web::http::Method;
use futures_util::future::join_all;

use crate::{
    enemy::{PATH, check, good_body, head},
    raw_client::RawClient,
    world::{Model, World, completion, error_of, one_model, saying},
};

/// A head with this in it, for an empty object as its body.
fn with(more: &str) -> String {
    format!("{}{{}}", head(&format!("{more}content-length: 2\r\n")))
}

#[actix_web::test]
async fn header_bombs() {
    check(&[
        ("one header of 200 kB", with(&format!("x-big: {}\r\n", "a".repeat(200_000))), &[431]),
        ("a name of 200 kB", with(&format!("{}: 1\r\n", "a".repeat(200_000))), &[431]),
        ("40 kB in 80 headers", with(&format!("x-h: {}\r\n", "a".repeat(500)).repeat(80)), &[431]),
        ("500 headers", with(&(0..500).map(|n| format!("x-h{n}: 1\r\n")).collect::<String>()), &[431]),
        ("97 headers", with(&"x-h: 1\r\n".repeat(97)), &[431]),
        ("80 headers", with(&"x-h: 1\r\n".repeat(80)), &[400]),
        ("a path of 100 kB", format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(100_000)), &[400]),
        ("a method of 100 kB", format!("{} / HTTP/1.1\r\nhost: localhost\r\n\r\n", "A".repeat(100_000)), &[405]),
    ])
    .await;
}

#[actix_web::test]
async fn heads_that_are_none() {
    check(&[
        ("no path", "GET\r\n\r\n".to_owned(), &[400]),
        ("no protocol", "GET /\r\n\r\n".to_owned(), &[400]),
        ("a method with a sign", "G@T / HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), &[400]),
        ("a space in the path", "GET /a b HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), &[400]),
        ("a control character in the path", "GET /a\x01b HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), &[400]),
        ("no host", "GET / HTTP/1.1\r\n\r\n".to_owned(), &[400]),
        ("two hosts", "GET / HTTP/1.1\r\nhost: localhost\r\nhost: y\r\n\r\n".to_owned(), &[400]),
        ("a control character in a name", with("x-bad\u{1}: 1\r\n"), &[400]),
        ("a control character in a value", with("x-bad: \u{1}\r\n"), &[400]),
        ("a null in a value", with("x-bad: a\0b\r\n"), &[400]),
        ("a line without a colon", with("no colon here\r\n"), &[400]),
        ("a folded line first", with(" folded: 1\r\n"), &[400]),
    ])
    .await;
}

#[actix_web::test]
async fn a_head_over_the_configured_limit_is_a_431_with_a_body() {
    let upstream = saying("x");
    let world = World::new().with("[limits]\nmax_header = 1024").provider("acme", upstream.address());
    let gateway = world.model(&Model::new("acme/small").at("acme", "0", "0")).start().await;
    let (large, long) = ("a".repeat(1024), format!("/api/v1/models?q={}", "a".repeat(1024)));
    for path in ["/api/v1/models", PATH, "/health", "/nowhere"] {
        let error = error_of(&gateway.call(Method::GET, path, &[("x-large", &large)], None).await, 431);
        assert_eq!(error["metadata"]["reason"], "headers_too_large");
    }
    error_of(&gateway.call(Method::GET, &long, &[], None).await, 431);
    let fitting = "a".repeat(500);
    assert_eq!(gateway.call(Method::GET, "/api/v1/models", &[("x-fitting", &fitting)], None).await.status, 200);
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn odd_but_lawful_requests() {
    let body = good_body();
    let length = format!("content-length: {}\r\n", body.len());
    let says = |more: &str| format!("{}{body}", head(&format!("{length}{more}")));
    let bytes: String = body.as_bytes().iter().map(|byte| format!("1\r\n{}\r\n", char::from(*byte))).collect();
    let marked = format!("{}\u{feff}{body}", head(&format!("content-length: {}\r\n", body.len() + 3)));
    check(&[
        ("asking to go on", says("expect: 100-continue\r\n"), &[100, 200]),
        ("asking for another protocol", says("connection: upgrade\r\nupgrade: h2c\r\n"), &[200]),
        ("a chunk per byte", format!("{}{bytes}0\r\n\r\n", head("transfer-encoding: chunked\r\n")), &[200]),
        ("names in odd case", says("").replace("content-type", "CONTENT-type"), &[200]),
        ("lines that end in LF", says("").replace("\r\n", "\n"), &[200]),
        ("empty lines before the request", format!("\r\n\r\n{}", says("")), &[200]),
        ("a byte order mark", marked, &[400]),
    ])
    .await;
}

/// Nobody is told to go on with a body that will not be read.
#[actix_web::test]
async fn whoever_expects_to_go_on_without_a_key_is_refused_without_a_100() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    let each = async |path, key| {
        let mut client = RawClient::connect(gateway.address).await;
        client
            .say(format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\n{key}x-request-id: mine-1\r\nexpect: 100-continue\r\n\
                 content-type: application/json\r\ncontent-length: 10000000\r\n\r\n"
            ))
            .await;
        let said = client.rest().await;
        assert_eq!(client.statuses(), [401], "{path} {key}");
        assert!(said.contains("www-authenticate: Bearer") && said.contains("x-request-id: mine-1"), "{said}");
        assert!(said.contains("\"request_id\":\"mine-1\"") && said.ends_with("}}}"), "{said}");
    };
    let paths = [PATH, "/api/v1/images/generations", "/api/v1/route/preview", "/nowhere"];
    let keys = ["", "authorization: Bearer sk-wrong-0123456789abcdef\r\n", "authorization: Basic x\r\n"];
    join_all(paths.iter().flat_map(|path| keys.map(|key| each(path, key)))).await;
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("pointsman_requests_total{route=\"none\",status=\"401\"} 12"), "{metrics}");
    assert_eq!(gateway.get("/health/ready").await.expect(200)["checks"]["load"]["buffered_bytes"], 0);
    assert_eq!(upstream.connections(), 0);
}

/// Nor is anybody with a body that the head alone condemns.
#[actix_web::test]
async fn whoever_expects_to_go_on_with_a_body_that_is_too_large_or_of_another_type_is_refused_without_a_100() {
    let upstream = saying("x");
    let world = World::new().with("[limits]\nmax_body = 10000").provider("acme", upstream.address());
    let gateway = world.model(&Model::new("acme/small").at("acme", "0", "0")).start().await;
    for path in [PATH, "/api/v1/images/generations", "/api/v1/route/preview"] {
        for (length, content_type, expected) in [
            ("10001", "application/json", 413),
            ("99999999999999999999", "application/json", 400),
            ("100", "text/plain", 415),
            ("100", "application/json; charset=utf-16", 400),
        ] {
            let key = crate::harness::KEY;
            let mut client = RawClient::connect(gateway.address).await;
            client
                .say(format!(
                    "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\nexpect: 100-continue\r\n\
                     content-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
                ))
                .await;
            let said = client.rest().await;
            assert_eq!(client.statuses(), [expected], "{path} {length} {content_type}: {said}");
        }
    }
    assert_eq!(upstream.connections(), 0);
}
