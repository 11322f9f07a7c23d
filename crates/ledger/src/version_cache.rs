//! Catalogs and policies that records refer to: read once, from the ledger or from what came with records of other replicas.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;
use pointsman_domain::{Catalog, RoutingPolicy};

use crate::{
    handle::Store,
    record::{self, ContentHash, Versions},
};

/// Most catalogs, and most policies, in memory.
const MOST: usize = 16;

/// Versions as bytes.
pub type VersionBytes = HashMap<ContentHash, Vec<u8>>;

/// Versions in memory.
#[derive(Default)]
pub(super) struct VersionCache {
    catalogs: Mutex<HashMap<ContentHash, Arc<Catalog>>>,
    policies: Mutex<HashMap<ContentHash, Arc<RoutingPolicy>>>,
}

impl VersionCache {
    /// The versions that are in memory.
    pub(super) fn known(&self) -> HashSet<ContentHash> {
        let mut known: HashSet<ContentHash> = self.catalogs.lock().keys().copied().collect();
        known.extend(self.policies.lock().keys());
        known
    }

    /// The versions of a ledger, and others that came with records.
    pub(super) const fn over<'a>(&'a self, store: &'a Store, foreign: Option<&'a VersionBytes>) -> CachedVersions<'a> {
        CachedVersions { cache: self, store, foreign }
    }
}

/// Versions from memory, from a ledger, and from elsewhere, in this order.
pub(super) struct CachedVersions<'a> {
    cache: &'a VersionCache,
    store: &'a Store,
    foreign: Option<&'a VersionBytes>,
}

impl CachedVersions<'_> {
    fn find<T>(
        &self,
        cache: &Mutex<HashMap<ContentHash, Arc<T>>>,
        hash: ContentHash,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<Arc<T>> {
        if let Some(known) = cache.lock().get(&hash) {
            return Some(Arc::clone(known));
        }
        let content = match self.store.blob(&hash.0) {
            Ok(Some(bytes)) => read(&bytes)?,
            // What came from elsewhere under this hash must have it.
            _ => read(self.foreign?.get(&hash).filter(|bytes| hash.is_of(bytes))?)?,
        };
        let content = Arc::new(content);
        let mut cache = cache.lock();
        if cache.len() >= MOST {
            cache.clear();
        }
        cache.insert(hash, Arc::clone(&content));
        Some(content)
    }
}

impl Versions for CachedVersions<'_> {
    fn catalog(&self, hash: ContentHash) -> Option<Arc<Catalog>> {
        self.find(&self.cache.catalogs, hash, |bytes| record::read_catalog(bytes).ok())
    }

    fn policy(&self, hash: ContentHash) -> Option<Arc<RoutingPolicy>> {
        self.find(&self.cache.policies, hash, |bytes| record::read_policy(bytes).ok())
    }
}
