//! Mailbox depth of a control actor, and records that a stopped ledger did not handle.
//!
//! actix does not report the depth of a mailbox. So each batch carries a token: creating it counts the batch in,
//! dropping it, handled or lost with its actor, counts the batch out. Records of a lost batch are kept as
//! [`Undelivered`].

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use pointsman_domain::Generation;

/// Counts of one mailbox. Cloning shares the counts.
#[derive(Debug, Clone, Default)]
pub struct MailboxDepth(Arc<MailboxCounts>);

#[derive(Debug, Default)]
struct MailboxCounts {
    batches: AtomicUsize,
    items: AtomicUsize,
}

/// Counts one batch as long as it waits. Dropped when the batch was handled.
#[derive(Debug)]
pub struct MailboxToken {
    mailbox: MailboxDepth,
    items: usize,
}

impl MailboxDepth {
    /// Counts in a batch of `items` items.
    pub fn enter(&self, items: usize) -> MailboxToken {
        self.0.batches.fetch_add(1, Ordering::Relaxed);
        self.0.items.fetch_add(items, Ordering::Relaxed);
        MailboxToken { mailbox: self.clone(), items }
    }

    /// Number of waiting batches.
    pub fn get(&self) -> usize {
        self.0.batches.load(Ordering::Relaxed)
    }

    /// Number of items in the waiting batches.
    pub fn items(&self) -> usize {
        self.0.items.load(Ordering::Relaxed)
    }
}

impl Drop for MailboxToken {
    fn drop(&mut self) {
        self.mailbox.0.batches.fetch_sub(1, Ordering::Relaxed);
        self.mailbox.0.items.fetch_sub(self.items, Ordering::Relaxed);
    }
}

/// Records that were sent to a stopped ledger, or to one that stopped before it handled them. The next ledger enters
/// them. Cloning shares the records.
#[derive(Debug, Clone, Default)]
pub struct Undelivered(Arc<Mutex<Vec<Arc<Generation>>>>);

impl Undelivered {
    /// Most records kept while no ledger runs: some seconds of a busy gateway. Further records are lost.
    const MAX_RECORDS: usize = 65_536;

    /// Keeps records that were not handled.
    pub fn put(&self, records: Vec<Arc<Generation>>) {
        let mut held = self.0.lock();
        let room = Undelivered::MAX_RECORDS.saturating_sub(held.len());
        held.extend(records.into_iter().take(room));
    }

    /// Removes and returns all kept records.
    pub fn take(&self) -> Vec<Arc<Generation>> {
        std::mem::take(&mut *self.0.lock())
    }
}
