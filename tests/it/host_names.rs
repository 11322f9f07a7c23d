//! A web page can have its own name point to this machine. A listener on loopback does not answer to that name.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway, preamble},
    scripted::Upstream,
    world::{Model, World, ask, raw, saying},
};

const ADMIN: &str = "sk-admin-0a1b2c3d4e5f";

fn world(upstream: &Upstream) -> World {
    World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
        .with("[[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]\n")
        .variable("ADMIN", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
}

/// What a request with these header lines is answered with: the status and the body.
async fn answer(address: SocketAddr, line: &str, host: &str, more: &str, body: &str) -> (u16, String) {
    let text = format!(
        "{line}\r\n{host}connection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{more}\r\n{body}",
        body.len()
    );
    let answer = raw(address, text).await;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status.unwrap_or_else(|| panic!("no answer: {answer:?}")), body.to_owned())
}

async fn page(gateway: &TestGateway, path: &str, host: &str) -> u16 {
    let key = format!("authorization: Bearer {ADMIN}\r\n");
    answer(gateway.address, &format!("GET {path} HTTP/1.1"), &format!("host: {host}\r\n"), &key, "").await.0
}

#[actix_web::test]
async fn a_page_that_has_its_name_point_to_this_machine_reaches_neither_models_nor_administration() {
    let upstream = saying("Hello");
    let gateway = world(&upstream).start().await;
    let admin = gateway.admin();
    let key = format!("authorization: Bearer {KEY}\r\n");
    let chat = async |host: &str| {
        let host = format!("host: {host}\r\n");
        answer(gateway.address, "POST /api/v1/chat/completions HTTP/1.1", &host, &key, &ask("acme/small").to_string())
            .await
    };
    for host in
        ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.nip.io", "192.168.0.1", "::1", ""]
    {
        let (status, body) = chat(host).await;
        assert_eq!(status, 421, "{host}: {body}");
        let error: Value = serde_json::from_str(&body).unwrap();
        let error = &error["error"];
        assert_eq!((&error["code"], &error["type"]), (&json!(421), &json!("invalid_request_error")), "{error}");
        assert_eq!(error["metadata"]["reason"], "host_not_allowed", "{error}");
        assert!(error["metadata"]["request_id"].is_string(), "{error}");
        assert!(error["message"].as_str().unwrap().contains("server.hosts"), "{error}");
        for path in ["/health/live", "/metrics", "/nothing", "/api/v1/models"] {
            assert_eq!(page(&gateway, path, host).await, 421, "{host} {path}");
        }
        for path in ["/health/live", "/metrics", "/nothing", "/api/v1/admin/status", "/api/v1/admin/keys"] {
            assert_eq!(page(&admin, path, host).await, 421, "{host} {path}");
        }
    }
    assert!(upstream.requests().is_empty(), "nobody was called");

    for host in ["localhost", "LOCALHOST.:1", "127.0.0.1", "127.1.2.3:80", "[::1]:8080", "[::ffff:127.0.0.1]"] {
        assert_eq!(page(&gateway, "/health/live", host).await, 200, "{host}");
        assert_eq!(page(&admin, "/api/v1/admin/status", host).await, 200, "{host}");
    }
    assert_eq!(chat("localhost:8080").await.0, 200);
}

#[actix_web::test]
async fn a_preflight_of_such_a_page_is_refused_as_well_and_nobody_without_a_key_is_let_in() {
    let upstream = saying("Hello");
    let world = world(&upstream).with("[cors]\nallowed_origins = [\"*\"]");
    let gateway = world.variable("POINTSMAN__AUTH__MODE", "none").start().await;
    let path = "/api/v1/chat/completions HTTP/1.1";
    let preflight = "origin: http://evil.example\r\naccess-control-request-method: POST\r\n";
    let host = "host: evil.example\r\n";
    assert_eq!(answer(gateway.address, &format!("OPTIONS {path}"), host, preflight, "").await.0, 421);
    let body = ask("acme/small").to_string();
    assert_eq!(answer(gateway.address, &format!("POST {path}"), host, "", &body).await.0, 421);
    assert_eq!(answer(gateway.address, &format!("POST {path}"), "host: localhost\r\n", "", &body).await.0, 200);
}

#[actix_web::test]
async fn the_host_may_be_left_out_by_http_1_0_only_and_one_in_the_target_counts() {
    let upstream = saying("Hello");
    let gateway = world(&upstream).start().await;
    for (line, host, expected) in [
        ("GET /health/live HTTP/1.0", "", 200),
        ("GET /health/live HTTP/1.0", "host: evil.example\r\n", 421),
        ("GET /health/live HTTP/1.1", "", 400),
        ("GET /health/live HTTP/1.1", "host: localhost\r\nhost: evil.example\r\n", 400),
        ("GET http://evil.example/health/live HTTP/1.1", "host: localhost\r\n", 421),
        ("GET http://localhost/health/live HTTP/1.1", "host: localhost\r\n", 200),
        ("GET http://localhost/health/live HTTP/1.1", "host: evil.example\r\n", 421),
    ] {
        assert_eq!(answer(gateway.address, line, host, "", "").await.0, expected, "{line} {host}");
    }
}

#[actix_web::test]
async fn each_listener_answers_to_the_hosts_of_its_list_and_a_reload_changes_them() {
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = world(&upstream);
    let text = |front: &str, back: &str| {
        let text = format!("{}\n{}", preamble(), world.toml());
        let text = text.replace("[server]\n", &format!("[server]\nhosts = {front}\n"));
        format!("{text}\n[admin]\nhosts = {back}\n[reload]\nwatch = false\ndebounce = \"1ms\"\n")
    };
    folder.put("config.toml", &text("[\"Front.example\"]", "[\"back.example\", \"192.168.0.1\"]"));
    let environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let gateway = TestGateway::load(&folder.at("config.toml"), &environment).await;
    let admin = gateway.admin();
    let seen =
        async |host: &str| (page(&gateway, "/health/live", host).await, page(&admin, "/health/live", host).await);
    assert_eq!(seen("front.example:8080").await, (200, 421));
    assert_eq!(seen("back.example").await, (421, 200));
    assert_eq!(seen("192.168.0.1").await, (421, 200));

    folder.put("config.toml", &text("[]", "[\"front.example\"]"));
    gateway.inner().reload(pointsman::state::reload::ReloadTrigger::Signal).await;
    assert_eq!(seen("front.example").await, (421, 200));
    assert_eq!(seen("back.example").await, (421, 421));
}

#[actix_web::test]
async fn beyond_loopback_every_host_is_answered() {
    let upstream = saying("Hello");
    let gateway = world(&upstream).variable("POINTSMAN__SERVER__BIND", "0.0.0.0:0").start().await;
    let at = TestGateway::at(SocketAddr::from(([127, 0, 0, 1], gateway.address.port())));
    assert_eq!(page(&at, "/health/live", "gateway.example").await, 200);
    assert_eq!(page(&gateway.admin(), "/health/live", "gateway.example").await, 421, "that one is on loopback");
}
