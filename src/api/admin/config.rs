//! `POST /admin/reload`, what it would change, and the state of the configuration.

use std::{path::PathBuf, sync::Arc};

use actix_web::{HttpRequest, HttpResponse};
use pointsman_config::{ChangedKey, PendingRestart, SourceLocation};
use serde::Serialize;

use super::audit;
use crate::{
    access::{issued::Change, keys::Caller},
    api::{answer::uncached, auth::Administrator, models::measurements::rfc_3339},
    base::{error::ApiError, events},
    state::{
        gateway::Worker,
        reload::{
            self, Reload, ReloadOutcome, ReloadTrigger,
            preview::{self, ReloadPreview},
        },
    },
};

/// Most keys in one answer.
const MOST_SETTINGS: usize = 1_000;

/// Reloads the configuration.
///
/// # Errors
/// 400 with every fault when the new configuration is refused; the current one stays in force.
pub(crate) async fn reload(
    Administrator(caller): Administrator,
    worker: Worker,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let reload = reload_by(&worker, &request, &caller).await?;
    match &reload.outcome {
        ReloadOutcome::Refused(faults) => Err(ApiError::refused_configuration(reload.version, faults)),
        ReloadOutcome::Changed | ReloadOutcome::Unchanged => Ok(uncached(&ReloadBody::new(&reload))),
    }
}

/// Reloads the configuration for an administrator, and writes that to the audit log.
///
/// # Errors
/// 500 when the reload was interrupted.
pub(crate) async fn reload_by(worker: &Worker, request: &HttpRequest, caller: &Caller) -> Result<Reload, ApiError> {
    events::Administered { by: &caller.key.name, what: "reloads the configuration", whom: None }.emit();
    let shared = worker.shared.clone();
    let (registry, actor) = (Arc::clone(&shared.registry), audit::actor(request, caller));
    // In a separate task, so that a disconnect of the client does not interrupt the reload.
    let reloading = actix_rt::spawn(async move {
        let reload = reload::reload(&shared, ReloadTrigger::Admin).await.0;
        let result = reload.outcome.as_str().to_owned();
        let change = Change::Reload { result, settings: reload.changes.clone() };
        // A full disk must not keep a better configuration out.
        if let Err(error) = audit::store(registry, actor, change).await {
            log::error!("the audit log does not hold the reload: {error}");
        }
        reload
    });
    reloading.await.map_err(|_| ApiError::internal())
}

/// Shows what a reload would change, and changes nothing.
///
/// # Errors
/// None: faults of the configuration on disk are in the answer.
pub(crate) async fn preview(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&PreviewBody::now(&worker).await))
}

/// What a reload would do.
#[derive(Serialize)]
pub(crate) struct PreviewBody {
    /// As in [`ReloadBody`].
    pub(crate) result: &'static str,
    /// Version in force.
    pub(crate) version: u64,
    pub(crate) source: String,
    pub(crate) faults: Vec<String>,
    /// At most [`MOST_SETTINGS`].
    pub(crate) changes: Vec<ChangeBody>,
    pub(crate) changes_total: usize,
    /// Providers and endpoints that are refused now and would be tried again at once.
    pub(crate) reopens: Vec<String>,
    pub(crate) restart_pending: Vec<PendingBody>,
}

/// A key that is set otherwise on disk than in force.
#[derive(Serialize)]
pub(crate) struct ChangeBody {
    pub(crate) key: String,
    /// As TOML; `null` if the key is not set.
    pub(crate) in_force: Option<String>,
    pub(crate) on_disk: Option<String>,
    /// Where it is set on disk; `null` if it is not.
    pub(crate) place: Option<String>,
}

impl PreviewBody {
    /// Reads the configuration on disk and compares it.
    pub(crate) async fn now(worker: &Worker) -> PreviewBody {
        let ReloadPreview { faults, is_different, changes, reopens, pending } = preview::preview(&worker.shared).await;
        let result = match (faults.is_empty(), is_different) {
            (false, _) => ReloadOutcome::Refused(Vec::new()),
            (true, true) => ReloadOutcome::Changed,
            (true, false) => ReloadOutcome::Unchanged,
        };
        let changes_total = changes.len();
        let change = |ChangedKey { key, in_force, on_disk, location }| ChangeBody {
            key,
            in_force,
            on_disk,
            place: location.as_ref().map(ToString::to_string),
        };
        PreviewBody {
            result: result.as_str(),
            version: worker.setup.version,
            source: worker.setup.config.source.clone(),
            faults,
            changes: changes.into_iter().take(MOST_SETTINGS).map(change).collect(),
            changes_total,
            reopens,
            restart_pending: pending.iter().map(PendingBody::new).collect(),
        }
    }
}

/// Result of one reload.
#[derive(Serialize)]
pub(crate) struct ReloadBody {
    pub(crate) result: &'static str,
    pub(crate) version: u64,
    pub(crate) cause: &'static str,
    pub(crate) at: String,
    pub(crate) faults: Vec<String>,
    /// Names of the changed keys, without values.
    pub(crate) changes: Vec<String>,
    /// Providers and endpoints that had been refused and are tried again at once.
    pub(crate) reopened: Vec<String>,
    pub(crate) restart_pending: Vec<PendingBody>,
}

#[derive(Serialize)]
pub(crate) struct PendingBody {
    pub(crate) key: &'static str,
    pub(crate) in_force: String,
    pub(crate) wanted: String,
}

impl PendingBody {
    fn new(PendingRestart { key, in_force, wanted }: &PendingRestart) -> PendingBody {
        PendingBody { key, in_force: in_force.clone(), wanted: wanted.clone() }
    }
}

impl ReloadBody {
    fn new(reload: &Reload) -> ReloadBody {
        ReloadBody {
            result: reload.outcome.as_str(),
            version: reload.version,
            cause: reload.cause.as_str(),
            at: rfc_3339(reload.at_ms),
            faults: reload.outcome.faults().to_vec(),
            changes: reload.changes.clone(),
            reopened: reload.reopened.clone(),
            restart_pending: reload.pending.iter().map(PendingBody::new).collect(),
        }
    }
}

/// State of the configuration.
#[derive(Serialize)]
pub(crate) struct ConfigBody {
    pub(crate) version: u64,
    pub(crate) source: String,
    pub(crate) loaded_at: String,
    pub(crate) files: Vec<PathBuf>,
    /// The keys that the file or a variable sets, without values; at most [`MOST_SETTINGS`].
    pub(crate) settings: Vec<SettingBody>,
    pub(crate) settings_total: usize,
    pub(crate) last_reload: Option<ReloadBody>,
}

/// Where a key is set.
#[derive(Serialize)]
pub(crate) struct SettingBody {
    pub(crate) key: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) variable: Option<String>,
}

impl SettingBody {
    /// `None` for a default, and for what the built-in catalogue sets.
    fn new(key: &str, location: &SourceLocation, source: &str) -> Option<SettingBody> {
        let (file, line, variable) = match location {
            SourceLocation::File { file, line, .. } if **file == *source => {
                (Some(file.as_ref().to_owned()), Some(*line), None)
            }
            SourceLocation::Variable(name) => (None, None, Some(name.as_ref().to_owned())),
            SourceLocation::File { .. } | SourceLocation::Default => return None,
        };
        Some(SettingBody { key: key.to_owned(), file, line, variable })
    }
}

impl ConfigBody {
    pub(crate) fn now(worker: &Worker) -> ConfigBody {
        let status = &worker.shared.reloads.status;
        let written = worker.setup.written.iter().flat_map(|written| written.places());
        let source = &worker.setup.config.source;
        let mut settings: Vec<SettingBody> =
            written.filter_map(|(key, location)| SettingBody::new(key, location, source)).collect();
        // In the order of the file; variables last.
        settings.sort_by_key(|setting| setting.line.unwrap_or(u32::MAX));
        let settings_total = settings.len();
        settings.truncate(MOST_SETTINGS);
        ConfigBody {
            version: worker.setup.version,
            source: worker.setup.config.source.clone(),
            loaded_at: rfc_3339(status.loaded_ms()),
            files: worker.setup.config.files(),
            settings,
            settings_total,
            last_reload: status.last().as_ref().map(ReloadBody::new),
        }
    }
}
