//! Hints of health through Redis: a replica that learns from another's outage, and believes its own measurements first.

use serde_json::json;

use crate::{
    folder::Folder,
    harness::TestGateway,
    issued_keys::world,
    patience::eventually,
    replicas::store_is,
    scrape::Scrape,
    scripted::{Script, Upstream},
    stores::{self, Store},
    world::{Model, and, ask, completion, http, refusal},
};

/// Failures in a row that open a breaker without a hint.
const CONSECUTIVE: usize = 3;

fn failing() -> Upstream {
    Upstream::start([Script::answering(refusal(500))])
}

/// A gateway with a model at each of two providers; a breaker that opened stays open.
async fn gateway(acme: &Upstream, bolt: &Upstream, folder: &Folder, redis: &Store) -> TestGateway {
    let breaker =
        format!("[routing.breaker]\nconsecutive = {CONSECUTIVE}\nbase = \"60s\"\n[shared.redis]\nurl_env = \"REDIS\"");
    let world =
        world(acme, folder).provider("bolt", bolt.address()).model(&Model::new("bolt/small").at("bolt", "0", "0"));
    let gateway = world.with(&breaker).variable("REDIS", &redis.url()).start().await;
    store_is(&gateway, "redis", "ok").await;
    gateway
}

async fn call(gateway: &TestGateway, model: &str) -> u16 {
    gateway.chat(&and(ask(model), json!({"max_tokens": 5}))).await.status
}

/// Whether the breaker of a model's endpoint is open.
async fn is_open(gateway: &TestGateway, provider: &str) -> bool {
    let labels = [("provider", provider)];
    Scrape::of(gateway).await.sum("circuit_open", &labels) > 0.0
}

async fn believed(gateway: &TestGateway) -> f64 {
    Scrape::of(gateway).await.sum("shared_health_hints_total", &[("result", "believed")])
}

#[actix_web::test]
async fn a_hint_of_another_replica_excludes_nothing_but_opens_the_breaker_at_the_first_failure() {
    let Some(redis) = stores::redis() else { return };
    let (broken, one, two) = (failing(), Folder::new(), Folder::new());
    let one = gateway(&broken, &broken, &one, &redis).await;
    let two = gateway(&broken, &broken, &two, &redis).await;
    assert_eq!(believed(&two).await, 0.0);
    for _ in 0..CONSECUTIVE {
        call(&one, "acme/small").await;
    }
    assert!(is_open(&one, "acme").await);
    eventually("the other replica hears of it", async || believed(&two).await, |count| *count > 0.0).await;
    assert!(!is_open(&two, "acme").await, "a hint is no command");
    let asked = broken.requests().len();
    call(&two, "acme/small").await;
    assert_eq!(broken.requests().len(), asked + 1, "the endpoint is still called here");
    assert!(is_open(&two, "acme").await, "one failure of its own is enough now");
    call(&two, "bolt/small").await;
    assert!(!is_open(&two, "bolt").await, "of another endpoint nobody told anything");
}

#[actix_web::test]
async fn a_replica_that_had_an_answer_since_the_hint_believes_itself() {
    let Some(redis) = stores::redis() else { return };
    let (broken, one, two) = (failing(), Folder::new(), Folder::new());
    let answers_once = Script::new().request().send(http(200, &completion("Hello")));
    let failing_later = answers_once.repeat(Script::new().request().send(refusal(500)));
    let bolt = Upstream::start([failing_later, Script::answering(refusal(500))]);
    let two = gateway(&broken, &bolt, &two, &redis).await;
    {
        let one = gateway(&broken, &broken, &one, &redis).await;
        for _ in 0..CONSECUTIVE {
            call(&one, "bolt/small").await;
        }
        eventually("the other replica hears of it", async || believed(&two).await, |count| *count > 0.0).await;
        // From here on nobody tells anything.
        one.stop().await;
    }
    assert_eq!(call(&two, "bolt/small").await, 200);
    call(&two, "bolt/small").await;
    assert!(!is_open(&two, "bolt").await, "its own answer counts more than what others said");
}
