//! What waits in a control actor's mailbox, and what happens to it when the actor is gone.
//!
//! actix does not say how much waits, so each batch carries a token that counts itself in when it is sent and out when
//! it was handled, or lost with its actor. What must not be lost comes back as [`Undelivered`].

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use crate::domain::Generation;

/// The counts of one mailbox. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct MailboxDepth(Arc<MailboxCounts>);

#[derive(Debug, Default)]
struct MailboxCounts {
    batches: AtomicUsize,
    items: AtomicUsize,
}

/// A batch on its way. Dropped when it was handled.
#[derive(Debug)]
pub struct MailboxToken {
    mailbox: MailboxDepth,
    items: usize,
}

impl MailboxDepth {
    /// Counts in a batch of `items` items.
    #[must_use]
    pub fn enter(&self, items: usize) -> MailboxToken {
        self.0.batches.fetch_add(1, Ordering::Relaxed);
        self.0.items.fetch_add(items, Ordering::Relaxed);
        MailboxToken { mailbox: self.clone(), items }
    }

    /// Batches that wait.
    #[must_use]
    pub fn get(&self) -> usize {
        self.0.batches.load(Ordering::Relaxed)
    }

    /// Items in the batches that wait.
    #[must_use]
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

/// Records that were sent to a ledger which was gone, or went before it came to them. Its successor takes them over.
/// Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct Undelivered(Arc<Mutex<Vec<Arc<Generation>>>>);

impl Undelivered {
    /// Records kept while no ledger is there: some seconds at the rate of a busy gateway. Those beyond it are lost.
    const MAX_RECORDS: usize = 65_536;

    /// Takes back what did not arrive.
    pub fn put(&self, records: Vec<Arc<Generation>>) {
        let mut held = self.0.lock();
        let room = Undelivered::MAX_RECORDS.saturating_sub(held.len());
        held.extend(records.into_iter().take(room));
    }

    /// Everything that did not arrive.
    #[must_use]
    pub fn take(&self) -> Vec<Arc<Generation>> {
        std::mem::take(&mut *self.0.lock())
    }
}
