//! How news travel from a worker's tray to what routers read.

use std::{
    sync::{Arc, Barrier, mpsc},
    thread,
    time::{Duration, Instant},
};

use actix::{Actor, Addr, Arbiter, Context, Handler, Message};
use pointsman_actors::{
    event_batches::{EventBatchers, FlushTimer},
    ledger::Records,
    mailbox::Undelivered,
    provider_health::{AdoptionRefused, Ping, ProviderHealth, ReadFigures, adopt},
    published::PublishedState,
};
use pointsman_domain::{
    EndpointEvent, EndpointId, EventKind, Evidence, Failure, FailureKind, GateEvent, Prediction, RoutingPolicy, Tick,
};
use pointsman_routing::stats::{LiveBoard, Snapshot, Statistics};

use crate::routing_world::World;

const NOW: Tick = Tick(1_000_000);
/// Until what is urgent is published, with room for a busy machine.
const FEW_MS: Duration = Duration::from_millis(500);

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
    published: Arc<PublishedState>,
    room: EventBatchers,
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
        let published = Arc::new(PublishedState::new(statistics.snapshot(1), live));
        let health = ProviderHealth::new(statistics, Arc::clone(&published)).start();
        let room = EventBatchers::new(health.clone().recipient(), NoLedger.start().recipient(), Undelivered::default());
        Rig { endpoint, health, published, room }
    }

    fn failure(&self, gate: GateEvent) -> EndpointEvent {
        failure_at(self.endpoint, gate)
    }
}

fn failure_at(endpoint: EndpointId, gate: GateEvent) -> EndpointEvent {
    let failure = Failure { kind: FailureKind::Server, status: Some(500), retry_after: None, evidence: Evidence::None };
    EndpointEvent {
        endpoint,
        at: NOW,
        dispatched: NOW,
        in_flight: 1,
        predicted: Prediction::NONE,
        expected: 0.0,
        gate,
        kind: EventKind::Failed { failure, had_content: false },
    }
}

/// Looks again and again until it is so.
async fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        actix::clock::sleep(Duration::from_millis(1)).await;
    }
}

#[actix::test]
async fn a_gate_that_moved_is_published_without_waiting_for_more_news() {
    let rig = Rig::new();
    let tray = rig.room.join();
    assert_eq!(tray.event(rig.failure(GateEvent::Unmoved)), FlushTimer::Needed, "it may wait");
    assert_eq!(tray.event(rig.failure(GateEvent::Moved)), FlushTimer::Armed, "it left, and took along what waited");
    until(|| rig.published.snapshot().version > 1).await;
    let snapshot = rig.published.snapshot_to_keep();
    assert_eq!(snapshot.version, 2);
    assert!(snapshot.endpoints.first().unwrap().estimates.failures > 1.01, "two weigh more than one");
}

#[actix::test]
async fn what_is_known_fades_in_what_routers_read_though_nothing_happens() {
    let mut policy = RoutingPolicy::default();
    policy.stats.half_life = Duration::from_millis(100);
    let rig = Rig::with(policy);
    _ = rig.room.join().event(rig.failure(GateEvent::Moved));
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
    _ = tray.event(rig.failure(GateEvent::Unmoved));
    let gone = Arc::downgrade(&tray);
    drop(tray);
    assert_eq!(gone.strong_count(), 0);
    let figures = rig.health.send(ReadFigures { now: NOW, patience: Duration::ZERO }).await.unwrap();
    assert_eq!(figures.endpoints.first().unwrap().summary.requests, 1);
}

/// A gateway that closes flushes while its workers end, and then asks the actors for the last time.
#[actix::test]
async fn a_flush_while_a_worker_ends_returns_when_its_batch_is_sent() {
    let rig = Rig::new();
    for ended in 1..=2_000 {
        let (tray, start) = (rig.room.join(), Barrier::new(2));
        _ = tray.event(rig.failure(GateEvent::Unmoved));
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                drop(tray);
            });
            start.wait();
            rig.room.flush();
            assert_eq!(rig.room.depths.health.items(), ended);
        });
    }
}

/// Until the test waits for something, its thread handles no message: the actor is alive and gets to nothing.
#[actix::test]
async fn an_actor_that_handles_nothing_is_sent_so_much_and_the_rest_is_dropped_and_counted() {
    const SENT: usize = 65_536;
    const HELD: usize = 4_096;
    const EVENTS: usize = 100_000;
    let rig = Rig::new();
    let tray = rig.room.join();
    for _ in 0..EVENTS {
        _ = tray.event(rig.failure(GateEvent::Unmoved));
    }
    assert_eq!((rig.room.depths.health.items(), rig.room.depths.health.get()), (SENT, SENT / 128));
    assert_eq!(rig.room.dropped(), u64::try_from(EVENTS - SENT - HELD).unwrap());

    // Handled at last, it is sent the rest by whoever waits for the tray's timer.
    rig.health.send(Ping).await.unwrap();
    assert_eq!(rig.room.depths.health.items(), 0);
    assert_eq!(tray.flush_when_due(), FlushTimer::Armed, "nothing is left");
    let figures = rig.health.send(ReadFigures { now: NOW, patience: Duration::ZERO }).await.unwrap();
    assert_eq!(figures.endpoints.first().unwrap().summary.requests, u64::try_from(SENT + HELD).unwrap());
}

#[actix::test]
async fn a_tray_that_could_not_be_emptied_asks_for_a_timer_until_it_was() {
    let rig = Rig::new();
    let tray = rig.room.join();
    for _ in 0..65_536 {
        _ = tray.event(rig.failure(GateEvent::Unmoved));
    }
    assert_eq!(tray.flush_when_due(), FlushTimer::Armed, "everything was sent");
    assert_eq!(tray.event(rig.failure(GateEvent::Unmoved)), FlushTimer::Needed);
    assert_eq!(tray.flush_when_due(), FlushTimer::Needed, "there was no room for it");
    assert_eq!(tray.event(rig.failure(GateEvent::Moved)), FlushTimer::Armed, "the timer runs");
    rig.health.send(Ping).await.unwrap();
    assert_eq!(tray.flush_when_due(), FlushTimer::Armed);
}

#[actix::test]
async fn gates_that_move_all_the_time_are_published_at_a_bounded_rate_and_soon() {
    let rig = Rig::new();
    let tray = rig.room.join();
    let begun = Instant::now();
    for _ in 0..2_000 {
        _ = tray.event(rig.failure(GateEvent::Moved));
    }
    rig.health.send(Ping).await.unwrap();
    let handled = Instant::now();
    let known = rig.published.snapshot().version;
    _ = tray.event(rig.failure(GateEvent::Moved));
    until(|| rig.published.snapshot().version > known).await;
    assert!(handled.elapsed() < FEW_MS, "{:?}", handled.elapsed());
    let most = begun.elapsed().as_millis() / 4 + 2;
    let publications = u128::from(rig.published.snapshot().version - 1);
    assert!((1..=most).contains(&publications), "{publications} in {:?}", begun.elapsed());
}

/// Keeps an actor busy until the sender is dropped.
#[derive(Message)]
#[rtype(result = "()")]
struct Stall(mpsc::Receiver<()>);

impl Handler<Stall> for ProviderHealth {
    type Result = ();

    fn handle(&mut self, Stall(release): Stall, _: &mut Context<Self>) {
        _ = release.recv();
    }
}

#[actix::test]
async fn a_configuration_that_came_too_late_moves_nothing() {
    let Snapshot { catalog, .. } = World::of("acme/a").snapshot;
    let policy = Arc::new(RoutingPolicy::default());
    let mut statistics = Statistics::new(Arc::clone(&catalog), Arc::clone(&policy));
    let published = Arc::new(PublishedState::new(statistics.snapshot(1), LiveBoard::new(&catalog, 1)));
    let owner = ProviderHealth::new(statistics, Arc::clone(&published));
    let arbiter = Arbiter::new();
    let health = ProviderHealth::start_in_arbiter(&arbiter.handle(), move |_| owner);
    let adopted = async |patience| {
        let live = published.live.carried(&catalog);
        adopt(&health, Arc::clone(&catalog), Arc::clone(&policy), live, patience).await
    };

    let (release, stalled) = mpsc::channel();
    health.do_send(Stall(stalled));
    assert_eq!(adopted(Duration::from_millis(20)).await.map(drop), Err(AdoptionRefused));
    drop(release);
    health.send(Ping).await.unwrap();
    let room = EventBatchers::new(health.clone().recipient(), NoLedger.start().recipient(), Undelivered::default());
    let endpoint = catalog.endpoints.first().unwrap().id;
    _ = room.join().event(failure_at(endpoint, GateEvent::Moved));
    until(|| published.snapshot().version > 1).await;

    let other = adopted(Duration::from_secs(20)).await.unwrap();
    assert!(!Arc::ptr_eq(&other, &published) && other.snapshot().version > published.snapshot().version);
    arbiter.stop();
}
