//! Whoever serves a request is named alike by the answer, its header, its record and its explanation, however it came to serve; and a
//! model that a request names is never exchanged.

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::Upstream,
    world::{Model, World, always, and, ask, saying},
};

/// Everything that may lead a request to another model: a canary, choices at random, a second answer, and a ladder.
const ALIASES: &str = r#"
[routing.explore]
share = 0.5
max_extra_cost = 1.0
[[aliases]]
name = "any"
objective = "cheapest"
allowed_models = ["acme/a", "acme/b"]
[[aliases]]
name = "tried"
ladder = ["acme/a"]
sticky = "request"
[aliases.canary]
share = 0.5
use = ["acme/b"]
max_failures = 0.5
[[aliases]]
name = "careful"
allowed_models = ["acme/empty"]
cascade = { to = "acme/b" }
[[aliases]]
name = "ladder"
ladder = ["acme/broken", "acme/b"]
"#;

/// A model at a provider of its own, each. What one says is its own name.
async fn gateway(upstreams: &[(&str, Upstream)]) -> TestGateway {
    let add = |world: World, (name, upstream): &(&str, Upstream)| {
        let price = if *name == "b" { "0.000002" } else { "0.000001" };
        world.provider(name, upstream.address()).model(&Model::new(&format!("acme/{name}")).at(name, price, price))
    };
    upstreams.iter().fold(World::new(), add).with(ALIASES).start().await
}

fn upstreams() -> Vec<(&'static str, Upstream)> {
    let broken = always(500, &json!({"error": {"message": "No."}}));
    vec![("a", saying("acme/a")), ("b", saying("acme/b")), ("broken", broken), ("empty", saying(""))]
}

/// The model that answered, once everything agrees on it, and the code of the reason.
async fn served(gateway: &TestGateway, body: &Value) -> (String, String) {
    let reply = gateway.chat(body).await;
    let answer = reply.expect(200);
    let model = answer["model"].as_str().unwrap().to_owned();
    let said = answer["choices"][0]["message"]["content"].as_str().unwrap_or_default();
    assert!(said == model || said.is_empty() && model == "acme/empty", "{said} says who it is: {answer}");
    let id = reply.header("x-generation-id").unwrap();
    let explained = gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200);
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take();
    assert_eq!(reply.header("x-route-model"), Some(&*model), "{answer}");
    assert_eq!((&explained["model"], &record["model"]), (&json!(model), &json!(model)));
    let reason = explained["decision_reason"].as_str().unwrap();
    assert!(reason.contains(&model), "{reason}");
    (model, reply.header("x-route-reason").unwrap().to_owned())
}

#[actix_web::test]
async fn whoever_serves_is_named_by_answer_header_record_and_explanation() {
    let upstreams = upstreams();
    let gateway = gateway(&upstreams).await;
    let names = |name: &str| format!("acme/{name}");
    for (asked, model, code) in
        [(ask("service/careful"), "b", "cascade"), (ask("service/ladder"), "b", "model_fallback")]
    {
        assert_eq!(served(&gateway, &asked).await, (names(model), code.to_owned()), "{asked}");
    }
    let fallback = and(ask("acme/broken"), json!({"models": ["acme/b"]}));
    assert_eq!(served(&gateway, &fallback).await, (names("b"), "model_fallback".to_owned()));
    for asked in ["service/any", "service/tried"] {
        let mut seen = Vec::new();
        for _ in 0..40 {
            seen.push(served(&gateway, &ask(asked)).await);
        }
        for model in ["a", "b"] {
            assert!(seen.iter().any(|(served, _)| *served == names(model)), "{asked}: {seen:?}");
        }
        let explored = seen.iter().any(|(model, code)| *model == names("b") && code == "exploration");
        assert_eq!(explored, asked == "service/any", "{seen:?}");
    }
}

#[actix_web::test]
async fn a_model_that_a_request_names_is_never_exchanged() {
    let upstreams = upstreams();
    let gateway = gateway(&upstreams).await;
    for name in ["a", "b", "empty"] {
        for _ in 0..20 {
            assert_eq!(served(&gateway, &ask(&format!("acme/{name}"))).await.0, format!("acme/{name}"));
        }
    }
    let calls: Vec<usize> = upstreams.iter().map(|(_, upstream)| upstream.bodies().len()).collect();
    assert_eq!(calls, [20, 20, 0, 20]);
    assert_eq!(gateway.chat(&ask("acme/broken")).await.status, 502, "nobody takes the place of one that fails");
}
