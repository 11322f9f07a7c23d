//! The control actors: their addresses, and how a stopped one is replaced.
//!
//! An actor whose handler panics does not come back. Its data survives, because [`Control`] owns the statistics and the
//! state of the ledger. [`crate::state::watchdog`] detects a stopped actor and calls the `replace_…` functions.

use std::{sync::Arc, time::Duration};

use actix::{Actor as _, Addr, Arbiter, ArbiterHandle};
use actix_rt::task::JoinHandle;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use pointsman_actors::{
    catalog::CatalogActor,
    event_batches::EventBatchers,
    ledger::{Ledger, LedgerState, MemoryStore, RecordFollower, SetBounds},
    mailbox::Undelivered,
    persistence::StatsStore,
    provider_health::ProviderHealth,
    published::PublishedState,
};
use pointsman_routing::stats::Statistics;

use crate::state::setup::Setup;

/// Time between two checks of the actors: a stopped one is detected within this time.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The addresses of the control actors, and their data. The actors run on an arbiter of their own.
pub struct Control {
    arbiter: ArbiterHandle,
    catalog: ArcSwap<Addr<CatalogActor>>,
    health: ArcSwap<Addr<ProviderHealth>>,
    ledger: ArcSwap<Addr<Ledger<MemoryStore>>>,
    statistics: Arc<Mutex<Statistics>>,
    ledger_state: Arc<LedgerState<MemoryStore>>,
    undelivered: Undelivered,
    persistence: Option<StatsPersistence>,
}

/// The thread on which the actors run. It ends with the last clone of the gateway and the last of its workers.
pub struct ControlThread {
    arbiter: Arbiter,
    watchdog: JoinHandle<()>,
}

impl ControlThread {
    /// Takes over a thread and the task that watches its actors.
    pub fn new(arbiter: Arbiter, watchdog: JoinHandle<()>) -> ControlThread {
        ControlThread { arbiter, watchdog }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.watchdog.abort();
        self.arbiter.stop();
    }
}

impl Drop for ControlThread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where and how often the statistics are saved.
#[derive(Clone)]
pub struct StatsPersistence {
    /// The store.
    pub store: Arc<dyn StatsStore>,
    /// Time between two saves.
    pub interval: Duration,
}

impl Control {
    /// Starts the actors on `arbiter`. The owner of `statistics` publishes to `published`. A follower, if there is one, gets
    /// the records of ended generations.
    pub fn start(
        arbiter: &Arbiter,
        statistics: Statistics,
        published: &Arc<PublishedState>,
        (store, follower): (MemoryStore, Option<Arc<dyn RecordFollower>>),
        persistence: Option<StatsPersistence>,
    ) -> Control {
        let (arbiter, undelivered) = (arbiter.handle(), Undelivered::default());
        let statistics = Arc::new(Mutex::new(statistics));
        let ledger_state = Arc::new(LedgerState::new(store, undelivered.clone()).followed_by(follower));
        let catalog = CatalogActor::new(Arc::clone(&published.snapshot().catalog));
        Control {
            catalog: ArcSwap::from_pointee(CatalogActor::start_in_arbiter(&arbiter, move |_| catalog)),
            health: ArcSwap::from_pointee(start_health(&arbiter, &statistics, published, persistence.clone())),
            ledger: ArcSwap::from_pointee(start_ledger(&arbiter, &ledger_state)),
            arbiter,
            statistics,
            ledger_state,
            undelivered,
            persistence,
        }
    }

    /// The event batchers that send to these actors.
    pub fn event_batchers(&self) -> EventBatchers {
        let (health, ledger) = (self.health().as_ref().clone(), self.ledger().as_ref().clone());
        EventBatchers::new(health.recipient(), ledger.recipient(), self.undelivered.clone())
    }

    /// The actor that owns the model metadata.
    pub fn catalog(&self) -> Arc<Addr<CatalogActor>> {
        self.catalog.load_full()
    }

    /// The actor that owns the statistics.
    pub fn health(&self) -> Arc<Addr<ProviderHealth>> {
        self.health.load_full()
    }

    /// The actor that owns the records.
    pub fn ledger(&self) -> Arc<Addr<Ledger<MemoryStore>>> {
        self.ledger.load_full()
    }

    /// Starts a new catalog actor with the catalog of `setup`.
    pub fn replace_catalog(&self, setup: &Setup) {
        let catalog = CatalogActor::new(Arc::clone(&setup.catalog));
        self.catalog.store(Arc::new(CatalogActor::start_in_arbiter(&self.arbiter, move |_| catalog)));
    }

    /// Starts a new health actor. It uses the catalog and policy of `setup`, because its predecessor may have panicked
    /// while it switched to them.
    pub fn replace_health(&self, setup: &Setup, restart: HealthRestart, events: &EventBatchers) {
        let (catalog, policy) = (Arc::clone(&setup.catalog), Arc::clone(&setup.policy));
        let mut statistics = self.statistics.lock();
        match restart {
            HealthRestart::KeepStatistics => {
                statistics.replace_catalog(catalog);
                statistics.replace_policy(policy);
            }
            HealthRestart::ResetStatistics => *statistics = Statistics::new(catalog, policy),
        }
        drop(statistics);
        let health = start_health(&self.arbiter, &self.statistics, &setup.published, self.persistence.clone());
        events.redirect_events(health.clone().recipient());
        self.health.store(Arc::new(health));
    }

    /// Starts a new ledger with the same records, under the bounds of `setup`.
    pub fn replace_ledger(&self, setup: &Setup, events: &EventBatchers) {
        let ledger = start_ledger(&self.arbiter, &self.ledger_state);
        let bounds = &setup.config.ledger;
        ledger.do_send(SetBounds { capacity: bounds.capacity, max_age: bounds.max_age });
        events.redirect_records(ledger.clone().recipient());
        self.ledger.store(Arc::new(ledger));
    }
}

/// The statistics that a replaced health actor starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthRestart {
    /// The statistics of its predecessor.
    KeepStatistics,
    /// Empty statistics: they may be what makes the actor panic.
    ResetStatistics,
}

fn start_health(
    arbiter: &ArbiterHandle,
    statistics: &Arc<Mutex<Statistics>>,
    published: &Arc<PublishedState>,
    persistence: Option<StatsPersistence>,
) -> Addr<ProviderHealth> {
    let mut health = ProviderHealth::resume(Arc::clone(statistics), Arc::clone(published));
    if let Some(StatsPersistence { store, interval }) = persistence {
        health = health.with_persistence(store, interval);
    }
    ProviderHealth::start_in_arbiter(arbiter, move |_| health)
}

fn start_ledger(arbiter: &ArbiterHandle, ledger_state: &Arc<LedgerState<MemoryStore>>) -> Addr<Ledger<MemoryStore>> {
    let ledger = Ledger::resume(Arc::clone(ledger_state));
    Ledger::start_in_arbiter(arbiter, move |_| ledger)
}
