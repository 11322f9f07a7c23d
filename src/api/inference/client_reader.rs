//! How this gateway reads requests of clients, whatever their API.

use pointsman_dialect::{ChatPurpose, ClientReader};

use crate::state::gateway::Worker;

/// The reader of a request for this purpose.
pub(super) fn reader(worker: &Worker, purpose: ChatPurpose) -> ClientReader<'_> {
    ClientReader { state_key: &worker.shared.process.state_key, purpose, limits: &worker.setup.config.limits.request }
}
