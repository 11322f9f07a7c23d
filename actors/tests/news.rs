//! How news travel from a worker's tray to what routers read.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests stop at the first surprise")]

mod routing_world;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Actor, Addr, Context, Handler};
use pointsman_actors::{
    domain::{EndpointId, Event, EventKind, Failure, FailureKind, GateNews, Prediction, RoutingPolicy, Tick},
    ledger::Records,
    mailbox::Undelivered,
    news::{NewsRoom, Timer},
    provider_health::{Ping, ProviderHealth, ReadFigures},
    published::Published,
    stats::{LiveBoard, Snapshot, Statistics},
};
use routing_world::World;

const NOW: Tick = Tick(1_000_000);

struct NoLedger;

impl Actor for NoLedger {
    type Context = Context<Self>;
}

impl Handler<Records> for NoLedger {
    type Result = ();

    fn handle(&mut self, _: Records, _: &mut Context<Self>) {}
}

struct Rig {
    endpoint: EndpointId,
    health: Addr<ProviderHealth>,
    published: Arc<Published>,
    room: NewsRoom,
}

impl Rig {
    fn new() -> Rig {
        Rig::with(RoutingPolicy::default())
    }

    fn with(policy: RoutingPolicy) -> Rig {
        let Snapshot { catalog, .. } = World::of("acme/a").snapshot;
        let policy = Arc::new(policy);
        let endpoint = catalog.endpoints.first().unwrap().id;
        let live = LiveBoard::new(&catalog, 1);
        let mut statistics = Statistics::new(catalog, policy);
        let published = Arc::new(Published::new(statistics.snapshot(1), live));
        let health = ProviderHealth::new(statistics, Arc::clone(&published)).start();
        let room = NewsRoom::new(health.clone().recipient(), NoLedger.start().recipient(), Undelivered::default());
        Rig { endpoint, health, published, room }
    }

    fn failure(&self, gate: GateNews) -> Event {
        let failure = Failure { kind: FailureKind::Server, status: Some(500), retry_after: None };
        Event {
            endpoint: self.endpoint,
            at: NOW,
            dispatched: NOW,
            in_flight: 1,
            predicted: Prediction::NONE,
            expected: 0.0,
            gate,
            kind: EventKind::Failed { failure, had_content: false },
        }
    }
}

#[actix::test]
async fn a_gate_that_moved_is_published_without_waiting_for_more_news() {
    let rig = Rig::new();
    let tray = rig.room.join();
    assert_eq!(tray.event(rig.failure(GateNews::Unmoved)), Timer::Needed, "it may wait");
    assert_eq!(tray.event(rig.failure(GateNews::Moved)), Timer::Armed, "it left, and took along what waited");
    rig.health.send(Ping).await.unwrap();
    let snapshot = rig.published.snapshot_to_keep();
    assert_eq!(snapshot.version, 2);
    assert!(snapshot.endpoints.first().unwrap().estimates.failures > 1.01, "two weigh more than one");
}

#[actix::test]
async fn what_is_known_fades_in_what_routers_read_though_nothing_happens() {
    let mut policy = RoutingPolicy::default();
    policy.stats.half_life = Duration::from_millis(100);
    let rig = Rig::with(policy);
    _ = rig.room.join().event(rig.failure(GateNews::Moved));
    let begun = Instant::now();
    let failures = || rig.published.snapshot().endpoints.first().unwrap().estimates.failures;
    while rig.published.snapshot().version < 3 || failures() > 0.9 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        actix::clock::sleep(Duration::from_millis(10)).await;
    }
}

#[actix::test]
async fn the_tray_of_a_worker_that_went_is_emptied_and_forgotten() {
    let rig = Rig::new();
    let tray = rig.room.join();
    _ = tray.event(rig.failure(GateNews::Unmoved));
    let gone = Arc::downgrade(&tray);
    drop(tray);
    assert_eq!(gone.strong_count(), 0);
    let figures = rig.health.send(ReadFigures { now: NOW, patience: Duration::ZERO }).await.unwrap();
    assert_eq!(figures.endpoints.first().unwrap().summary.requests, 1);
}
