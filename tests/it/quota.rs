//! A provider that announces in its answers that nothing is left of its quota is left alone until it is full again,
//! as long as somebody else can serve.

use serde_json::{Value, json};

use crate::{
    contract_route::explain,
    harness::TestGateway,
    scripted::{Script, Upstream},
    world::{Model, World, and, ask, completion, http_with, saying},
};

/// Nothing is left, for five seconds: longer than these tests run.
const USED_UP: &str = "x-ratelimit-limit-requests: 60\r\nx-ratelimit-remaining-requests: 0\r\n\
                       x-ratelimit-reset-requests: 5s\r\n";

/// A gateway that prefers `spent`, the cheaper one, whose every answer says that its quota is used up, and `other`.
async fn gateway(other: &Upstream) -> (TestGateway, Upstream) {
    let spent = Upstream::start([Script::answering(http_with(200, USED_UP, &completion("spent")))]);
    let model = Model::new("acme/small").at("spent", "0.0000001", "0.0000001").at("other", "0.00001", "0.00001");
    let world = World::new().provider("spent", spent.address()).provider("other", other.address()).model(&model);
    (world.start().await, spent)
}

fn cheapest() -> Value {
    and(ask("acme/small"), json!({"objective": "cheapest"}))
}

/// The whole answer, and whose it is.
async fn served(gateway: &TestGateway, request: &Value) -> (Value, String) {
    let answer = gateway.chat(request).await.expect(200);
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    (answer, text)
}

#[actix_web::test]
async fn a_provider_without_a_request_left_is_not_called_while_another_can_serve() {
    let other = saying("other");
    let (gateway, spent) = gateway(&other).await;
    assert_eq!(served(&gateway, &cheapest()).await.1, "spent", "the cheaper one, before it said anything");

    let (answer, text) = served(&gateway, &cheapest()).await;
    assert_eq!(text, "other", "the very next request knows");
    assert_eq!((spent.requests().len(), other.requests().len()), (1, 1));

    let explained = explain(&gateway, answer["id"].as_str().unwrap()).await;
    let preview = gateway.post("/api/v1/route/preview", &cheapest()).await.expect(200);
    for told in [explained, preview] {
        let excluded = told["excluded"].as_array().unwrap();
        assert_eq!(excluded.len(), 1, "{told}");
        assert_eq!((&excluded[0]["reason"], &excluded[0]["provider_slug"]), (&json!("paced"), &json!("spent")));
        assert!(excluded[0]["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{told}");
        assert_eq!(told["candidates"][0]["provider_slug"], "other", "{told}");
    }
}

#[actix_web::test]
async fn a_provider_without_a_request_left_is_asked_before_a_failure_is_shown() {
    let other = Upstream::start([Script::answering(http_with(500, "", &json!({"error": {"message": "down"}})))]);
    let (gateway, spent) = gateway(&other).await;
    for _ in 0..2 {
        assert_eq!(served(&gateway, &cheapest()).await.1, "spent");
    }
    assert_eq!((spent.requests().len(), other.requests().len()), (2, 1), "the other one goes first, and fails");
}

#[actix_web::test]
async fn a_provider_without_a_request_left_is_called_again_when_nothing_else_is_left() {
    let other = saying("other");
    let (gateway, spent) = gateway(&other).await;
    assert_eq!(served(&gateway, &cheapest()).await.1, "spent");

    let alone = and(cheapest(), json!({"provider": {"only": ["spent"]}}));
    assert_eq!(served(&gateway, &alone).await.1, "spent", "better a refusal than nobody at all");
    assert_eq!((spent.requests().len(), other.requests().len()), (2, 0));
}
