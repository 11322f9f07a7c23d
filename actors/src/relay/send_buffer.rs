//! The bounded buffer between a relay and its client.
//!
//! Sender and receiver are on one thread. An empty buffer accepts one write of any size, so no stream stops because
//! others use the whole budget. Every further write needs room under the stream's own limit and in the
//! [`BufferBudget`] that all streams share.

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

/// Most bytes read at once: the HTTP server copies them into its own buffer, which is not counted.
const PIECE_BYTES: usize = 32 * 1024;

/// Counts the buffered bytes of all streams. Dropped with the buffer.
pub trait BufferBudget {
    /// Adds `bytes` if there is room. Returns whether there was.
    fn grow(&mut self, bytes: usize) -> bool;
    /// Adds `bytes` even if there is no room.
    fn force(&mut self, bytes: usize);
    /// Subtracts `bytes`.
    fn shrink(&mut self, bytes: usize);
}

/// Why bytes were not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SendError {
    /// The buffer is full. Holds the rejected bytes.
    Full(Bytes),
    /// The client disconnected.
    Left,
}

/// The relay's end. Dropping it ends the body.
pub(super) struct BufferSender(Rc<RefCell<SendBuffer<dyn BufferBudget>>>);

/// The client's end.
pub(super) struct BufferReceiver(Rc<RefCell<SendBuffer<dyn BufferBudget>>>);

struct SendBuffer<A: ?Sized> {
    writes: VecDeque<Bytes>,
    /// Counted bytes, including a write that was read in part.
    counted: usize,
    /// Size of the first write: its memory is free only after its last piece was read.
    first: usize,
    limit: usize,
    /// Pieces that the client read.
    taken: u64,
    ended: bool,
    left: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    budget: A,
}

/// Creates a buffer of `limit` bytes and returns its two ends.
pub(super) fn send_buffer(limit: usize, budget: impl BufferBudget + 'static) -> (BufferSender, BufferReceiver) {
    let buffer = SendBuffer {
        writes: VecDeque::new(),
        counted: 0,
        first: 0,
        limit,
        taken: 0,
        ended: false,
        left: false,
        reader: None,
        writer: None,
        budget,
    };
    let shared: Rc<RefCell<SendBuffer<dyn BufferBudget>>> = Rc::new(RefCell::new(buffer));
    (BufferSender(Rc::clone(&shared)), BufferReceiver(shared))
}

impl BufferSender {
    /// Buffers the bytes if there is room.
    pub(super) fn try_send(&self, bytes: Bytes) -> Result<(), SendError> {
        self.0.borrow_mut().push(bytes)
    }

    /// Buffers the bytes as soon as there is room. Returns false if the client read nothing for `patience`.
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

/// Waits until the client has read more than `seen` pieces or disconnected.
async fn taken(shared: &RefCell<SendBuffer<dyn BufferBudget>>, seen: u64) {
    poll_fn(|cx| {
        let mut buffer = shared.borrow_mut();
        if buffer.taken != seen || buffer.left {
            return Poll::Ready(());
        }
        buffer.writer = Some(cx.waker().clone());
        Poll::Pending
    })
    .await;
}

impl Drop for BufferSender {
    fn drop(&mut self) {
        let mut buffer = self.0.borrow_mut();
        buffer.ended = true;
        wake(&mut buffer.reader);
    }
}

impl BufferReceiver {
    /// The next piece; `None` after the last.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut buffer = self.0.borrow_mut();
        match buffer.piece() {
            Some(piece) => Poll::Ready(Some(piece)),
            None if buffer.ended => Poll::Ready(None),
            None => {
                buffer.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for BufferReceiver {
    fn drop(&mut self) {
        let mut buffer = self.0.borrow_mut();
        buffer.left = true;
        buffer.writes = VecDeque::new();
        let counted = std::mem::take(&mut buffer.counted);
        buffer.budget.shrink(counted);
        wake(&mut buffer.writer);
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
            self.budget.force(length);
        } else if self.counted.saturating_add(length) > self.limit || !self.budget.grow(length) {
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
        self.budget.shrink(freed);
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

    /// A budget of `self.1` bytes for all streams.
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
        let (sender, mut receiver) = send_buffer(100, all.clone());
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
        let (sender, mut receiver) = send_buffer(100, all.clone());
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
        let (sender, mut receiver) = send_buffer(100, room(1_000_000));
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
        let (greedy, mut asleep) = send_buffer(100, all.clone());
        assert_eq!([greedy.try_send(write(5)), greedy.try_send(write(5))], [Ok(()), Ok(())]);
        assert_eq!(greedy.try_send(write(1)), Err(SendError::Full(write(1))));
        let (sound, mut awake) = send_buffer(100, all.clone());
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
        let (sender, mut receiver) = send_buffer(100, all.clone());
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
        let (sender, mut receiver) = send_buffer(100, room(100));
        assert_eq!(sender.try_send(write(7)), Ok(()));
        drop(sender);
        assert_eq!([next(&mut receiver), next(&mut receiver)], [Some(7), None]);
    }
}
