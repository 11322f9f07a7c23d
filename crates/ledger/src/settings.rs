//! What the store is told at its start.

use std::{sync::Arc, time::Duration};

use crate::{entry::Entry, queue::Bounds};

/// Makes the entry to keep of one that had begun when the process ended. `None` keeps nothing.
pub type Interrupted = Arc<dyn Fn(Entry) -> Option<Entry> + Send + Sync>;

/// Settings of the store.
#[derive(Clone)]
pub struct Settings {
    /// Most that waits in memory for the database.
    pub queue: Bounds,
    /// Longest time that a journaled entry waits for others to be stored with. Readers see it meanwhile.
    pub settle: Duration,
    /// Longest time between a write to the journal and its `fsync`.
    pub sync_within: Duration,
    /// Size at which a worker begins a new segment.
    pub segment_bytes: u64,
    /// Most bytes of all segments, while the database takes nothing. Further entries wait in memory.
    pub journal_bytes: u64,
    /// Most bytes of the database's write-ahead log, above which nothing is stored. Only a program that holds a transaction open
    /// for long lets it grow so far.
    pub log_bytes: u64,
    /// Age at which entries are dropped.
    pub max_age: Duration,
    /// Most bytes of records. The file is somewhat larger: columns and sums are not counted.
    pub max_bytes: u64,
    /// Age at which sums lose their time: they are added up with those of long ago.
    pub max_sum_age: Duration,
    /// What becomes of entries that had begun.
    pub interrupted: Interrupted,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            queue: Bounds { items: 65_536, bytes: 64 * 1024 * 1024 },
            settle: Duration::from_secs(5),
            sync_within: Duration::from_millis(200),
            segment_bytes: 8 * 1024 * 1024,
            journal_bytes: 1024 * 1024 * 1024,
            log_bytes: 1024 * 1024 * 1024,
            max_age: Duration::from_secs(7 * 86_400),
            max_bytes: 2 * 1024 * 1024 * 1024,
            max_sum_age: Duration::from_secs(90 * 86_400),
            interrupted: Arc::new(Some),
        }
    }
}
