//! What routers read of one configuration: its published statistics, and the fast cells over the same catalog.
//!
//! Catalog and policy never change within one. A new configuration gets a [`PublishedState`] of its own, and whoever asks
//! a router brings the one of the configuration it works under: so no decision ever sees the catalog of one
//! configuration and the cells of another, and a request that began before a change ends as it began.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::stats::{LiveBoard, Snapshot};

/// One per configuration; shared by all workers.
#[derive(Debug)]
pub struct PublishedState {
    snapshot: ArcSwap<Snapshot>,
    /// The fast cells of every endpoint, those that an earlier configuration knew carried over from there.
    pub live: LiveBoard,
}

impl PublishedState {
    /// The first snapshot of a configuration, and the cells over its catalog.
    #[must_use]
    pub fn new(snapshot: Snapshot, live: LiveBoard) -> PublishedState {
        PublishedState { snapshot: ArcSwap::from_pointee(snapshot), live }
    }

    /// The newest statistics. Costs some nanoseconds; not to be kept while waiting.
    #[must_use]
    pub fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// The newest statistics, to be kept.
    #[must_use]
    pub fn snapshot_to_keep(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Replaces the statistics by newer ones over the same catalog, under the same policy.
    pub fn publish(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
    }
}
