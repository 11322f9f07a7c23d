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
    /// Keys with other values than those in force. Empty if only the order of a list differs, or the content of a file or
    /// variable that a key names.
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
            let both = loaded.written.as_ref().zip(running.written.as_ref());
            ReloadPreview {
                faults: Vec::new(),
                is_different: loaded.config != running.config,
                changes: both.map(|(new, old)| new.differences_from(old)).unwrap_or_default(),
                pending,
            }
        }
    }
}
