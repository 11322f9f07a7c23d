//! Catalogs and policies that records refer to, read once.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;
use pointsman_domain::{Catalog, RoutingPolicy};

use crate::record::{self, ContentHash, RecordFault, Versions};

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

    /// The versions in memory, and those of which `bytes` finds the bytes.
    pub(super) const fn over<F: Fn(ContentHash) -> Option<Vec<u8>>>(&self, bytes: F) -> CachedVersions<'_, F> {
        CachedVersions { cache: self, bytes }
    }
}

/// Versions from memory, and from elsewhere.
pub(super) struct CachedVersions<'a, F> {
    cache: &'a VersionCache,
    bytes: F,
}

impl<F: Fn(ContentHash) -> Option<Vec<u8>>> CachedVersions<'_, F> {
    fn find<T>(
        &self,
        cache: &Mutex<HashMap<ContentHash, Arc<T>>>,
        hash: ContentHash,
        read: impl FnOnce(&[u8]) -> Result<T, RecordFault>,
    ) -> Option<Arc<T>> {
        if let Some(known) = cache.lock().get(&hash) {
            return Some(Arc::clone(known));
        }
        let content = Arc::new(read(&(self.bytes)(hash)?).ok()?);
        let mut cache = cache.lock();
        if cache.len() >= MOST {
            cache.clear();
        }
        cache.insert(hash, Arc::clone(&content));
        Some(content)
    }
}

impl<F: Fn(ContentHash) -> Option<Vec<u8>>> Versions for CachedVersions<'_, F> {
    fn catalog(&self, hash: ContentHash) -> Option<Arc<Catalog>> {
        self.find(&self.cache.catalogs, hash, record::read_catalog)
    }

    fn policy(&self, hash: ContentHash) -> Option<Arc<RoutingPolicy>> {
        self.find(&self.cache.policies, hash, record::read_policy)
    }
}
