//! From one configuration to another while requests run: nothing is lost, nothing is counted anew, and no request
//! sees two configurations.

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    raw_client::RawClient,
    scripted::{Gate, Script, Upstream},
    world::{Model, World, and, ask, saying},
};

/// A world whose model `acme/small` is served by `slug` at that upstream.
fn served_by(slug: &str, upstream: &Upstream) -> World {
    World::new().provider(slug, upstream.address()).model(&Model::new("acme/small").at(slug, "0.000001", "0.000001"))
}

/// An upstream whose stream says "first", waits for the gate, and ends in order.
fn halting(gate: &Gate) -> Upstream {
    let event = |delta: Value, finish: Value| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        format!("data: {}\n\n", json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "choices": choices}))
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let first = event(json!({"content": "first"}), Value::Null);
    let rest = format!(
        "{}{}data: [DONE]\n\n",
        event(json!({"content": "last"}), Value::Null),
        event(json!({}), json!("stop"))
    );
    Upstream::start([Script::new().request().send(format!("{head}{first}")).wait(gate).send(rest).fin()])
}

async fn stream(gateway: &TestGateway) -> RawClient {
    let mut client = RawClient::chat(gateway, &and(ask("acme/small"), json!({"stream": true}))).await;
    client.until("first").await;
    client
}

#[actix_web::test]
async fn a_stream_ends_as_it_began_though_its_provider_is_gone_from_the_configuration() {
    let gate = Gate::new();
    let old = halting(&gate);
    let new = saying("from the new one");
    let gateway = served_by("acme", &old).start().await;
    let mut client = stream(&gateway).await;

    assert_eq!(served_by("bolt", &new).take_over(&gateway).await, 2);

    let reply = gateway.chat(&ask("acme/small")).await.expect(200);
    assert_eq!(reply["choices"][0]["message"]["content"], "from the new one");
    assert_eq!(reply["system_fingerprint"], "fp_2");
    gate.open();
    let rest = client.until("data: [DONE]\n\n").await;
    assert!(rest.contains("last") && rest.contains("fp_1") && !rest.contains("\"error\""), "{rest}");
    let record = gateway.get(&format!("/api/v1/generation?id={}", client.generation())).await.expect(200);
    assert_eq!(record["data"]["provider_name"], "Acme");
    assert_eq!(record["data"]["finish_reason"], "stop");
}

#[actix_web::test]
async fn what_is_in_flight_is_counted_under_every_configuration() {
    let gate = Gate::new();
    let upstream = halting(&gate);
    let world = served_by("acme", &upstream).with("[limits]\nconcurrency = 1");
    let gateway = world.start().await;
    let mut client = stream(&gateway).await;

    world.take_over(&gateway).await;

    gateway.chat(&ask("acme/small")).await.expect(503);
    let providers = gateway.get("/api/v1/health/providers").await.expect(200);
    assert_eq!(providers["data"][0]["in_flight"], 1);
    gate.open();
    client.until("data: [DONE]\n\n").await;
    let providers = gateway.get("/api/v1/health/providers").await.expect(200);
    assert_eq!((&providers["data"][0]["in_flight"], &providers["data"][0]["successes"]), (&json!(0), &json!(1)));
}

#[actix_web::test]
async fn a_spent_rate_stays_spent_unless_the_limit_changes() {
    let upstream = saying("Hello");
    let limited = |rate: u32| {
        let key = format!("key_requests_per_minute = {rate}");
        served_by("acme", &upstream).with(&format!("[limits]\n{key}"))
    };
    let gateway = limited(1).start().await;
    gateway.chat(&ask("acme/small")).await.expect(200);

    limited(1).take_over(&gateway).await;
    gateway.chat(&ask("acme/small")).await.expect(429);

    limited(2).take_over(&gateway).await;
    gateway.chat(&ask("acme/small")).await.expect(200);
}

#[actix_web::test]
async fn open_connections_are_kept_where_the_address_stays_and_a_new_key_is_used_on_them() {
    let upstream = saying("Hello");
    let gateway = served_by("acme", &upstream).start().await;
    gateway.chat(&ask("acme/small")).await.expect(200);

    served_by("acme", &upstream).variable("ACME_KEY", "sk-upstream-rotated").take_over(&gateway).await;
    gateway.chat(&ask("acme/small")).await.expect(200);

    assert_eq!(upstream.connections(), 1);
    let keys: Vec<bool> = upstream.requests().iter().map(|request| request.contains("sk-upstream-rotated")).collect();
    assert_eq!(keys, [false, true]);
}

#[actix_web::test]
async fn what_is_known_about_an_endpoint_survives_and_models_come_and_go() {
    let upstream = saying("Hello");
    let gateway = served_by("acme", &upstream).start().await;
    gateway.chat(&ask("acme/small")).await.expect(200);

    // In front of the old one, so that every position changes.
    let before = World::new().provider("aaaa", upstream.address());
    let world = before.with(served_by("acme", &upstream).toml().split_once("objectives = []").unwrap().1);
    let world = world.variable("ACME_KEY", "sk-upstream-acme-5ec2e7");
    let model = Model::new("acme/large").at("aaaa", "0.000001", "0.000001");
    world.model(&model).take_over(&gateway).await;

    gateway.chat(&ask("acme/large")).await.expect(200);
    let stats = gateway.get("/api/v1/models/stats").await.expect(200);
    let requests: Vec<_> = stats["data"].as_array().unwrap().iter().map(|it| (&it["model"], &it["requests"])).collect();
    assert!(requests.iter().all(|(_, requests)| **requests == json!(1)), "{requests:?}");
    assert_eq!(requests.len(), 2, "{stats}");
}

#[actix_web::test]
async fn an_old_decision_is_explained_with_the_names_it_was_made_with() {
    let upstream = saying("Hello");
    let gateway = served_by("acme", &upstream).start().await;
    let id = gateway.chat(&ask("acme/small")).await.expect(200)["id"].as_str().unwrap().to_owned();

    served_by("bolt", &upstream).take_over(&gateway).await;

    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
    let candidate = &explained["candidates"][0];
    assert_eq!((&candidate["provider_name"], &candidate["model"]), (&json!("Acme"), &json!("acme/small")));
    assert_eq!((&explained["catalog_version"], &explained["policy_version"]), (&json!(1), &json!(1)));
    let reason = explained["decision_reason"].as_str().unwrap();
    assert!(reason.contains("Acme") && !reason.contains("Bolt"), "{reason}");
}
