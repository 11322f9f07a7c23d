//! State that routers read for one configuration: the published statistics and the live board over the same catalog.
//!
//! Catalog and policy never change within one [`PublishedState`]; a new configuration gets a new one. Each request
//! passes the state of its own configuration to the router. So no decision mixes the catalog of one configuration
//! with the live state of another, and a request that began before a reload ends under its old configuration.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use pointsman_routing::stats::{LiveBoard, Snapshot};

/// One per configuration; shared by all workers.
#[derive(Debug)]
pub struct PublishedState {
    snapshot: ArcSwap<Snapshot>,
    /// Live state of every endpoint. Endpoints that an earlier configuration had keep theirs.
    pub live: LiveBoard,
}

impl PublishedState {
    /// The state of a new configuration, with its first snapshot and the live board over its catalog.
    pub fn new(snapshot: Snapshot, live: LiveBoard) -> PublishedState {
        PublishedState { snapshot: ArcSwap::from_pointee(snapshot), live }
    }

    /// The newest snapshot. Costs some nanoseconds. Do not hold the guard across an `await`.
    pub fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// The newest snapshot, shared, to be kept.
    pub fn snapshot_to_keep(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Publishes a newer snapshot of the same catalog and policy.
    pub fn publish(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
    }
}
