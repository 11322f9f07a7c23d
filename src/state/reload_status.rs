//! How the configuration stands: what is in force, how the last reload ended, what waits for a restart.
//!
//! Only what is known, and the right to change it; what a reload does is the work of [`crate::state::reload`].

use std::fmt;

use parking_lot::Mutex;
use tokio::sync::MutexGuard;

use crate::{base::events::Metrics, config::PendingRestart};

/// Changing the configuration of a running gateway: one at a time.
#[derive(Debug, Default)]
pub struct Reloads {
    alone: tokio::sync::Mutex<()>,
    /// What came of it.
    pub standing: ReloadStatus,
}

impl Reloads {
    /// Nothing is changed while what comes back is held.
    pub async fn alone(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().await
    }
}

/// Who asked for the configuration to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadTrigger {
    /// A file changed.
    File,
    /// SIGHUP.
    Signal,
    /// An administrator.
    Admin,
}

impl ReloadTrigger {
    /// The word in log and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ReloadTrigger::File => "file",
            ReloadTrigger::Signal => "signal",
            ReloadTrigger::Admin => "admin",
        }
    }
}

/// How a reload ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// Another configuration is in force.
    Changed,
    /// It says what is in force already.
    Unchanged,
    /// It is faulty or impossible, and the one in force goes on: a sentence for each fault.
    Refused(Vec<String>),
}

impl ReloadOutcome {
    /// The word in metrics and answers.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            ReloadOutcome::Changed => "changed",
            ReloadOutcome::Unchanged => "unchanged",
            ReloadOutcome::Refused(_) => "refused",
        }
    }

    /// The faults, if it was refused.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        match self {
            ReloadOutcome::Refused(faults) => faults,
            ReloadOutcome::Changed | ReloadOutcome::Unchanged => &[],
        }
    }
}

/// One time that the configuration was read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// Who asked for it.
    pub cause: ReloadTrigger,
    /// How it ended.
    pub outcome: ReloadOutcome,
    /// The version in force afterwards.
    pub version: u64,
    /// When it ended, Unix milliseconds.
    pub at_ms: i64,
    /// The keys that changed, where another configuration is in force.
    pub changes: Vec<String>,
    /// What it asks for and only a restart can bring.
    pub pending: Vec<PendingRestart>,
}

impl fmt::Display for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = self.cause.as_str();
        match &self.outcome {
            ReloadOutcome::Changed => {
                write!(f, "configuration {} is in force ({cause})", self.version)?;
                let changes = self.changes.join(", ");
                if changes.is_empty() { Ok(()) } else { write!(f, "; changed: {changes}") }
            }
            ReloadOutcome::Unchanged => write!(f, "the configuration is unchanged ({cause})"),
            ReloadOutcome::Refused(faults) => {
                write!(f, "the new configuration is refused ({cause}); version {} stays in force", self.version)?;
                faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
            }
        }
    }
}

/// The configuration was read again.
pub struct ConfigReloaded<'a> {
    /// How it went.
    pub reload: &'a Reload,
    /// How the one before went.
    pub before: Option<&'a Reload>,
}

impl ConfigReloaded<'_> {
    /// Counts it; logs a refusal as an error, with every fault, and what waits for a restart, once, at `warn`.
    pub fn emit(&self, metrics: &Metrics) {
        let ConfigReloaded { reload, before } = self;
        let life = &metrics.life;
        life.reloads.with_label_values(&[reload.outcome.as_str()]).inc();
        life.last_reload_good.set(i64::from(reload.outcome.faults().is_empty()));
        life.restart_pending.set(i64::try_from(reload.pending.len()).unwrap_or(i64::MAX));
        match reload.outcome {
            ReloadOutcome::Changed => log::info!("{reload}"),
            ReloadOutcome::Unchanged => log::debug!("{reload}"),
            ReloadOutcome::Refused(_) => log::error!("{reload}"),
        }
        let known = before.map(|before| &*before.pending).unwrap_or_default();
        for pending in reload.pending.iter().filter(|pending| !known.contains(pending)) {
            log::warn!("{pending}");
        }
    }
}

/// What is known about the configuration of a running gateway.
#[derive(Debug, Default)]
pub struct ReloadStatus(Mutex<Known>);

#[derive(Debug, Default, Clone)]
struct Known {
    loaded_ms: i64,
    last: Option<Reload>,
}

impl ReloadStatus {
    /// A configuration came into force.
    pub fn loaded(&self, at_ms: i64) {
        self.0.lock().loaded_ms = at_ms;
    }

    /// A reload ended.
    pub fn note(&self, reload: Reload) {
        self.0.lock().last = Some(reload);
    }

    /// When the configuration in force was taken over, Unix milliseconds.
    #[must_use]
    pub fn loaded_ms(&self) -> i64 {
        self.0.lock().loaded_ms
    }

    /// The last reload; `None` when there was none since the start.
    #[must_use]
    pub fn last(&self) -> Option<Reload> {
        self.0.lock().last.clone()
    }
}
