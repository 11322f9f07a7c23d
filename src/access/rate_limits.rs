//! Limits of one key or account: requests and tokens per minute, and requests in progress.
//!
//! The limits are changed in place when a configuration or an administrator changes them. Requests in progress stay counted,
//! and a rate whose limit is unchanged goes on.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    middleware::StateInformationMiddleware,
    state::{InMemoryState, NotKeyed},
};
use parking_lot::Mutex;
use pointsman_base::clock;
use pointsman_config::HolderLimits;
use pointsman_domain::Tick;

use crate::access::concurrency_limit::ConcurrencyLimit;

type Limiter = RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>;

const MINUTE: Duration = Duration::from_secs(60);

/// The limits, and their current usage.
#[derive(Default)]
pub struct RateLimits {
    /// Requests per minute.
    pub requests: RequestRate,
    /// Tokens per minute.
    pub tokens: TokenRate,
    /// Requests in progress.
    pub concurrency: Arc<ConcurrencyLimit>,
}

/// State of a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateState {
    /// Requests or tokens per minute.
    pub limit: u32,
    /// What would be admitted now.
    pub remaining: u32,
    /// Time until the whole limit is available again.
    pub reset: Duration,
}

/// A refusal by a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateExceeded {
    /// State of the limit.
    pub state: RateState,
    /// Time after which the same request would be admitted.
    pub wait: Duration,
}

impl RateLimits {
    /// Sets the limits.
    pub fn set(&self, limits: &HolderLimits) {
        self.requests.set(limits.requests_per_minute);
        self.tokens.set(limits.tokens_per_minute);
        self.concurrency.set(limits.concurrency);
    }
}

/// A limit of requests per minute.
#[derive(Default)]
pub struct RequestRate {
    limiter: ArcSwapOption<RequestLimiter>,
    clock: DefaultClock,
}

struct RequestLimiter {
    per_minute: NonZeroU32,
    limiter: Limiter,
    /// When the whole burst is available again, as a [`Tick`]: the limiter cannot be asked without spending.
    full_at: AtomicU64,
    /// Requests admitted here that other replicas have not heard of.
    unreported: AtomicU32,
    /// Requests admitted by other replicas for which there was no room yet.
    owed: AtomicU32,
    /// Requests taken and given back: the limiter itself takes none back. More than is spent count for nothing.
    returned: AtomicU32,
}

impl RequestLimiter {
    fn new(per_minute: NonZeroU32) -> RequestLimiter {
        RequestLimiter {
            per_minute,
            limiter: RateLimiter::direct(Quota::per_minute(per_minute)).with_middleware(),
            full_at: AtomicU64::new(0),
            unreported: AtomicU32::new(0),
            owed: AtomicU32::new(0),
            returned: AtomicU32::new(0),
        }
    }

    /// Requests that the limiter has not refilled yet, and the time until it has.
    fn spent(&self, now: Tick) -> (u32, Duration) {
        let (reset, refill) = (Tick(self.full_at.load(Ordering::Relaxed)).since(now), MINUTE / self.per_minute.get());
        let spent = u32::try_from(reset.as_nanos().div_ceil(refill.as_nanos().max(1))).unwrap_or(u32::MAX);
        (spent.min(self.per_minute.get()), reset)
    }

    /// State of the limit now.
    fn state(&self, now: Tick) -> RateState {
        let (limit, (spent, reset)) = (self.per_minute.get(), self.spent(now));
        let spent = spent.saturating_sub(self.returned.load(Ordering::Relaxed));
        RateState { limit, remaining: limit - spent, reset: reset.min(MINUTE / limit * spent) }
    }

    /// Takes a request that was given back, if there is one.
    fn take_returned(&self) -> bool {
        if self.returned.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let (spent, _) = self.spent(clock::now());
        let _ = self.returned.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |returned| Some(returned.min(spent)));
        let take = |returned: u32| returned.checked_sub(1);
        self.returned.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).is_ok()
    }

    /// Takes what is owed out of the limit as far as there is room. Gives what is still owed.
    fn pay(&self) -> u32 {
        let limit = self.per_minute.get();
        let mut part = self.owed.swap(0, Ordering::AcqRel).min(limit);
        let mut rest = part;
        while let Some(requests) = NonZeroU32::new(part.min(rest)) {
            match self.limiter.check_n(requests) {
                Ok(Ok(_)) => rest -= requests.get(),
                _ => part = requests.get() / 2,
            }
        }
        if rest > 0 {
            self.owed.fetch_add(rest, Ordering::AcqRel);
        }
        rest
    }
}

impl RequestRate {
    /// Sets the limit. A changed limit starts with its whole burst.
    pub fn set(&self, per_minute: Option<u32>) {
        let per_minute = per_minute.and_then(NonZeroU32::new);
        if self.limiter.load().as_ref().map(|limiter| limiter.per_minute) != per_minute {
            self.limiter.store(per_minute.map(|per_minute| Arc::new(RequestLimiter::new(per_minute))));
        }
    }

    /// Takes one request. `None` without a limit.
    ///
    /// # Errors
    /// The limit is reached.
    pub fn take(&self) -> Result<Option<RateState>, RateExceeded> {
        let limiter = self.limiter.load();
        let Some(rate) = limiter.as_ref() else { return Ok(None) };
        let limit = rate.per_minute.get();
        let refill = MINUTE / limit;
        let owed = if rate.owed.load(Ordering::Relaxed) > 0 { rate.pay() } else { 0 };
        if owed > 0 {
            let state = RateState { limit, remaining: 0, reset: refill * limit };
            return Err(RateExceeded { state, wait: refill * owed.saturating_add(1) });
        }
        if rate.take_returned() {
            rate.unreported.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(rate.state(clock::now())));
        }
        match rate.limiter.check() {
            Ok(state) => {
                rate.unreported.fetch_add(1, Ordering::Relaxed);
                let remaining = state.remaining_burst_capacity();
                let reset = refill * limit.saturating_sub(remaining);
                rate.full_at.fetch_max(clock::now().plus(reset).0, Ordering::Relaxed);
                Ok(Some(RateState { limit, remaining, reset }))
            }
            Err(until) => {
                let state = RateState { limit, remaining: 0, reset: refill * limit };
                Err(RateExceeded { state, wait: until.wait_time_from(self.clock.now()) })
            }
        }
    }

    /// Gives a request back that was taken, because the call was refused for another reason.
    pub fn give_back(&self) {
        if let Some(rate) = self.limiter.load().as_ref() {
            rate.returned.fetch_add(1, Ordering::AcqRel);
            let _ = rate
                .unreported
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |unreported| unreported.checked_sub(1));
        }
    }

    /// Requests admitted since the last call. 0 without a limit.
    pub fn take_unreported(&self) -> u32 {
        self.limiter.load().as_ref().map_or(0, |rate| rate.unreported.swap(0, Ordering::Relaxed))
    }

    /// Charges the limit with requests that another replica admitted, with the whole limit at most.
    pub fn charge(&self, requests: u32) {
        if let Some(rate) = self.limiter.load().as_ref().filter(|_| requests > 0) {
            let limit = rate.per_minute.get();
            let add = |owed: u32| Some(owed.saturating_add(requests).min(limit));
            let _ = rate.owed.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add);
            rate.pay();
        }
    }

    /// State of the limit. Takes nothing.
    pub fn state(&self, now: Tick) -> Option<RateState> {
        self.limiter.load().as_ref().map(|rate| rate.state(now))
    }
}

/// A limit of tokens per minute: a bucket that refills all the time. Tokens are taken by estimate and corrected later, so
/// its level may be negative.
#[derive(Default)]
pub struct TokenRate(Mutex<Option<TokenBucket>>);

/// Level in micro-tokens times minutes: one token is [`TokenBucket::TOKEN`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TokenBucket {
    per_minute: u32,
    level: i128,
    at: Tick,
    /// Tokens taken here that other replicas have not heard of; negative after a correction.
    unreported: i64,
}

impl TokenBucket {
    /// One token; per microsecond the level rises by the tokens per minute.
    const TOKEN: i128 = 60_000_000;

    fn full(per_minute: u32, at: Tick) -> TokenBucket {
        TokenBucket { per_minute, level: i128::from(per_minute) * Self::TOKEN, at, unreported: 0 }
    }

    fn capacity(&self) -> i128 {
        i128::from(self.per_minute) * Self::TOKEN
    }

    fn refill(&mut self, now: Tick) {
        let micros = i128::from(now.0.saturating_sub(self.at.0));
        self.level = (self.level + micros * i128::from(self.per_minute)).min(self.capacity());
        self.at = self.at.max(now);
    }

    /// A request for more tokens than the limit is admitted when the bucket is full: it would never be otherwise.
    fn take(&mut self, tokens: u64, now: Tick) -> Result<RateState, RateExceeded> {
        self.refill(now);
        let wanted = i128::from(tokens) * Self::TOKEN;
        let missing = wanted.min(self.capacity()) - self.level;
        if missing > 0 {
            let wait = self.time(missing);
            return Err(RateExceeded { state: self.state(), wait });
        }
        self.level -= wanted;
        self.unreported = self.unreported.saturating_add(i64::try_from(tokens).unwrap_or(i64::MAX));
        Ok(self.state())
    }

    fn time(&self, level: i128) -> Duration {
        let rate = i128::from(self.per_minute.max(1));
        Duration::from_micros(u64::try_from((level + rate - 1) / rate).unwrap_or(u64::MAX))
    }

    fn state(&self) -> RateState {
        let remaining = u32::try_from((self.level / Self::TOKEN).max(0)).unwrap_or(u32::MAX);
        RateState { limit: self.per_minute, remaining, reset: self.time((self.capacity() - self.level).max(0)) }
    }
}

impl TokenRate {
    /// Sets the limit. A changed limit starts with a full bucket.
    pub fn set(&self, per_minute: Option<u32>) {
        let mut bucket = self.0.lock();
        let per_minute = per_minute.filter(|per_minute| *per_minute > 0);
        if bucket.map(|bucket| bucket.per_minute) != per_minute {
            *bucket = per_minute.map(|per_minute| TokenBucket::full(per_minute, clock::now()));
        }
    }

    /// Takes tokens by estimate. `None` without a limit.
    ///
    /// # Errors
    /// The limit is reached. Nothing is taken.
    pub fn take(&self, tokens: u64) -> Result<Option<RateState>, RateExceeded> {
        self.0.lock().as_mut().map(|bucket| bucket.take(tokens, clock::now())).transpose()
    }

    /// Corrects an estimate: gives back what was taken too much, or takes the rest.
    pub fn correct(&self, estimated: u64, actual: u64) {
        if let Some(bucket) = self.0.lock().as_mut() {
            let more = i128::from(estimated) - i128::from(actual);
            bucket.level = (bucket.level + more * TokenBucket::TOKEN).min(bucket.capacity());
            bucket.unreported = bucket.unreported.saturating_sub(i64::try_from(more).unwrap_or(i64::MAX));
        }
    }

    /// Tokens taken since the last call; negative if more was given back. 0 without a limit.
    pub fn take_unreported(&self) -> i64 {
        self.0.lock().as_mut().map_or(0, |bucket| std::mem::take(&mut bucket.unreported))
    }

    /// Charges the limit with tokens that another replica took, or gives back what it had taken too much.
    pub fn charge(&self, tokens: i64) {
        if let Some(bucket) = self.0.lock().as_mut() {
            bucket.refill(clock::now());
            let capacity = bucket.capacity();
            bucket.level = (bucket.level - i128::from(tokens) * TokenBucket::TOKEN).clamp(-capacity, capacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick(seconds * 1_000_000)
    }

    #[test]
    fn a_refused_request_is_admitted_after_the_wait_that_it_was_told() {
        let mut bucket = TokenBucket::full(600, at(0));
        assert_eq!(bucket.take(600, at(0)).unwrap().remaining, 0);
        let refused = bucket.take(7, at(0)).unwrap_err();
        assert_eq!((refused.wait, refused.state.reset), (Duration::from_millis(700), MINUTE));
        assert!(bucket.take(7, Tick(699_999)).is_err());
        assert_eq!(bucket.take(7, Tick(700_000)).unwrap().remaining, 0);
    }

    #[test]
    fn a_request_larger_than_the_limit_waits_for_a_full_bucket_and_is_paid_back() {
        let mut bucket = TokenBucket::full(60, at(0));
        assert!(bucket.take(180, at(0)).is_ok());
        let refused = bucket.take(1, at(0)).unwrap_err();
        assert_eq!(refused.wait, Duration::from_secs(121));
        assert!(bucket.take(1, at(121)).is_ok());
    }

    #[test]
    fn estimates_are_corrected_in_both_directions_and_never_above_the_limit() {
        clock::start();
        let rate = TokenRate::default();
        rate.set(Some(100));
        assert_eq!(rate.take(90).unwrap().unwrap().remaining, 10);
        rate.correct(90, 20);
        assert!(rate.take(75).is_ok());
        rate.correct(75, 500);
        let refused = rate.take(1).unwrap_err();
        assert!(refused.wait > Duration::from_secs(200), "{refused:?}");
        rate.correct(1_000_000, 0);
        assert_eq!(rate.take(0).unwrap().unwrap().remaining, 100);
    }

    #[test]
    fn a_request_that_is_given_back_can_be_taken_again_and_no_other() {
        clock::start();
        let rate = RequestRate::default();
        rate.set(Some(1));
        rate.give_back();
        assert_eq!(rate.take().unwrap().unwrap().remaining, 0);
        assert!(rate.take().is_err(), "what was given back while nothing was taken counts for nothing");
        rate.give_back();
        assert_eq!((rate.state(clock::now()).unwrap().remaining, rate.take_unreported()), (1, 0));
        assert_eq!(rate.take().unwrap().unwrap().remaining, 0);
        assert!(rate.take().is_err());
        assert_eq!(rate.take_unreported(), 1);
    }

    #[test]
    fn what_another_replica_admitted_is_taken_from_the_limit_here() {
        clock::start();
        let rate = RequestRate::default();
        rate.set(Some(10));
        rate.charge(7);
        let here = std::iter::repeat_with(|| rate.take()).take_while(Result::is_ok).count();
        assert_eq!((here, rate.take_unreported()), (3, 3));
        rate.charge(2);
        let refused = rate.take().unwrap_err();
        assert!(refused.wait > Duration::from_secs(10), "{refused:?}");
        assert_eq!(rate.take_unreported(), 0, "a charge is no usage of this replica");
        let tokens = TokenRate::default();
        tokens.set(Some(100));
        tokens.charge(90);
        assert!(tokens.take(20).is_err());
        tokens.charge(-30);
        assert!(tokens.take(20).is_ok());
        tokens.correct(20, 15);
        assert_eq!(tokens.take_unreported(), 15);
    }

    #[test]
    fn a_clock_that_stands_still_and_the_largest_numbers_do_no_harm() {
        let mut bucket = TokenBucket::full(u32::MAX, Tick(u64::MAX));
        assert!(bucket.take(u64::MAX, at(0)).is_ok());
        assert!(bucket.take(u64::MAX, at(0)).is_err());
        assert!(bucket.take(1, Tick(u64::MAX)).is_err());
    }
}
