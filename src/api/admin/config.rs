//! `POST /admin/reload`, what it would change, and the state of the configuration.

use std::{path::PathBuf, sync::Arc};

use actix_web::HttpResponse;
use pointsman_config::{ChangedKey, PendingRestart, SourceLocation};
use serde::Serialize;

use super::audit;
use crate::{
    access::issued::Change,
    api::{
        answer::uncached,
        auth::{Administrator, Authorized},
        models::measurements::rfc_3339,
    },
    base::{error::ApiError, events},
    state::{
        gateway::{GatewayView, Worker},
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
pub(crate) async fn reload(by: Administrator) -> Result<HttpResponse, ApiError> {
    let reload = reload_by(&by).await?;
    match &reload.outcome {
        ReloadOutcome::Refused(faults) => Err(ApiError::refused_configuration(reload.version, faults)),
        ReloadOutcome::Changed | ReloadOutcome::Unchanged => Ok(uncached(&ReloadBody::new(&reload))),
    }
}

/// Reloads the configuration for an administrator, and writes that to the audit log.
///
/// # Errors
/// 500 when the reload was interrupted.
pub(crate) async fn reload_by(by: &Authorized) -> Result<Reload, ApiError> {
    events::administered(&by.caller.key.name, "reloads the configuration", None);
    let shared = by.worker.shared.clone();
    let (registry, actor) = (Arc::clone(&shared.access.registry), audit::actor(by));
    // In a separate task, so that a disconnect of the client does not interrupt the reload.
    let reloading = actix_rt::spawn(async move {
        let reload = reload::reload(&shared, ReloadTrigger::Admin).await.0;
        let result = reload.outcome.as_str().to_owned();
        let change = Change::Reload { result, settings: reload.changes.clone() };
        // A full disk must not keep a better configuration out.
        if let Err(error) = audit::store(registry, actor, |registry, actor| registry.record(actor, change)).await {
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
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PreviewBody {
    /// `changed`: a reload would put another configuration into force; `unchanged`: it would not; `refused`: the
    /// configuration on disk has faults.
    #[cfg_attr(test, schemars(with = "crate::base::words::ReloadResult"))]
    pub(crate) result: &'static str,
    /// Number of the configuration in force.
    pub(crate) version: u64,
    /// Name of the file that is read.
    pub(crate) source: String,
    /// Every fault of the configuration on disk, a sentence each.
    pub(crate) faults: Vec<String>,
    /// Keys that are set otherwise on disk than in force, by key, 1,000 at most, with those that wait for a restart. A
    /// key that is set to its default is one of them. With `unchanged` only keys that wait for a restart; others mean
    /// the same. Empty with `changed`: the order of a list differs, or the content of a file or variable that a key
    /// names. Secrets are in such files and variables only; digests of keys, additional headers and the queries of URLs
    /// are not shown.
    pub(crate) changes: Vec<ChangeBody>,
    /// Number of such keys.
    pub(crate) changes_total: usize,
    /// Providers, and models at providers, that refuse the gateway's key, account or name of the model now and would be
    /// tried again at once, because the key, base URL or upstream name would change.
    pub(crate) reopens: Vec<String>,
    /// Settings of the configuration on disk that only a restart would put into force.
    pub(crate) restart_pending: Vec<PendingBody>,
}

/// A key that is set otherwise on disk than in force.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ChangeBody {
    /// Path of the key, such as `limits.max_n` or `models["acme/small"].name`.
    pub(crate) key: String,
    /// Value in force as TOML, cut after 120 characters; `null`: not set.
    pub(crate) in_force: Option<String>,
    /// Value on disk, in the same form; `null`: not set.
    pub(crate) on_disk: Option<String>,
    /// Where it is set: file, line and column, or a variable; `null`: not set on disk.
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

view! {
    /// One reload of the configuration.
    pub(crate) struct ReloadBody as "Reload" {
        fn new(reload: &Reload) {}

        /// `changed`: a new configuration is in force. `unchanged`: the file says what is in force already. `refused`: the
        /// file has faults, and the configuration before it stays in force.
        #[cfg_attr(test, schemars(with = "crate::base::words::ReloadResult"))]
        pub(crate) result: &'static str = reload.outcome.as_str(),
        /// Number of the configuration in force afterwards.
        pub(crate) version: u64 = reload.version,
        /// What started the reload: a changed file, SIGHUP, or an administrator.
        #[cfg_attr(test, schemars(extend("enum" = ["file", "signal", "admin"])))]
        pub(crate) cause: &'static str = reload.cause.as_str(),
        /// When the reload ended. RFC 3339, UTC, with milliseconds.
        pub(crate) at: String = rfc_3339(reload.at_ms),
        /// Every fault of a refused configuration, a sentence each; otherwise empty. `POST /admin/reload` answers a refusal
        /// as an error with the status 400 instead.
        pub(crate) faults: Vec<String> = reload.outcome.faults().to_vec(),
        /// Names of the changed keys, without values; empty unless `changed`.
        pub(crate) changes: Vec<String> = reload.changes.clone(),
        /// Providers, and models at providers, that had refused the gateway's key, account or name of the model and are
        /// tried again at once, because the key, base URL or upstream name has changed.
        pub(crate) reopened: Vec<String> = reload.reopened.clone(),
        /// Changed settings that only a restart can apply.
        pub(crate) restart_pending: Vec<PendingBody> = reload.pending.iter().map(PendingBody::new).collect(),
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PendingBody {
    /// Name of the setting.
    pub(crate) key: &'static str,
    /// Its value in force.
    pub(crate) in_force: String,
    /// Its value in the file.
    pub(crate) wanted: String,
}

impl PendingBody {
    fn new(PendingRestart { key, in_force, wanted }: &PendingRestart) -> PendingBody {
        PendingBody { key, in_force: in_force.clone(), wanted: wanted.clone() }
    }
}

/// State of the configuration.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ConfigBody {
    /// Number of the configuration in force, counted from 1 since the start: each reload that changes something adds 1.
    pub(crate) version: u64,
    /// Path of the configuration file, or where the configuration comes from without one.
    pub(crate) source: String,
    /// When that version came into force. RFC 3339, UTC, with milliseconds.
    pub(crate) loaded_at: String,
    /// Paths of all files that the configuration was read from.
    pub(crate) files: Vec<PathBuf>,
    /// The keys that the file or a variable sets, without values, in the order of the file, variables last; at most
    /// 1,000.
    pub(crate) settings: Vec<SettingBody>,
    /// All of them, those included that are not listed.
    pub(crate) settings_total: usize,
    /// The last reload since the start; `null` without one.
    pub(crate) last_reload: Option<ReloadBody>,
}

/// Where a key is set.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct SettingBody {
    /// Path of the key, such as `server.bind`.
    pub(crate) key: String,
    /// The file that sets it; `null` if a variable does.
    pub(crate) file: Option<String>,
    /// The line in that file, counted from 1; `null` if a variable sets it.
    pub(crate) line: Option<u32>,
    /// The environment variable that sets it; `null` if the file does.
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
    pub(crate) fn now(worker: &GatewayView) -> ConfigBody {
        let status = &worker.shared.process.reloads.status;
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
