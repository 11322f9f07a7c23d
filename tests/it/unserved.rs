//! Valid calls that no endpoint can take, and calls that are refused for a mistake or a limit of the caller: what is recorded
//! of them, and where they are counted.

use std::net::SocketAddr;

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    console_login::Browser,
    folder::Folder,
    generation_lists::ADMIN,
    harness::TestGateway,
    scrape::Scrape,
    scripted::{Script, Upstream, refused_address},
    world::{Model, World, and, ask, error_of, http_with, saying},
};

fn world(address: SocketAddr, folder: &Folder) -> World {
    let ledger = format!("[ledger]\ndata_dir = {:?}\n[routing.retry]\nbudget_ratio = 0\n", folder.at("ledger"));
    World::default()
        .with(&ledger)
        .provider("acme", address)
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
        .with("[[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]\n")
        .variable("ADMIN", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
}

async fn admin(gateway: &TestGateway, path: &str) -> Value {
    let bearer = format!("Bearer {ADMIN}");
    gateway.admin().call(Method::GET, path, &[("authorization", &bearer)], None).await.expect(200)
}

/// A provider that answers 429 and asks for a minute.
fn limiting() -> Upstream {
    let slow = http_with(429, "retry-after: 60\r\n", &json!({"error": {"message": "slow down"}}));
    Upstream::start([Script::answering(slow)])
}

#[actix_web::test]
async fn a_call_that_no_endpoint_could_take_is_a_failed_generation_with_its_decision() {
    let (upstream, folder) = (limiting(), Folder::new());
    let gateway = world(upstream.address(), &folder).start().await;
    error_of(&gateway.chat(&ask("acme/small")).await, 429);
    for streamed in [false, true] {
        let body = and(ask("acme/small"), json!({"stream": streamed, "objective": "fastest"}));
        let before = Scrape::of(&gateway).await.sum("generations_total", &[("result", "failed")]);
        let reply = gateway.chat(&body).await;
        let error = error_of(&reply, 429);
        assert_eq!((&error["metadata"]["reason"], upstream.requests().len()), (&json!("provider"), 1));
        let id = reply.header("x-generation-id").expect("an id").to_owned();
        assert_eq!(error["metadata"]["generation_id"], id);

        let explained =
            gateway.get(&format!("/api/v1/route/explain?generation_id={id}&why_not=acme")).await.expect(200);
        assert_eq!((&explained["status"], &explained["decision_code"]), (&json!("failed"), &json!("no_candidates")));
        assert_eq!((&explained["candidates"], &explained["attempts"]), (&json!([]), &json!([])));
        assert_eq!((&explained["streamed"], &explained["objective"]), (&json!(streamed), &json!("fastest")));
        assert_eq!((&explained["total_cost"], &explained["ledger_cost"]), (&json!(0), &json!(0)));
        let excluded = &explained["excluded"][0];
        assert_eq!((&excluded["reason"], &excluded["provider_slug"]), (&json!("rate_limited"), &json!("acme")));
        let reason = explained["decision_reason"].as_str().unwrap();
        assert!(
            reason.starts_with("fastest: no endpoint could take the request, so none was called; skipped for now: "),
            "{reason}"
        );
        assert_eq!(explained["why_not"]["verdict"], "refused");
        let replayed = gateway.get(&format!("/api/v1/route/replay?generation_id={id}")).await;
        assert_eq!(replayed.status, 200, "{}", replayed.text());

        let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
        assert_eq!(record["data"]["model"], "acme/small", "what was asked for");
        let row = admin(&gateway, "/api/v1/admin/generations?limit=1&status=failed").await["data"][0].take();
        assert_eq!((&row["id"], &row["chain"], &row["key"]), (&json!(id), &json!([]), &json!("test")));
        let failed = Scrape::of(&gateway).await.sum("generations_total", &[("result", "failed")]);
        assert_eq!(failed, before + 1.0);
        assert_eq!(Scrape::of(&gateway).await.sum("refused_requests_total", &[]), 0.0);
    }
    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let rows = admin(&gateway, "/api/v1/admin/generations?limit=1").await;
    let id = rows["data"][0]["id"].as_str().unwrap();
    let page = browser.page(&format!("/console/decisions/{id}?replay=true&why_not=acme")).await;
    for part in ["no endpoint could take the request", "rate limited", "was shown a failure"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(Scrape::of(&gateway).await.sum("decisions_total", &[("code", "no_candidates")]) >= 2.0);
}

#[actix_web::test]
async fn a_call_behind_an_open_breaker_is_a_failed_generation_whether_or_not_it_is_tried() {
    let folder = Folder::new();
    let gateway = world(refused_address(), &folder).start().await;
    let mut calls = 0.0;
    let refused = loop {
        let reply = gateway.chat(&ask("acme/small")).await;
        calls += 1.0;
        assert!(calls < 20.0, "the breaker does not open: {}", reply.text());
        if reply.status == 503 {
            break error_of(&reply, 503);
        }
    };
    assert_eq!(refused["metadata"]["reason"], "all_circuits_open");
    let id = refused["metadata"]["generation_id"].as_str().expect("an id");
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
    assert_eq!(explained["status"], "failed");
    assert_eq!(Scrape::of(&gateway).await.sum("generations_total", &[("result", "failed")]), calls);
}

#[actix_web::test]
async fn a_mistake_of_the_caller_is_no_failure_and_counts_by_its_reason() {
    let (upstream, folder) = (saying("never"), Folder::new());
    let gateway = world(upstream.address(), &folder).start().await;
    for (body, status, reason) in [
        (and(ask("acme/small"), json!({"blocked_models": ["acme/*"]})), 404, "no_candidates"),
        (ask("acme/nope"), 404, "model_not_found"),
        (and(ask("acme/small"), json!({"max_tokens": 100_000_000})), 400, "context_length_exceeded"),
        (and(ask("acme/small"), json!({"messages": 3})), 400, "invalid_type"),
    ] {
        let reply = gateway.chat(&body).await;
        let error = error_of(&reply, status);
        assert_eq!(error["metadata"]["generation_id"], Value::Null, "{reason}");
        let scrape = Scrape::of(&gateway).await;
        assert_eq!(scrape.sum("refused_requests_total", &[("reason", reason)]), 1.0, "{reason}: {error}");
    }
    let scrape = Scrape::of(&gateway).await;
    assert_eq!((scrape.sum("generations_total", &[]), scrape.sum("refused_requests_total", &[])), (0.0, 4.0));
    assert_eq!(admin(&gateway, "/api/v1/admin/generations").await["data"], json!([]));
}

#[actix_web::test]
async fn a_keys_errors_are_counted_by_status_and_shown_with_it() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(upstream.address(), &folder).start().await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    for _ in 0..2 {
        error_of(&gateway.chat(&ask("acme/nope")).await, 404);
    }
    error_of(&gateway.chat(&and(ask("acme/small"), json!({"messages": 3}))).await, 400);
    let keys = admin(&gateway, "/api/v1/admin/keys").await;
    let of = |name: &str| keys["data"].as_array().unwrap().iter().find(|key| key["name"] == name).unwrap();
    assert_eq!(of("test")["errors"], json!([{"status": 400, "count": 1}, {"status": 404, "count": 2}]));
    assert_eq!(of("admin")["errors"], json!([]));
    let page = Browser::logged_in(&gateway, ADMIN).await.page("/console/keys").await;
    assert!(page.contains("× 404") && page.contains("× 400"), "{page}");
}
