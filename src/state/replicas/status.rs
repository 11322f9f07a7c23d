//! How the shared stores are, for health, metrics and the log.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use pointsman_base::clock;

/// Most reasons of one outage that are logged.
const REASONS: usize = 8;
/// So many rows are named in the log when the store refuses them; of further ones each time that their number has doubled.
const NAMED_ROWS: u64 = 16;

/// State of one store.
#[derive(Debug)]
pub struct StoreStatus {
    /// Name of the store in the log.
    name: &'static str,
    /// Since when it is away, Unix milliseconds; `None`: it is there. It is away until it was reached once.
    away_since_ms: Mutex<Option<i64>>,
    /// Reasons of the outage that the log has.
    logged_reasons: Mutex<BTreeSet<String>>,
    /// Last exchange that succeeded, Unix milliseconds; 0: none.
    last_ms: AtomicI64,
    /// Times that it went away.
    outages: AtomicU64,
    /// Records sent, or leases reported.
    done: AtomicU64,
    /// What waits for the store: records and changes.
    waiting: AtomicU64,
    /// Rows that the store refused because of a value in them.
    refused_rows: AtomicU64,
    /// Commands that the store refuses, and without which a part is missing.
    refused_commands: Mutex<BTreeSet<&'static str>>,
    hints: Hints,
}

/// Hints of health that came through a store.
#[derive(Debug, Default)]
struct Hints {
    believed: AtomicU64,
    /// An answer here, or a breaker that is open here, said more.
    unused: AtomicU64,
}

/// State of one store at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreReading {
    /// Since when it is away, Unix milliseconds; `None`: it is there.
    pub away_since_ms: Option<i64>,
    /// Last exchange that succeeded, Unix milliseconds.
    pub last_ms: Option<i64>,
    /// Times that it went away since the start.
    pub outages: u64,
    /// Records sent, or leases reported, since the start.
    pub done: u64,
    /// Records and changes that wait for it.
    pub waiting: u64,
    /// Rows that it refused since the start because of a value in them.
    pub refused_rows: u64,
    /// Commands that it refuses.
    pub refused_commands: Vec<&'static str>,
    /// Hints of health by other replicas since the start: believed, and not.
    pub hints: [u64; 2],
}

impl StoreStatus {
    /// A store that was not reached yet.
    pub fn new(name: &'static str) -> Arc<StoreStatus> {
        Arc::new(StoreStatus {
            name,
            away_since_ms: Mutex::new(Some(clock::unix_millis())),
            logged_reasons: Mutex::default(),
            last_ms: AtomicI64::new(0),
            outages: AtomicU64::new(0),
            done: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            refused_rows: AtomicU64::new(0),
            refused_commands: Mutex::default(),
            hints: Hints::default(),
        })
    }

    /// An exchange succeeded.
    pub fn reached(&self) {
        let now_ms = clock::unix_millis();
        self.last_ms.store(now_ms, Ordering::Relaxed);
        if let Some(since_ms) = self.away_since_ms.lock().take() {
            self.logged_reasons.lock().clear();
            log::info!("{} is reached, after {} ms without it", self.name, now_ms.saturating_sub(since_ms));
        }
    }

    /// An exchange failed. `why` must hold no secret. Each reason is logged once per outage, and only some of them.
    pub fn lost(&self, why: &dyn fmt::Display) {
        let mut away = self.away_since_ms.lock();
        let never = self.last_ms.load(Ordering::Relaxed) == 0 && self.outages.load(Ordering::Relaxed) == 0;
        if away.is_none() || never {
            self.outages.fetch_add(1, Ordering::Relaxed);
        }
        let mut logged = self.logged_reasons.lock();
        if logged.len() < REASONS && logged.insert(why.to_string()) {
            log::warn!("{} is away, and requests go on without it: {why}", self.name);
        }
        away.get_or_insert_with(clock::unix_millis);
    }

    /// Counts a row that the store refused because of a value in it, and that this replica alone keeps. Logged.
    pub fn refused_row(&self, row: impl fmt::Display, why: &dyn fmt::Display) {
        let count = self.refused_rows.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if count <= NAMED_ROWS || count.is_power_of_two() {
            log::error!("{} refuses {row}, which this replica alone keeps ({count} since the start): {why}", self.name);
        }
    }

    /// The store refuses a command, and `missing` says what does not work. Logged once.
    pub fn refuses_command(&self, command: &'static str, missing: &str, why: &dyn fmt::Display) {
        if self.refused_commands.lock().insert(command) {
            log::warn!("{} refuses {command}: {missing}: {why}", self.name);
        }
    }

    /// The store takes a command.
    pub fn takes_command(&self, command: &'static str) {
        if self.refused_commands.lock().remove(command) {
            log::info!("{} takes {command} now", self.name);
        }
    }

    /// Whether the store is there.
    pub fn is_there(&self) -> bool {
        self.away_since_ms.lock().is_none()
    }

    /// Counts records sent, or leases reported.
    pub fn count(&self, done: usize) {
        self.done.fetch_add(done as u64, Ordering::Relaxed);
    }

    /// Counts a hint of health by another replica.
    pub fn count_hint(&self, is_believed: bool) {
        let Hints { believed, unused } = &self.hints;
        if is_believed { believed } else { unused }.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets what waits.
    pub fn set_waiting(&self, waiting: usize) {
        self.waiting.store(waiting as u64, Ordering::Relaxed);
    }

    /// The state now.
    pub fn read(&self) -> StoreReading {
        StoreReading {
            away_since_ms: *self.away_since_ms.lock(),
            last_ms: Some(self.last_ms.load(Ordering::Relaxed)).filter(|at| *at > 0),
            outages: self.outages.load(Ordering::Relaxed),
            done: self.done.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            refused_rows: self.refused_rows.load(Ordering::Relaxed),
            refused_commands: self.refused_commands.lock().iter().copied().collect(),
            hints: [&self.hints.believed, &self.hints.unused].map(|count| count.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_once_and_ends_with_the_first_success() {
        clock::start();
        let status = StoreStatus::new("a store");
        assert!(!status.is_there());
        status.reached();
        assert!(status.is_there());
        status.lost(&"first");
        let since = status.read().away_since_ms;
        status.lost(&"second");
        assert_eq!((status.read().away_since_ms, status.read().outages), (since, 1));
        status.reached();
        assert_eq!(status.read().away_since_ms, None);
    }
}
