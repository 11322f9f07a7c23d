//! The control actors: where they are, and putting others in their place.
//!
//! An actor whose handler panics is gone for good; what it knew is not, because it is kept here: books and statistics
//! outlive the actors that work with them. [`crate::state::watchdog`] notices that one is gone and has it replaced.

use std::{sync::Arc, time::Duration};

use actix::{Actor as _, Addr, Arbiter, ArbiterHandle};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use pointsman_actors::{
    actors::{
        catalog::CatalogActor,
        event_batches::EventBatchers,
        ledger::{Ledger, LedgerState, MemoryStore, SetBounds},
        mailbox::Undelivered,
        persistence::StatsStore,
        provider_health::ProviderHealth,
        published::PublishedState,
    },
    stats::Statistics,
};

use crate::state::setup::Setup;

/// Actors are looked after this often, here and on the workers: how long a dead one goes unnoticed at most.
pub const ROUND: Duration = Duration::from_millis(500);

/// The addresses of the control actors, and what they know. They live on an arbiter of their own.
pub struct Control {
    arbiter: ArbiterHandle,
    catalog: ArcSwap<Addr<CatalogActor>>,
    health: ArcSwap<Addr<ProviderHealth>>,
    ledger: ArcSwap<Addr<Ledger<MemoryStore>>>,
    statistics: Arc<Mutex<Statistics>>,
    books: Arc<LedgerState<MemoryStore>>,
    undelivered: Undelivered,
    keeping: Option<Keeping>,
}

/// Where the statistics are written down, and how often.
#[derive(Clone)]
pub struct Keeping {
    /// The place.
    pub place: Arc<dyn StatsStore>,
    /// How often.
    pub interval: Duration,
}

impl Control {
    /// Starts the actors on `arbiter`. The owner of `statistics` publishes to `published`.
    #[must_use]
    pub fn start(
        arbiter: &Arbiter,
        statistics: Statistics,
        published: &Arc<PublishedState>,
        store: MemoryStore,
        keeping: Option<Keeping>,
    ) -> Control {
        let (arbiter, undelivered) = (arbiter.handle(), Undelivered::default());
        let statistics = Arc::new(Mutex::new(statistics));
        let books = Arc::new(LedgerState::new(store, undelivered.clone()));
        let catalog = CatalogActor::new(Arc::clone(&published.snapshot().catalog));
        Control {
            catalog: ArcSwap::from_pointee(CatalogActor::start_in_arbiter(&arbiter, move |_| catalog)),
            health: ArcSwap::from_pointee(employ(&arbiter, &statistics, published, keeping.clone())),
            ledger: ArcSwap::from_pointee(open(&arbiter, &books)),
            arbiter,
            statistics,
            books,
            undelivered,
            keeping,
        }
    }

    /// Where workers put what is for these actors.
    #[must_use]
    pub fn news_room(&self) -> EventBatchers {
        let (health, ledger) = (self.health().as_ref().clone(), self.ledger().as_ref().clone());
        EventBatchers::new(health.recipient(), ledger.recipient(), self.undelivered.clone())
    }

    /// Owns model metadata.
    #[must_use]
    pub fn catalog(&self) -> Arc<Addr<CatalogActor>> {
        self.catalog.load_full()
    }

    /// Owns the statistics.
    #[must_use]
    pub fn health(&self) -> Arc<Addr<ProviderHealth>> {
        self.health.load_full()
    }

    /// Owns the records.
    #[must_use]
    pub fn ledger(&self) -> Arc<Addr<Ledger<MemoryStore>>> {
        self.ledger.load_full()
    }

    /// Another owner of the catalog of `setup`.
    pub fn replace_catalog(&self, setup: &Setup) {
        let catalog = CatalogActor::new(Arc::clone(&setup.catalog));
        self.catalog.store(Arc::new(CatalogActor::start_in_arbiter(&self.arbiter, move |_| catalog)));
    }

    /// Another owner of the statistics, which goes on from what is known, unless it is to `forget`. It takes the side of
    /// `setup`: the one before it may have died between two.
    pub fn replace_health(&self, setup: &Setup, forget: Forget, news: &EventBatchers) {
        let (catalog, policy) = (Arc::clone(&setup.catalog), Arc::clone(&setup.policy));
        let mut statistics = self.statistics.lock();
        match forget {
            Forget::Nothing => {
                statistics.replace_catalog(catalog);
                statistics.replace_policy(policy);
            }
            Forget::Everything => *statistics = Statistics::new(catalog, policy),
        }
        drop(statistics);
        let health = employ(&self.arbiter, &self.statistics, &setup.published, self.keeping.clone());
        news.redirect_events(health.clone().recipient());
        self.health.store(Arc::new(health));
    }

    /// Another ledger with the same books, under the bounds of `setup`.
    pub fn replace_ledger(&self, setup: &Setup, news: &EventBatchers) {
        let ledger = open(&self.arbiter, &self.books);
        let bounds = &setup.config.ledger;
        ledger.do_send(SetBounds { capacity: bounds.capacity, max_age: bounds.max_age });
        news.redirect_records(ledger.clone().recipient());
        self.ledger.store(Arc::new(ledger));
    }
}

/// What a new owner of the statistics begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forget {
    /// What is known.
    Nothing,
    /// Nothing: what is known may be what kills it.
    Everything,
}

fn employ(
    arbiter: &ArbiterHandle,
    statistics: &Arc<Mutex<Statistics>>,
    published: &Arc<PublishedState>,
    keeping: Option<Keeping>,
) -> Addr<ProviderHealth> {
    let mut health = ProviderHealth::of(Arc::clone(statistics), Arc::clone(published));
    if let Some(Keeping { place, interval }) = keeping {
        health = health.with_persistence(place, interval);
    }
    ProviderHealth::start_in_arbiter(arbiter, move |_| health)
}

fn open(arbiter: &ArbiterHandle, books: &Arc<LedgerState<MemoryStore>>) -> Addr<Ledger<MemoryStore>> {
    let ledger = Ledger::of(Arc::clone(books));
    Ledger::start_in_arbiter(arbiter, move |_| ledger)
}
