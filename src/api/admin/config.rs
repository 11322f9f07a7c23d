//! `POST /admin/reload`, and how the configuration stands.

use std::path::PathBuf;

use actix_web::HttpResponse;
use serde::Serialize;

use super::answer;
use crate::{
    api::readings::rfc_3339,
    auth::Administrator,
    config::Pending,
    error::ApiError,
    events,
    gateway::Worker,
    reload::{self, Attempt, Cause, Outcome},
};

/// Reads the configuration again.
///
/// # Errors
/// 400 when it is refused, with every fault; the one in force then goes on.
pub(crate) async fn reload(Administrator(caller): Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    events::Administered { by: &caller.key.name, what: "has the configuration read again", whom: "" }.emit();
    let shared = worker.shared.clone();
    // On a task of its own: a client that leaves must not leave it half done.
    let reloading = actix_rt::spawn(async move { reload::reload(&shared, Cause::Admin).await.0 });
    let attempt = reloading.await.map_err(|_| ApiError::internal())?;
    match &attempt.outcome {
        Outcome::Refused(faults) => Err(ApiError::refused_configuration(attempt.version, faults)),
        Outcome::Changed | Outcome::Unchanged => Ok(answer(&AttemptBody::new(&attempt))),
    }
}

/// How one attempt to change the configuration went.
#[derive(Serialize)]
struct AttemptBody {
    result: &'static str,
    version: u64,
    cause: &'static str,
    at: String,
    faults: Vec<String>,
    restart_pending: Vec<PendingBody>,
}

#[derive(Serialize)]
struct PendingBody {
    key: &'static str,
    in_force: String,
    wanted: String,
}

impl AttemptBody {
    fn new(attempt: &Attempt) -> AttemptBody {
        let pending = |Pending { key, in_force, wanted }: &Pending| PendingBody {
            key,
            in_force: in_force.clone(),
            wanted: wanted.clone(),
        };
        AttemptBody {
            result: attempt.outcome.as_str(),
            version: attempt.version,
            cause: attempt.cause.as_str(),
            at: rfc_3339(attempt.at_ms),
            faults: attempt.outcome.faults().to_vec(),
            restart_pending: attempt.pending.iter().map(pending).collect(),
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
    last_reload: Option<AttemptBody>,
}

impl ConfigBody {
    pub(super) fn now(worker: &Worker) -> ConfigBody {
        let standing = &worker.shared.reloads.standing;
        ConfigBody {
            version: worker.setup.version,
            source: worker.setup.config.source.clone(),
            loaded_at: rfc_3339(standing.loaded_ms()),
            files: worker.setup.config.files(),
            last_reload: standing.last().as_ref().map(AttemptBody::new),
        }
    }
}
