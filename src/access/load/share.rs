//! Bytes of requests and answers: counted before they are kept, for everybody and for the key they belong to.
//!
//! A key may hold as much as is still free, and one largest request body in any case. So a single key leaves about half
//! of the room to others, two of them a third, and none of this depends on how many keys there are. Streams that wait for
//! their clients are only slowed by a want of room, so they leave half of it to requests and plain answers.

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
use pointsman_actors::actors::relay::BufferBudget;

use super::Load;
use crate::base::load_reading::Shed;
use crate::{
    base::error::{ApiError, Overload},
    config::{COPIES_OF_A_BODY, LimitsConfig},
};

/// Copies of a plain answer in memory while it is prepared: the bytes received and the bytes to send.
const COPIES_OF_AN_ANSWER: usize = 2;

/// Up to this, an answer is handed to the HTTP server in one piece: what that keeps of a connection is no more anyway.
const SMALL_ANSWER: usize = 32 * 1024;

/// Bytes of a larger answer that the HTTP server gets at once. It requests more when these are sent.
const PIECE_BYTES: usize = 32 * 1024;

/// `retry-after` of a call refused because of buffered bytes.
const ROOM_WAIT: Duration = Duration::from_secs(1);

/// Limits of the buffered bytes of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Limit of the whole gateway, in bytes.
    pub most: usize,
    /// Bytes that one key may always hold, even if fewer are left to other keys.
    pub least_share: usize,
}

impl Room {
    /// The limits of the configuration.
    #[must_use]
    pub fn of(limits: &LimitsConfig) -> Room {
        Room { most: limits.buffered_bytes, least_share: limits.max_body_bytes.saturating_mul(COPIES_OF_A_BODY) }
    }
}

/// Buffered bytes of one key.
#[derive(Debug)]
pub struct Share {
    load: Arc<Load>,
    held_bytes: AtomicUsize,
}

/// Limit of buffered bytes that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Limit of the whole gateway.
    Gateway,
    /// Limit of this key.
    Key,
}

impl Share {
    /// The share of a key that holds nothing yet.
    #[must_use]
    pub fn of(load: &Arc<Load>) -> Arc<Share> {
        Arc::new(Share { load: Arc::clone(load), held_bytes: AtomicUsize::new(0) })
    }

    /// Whether a request body of `bytes` fits into the limits now. Reserves nothing.
    ///
    /// # Errors
    /// The limit that it would exceed.
    pub fn has_room(&self, bytes: usize) -> Result<(), Full> {
        let more = bytes.saturating_mul(COPIES_OF_A_BODY);
        let held = self.load.held_bytes.load(Ordering::Relaxed).saturating_add(more);
        self.check(held, self.held_bytes.load(Ordering::Relaxed).saturating_add(more))
    }

    /// A byte counter for one request or answer of this key, at zero.
    #[must_use]
    pub fn count(self: &Arc<Share>) -> Held {
        Held { share: Arc::clone(self), counted: 0 }
    }

    /// Counts a call of this key that was refused because of buffered bytes, and gives its error answer.
    pub fn refuse(&self, full: Full) -> ApiError {
        self.load.shed(Shed::BufferedBytes);
        let by = match full {
            Full::Gateway => Overload::BufferedBytes,
            Full::Key => Overload::BufferedBytesOfKey,
        };
        ApiError::overloaded(by, ROOM_WAIT)
    }

    /// Compares the bytes of all keys and of this key with their limits.
    fn check(&self, by_all: usize, by_key: usize) -> Result<(), Full> {
        let most = self.load.most_bytes.load(Ordering::Relaxed);
        let Some(free) = most.checked_sub(by_all) else { return Err(Full::Gateway) };
        if by_key > free.max(self.load.least_share.load(Ordering::Relaxed)) { Err(Full::Key) } else { Ok(()) }
    }
}

/// Byte counter of one request or answer: counts bytes before they are buffered, and subtracts them when dropped.
#[derive(Debug)]
pub struct Held {
    share: Arc<Share>,
    counted: usize,
}

impl Held {
    /// Counts `bytes` more of a request body, in all its copies.
    ///
    /// # Errors
    /// When that is more than may be held; then nothing was counted.
    pub fn grow_body(&mut self, bytes: usize) -> Result<(), Full> {
        self.add(bytes.saturating_mul(COPIES_OF_A_BODY), 1)
    }

    /// Counts `bytes` more of a plain answer: as it came, and as it will be sent. A small one is paid for already and
    /// smaller than what its request took: it finds room in any case.
    ///
    /// # Errors
    /// When that is more than may be held; then nothing was counted.
    pub fn grow_answer(&mut self, bytes: usize) -> Result<(), Full> {
        let more = bytes.saturating_mul(COPIES_OF_AN_ANSWER);
        if self.counted.saturating_add(more) <= SMALL_ANSWER * COPIES_OF_AN_ANSWER {
            self.force(more);
            return Ok(());
        }
        self.add(more, 1)
    }

    /// A request body, whose bytes count until its last slice is dropped.
    #[must_use]
    pub fn body(self, body: Bytes) -> Bytes {
        if body.is_empty() { body } else { Bytes::from_owner(HeldBody { body, _held: self }) }
    }

    /// The body of an answer, which counts once until the client has all of it.
    #[must_use]
    pub fn answer(mut self, body: Bytes) -> BoxBody {
        if body.len() <= SMALL_ANSWER {
            return BoxBody::new(body);
        }
        self.shrink(self.counted.saturating_sub(body.len()));
        BoxBody::new(Pieces { body, _held: Some(self) })
    }

    /// Counts `more` if so many times what is then held still fits.
    fn add(&mut self, more: usize, times: usize) -> Result<(), Full> {
        let Share { load, held_bytes } = &*self.share;
        let by_all = load.held_bytes.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        let by_key = held_bytes.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        let checked = self.share.check(by_all.saturating_mul(times), by_key.saturating_mul(times));
        self.counted = self.counted.saturating_add(more);
        if checked.is_err() {
            self.shrink(more);
        }
        checked
    }
}

/// What waits for the client of a stream. A stream can wait for room where a request or a plain answer is refused, so
/// streams leave half of it to those.
impl BufferBudget for Held {
    fn grow(&mut self, bytes: usize) -> bool {
        self.add(bytes, 2).is_ok()
    }

    fn force(&mut self, bytes: usize) {
        self.share.load.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.share.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counted = self.counted.saturating_add(bytes);
    }

    fn shrink(&mut self, bytes: usize) {
        self.share.load.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.share.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.counted = self.counted.saturating_sub(bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink(self.counted);
    }
}

struct HeldBody {
    body: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// A large body, given away in pieces. The HTTP server copies what it is given into a buffer of its own: a whole body
/// would be there, counted by nobody, until its reader has it.
pub struct Pieces {
    body: Bytes,
    _held: Option<Held>,
}

impl Pieces {
    /// A body that is kept, and bounded, elsewhere.
    #[must_use]
    pub fn of(body: Bytes) -> Pieces {
        Pieces { body, _held: None }
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

    /// Room for `most` bytes, and one largest body of a third of `least_share`.
    fn load(most: usize, least_share: usize) -> Arc<Load> {
        Load::new(Room { most, least_share })
    }

    #[test]
    fn a_body_counts_three_times_until_its_last_slice_is_gone() {
        let load = load(30, 30);
        let share = Share::of(&load);
        let mut first = share.count();
        assert_eq!([first.grow_body(6), first.grow_body(2)], [Ok(()); 2]);
        assert_eq!([share.has_room(2), share.has_room(3)], [Ok(()), Err(Full::Gateway)]);
        let mut second = share.count();
        assert_eq!(second.grow_body(3), Err(Full::Gateway), "33 of 30");
        assert_eq!(second.grow_body(2), Ok(()));
        assert_eq!(load.read().held_bytes, 30);

        let body = first.body(Bytes::from_static(b"12345678"));
        let slice = body.slice(2..4);
        drop((body, second));
        assert_eq!(load.read().held_bytes, 24);
        drop(slice);
        assert_eq!(load.read().held_bytes, 0);
    }

    #[test]
    fn a_refused_growth_leaves_nothing_behind() {
        let load = load(9, 9);
        let share = Share::of(&load);
        let mut body = share.count();
        assert_eq!(body.grow_body(1), Ok(()));
        for _ in 0..10 {
            assert_eq!(body.grow_body(3), Err(Full::Gateway));
        }
        assert_eq!((load.read().held_bytes, share.held_bytes.load(Ordering::Relaxed)), (3, 3));
        drop(body);
        assert_eq!((load.read().held_bytes, share.held_bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn one_key_leaves_half_of_the_room_to_others_and_two_leave_a_third() {
        let load = load(900, 30);
        let [hog, other, third] = [Share::of(&load), Share::of(&load), Share::of(&load)];
        let greedy = |share: &Arc<Share>| {
            let mut held = share.count();
            while held.grow_body(1).is_ok() {}
            held
        };
        let first = greedy(&hog);
        assert_eq!((first.counted, hog.has_room(1)), (450, Err(Full::Key)));
        let second = greedy(&other);
        assert_eq!(second.counted, 225);
        assert_eq!(third.has_room(37), Ok(()));
        drop(first);
        assert_eq!(hog.has_room(100), Ok(()));
    }

    #[test]
    fn streams_leave_half_of_what_there_is_to_requests_and_answers() {
        let load = load(800, 30);
        let share = Share::of(&load);
        let mut waiting = share.count();
        while waiting.grow(1) {}
        assert_eq!(waiting.counted, 200);
        assert_eq!([share.has_room(66), share.has_room(67)], [Ok(()), Err(Full::Key)]);
    }

    #[test]
    fn a_key_may_hold_one_largest_body_even_if_that_is_most_of_the_room() {
        let load = load(40, 30);
        let share = Share::of(&load);
        let mut held = share.count();
        assert_eq!([held.grow_body(10), held.grow_body(1)], [Ok(()), Err(Full::Key)]);
        assert_eq!(Share::of(&load).has_room(3), Ok(()));
    }

    #[test]
    fn a_large_answer_counts_until_its_last_piece_is_gone_and_a_small_one_finds_room_in_any_case() {
        let length = 3 * PIECE_BYTES;
        let load = load(4 * length, 0);
        let share = Share::of(&load);
        let mut held = share.count();
        assert_eq!([held.grow_answer(length), held.grow_answer(length)], [Ok(()), Err(Full::Key)]);
        let mut body = held.answer(Bytes::from(vec![b'x'; length]));
        assert_eq!((load.read().held_bytes, body.size()), (length, BodySize::Sized(length as u64)));
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        for _ in 0..3 {
            assert_eq!(load.read().held_bytes, length);
            let Poll::Ready(Some(Ok(piece))) = Pin::new(&mut body).poll_next(cx) else { panic!("no piece") };
            assert_eq!(piece.len(), PIECE_BYTES);
        }
        assert!(matches!(Pin::new(&mut body).poll_next(cx), Poll::Ready(None)));
        drop(body);
        assert_eq!(load.read().held_bytes, 0);

        let mut hog = share.count();
        hog.force(4 * length);
        let mut small = share.count();
        assert_eq!([small.grow_answer(SMALL_ANSWER), small.grow_answer(1)], [Ok(()), Err(Full::Gateway)]);
    }
}
