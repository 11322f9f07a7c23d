//! The listener for administration: who is let in, and what can be done to a running gateway.

use std::net::TcpListener;

use actix_web::http::Method;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

use crate::{
    harness::{KEY, Reply, TestGateway},
    process::{ConfigFile, Process, run},
    scripted::Upstream,
    world::{Model, World, ask, error_of, provider_key, saying},
};

const ADMIN: &str = "sk-admin-0a1b2c3d4e5f";
const BOSS: &str = "sk-boss-0a1b2c3d4e5f6a";
const READER: &str = "sk-reader-0a1b2c3d4e5f";

/// One model, the test key, an administrator, one who may call too, and a reader.
fn world(upstream: &Upstream) -> World {
    let keys = [("admin", "[\"admin\"]"), ("boss", "[\"admin\", \"inference\"]"), ("reader", "[\"read\"]")];
    let keys = keys.map(|(name, scopes)| {
        format!("[[keys]]\nname = \"{name}\"\nenv = \"{}\"\nscopes = {scopes}\n", name.to_uppercase())
    });
    World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
        .with(&keys.concat())
        .variable("ADMIN", ADMIN)
        .variable("BOSS", BOSS)
        .variable("READER", READER)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
}

async fn call(gateway: &TestGateway, method: Method, path: &str, key: &str) -> Reply {
    let bearer = if key.is_empty() { String::new() } else { format!("Bearer {key}") };
    gateway.call(method, path, &[("authorization", &bearer)], None).await
}

async fn chat(gateway: &TestGateway, key: &str) -> Reply {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = ask("acme/small").to_string().into_bytes();
    gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body)).await
}

/// Every page and what it is called with.
fn pages() -> [(Method, &'static str); 14] {
    [
        (Method::GET, "/api/v1/admin/status"),
        (Method::POST, "/api/v1/admin/reload"),
        (Method::GET, "/api/v1/admin/keys"),
        (Method::GET, "/api/v1/admin/keys/test"),
        (Method::POST, "/api/v1/admin/keys/boss/disable"),
        (Method::POST, "/api/v1/admin/keys/boss/enable"),
        (Method::GET, "/api/v1/admin/ledger"),
        (Method::GET, "/api/v1/admin/series"),
        (Method::GET, "/api/v1/admin/running"),
        (Method::GET, "/api/v1/admin/verdict"),
        (Method::GET, "/api/v1/admin/accounts"),
        (Method::GET, "/api/v1/admin/teams"),
        (Method::GET, "/api/v1/admin/audit"),
        (Method::DELETE, "/api/v1/admin/ledger/records?older_than_secs=0"),
    ]
}

#[actix_web::test]
async fn only_keys_with_the_scope_admin_administrate() {
    let upstream = saying("Hello");
    let gateway = world(&upstream).start().await;
    let admin = gateway.admin();
    for (method, path) in pages() {
        for (key, status, reason) in [
            ("", 401, "missing_key"),
            ("sk-nobody-0a1b2c3d4e5f", 401, "invalid_key"),
            (KEY, 403, "scope"),
            (READER, 403, "scope"),
        ] {
            let error = error_of(&call(&admin, method.clone(), path, key).await, status);
            assert_eq!(error["metadata"]["reason"], reason, "{method} {path} {key}");
        }
        // Without a file there is nothing to read again: the one page that has to refuse.
        let expected = if path.ends_with("reload") { 400 } else { 200 };
        assert_eq!(call(&admin, method, path, ADMIN).await.status, expected, "{path}");
    }
}

#[actix_web::test]
async fn an_administrator_may_not_spend_money_unless_its_key_says_so() {
    let upstream = saying("Hello");
    let gateway = world(&upstream).start().await;
    assert_eq!(error_of(&chat(&gateway, ADMIN).await, 403)["metadata"]["reason"], "scope");
    let answered = chat(&gateway, BOSS).await.expect(200);
    let path = format!("/api/v1/generation?id={}", answered["id"].as_str().unwrap());
    assert_eq!(call(&gateway, Method::GET, &path, ADMIN).await.status, 200, "it may read everybody's records");
}

#[actix_web::test]
async fn the_public_listener_knows_no_administration_and_the_other_serves_no_models() {
    let upstream = saying("Hello");
    let gateway = world(&upstream).start().await;
    for (method, path) in pages() {
        let error = error_of(&call(&gateway, method, path, ADMIN).await, 404);
        assert_eq!(error["metadata"]["reason"], "unknown_path", "{path}");
    }
    let admin = gateway.admin();
    assert_eq!(chat(&admin, BOSS).await.status, 404);
    assert_eq!(call(&admin, Method::GET, "/api/v1/models", BOSS).await.status, 404);
    for path in ["/health/live", "/health/ready", "/metrics"] {
        assert_eq!(call(&admin, Method::GET, path, "").await.status, 200, "{path}");
    }
    assert_eq!(error_of(&call(&admin, Method::GET, "/api/v1/admin/reload", ADMIN).await, 405)["code"], 405);
}

#[actix_web::test]
async fn where_nobody_needs_a_key_administrators_still_do() {
    let upstream = saying("Hello");
    let gateway = world(&upstream).variable("POINTSMAN__AUTH__MODE", "none").start().await;
    assert_eq!(gateway.chat(&ask("acme/small")).await.status, 200);
    assert_eq!(call(&gateway.admin(), Method::GET, "/api/v1/admin/status", "").await.status, 401);
    assert_eq!(call(&gateway.admin(), Method::GET, "/api/v1/admin/status", ADMIN).await.status, 200);
}

#[actix_web::test]
async fn a_key_is_switched_off_and_on_until_the_process_ends() {
    let upstream = saying("Hello");
    let world = world(&upstream);
    let gateway = world.start().await;
    let admin = gateway.admin();
    gateway.chat(&ask("acme/small")).await.expect(200);

    let shown = call(&admin, Method::POST, "/api/v1/admin/keys/test/disable", ADMIN).await.expect(200);
    assert_eq!((&shown["data"]["state"], &shown["data"]["switched"]), (&json!("disabled"), &json!(true)));
    let error = error_of(&gateway.chat(&ask("acme/small")).await, 401);
    assert_eq!(error["metadata"]["reason"], "disabled_key");

    world.clone().with("[limits]\nmax_n = 3").take_over(&gateway).await;
    assert_eq!(gateway.chat(&ask("acme/small")).await.status, 401, "another configuration does not let it in again");

    call(&admin, Method::POST, "/api/v1/admin/keys/test/enable", ADMIN).await.expect(200);
    gateway.chat(&ask("acme/small")).await.expect(200);
    let shown = call(&admin, Method::GET, "/api/v1/admin/keys/test", ADMIN).await.expect(200);
    let data = &shown["data"];
    assert_eq!((&data["calls"], &data["records"], &data["in_flight"]), (&json!(2), &json!(2), &json!(0)));
    assert!(data["last_call_at"].is_string() && data["usage"]["total"].as_f64().unwrap() > 0.0, "{data}");

    let own = error_of(&call(&admin, Method::POST, "/api/v1/admin/keys/admin/disable", ADMIN).await, 400);
    assert!(own["message"].as_str().unwrap().contains("cannot disable itself"), "{own}");
    assert_eq!(call(&admin, Method::POST, "/api/v1/admin/keys/nobody/disable", ADMIN).await.status, 404);
}

#[actix_web::test]
async fn keys_are_listed_without_what_they_are() {
    let upstream = saying("Hello");
    let gateway = world(&upstream).start().await;
    let reply = call(&gateway.admin(), Method::GET, "/api/v1/admin/keys", ADMIN).await;
    let listed = reply.expect(200);
    let names: Vec<&str> = listed["data"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["test", "admin", "boss", "reader"]);
    let status = call(&gateway.admin(), Method::GET, "/api/v1/admin/status", ADMIN).await;
    let ledger = call(&gateway.admin(), Method::GET, "/api/v1/admin/ledger", ADMIN).await;
    for text in [reply.text(), status.text(), ledger.text()] {
        for key in [KEY, ADMIN, BOSS, READER, &provider_key("acme")] {
            assert!(!text.contains(key), "{text}");
            let digest = hex::encode(pointsman_config::digest_of(key));
            assert!(!text.contains(&digest), "{text}");
        }
    }
}

#[actix_web::test]
async fn records_are_counted_and_deleted_by_key_and_by_age() {
    let upstream = saying("Hello");
    let gateway = world(&upstream).start().await;
    let admin = gateway.admin();
    let id = gateway.chat(&ask("acme/small")).await.expect(200)["id"].as_str().unwrap().to_owned();
    gateway.chat(&ask("acme/small")).await.expect(200);
    chat(&gateway, BOSS).await.expect(200);

    let held = call(&admin, Method::GET, "/api/v1/admin/ledger", ADMIN).await.expect(200);
    assert_eq!((&held["data"]["records"], &held["data"]["capacity"]), (&json!(3), &json!(10_000)));
    let mut by_key: Vec<(String, u64)> = held["data"]["by_key"].as_array().unwrap().iter().map(one_owner).collect();
    by_key.sort();
    assert_eq!(by_key, [("boss".to_owned(), 1), ("test".to_owned(), 2)]);

    let delete =
        async |query: &str| call(&admin, Method::DELETE, &format!("/api/v1/admin/ledger/records{query}"), ADMIN).await;
    for query in ["", "?older_than_secs=soon", "?colour=red", "?key=test&owner=1"] {
        let error = error_of(&delete(query).await, 400);
        assert!(error["message"].as_str().unwrap().contains("older_than_secs"), "{query}: {error}");
    }
    assert_eq!(delete("?key=nobody").await.status, 404);
    assert_eq!(delete("?older_than_secs=3600").await.expect(200), json!({"deleted": 0}));
    assert_eq!(delete("?key=test").await.expect(200), json!({"deleted": 2}));
    assert_eq!(gateway.get(&format!("/api/v1/generation?id={id}")).await.status, 404);
    assert_eq!(delete("?older_than_secs=0").await.expect(200), json!({"deleted": 1}));
    let held = call(&admin, Method::GET, "/api/v1/admin/ledger", ADMIN).await.expect(200);
    assert_eq!((&held["data"]["records"], &held["data"]["by_key"]), (&json!(0), &json!([])));
    let spent = gateway.get("/api/v1/key").await.expect(200);
    assert!(spent["data"]["usage"].as_f64().unwrap() > 0.0, "what was spent stays spent: {spent}");
}

fn one_owner(entry: &Value) -> (String, u64) {
    (entry["key"].as_str().unwrap().to_owned(), entry["records"].as_u64().unwrap())
}

#[actix_web::test]
async fn the_status_tells_of_actors_places_and_the_configuration() {
    let upstream = saying("Hello");
    let gateway = world(&upstream).start().await;
    let status = call(&gateway.admin(), Method::GET, "/api/v1/admin/status", ADMIN).await.expect(200);
    let data = &status["data"];
    assert_eq!(data["config"]["version"], 1);
    let started: DateTime<Utc> = data["started_at"].as_str().unwrap().parse().unwrap();
    assert!((Utc::now() - started).abs() < TimeDelta::hours(1), "{data}");
    let actors: Vec<_> =
        data["actors"].as_array().unwrap().iter().map(|actor| (&actor["name"], &actor["ok"])).collect();
    let yes = json!(true);
    let names = ["catalog", "health", "ledger", "router"].map(|name| json!(name));
    assert_eq!(actors, names.iter().map(|name| (name, &yes)).collect::<Vec<_>>());
    let address = upstream.address().to_string();
    let provider = json!({"slug": "acme", "address": address, "taken": 0, "most": 256, "key_from": "ACME_KEY",
                          "oldest_price_date": null, "breakers": []});
    assert_eq!(data["providers"], json!([provider]));
}

#[actix_web::test]
async fn the_configuration_is_read_again_on_request_and_every_fault_is_told() {
    let upstream = saying("Hello");
    let world = world(&upstream);
    let file = ConfigFile::new(&format!("{}\n[reload]\nwatch = false\n{}", crate::harness::preamble(), world.toml()));
    let environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let gateway = TestGateway::load(file.path().as_ref(), &environment).await;
    let admin = gateway.admin();
    let reload = async || call(&admin, Method::POST, "/api/v1/admin/reload", ADMIN).await;
    assert_eq!(reload().await.expect(200)["result"], "unchanged");

    let good = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(file.path(), format!("{good}\n[limits]\nmax_n = 3\n[cors]\nallowed_origins = [\"*\"]\n")).unwrap();
    let changed = reload().await.expect(200);
    assert_eq!((&changed["result"], &changed["version"]), (&json!("changed"), &json!(2)));
    assert_eq!(changed["restart_pending"][0]["key"], "cors.allowed_origins");
    assert_eq!(changed["changes"], json!(["limits.max_n"]), "what waits for a restart has not changed");

    std::fs::write(file.path(), "[limits]\nmax_n = 0\ncolour = 1\n").unwrap();
    let error = error_of(&reload().await, 400);
    assert_eq!(error["metadata"]["reason"], "configuration_refused");
    let faults = error["metadata"]["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 2, "{error}");
    assert!(faults[0].as_str().unwrap().contains(":2:9: limits.max_n:"), "{error}");
    let status = call(&admin, Method::GET, "/api/v1/admin/status", ADMIN).await.expect(200);
    let last = &status["data"]["config"]["last_reload"];
    assert_eq!((&last["result"], &last["faults"]), (&json!("refused"), &error["metadata"]["faults"]));

    let audit = call(&admin, Method::GET, "/api/v1/admin/audit", ADMIN).await.expect(200);
    let line = |position: usize| {
        let line = &audit["data"][position];
        let changes = line["changes"].as_array().unwrap();
        let to =
            |member: &str| changes.iter().find(|change| change["member"] == member).map(|change| change["to"].clone());
        assert_eq!(
            (&line["action"], &line["by"], &line["from"]),
            (&json!("reload"), &json!("admin"), &json!("127.0.0.1"))
        );
        (to("result").unwrap(), to("settings").unwrap())
    };
    assert_eq!(line(0), (json!("refused"), json!([])));
    assert_eq!(line(1), (json!("changed"), json!(["limits.max_n"])));
    assert_eq!(line(2), (json!("unchanged"), json!([])));
}

#[test]
fn a_public_address_for_administration_needs_encryption_and_no_development_key() {
    let open = ("POINTSMAN__ADMIN__BIND", "0.0.0.0:0");
    let refused = run(&["check"], &[open]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("admin.bind: the development key is public and works on loopback only"), "{text}");

    let closed = ("POINTSMAN__AUTH__DEVELOPMENT_KEY_ENABLED", "false");
    let refused = run(&["check"], &[open, closed]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("admin.bind: keys with the scope admin would be sent to 0.0.0.0:0 unencrypted"), "{text}");

    let noted = run(&["check"], &[open, closed, ("POINTSMAN__ADMIN__ALLOW_PLAIN_HTTP", "true")]);
    let text = String::from_utf8_lossy(&noted.stdout);
    assert!(text.contains("admin.bind is 0.0.0.0:0: keys with the scope admin are sent there unencrypted"), "{text}");
}

#[actix_web::test]
async fn an_address_for_administration_that_is_taken_ends_the_start_unless_it_is_the_default() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&[], &[("POINTSMAN__SERVER__BIND", "127.0.0.1:0"), ("POINTSMAN__ADMIN__BIND", &address)]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains(&address) && text.contains("POINTSMAN__ADMIN__BIND"), "{text}");

    // Whoever has it: this test, or another process of this machine.
    let _taken = TcpListener::bind("127.0.0.1:8081");
    let default = [("POINTSMAN__SERVER__BIND", "127.0.0.1:0"), ("POINTSMAN__ADMIN__BIND", "127.0.0.1:8081")];
    let process = Process::start(&[], &[default[0], default[1], ("POINTSMAN__SIMULATION__MODE", "on")]);
    process.says("127.0.0.1:8081 is taken", 1).await;
}
