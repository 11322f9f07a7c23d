//! What a reload would do: the difference between the configuration on disk and the one in force. Changes nothing.

use std::sync::Arc;

use pointsman_base::clock;
use pointsman_config::{ChangedKey, LoadedConfig, PendingRestart};
use pointsman_domain::Endpoint;

use super::{check_reloadable, names, read};
use crate::state::{
    gateway::Shared,
    setup::{Setup, SetupDraft},
};

/// Result of a reload that was not made.
pub(crate) struct ReloadPreview {
    /// Every fault of the configuration on disk; with one, a reload would be refused.
    pub(crate) faults: Vec<String>,
    /// Whether a reload would put another configuration into force.
    pub(crate) is_different: bool,
    /// Keys that are set otherwise than in force; without `is_different` only those that wait for a restart, because the
    /// others mean the same. Empty if only the order of a list differs, or the content of a file or variable that a key names.
    pub(crate) changes: Vec<ChangedKey>,
    /// Providers and endpoints that refuse the gateway's key, account or model and would be tried again at once.
    pub(crate) reopens: Vec<String>,
    /// Settings that would wait for a restart.
    pub(crate) pending: Vec<PendingRestart>,
}

/// Reads the configuration again and compares it with the one in force.
pub(crate) async fn preview(shared: &Shared) -> ReloadPreview {
    let running = shared.setup.load_full();
    let (read, _) = read(Arc::clone(&running)).await;
    match read.and_then(|loaded| check_reloadable(loaded, &running.config)) {
        Err(faults) => {
            ReloadPreview { faults, is_different: false, changes: Vec::new(), reopens: Vec::new(), pending: Vec::new() }
        }
        Ok((loaded, pending)) => {
            let is_different = loaded.config != running.config;
            let both = loaded.written.as_ref().zip(running.written.as_ref());
            let mut changes = both.map(|(new, old)| new.differences_from(old)).unwrap_or_default();
            changes.retain(|change| is_different || change.waits(&pending));
            let reopens = if is_different { reopens(&running, &loaded) } else { Vec::new() };
            ReloadPreview { faults: Vec::new(), is_different, changes, reopens, pending }
        }
    }
}

/// What is refused now and is called with something else under the new configuration.
fn reopens(running: &Setup, loaded: &LoadedConfig) -> Vec<String> {
    let catalog = loaded.config.catalog(running.version + 1);
    let (providers, endpoints) = SetupDraft::corrected(&loaded.config, &catalog, running);
    let live = running.published.live.view(clock::now());
    // Positions belong to one catalog each.
    let refuses = |new: &u32| {
        let slug = catalog.providers.get(*new as usize).map(|provider| &provider.slug);
        let old = running.catalog.providers.iter().position(|old| Some(&old.slug) == slug);
        old.is_some_and(|old| live.providers.get(old).is_some_and(|provider| provider.refused.is_some()))
    };
    let is_refused = |(index, new): &(u32, &Endpoint)| {
        let changed = endpoints.contains(index) || providers.contains(&new.provider);
        let old = running.catalog.endpoints.iter().position(|old| old.id == new.id);
        changed && old.is_some_and(|old| live.endpoints.get(old).is_some_and(|endpoint| endpoint.refused.is_some()))
    };
    let refused: Vec<u32> = (0_u32..).zip(&catalog.endpoints).filter(is_refused).map(|(index, _)| index).collect();
    let refusing: Vec<u32> = providers.iter().copied().filter(refuses).collect();
    names(&catalog, &refusing, &refused)
}
