//! Records of one turn of a worker's event loop: written with one call, before any of their answers ends.

use std::{
    cell::{Cell, RefCell},
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use tokio::sync::oneshot;

/// Ready when the kernel has the records of one turn of the event loop, or could not take them. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch(Rc<State>);

#[derive(Debug, Default)]
struct State {
    is_written: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl WriteBatch {
    /// The records were written, or could not be.
    pub(super) fn end(&self) {
        self.0.is_written.set(true);
        self.0.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Ready when that is over.
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        if self.0.is_written.get() {
            return Poll::Ready(());
        }
        self.0.waiting.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }
}

/// Becomes ready when a record is where `ledger.durability` wants it.
#[derive(Debug)]
pub enum Saving {
    /// With the kernel, at the end of this turn of the event loop.
    Kernel(WriteBatch),
    /// On the disk, or the disk refused it.
    Disk(oneshot::Receiver<io::Result<()>>),
}

impl Saving {
    /// Ready when nobody has to wait any more.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Saving::Kernel(batch) => batch.poll(cx),
            Saving::Disk(synced) => Pin::new(synced).poll(cx).map(|_| ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn everybody_who_waits_for_a_batch_goes_on_when_it_is_written() {
        let batch = WriteBatch::default();
        let wait = |batch: WriteBatch| async move { std::future::poll_fn(|cx| batch.poll(cx)).await };
        let mut waiting = [Box::pin(wait(batch.clone())), Box::pin(wait(batch.clone()))];
        assert!(waiting.iter_mut().all(|wait| wait.as_mut().now_or_never().is_none()));
        batch.end();
        assert!(waiting.iter_mut().all(|wait| wait.as_mut().now_or_never().is_some()));
        assert!(wait(batch).now_or_never().is_some());
    }
}
