//! When the record of a request is safe, as `ledger.durability` has it: the end of its answer waits for that.

use std::{
    cell::RefCell,
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll, ready},
};

use pointsman_ledger::write_batch::Saving;

/// Set when the record is posted. Clones share it.
#[derive(Clone, Default)]
pub struct Durable(Rc<RefCell<Option<Saving>>>);

impl Durable {
    /// The record is made, and waits for the kernel or the disk; `None` if nobody has to wait.
    pub fn set(&self, saving: Option<Saving>) {
        *self.0.borrow_mut() = saving;
    }

    /// Ready when nothing has to be waited for: no record yet, or it is where it should be, or the disk fails. The status of the
    /// ledger tells of a disk that fails.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.0.borrow_mut();
        if let Some(saving) = waiting.as_mut() {
            ready!(saving.poll(cx));
            *waiting = None;
        }
        Poll::Ready(())
    }

    /// Waits for the same.
    pub async fn wait(&self) {
        poll_fn(|cx| self.poll(cx)).await;
    }
}
