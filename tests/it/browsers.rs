//! What surrounds every call: browsers on other origins, heads that are too large, and a switched-off page.

use actix_web::http::Method;

use crate::harness::{Reply, TestGateway};

const APP: &str = "https://app.example";
const CORS: &str =
    "[cors]\nallowed_origins = [\"http://other.example:8000\", \"https://app.example\"]\nmax_age = \"60s\"\n";

/// What a browser asks before a script on `origin` may post JSON with a key.
async fn preflight(gateway: &TestGateway, origin: &str, method: &str) -> Reply {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", "authorization,content-type,x-stainless-os"),
        ("authorization", ""),
    ];
    gateway.call(Method::OPTIONS, "/api/v1/chat/completions", &headers, None).await
}

async fn read(gateway: &TestGateway, path: &str, origin: &str) -> Reply {
    gateway.call(Method::GET, path, &[("origin", origin)], None).await
}

#[actix_web::test]
async fn a_preflight_from_a_listed_origin_is_answered_without_a_key() {
    let gateway = TestGateway::start(CORS).await;
    let reply = preflight(&gateway, APP, "POST").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("access-control-allow-origin"), Some(APP));
    assert_eq!(reply.header("access-control-allow-headers"), Some("authorization,content-type,x-stainless-os"));
    assert!(reply.header("access-control-allow-methods").unwrap().contains("POST"));
    assert_eq!(reply.header("access-control-max-age"), Some("60"));
    assert_eq!(reply.header("access-control-allow-credentials"), None);
    assert!(reply.header("vary").unwrap().contains("Origin"));
    assert!(reply.header("x-request-id").is_some());
}

#[actix_web::test]
async fn a_preflight_from_elsewhere_or_for_another_method_is_refused_in_the_usual_words() {
    let gateway = TestGateway::start(CORS).await;
    for (origin, method) in
        [("https://evil.example", "POST"), ("https://app.example.evil.example", "POST"), (APP, "PUT")]
    {
        let reply = preflight(&gateway, origin, method).await;
        assert_eq!(reply.header("access-control-allow-origin"), None, "{origin} {method}");
        assert_eq!(reply.expect(403)["error"]["metadata"]["reason"], "cors");
    }
}

#[actix_web::test]
async fn scripts_of_listed_origins_may_read_answers_errors_and_their_headers() {
    let gateway = TestGateway::start(CORS).await;
    for (path, status) in [("/api/v1/models", 200), ("/api/v1/models/none/such", 404), ("/nowhere", 404)] {
        let reply = read(&gateway, path, APP).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some(APP), "{path}");
        let exposed = reply.header("access-control-expose-headers").unwrap();
        for name in ["x-request-id", "x-generation-id", "x-route-model", "x-ratelimit-remaining-requests"] {
            assert!(exposed.contains(name), "{name} in {exposed}");
        }
        assert!(reply.header("x-request-id").is_some());
    }
    let foreign = read(&gateway, "/api/v1/models", "https://evil.example").await;
    assert_eq!((foreign.status, foreign.header("access-control-allow-origin")), (200, None));
}

#[actix_web::test]
async fn a_star_lets_every_origin_in() {
    let gateway = TestGateway::start("[cors]\nallowed_origins = [\"*\"]\n").await;
    assert_eq!(preflight(&gateway, "https://any.example", "POST").await.status, 200);
    let reply = read(&gateway, "/api/v1/models", "https://any.example").await;
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
}

#[actix_web::test]
async fn without_configured_origins_browsers_are_told_nothing() {
    let gateway = TestGateway::start("").await;
    assert_eq!(preflight(&gateway, APP, "POST").await.status, 405);
    let reply = read(&gateway, "/api/v1/models", APP).await;
    assert_eq!(reply.status, 200);
    assert!(reply.headers.keys().all(|name| !name.starts_with("access-control-")), "{:?}", reply.headers);
}

#[actix_web::test]
async fn headers_over_the_limit_are_431_with_a_body_and_a_request_id() {
    let gateway = TestGateway::start("[limits]\nmax_header = 2048\n").await;
    let with = |length: usize| [("x-filler", "f".repeat(length)), ("x-request-id", "mine".to_owned())];
    for (length, status) in [(1000, 200), (2040, 431), (60_000, 431)] {
        let headers = with(length);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let reply = gateway.call(Method::GET, "/api/v1/models", &headers, None).await;
        assert_eq!((reply.status, reply.header("x-request-id")), (status, Some("mine")), "{length}");
        if status == 431 {
            let error = reply.json()["error"].take();
            assert_eq!((&error["code"], &error["type"]), (&431.into(), &"invalid_request_error".into()));
            assert_eq!(error["metadata"]["error_type"], "payload_too_large");
            assert_eq!(error["metadata"]["reason"], "headers_too_large");
            assert_eq!(error["metadata"]["request_id"], "mine");
        }
    }
    assert_eq!(gateway.get("/api/v1/models").await.status, 200);
}

#[actix_web::test]
async fn metrics_that_are_switched_off_are_not_there() {
    let gateway = TestGateway::start("[metrics]\nenabled = false\n").await;
    assert_eq!(gateway.get("/metrics").await.expect(404)["error"]["metadata"]["reason"], "unknown_path");
    assert_eq!(TestGateway::start("").await.get("/metrics").await.status, 200);
}
