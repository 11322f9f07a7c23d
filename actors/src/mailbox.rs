//! How many batches wait in a control actor's mailbox. actix does not say, so each batch carries a token
//! that counts itself in when it is sent and out when it was handled, or lost with its actor.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The count of one mailbox. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct MailboxDepth(Arc<AtomicUsize>);

/// A batch on its way. Dropped when it was handled.
#[derive(Debug)]
pub struct InMailbox(MailboxDepth);

impl MailboxDepth {
    /// Counts a batch in.
    #[must_use]
    pub fn enter(&self) -> InMailbox {
        self.0.fetch_add(1, Ordering::Relaxed);
        InMailbox(self.clone())
    }

    /// Batches that wait.
    #[must_use]
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for InMailbox {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
