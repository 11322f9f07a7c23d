//! What a reload would do: the difference between the configuration on disk and the one in force. Changes nothing.

use std::sync::Arc;

use super::{check_reloadable, read};
use crate::{
    config::{ChangedKey, PendingRestart},
    state::gateway::Shared,
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
    /// Settings that would wait for a restart.
    pub(crate) pending: Vec<PendingRestart>,
}

/// Reads the configuration again and compares it with the one in force.
pub(crate) async fn preview(shared: &Shared) -> ReloadPreview {
    let running = shared.setup.load_full();
    let (read, _) = read(Arc::clone(&running)).await;
    match read.and_then(|loaded| check_reloadable(loaded, &running.config)) {
        Err(faults) => ReloadPreview { faults, is_different: false, changes: Vec::new(), pending: Vec::new() },
        Ok((loaded, pending)) => {
            let is_different = loaded.config != running.config;
            let both = loaded.written.as_ref().zip(running.written.as_ref());
            let mut changes = both.map(|(new, old)| new.differences_from(old)).unwrap_or_default();
            changes.retain(|change| is_different || change.waits(&pending));
            ReloadPreview { faults: Vec::new(), is_different, changes, pending }
        }
    }
}
