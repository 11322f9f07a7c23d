//! Counters of the buffered bytes of requests and answers, for the whole gateway and for each key.
//!
//! Bytes are counted before they are buffered. A key may use as much as is free, and always one request body of the
//! maximum size. So one key leaves about half of the limit to others, two keys a third, whatever the number of keys.
//! Streams can wait when the limit is reached, so they leave half of it to requests and plain answers.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use bytes::Bytes;
use pointsman_actors::relay::BufferBudget;
use pointsman_config::{COPIES_OF_A_BODY, LimitsConfig};

use super::Load;
use crate::base::error::{ApiError, Overload};
use crate::base::load_reading::ShedReason;

/// Copies of a plain answer in memory while it is prepared: the bytes received and the bytes to send.
const COPIES_OF_AN_ANSWER: usize = 2;

/// Answers up to this size are given to the HTTP server in one piece: its buffer per connection is as large.
const SMALL_ANSWER_BYTES: usize = 32 * 1024;

/// Bytes of a larger answer that the HTTP server gets at once. It requests more when they are sent.
const PIECE_BYTES: usize = 32 * 1024;

/// `retry-after` of a call refused because of buffered bytes.
const BUFFER_WAIT: Duration = Duration::from_secs(1);

/// Limits of the buffered bytes of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferLimits {
    /// Limit of the whole gateway, in bytes.
    pub total: usize,
    /// Bytes that one key may always use, even if fewer are left to other keys.
    pub key_minimum: usize,
}

impl BufferLimits {
    /// The limits of the configuration.
    pub fn new(limits: &LimitsConfig) -> BufferLimits {
        BufferLimits {
            total: limits.buffered_bytes,
            key_minimum: limits.max_body_bytes.saturating_mul(COPIES_OF_A_BODY),
        }
    }
}

/// Buffered bytes of one key.
#[derive(Debug)]
pub struct KeyBuffer {
    load: Arc<Load>,
    buffered_bytes: AtomicUsize,
}

/// Limit of buffered bytes that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferLimitReached {
    /// Limit of the whole gateway.
    Gateway,
    /// Limit of this key.
    Key,
}

impl KeyBuffer {
    /// The counter of a key, at zero.
    pub fn new(load: &Arc<Load>) -> Arc<KeyBuffer> {
        Arc::new(KeyBuffer { load: Arc::clone(load), buffered_bytes: AtomicUsize::new(0) })
    }

    /// Whether a request body of `bytes` fits into the limits now. Reserves nothing.
    ///
    /// # Errors
    /// The limit that it would exceed.
    pub fn fits(&self, bytes: usize) -> Result<(), BufferLimitReached> {
        let more = bytes.saturating_mul(COPIES_OF_A_BODY);
        let by_all = self.load.buffered_bytes.load(Ordering::Relaxed).saturating_add(more);
        self.check(by_all, self.buffered_bytes.load(Ordering::Relaxed).saturating_add(more))
    }

    /// A byte counter for one request or answer of this key, at zero.
    #[must_use]
    pub fn count(self: &Arc<KeyBuffer>) -> BufferedBytes {
        BufferedBytes { buffer: Arc::clone(self), counted: 0 }
    }

    /// Counts a call of this key that was refused because of buffered bytes, and gives its error answer.
    pub fn refuse(&self, limit: BufferLimitReached) -> ApiError {
        self.load.shed(ShedReason::BufferedBytes);
        let by = match limit {
            BufferLimitReached::Gateway => Overload::BufferedBytes,
            BufferLimitReached::Key => Overload::BufferedBytesOfKey,
        };
        ApiError::overloaded(by, BUFFER_WAIT)
    }

    /// Compares the bytes of all keys and of this key with their limits.
    fn check(&self, by_all: usize, by_key: usize) -> Result<(), BufferLimitReached> {
        let limit = self.load.max_buffered_bytes.load(Ordering::Relaxed);
        let Some(free) = limit.checked_sub(by_all) else { return Err(BufferLimitReached::Gateway) };
        if by_key > free.max(self.load.key_minimum.load(Ordering::Relaxed)) {
            Err(BufferLimitReached::Key)
        } else {
            Ok(())
        }
    }
}

/// Byte counter of one request or answer: counts bytes before they are buffered, and subtracts them when dropped.
#[derive(Debug)]
pub struct BufferedBytes {
    buffer: Arc<KeyBuffer>,
    counted: usize,
}

impl BufferedBytes {
    /// Counts `bytes` more of a request body, times its copies.
    ///
    /// # Errors
    /// The limit that they would exceed; then they are not counted.
    pub fn grow_body(&mut self, bytes: usize) -> Result<(), BufferLimitReached> {
        self.add(bytes.saturating_mul(COPIES_OF_A_BODY), 1)
    }

    /// Counts `bytes` more of a plain answer, times its copies. A small answer is always accepted, because the provider
    /// bills it already and its request needed more bytes.
    ///
    /// # Errors
    /// The limit that they would exceed; then they are not counted.
    pub fn grow_answer(&mut self, bytes: usize) -> Result<(), BufferLimitReached> {
        let more = bytes.saturating_mul(COPIES_OF_AN_ANSWER);
        if self.counted.saturating_add(more) <= SMALL_ANSWER_BYTES * COPIES_OF_AN_ANSWER {
            self.force(more);
            return Ok(());
        }
        self.add(more, 1)
    }

    /// A request body that is counted until its last slice is dropped.
    #[must_use]
    pub fn body(self, body: Bytes) -> Bytes {
        if body.is_empty() { body } else { Bytes::from_owner(CountedBody { body, _counter: self }) }
    }

    /// The body of an answer. Its bytes count once, until all of it is sent.
    #[must_use]
    pub fn answer(mut self, body: Bytes) -> BoxBody {
        if body.len() <= SMALL_ANSWER_BYTES {
            return BoxBody::new(body);
        }
        self.shrink(self.counted.saturating_sub(body.len()));
        BoxBody::new(Pieces { body, _counter: Some(self) })
    }

    /// Counts `more` bytes if the new sums, multiplied by `times`, are within the limits.
    fn add(&mut self, more: usize, times: usize) -> Result<(), BufferLimitReached> {
        let KeyBuffer { load, buffered_bytes } = &*self.buffer;
        let by_all = load.buffered_bytes.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        let by_key = buffered_bytes.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        let checked = self.buffer.check(by_all.saturating_mul(times), by_key.saturating_mul(times));
        self.counted = self.counted.saturating_add(more);
        if checked.is_err() {
            self.shrink(more);
        }
        checked
    }
}

/// Buffer of a stream. A stream can wait where a request or a plain answer is refused, so streams use at most half of
/// the limits.
impl BufferBudget for BufferedBytes {
    fn grow(&mut self, bytes: usize) -> bool {
        self.add(bytes, 2).is_ok()
    }

    fn force(&mut self, bytes: usize) {
        self.buffer.load.buffered_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.buffer.buffered_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counted = self.counted.saturating_add(bytes);
    }

    fn shrink(&mut self, bytes: usize) {
        self.buffer.load.buffered_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.buffer.buffered_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.counted = self.counted.saturating_sub(bytes);
    }
}

impl Drop for BufferedBytes {
    fn drop(&mut self) {
        self.shrink(self.counted);
    }
}

struct CountedBody {
    body: Bytes,
    _counter: BufferedBytes,
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// A large body that is sent in pieces. The HTTP server copies each piece into its own buffer, where it is not counted, so
/// it must not get the whole body at once.
pub struct Pieces {
    body: Bytes,
    _counter: Option<BufferedBytes>,
}

impl Pieces {
    /// A body that is counted elsewhere.
    pub fn uncounted(body: Bytes) -> Pieces {
        Pieces { body, _counter: None }
    }
}

impl MessageBody for Pieces {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.body.len() as u64)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let length = self.body.len().min(PIECE_BYTES);
        Poll::Ready((length > 0).then(|| Ok(self.body.split_to(length))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit of `total` bytes, and a largest body of a third of `key_minimum`.
    fn load(total: usize, key_minimum: usize) -> Arc<Load> {
        Load::new(BufferLimits { total, key_minimum })
    }

    #[test]
    fn a_body_counts_three_times_until_its_last_slice_is_gone() {
        let load = load(30, 30);
        let key = KeyBuffer::new(&load);
        let mut first = key.count();
        assert_eq!([first.grow_body(6), first.grow_body(2)], [Ok(()); 2]);
        assert_eq!([key.fits(2), key.fits(3)], [Ok(()), Err(BufferLimitReached::Gateway)]);
        let mut second = key.count();
        assert_eq!(second.grow_body(3), Err(BufferLimitReached::Gateway), "33 of 30");
        assert_eq!(second.grow_body(2), Ok(()));
        assert_eq!(load.read().buffered_bytes, 30);

        let body = first.body(Bytes::from_static(b"12345678"));
        let slice = body.slice(2..4);
        drop((body, second));
        assert_eq!(load.read().buffered_bytes, 24);
        drop(slice);
        assert_eq!(load.read().buffered_bytes, 0);
    }

    #[test]
    fn refused_bytes_are_not_counted() {
        let load = load(9, 9);
        let key = KeyBuffer::new(&load);
        let mut body = key.count();
        assert_eq!(body.grow_body(1), Ok(()));
        for _ in 0..10 {
            assert_eq!(body.grow_body(3), Err(BufferLimitReached::Gateway));
        }
        assert_eq!((load.read().buffered_bytes, key.buffered_bytes.load(Ordering::Relaxed)), (3, 3));
        drop(body);
        assert_eq!((load.read().buffered_bytes, key.buffered_bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn one_key_leaves_half_of_the_limit_to_others_and_two_leave_a_third() {
        let load = load(900, 30);
        let [greedy_key, other, third] = [KeyBuffer::new(&load), KeyBuffer::new(&load), KeyBuffer::new(&load)];
        let greedy = |key: &Arc<KeyBuffer>| {
            let mut counted_bytes = key.count();
            while counted_bytes.grow_body(1).is_ok() {}
            counted_bytes
        };
        let first = greedy(&greedy_key);
        assert_eq!((first.counted, greedy_key.fits(1)), (450, Err(BufferLimitReached::Key)));
        let second = greedy(&other);
        assert_eq!(second.counted, 225);
        assert_eq!(third.fits(37), Ok(()));
        drop(first);
        assert_eq!(greedy_key.fits(100), Ok(()));
    }

    #[test]
    fn streams_leave_half_of_the_limit_to_requests_and_answers() {
        let load = load(800, 30);
        let key = KeyBuffer::new(&load);
        let mut waiting = key.count();
        while waiting.grow(1) {}
        assert_eq!(waiting.counted, 200);
        assert_eq!([key.fits(66), key.fits(67)], [Ok(()), Err(BufferLimitReached::Key)]);
    }

    #[test]
    fn a_key_may_use_one_largest_body_even_if_that_is_most_of_the_limit() {
        let load = load(40, 30);
        let key = KeyBuffer::new(&load);
        let mut counted_bytes = key.count();
        assert_eq!([counted_bytes.grow_body(10), counted_bytes.grow_body(1)], [Ok(()), Err(BufferLimitReached::Key)]);
        assert_eq!(KeyBuffer::new(&load).fits(3), Ok(()));
    }

    #[test]
    fn a_large_answer_counts_until_its_last_piece_is_sent_and_a_small_one_is_always_accepted() {
        let length = 3 * PIECE_BYTES;
        let load = load(4 * length, 0);
        let key = KeyBuffer::new(&load);
        let mut counted_bytes = key.count();
        assert_eq!(
            [counted_bytes.grow_answer(length), counted_bytes.grow_answer(length)],
            [Ok(()), Err(BufferLimitReached::Key)]
        );
        let mut body = counted_bytes.answer(Bytes::from(vec![b'x'; length]));
        assert_eq!((load.read().buffered_bytes, body.size()), (length, BodySize::Sized(length as u64)));
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        for _ in 0..3 {
            assert_eq!(load.read().buffered_bytes, length);
            let Poll::Ready(Some(Ok(piece))) = Pin::new(&mut body).poll_next(cx) else { panic!("no piece") };
            assert_eq!(piece.len(), PIECE_BYTES);
        }
        assert!(matches!(Pin::new(&mut body).poll_next(cx), Poll::Ready(None)));
        drop(body);
        assert_eq!(load.read().buffered_bytes, 0);

        let mut greedy_key = key.count();
        greedy_key.force(4 * length);
        let mut small = key.count();
        assert_eq!(
            [small.grow_answer(SMALL_ANSWER_BYTES), small.grow_answer(1)],
            [Ok(()), Err(BufferLimitReached::Gateway)]
        );
    }
}
