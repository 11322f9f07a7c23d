//! When the record of a request is safe on disk, for `ledger.durability = "sync"`: the end of its answer waits for that.

use std::{
    cell::RefCell,
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use crate::store::generations::Synced;

/// Set when the record is posted. Clones share it.
#[derive(Clone, Default)]
pub struct Durable(Rc<RefCell<Option<Synced>>>);

impl Durable {
    /// The record was written, and waits for the disk; `None` if nobody has to wait.
    pub fn set(&self, synced: Option<Synced>) {
        *self.0.borrow_mut() = synced;
    }

    /// Ready when nothing has to be waited for: no record yet, or the disk has it, or the disk fails. The status of the
    /// ledger tells of a disk that fails.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.0.borrow_mut();
        if let Some(synced) = waiting.as_mut() {
            let _ = ready!(Pin::new(synced).poll(cx));
            *waiting = None;
        }
        Poll::Ready(())
    }

    /// Waits for the same.
    pub async fn wait(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }
}
