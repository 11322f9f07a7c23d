//! `POST /admin/reload`, and how the configuration stands.

use std::path::PathBuf;

use actix_web::HttpResponse;
use serde::Serialize;

use crate::{
    api::{answer::uncached, auth::Administrator, readings::rfc_3339},
    base::{error::ApiError, events},
    config::PendingRestart,
    state::{
        gateway::Worker,
        reload::{self, Reload, ReloadOutcome, ReloadTrigger},
    },
};

/// Reads the configuration again.
///
/// # Errors
/// 400 when it is refused, with every fault; the one in force then goes on.
pub(crate) async fn reload(Administrator(caller): Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    events::Administered { by: &caller.key.name, what: "has the configuration read again", whom: None }.emit();
    let shared = worker.shared.clone();
    // On a task of its own: a client that leaves must not leave it half done.
    let reloading = actix_rt::spawn(async move { reload::reload(&shared, ReloadTrigger::Admin).await.0 });
    let reload = reloading.await.map_err(|_| ApiError::internal())?;
    match &reload.outcome {
        ReloadOutcome::Refused(faults) => Err(ApiError::refused_configuration(reload.version, faults)),
        ReloadOutcome::Changed | ReloadOutcome::Unchanged => Ok(uncached(&ReloadBody::new(&reload))),
    }
}

/// How one reload went.
#[derive(Serialize)]
struct ReloadBody {
    result: &'static str,
    version: u64,
    cause: &'static str,
    at: String,
    faults: Vec<String>,
    /// Keys, never their values.
    changes: Vec<String>,
    restart_pending: Vec<PendingBody>,
}

#[derive(Serialize)]
struct PendingBody {
    key: &'static str,
    in_force: String,
    wanted: String,
}

impl ReloadBody {
    fn new(reload: &Reload) -> ReloadBody {
        let pending = |PendingRestart { key, in_force, wanted }: &PendingRestart| PendingBody {
            key,
            in_force: in_force.clone(),
            wanted: wanted.clone(),
        };
        ReloadBody {
            result: reload.outcome.as_str(),
            version: reload.version,
            cause: reload.cause.as_str(),
            at: rfc_3339(reload.at_ms),
            faults: reload.outcome.faults().to_vec(),
            changes: reload.changes.clone(),
            restart_pending: reload.pending.iter().map(pending).collect(),
        }
    }
}

/// How the configuration stands.
#[derive(Serialize)]
pub(super) struct ConfigBody {
    version: u64,
    source: String,
    loaded_at: String,
    files: Vec<PathBuf>,
    last_reload: Option<ReloadBody>,
}

impl ConfigBody {
    pub(super) fn now(worker: &Worker) -> ConfigBody {
        let standing = &worker.shared.reloads.status;
        ConfigBody {
            version: worker.setup.version,
            source: worker.setup.config.source.clone(),
            loaded_at: rfc_3339(standing.loaded_ms()),
            files: worker.setup.config.files(),
            last_reload: standing.last().as_ref().map(ReloadBody::new),
        }
    }
}
