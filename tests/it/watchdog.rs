//! Actors that panic: what they knew is there, and another one takes their place.
//!
//! The message that kills them exists in this file alone: whoever has an address may teach its actor a message.

use actix::{Actor, Addr, Context, Handler, Message};
use pointsman_actors::{
    catalog::CatalogActor,
    ledger::{Ledger, MemoryStore},
    provider_health::ProviderHealth,
    router::Router,
};
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    patience::{eventually, until},
    world::{Model, World, ask, saying},
};

#[derive(Message)]
#[rtype(result = "()")]
struct Die;

macro_rules! mortal {
    ($($actor:ty),*) => {
        $(impl Handler<Die> for $actor {
            type Result = ();

            fn handle(&mut self, _: Die, _: &mut Context<Self>) {
                panic!("on purpose");
            }
        })*
    };
}

/// Keeps an actor busy until the sender is dropped.
#[derive(Message)]
#[rtype(result = "()")]
struct Stall(std::sync::mpsc::Receiver<()>);

impl Handler<Stall> for ProviderHealth {
    type Result = ();

    fn handle(&mut self, Stall(release): Stall, _: &mut Context<Self>) {
        let _ = release.recv();
    }
}

mortal!(CatalogActor, ProviderHealth, Router, Ledger<MemoryStore>);

/// Kills an actor, and returns when it is dead.
async fn kill<A>(actor: &Addr<A>)
where
    A: Actor<Context = Context<A>> + Handler<Die>,
{
    assert!(actor.send(Die).await.is_err());
    until("it is dead", || !actor.connected()).await;
}

/// Waits until an actor was replaced and the gateway is ready again.
async fn recovers(gateway: &TestGateway, actor: &str) {
    let state = async || (restarts(gateway, actor).await, gateway.get("/health/ready").await.status);
    eventually("another one takes its place", state, |(restarts, ready)| *restarts > 0 && *ready == 200).await;
}

async fn restarts(gateway: &TestGateway, actor: &str) -> u64 {
    let text = gateway.get("/metrics").await.text();
    let name = format!("pointsman_actor_restarts_total{{actor=\"{actor}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&*name)).unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

async fn start() -> TestGateway {
    let upstream = saying("Hello");
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000001");
    let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
    // It answers as long as somebody may ask.
    std::mem::forget(upstream);
    gateway
}

#[actix_web::test]
async fn a_ledger_that_panics_loses_no_record_not_even_those_that_were_on_their_way() {
    let gateway = start().await;
    let before = gateway.chat(&ask("acme/small")).await.expect(200);
    let spent = gateway.get("/api/v1/key").await.expect(200)["data"]["usage"].clone();

    kill(&gateway.inner().shared().actors.control.ledger()).await;
    let between = gateway.chat(&ask("acme/small")).await.expect(200);
    // Sent to the dead one.
    gateway.inner().shared().actors.event_batchers.flush();
    recovers(&gateway, "ledger").await;

    let after = gateway.chat(&ask("acme/small")).await.expect(200);
    for answer in [before, between, after] {
        let path = format!("/api/v1/generation?id={}", answer["id"].as_str().unwrap());
        assert_eq!(gateway.get(&path).await.expect(200)["data"]["finish_reason"], "stop");
    }
    let now = gateway.get("/api/v1/key").await.expect(200)["data"]["usage"].clone();
    assert!((now.as_f64().unwrap() - 3.0 * spent.as_f64().unwrap()).abs() < 1e-12, "{spent} {now}");
    assert_eq!(restarts(&gateway, "ledger").await, 1);
}

#[actix_web::test]
async fn an_owner_of_the_statistics_that_panics_leaves_them_to_the_next() {
    let gateway = start().await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    let requests = async || -> Value {
        let providers = gateway.get("/api/v1/health/providers").await.expect(200);
        providers["data"][0]["requests"].clone()
    };
    assert_eq!(requests().await, json!(1));

    kill(&gateway.inner().shared().actors.control.health()).await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    recovers(&gateway, "health").await;

    assert_eq!(requests().await, json!(2), "what happened meanwhile waited for it");
    assert_eq!(restarts(&gateway, "health").await, 1);
    let path = "/api/v1/route/preview";
    assert_eq!(gateway.post(path, &ask("acme/small")).await.status, 200);
}

#[actix_web::test]
async fn a_catalog_that_panics_comes_back_with_the_configuration_in_force() {
    let gateway = start().await;
    kill(&gateway.inner().shared().actors.control.catalog()).await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    recovers(&gateway, "catalog").await;
    assert_eq!(gateway.get("/health/ready").await.expect(200)["checks"]["catalog"]["models"], 1);
    assert_eq!(restarts(&gateway, "catalog").await, 1);
}

/// Under load the watchdog may be quicker than this test can look, so it looks more than once.
#[actix_web::test]
async fn readiness_says_that_an_actor_is_gone() {
    let gateway = start().await;
    for _ in 0..20 {
        kill(&gateway.inner().shared().actors.control.catalog()).await;
        let ready = gateway.get("/health/ready").await;
        if ready.status == 503 {
            return;
        }
    }
    panic!("it was ready without a catalog, twenty times");
}

#[actix_web::test]
async fn a_router_that_panics_is_replaced_before_the_next_request() {
    let gateway = start().await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    for router in gateway.inner().shared().actors.routers.all() {
        kill(&router).await;
    }
    gateway.chat(&ask("acme/small")).await.expect(200);
    assert_eq!(restarts(&gateway, "router").await, 1);
}

#[actix_web::test]
async fn a_configuration_is_taken_over_after_a_death_as_before_it() {
    let upstream = saying("Hello");
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000001");
    let world = World::new().provider("acme", upstream.address()).model(&model);
    let gateway = world.start().await;
    kill(&gateway.inner().shared().actors.control.health()).await;
    recovers(&gateway, "health").await;
    assert_eq!(world.with("[limits]\nmax_n = 3").take_over(&gateway).await, 2);
    gateway.chat(&ask("acme/small")).await.expect(200);
    let providers = gateway.get("/api/v1/health/providers").await.expect(200);
    assert_eq!(providers["data"][0]["requests"], 1);
}

/// Statistics that went over later would be published where no router reads.
#[actix_web::test]
async fn a_configuration_that_the_owner_of_the_statistics_was_too_busy_for_is_not_adopted_later_either() {
    let upstream = saying("Hello");
    let model = Model::new("acme/small").at("acme", "0.000001", "0.000001");
    let world = World::new().provider("acme", upstream.address()).model(&model);
    let gateway = world.start().await;
    let (release, stalled) = std::sync::mpsc::channel();
    gateway.inner().shared().actors.control.health().do_send(Stall(stalled));
    let more = world.model(&Model::new("acme/large").at("acme", "0.00001", "0.00001"));
    let environment: Vec<(&str, &str)> = more.environment().iter().map(|(name, key)| (&**name, &**key)).collect();
    let refused = gateway.try_adopt(more.toml(), &environment).await.unwrap_err();
    assert!(refused.contains("did not answer"), "{refused}");

    drop(release);
    let before = gateway.snapshot_version();
    gateway.chat(&ask("acme/small")).await.expect(200);
    until("what happens is published where routers read", || gateway.snapshot_version() > before).await;
    assert_eq!(more.take_over(&gateway).await, 2, "and it can be adopted now");
    gateway.chat(&ask("acme/large")).await.expect(200);
}
