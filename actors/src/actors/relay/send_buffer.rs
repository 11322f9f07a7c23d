//! Bytes that wait for a client: counted, bounded, and handed over in pieces.
//!
//! Sender and receiver live on one thread. One write may always wait, however large it is and however full the gateway
//! is, so that no stream stands still because of others; anything beyond it needs room under the stream's own bound
//! and in the [`BufferBudget`] that all of them share.

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::timeout;

/// Most that is handed over at once: the HTTP server copies it into a buffer that nobody counts.
const PIECE_BYTES: usize = 32 * 1024;

/// Where waiting bytes are counted, together with those of all other streams. Dropped with the last of them.
pub trait BufferBudget {
    /// Counts so many bytes more, unless there is no room for them.
    #[must_use]
    fn grow(&mut self, bytes: usize) -> bool;
    /// Counts so many bytes more, whether there is room or not.
    fn force(&mut self, bytes: usize);
    /// Counts so many bytes less.
    fn shrink(&mut self, bytes: usize);
}

/// Why bytes were not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendError {
    /// There is no room for them now.
    Full(Bytes),
    /// The client is gone.
    Left,
}

/// The relay's end. Dropping it ends the body.
pub(super) struct BufferSender(Rc<RefCell<SendBuffer<dyn BufferBudget>>>);

/// The client's end.
pub(super) struct BufferReceiver(Rc<RefCell<SendBuffer<dyn BufferBudget>>>);

struct SendBuffer<A: ?Sized> {
    writes: VecDeque<Bytes>,
    /// Bytes that count, those of a write that was handed over in part included.
    counted: usize,
    /// What the first write counts for: its memory is free only when its last piece is gone.
    first: usize,
    limit: usize,
    /// Pieces that the client took.
    taken: u64,
    ended: bool,
    left: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    account: A,
}

/// Both ends of a stream's waiting bytes, of which there may be `limit`.
pub(super) fn waiting(limit: usize, account: impl BufferBudget + 'static) -> (BufferSender, BufferReceiver) {
    let waiting = SendBuffer {
        writes: VecDeque::new(),
        counted: 0,
        first: 0,
        limit,
        taken: 0,
        ended: false,
        left: false,
        reader: None,
        writer: None,
        account,
    };
    let shared: Rc<RefCell<SendBuffer<dyn BufferBudget>>> = Rc::new(RefCell::new(waiting));
    (BufferSender(Rc::clone(&shared)), BufferReceiver(shared))
}

impl BufferSender {
    /// Lets the bytes wait for the client, if there is room for them.
    pub(super) fn try_send(&self, bytes: Bytes) -> Result<(), SendError> {
        self.0.borrow_mut().push(bytes)
    }

    /// Sends as soon as there is room, for which the client must take something every `patience`; says whether it did.
    pub(super) fn send(&self, bytes: Bytes, patience: Duration) -> impl Future<Output = bool> + 'static {
        let shared = Rc::clone(&self.0);
        let mut unsent = bytes;
        async move {
            loop {
                let seen = shared.borrow().taken;
                let refused = shared.borrow_mut().push(unsent);
                match refused {
                    Ok(()) => return true,
                    Err(SendError::Left) => return false,
                    Err(SendError::Full(bytes)) => unsent = bytes,
                }
                if timeout(patience, taken(&shared, seen)).await.is_err() {
                    return false;
                }
            }
        }
    }
}

/// Waits until the client has taken more than the `seen` pieces, or is gone.
async fn taken(shared: &RefCell<SendBuffer<dyn BufferBudget>>, seen: u64) {
    poll_fn(|cx| {
        let mut waiting = shared.borrow_mut();
        if waiting.taken != seen || waiting.left {
            return Poll::Ready(());
        }
        waiting.writer = Some(cx.waker().clone());
        Poll::Pending
    })
    .await;
}

impl Drop for BufferSender {
    fn drop(&mut self) {
        let mut waiting = self.0.borrow_mut();
        waiting.ended = true;
        wake(&mut waiting.reader);
    }
}

impl BufferReceiver {
    /// The next piece; `None` after the last.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut waiting = self.0.borrow_mut();
        match waiting.piece() {
            Some(piece) => Poll::Ready(Some(piece)),
            None if waiting.ended => Poll::Ready(None),
            None => {
                waiting.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for BufferReceiver {
    fn drop(&mut self) {
        let mut waiting = self.0.borrow_mut();
        waiting.left = true;
        waiting.writes = VecDeque::new();
        let counted = std::mem::take(&mut waiting.counted);
        waiting.account.shrink(counted);
        wake(&mut waiting.writer);
    }
}

impl<A: BufferBudget + ?Sized> SendBuffer<A> {
    fn push(&mut self, bytes: Bytes) -> Result<(), SendError> {
        let length = bytes.len();
        if self.left {
            return Err(SendError::Left);
        }
        if length == 0 {
            return Ok(());
        }
        if self.counted == 0 {
            self.account.force(length);
        } else if self.counted.saturating_add(length) > self.limit || !self.account.grow(length) {
            return Err(SendError::Full(bytes));
        }
        self.counted += length;
        if self.writes.is_empty() {
            self.first = length;
        }
        self.writes.push_back(bytes);
        wake(&mut self.reader);
        Ok(())
    }

    fn piece(&mut self) -> Option<Bytes> {
        let first = self.writes.front_mut()?;
        self.taken = self.taken.wrapping_add(1);
        wake(&mut self.writer);
        if first.len() > PIECE_BYTES {
            return Some(first.split_to(PIECE_BYTES));
        }
        let piece = self.writes.pop_front();
        let freed = std::mem::replace(&mut self.first, self.writes.front().map_or(0, Bytes::len));
        self.counted = self.counted.saturating_sub(freed);
        self.account.shrink(freed);
        piece
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::FutureExt as _;

    use super::*;

    /// Room for so many bytes, over all streams.
    #[derive(Clone)]
    struct Shared(Rc<Cell<usize>>, usize);

    impl BufferBudget for Shared {
        fn grow(&mut self, bytes: usize) -> bool {
            let fits = self.0.get() + bytes <= self.1;
            self.0.set(self.0.get() + if fits { bytes } else { 0 });
            fits
        }

        fn force(&mut self, bytes: usize) {
            self.0.set(self.0.get() + bytes);
        }

        fn shrink(&mut self, bytes: usize) {
            self.0.set(self.0.get() - bytes);
        }
    }

    fn room(bytes: usize) -> Shared {
        Shared(Rc::default(), bytes)
    }

    fn write(length: usize) -> Bytes {
        Bytes::from(vec![b'x'; length])
    }

    fn next(receiver: &mut BufferReceiver) -> Option<usize> {
        poll_fn(|cx| receiver.poll_piece(cx)).now_or_never().flatten().map(|piece| piece.len())
    }

    #[test]
    fn the_bound_counts_bytes_and_not_writes() {
        let all = room(1_000_000);
        let (sender, mut receiver) = waiting(100, all.clone());
        for _ in 0..100 {
            assert_eq!(sender.try_send(write(1)), Ok(()), "a hundred writes of one byte are no more than a hundred");
        }
        assert_eq!(sender.try_send(write(1)), Err(SendError::Full(write(1))));
        assert_eq!((all.0.get(), next(&mut receiver)), (100, Some(1)));
        assert_eq!(sender.try_send(write(2)), Err(SendError::Full(write(2))));
        assert_eq!(sender.try_send(write(1)), Ok(()));
    }

    #[test]
    fn one_write_may_be_larger_than_the_bound_and_nothing_waits_beside_it() {
        let all = room(10);
        let (sender, mut receiver) = waiting(100, all.clone());
        assert_eq!(sender.try_send(write(70_000)), Ok(()));
        assert_eq!(sender.try_send(write(1)), Err(SendError::Full(write(1))));
        assert_eq!([next(&mut receiver), next(&mut receiver)], [Some(PIECE_BYTES); 2]);
        assert_eq!(all.0.get(), 70_000, "its memory is free only with its last piece");
        assert_eq!((next(&mut receiver), all.0.get()), (Some(70_000 - 2 * PIECE_BYTES), 0));
        assert_eq!(sender.try_send(write(1)), Ok(()));
    }

    const PATIENCE: Duration = Duration::from_millis(500);

    #[tokio::test]
    async fn a_client_that_takes_a_piece_now_and_then_is_waited_for_and_one_that_takes_nothing_is_not() {
        let (sender, mut receiver) = waiting(100, room(1_000_000));
        assert_eq!(sender.try_send(write(6 * PIECE_BYTES)), Ok(()));
        let taking = async {
            for _ in 0..6 {
                tokio::time::sleep(PATIENCE / 4).await;
                next(&mut receiver);
            }
        };
        assert!(tokio::join!(sender.send(write(1), PATIENCE), taking).0, "six pieces took longer than the patience");
        assert_eq!(sender.try_send(write(99)), Ok(()));
        assert!(!sender.send(write(1), PATIENCE).await);
    }

    #[tokio::test]
    async fn where_all_streams_together_are_full_each_has_one_write() {
        let all = room(10);
        let (greedy, mut asleep) = waiting(100, all.clone());
        assert_eq!([greedy.try_send(write(5)), greedy.try_send(write(5))], [Ok(()), Ok(())]);
        assert_eq!(greedy.try_send(write(1)), Err(SendError::Full(write(1))));
        let (sound, mut awake) = waiting(100, all.clone());
        for _ in 0..10 {
            assert_eq!(sound.try_send(write(3)), Ok(()));
            assert_eq!(sound.try_send(write(3)), Err(SendError::Full(write(3))));
            assert_eq!(next(&mut awake), Some(3));
        }
        let mut sending = Box::pin(greedy.send(write(2), PATIENCE));
        assert_eq!(sending.as_mut().now_or_never(), None);
        assert_eq!([next(&mut asleep), next(&mut asleep)], [Some(5); 2]);
        assert_eq!(sending.now_or_never(), Some(true));
    }

    #[tokio::test]
    async fn who_leaves_takes_nothing_along() {
        let all = room(100);
        let (sender, mut receiver) = waiting(100, all.clone());
        for length in [40, 20, 10] {
            assert_eq!(sender.try_send(write(length)), Ok(()));
        }
        assert_eq!(next(&mut receiver), Some(40));
        drop(receiver);
        assert_eq!(all.0.get(), 0);
        assert_eq!(sender.try_send(write(1)), Err(SendError::Left));
        assert!(!sender.send(write(1), PATIENCE).await);
    }

    #[test]
    fn what_was_sent_before_the_end_is_still_read() {
        let (sender, mut receiver) = waiting(100, room(100));
        assert_eq!(sender.try_send(write(7)), Ok(()));
        drop(sender);
        assert_eq!([next(&mut receiver), next(&mut receiver)], [Some(7), None]);
    }
}
