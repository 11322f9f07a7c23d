//! Admission: limits of requests per minute and of calls in flight, per key and for the whole gateway.
//!
//! A call over a limit is refused at once, with the time after which it would be admitted. A new configuration keeps the
//! count of calls in flight, and the request rate of each key whose limit is unchanged.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use actix_web::http::header::{HeaderName, HeaderValue};
use governor::{
    DefaultDirectRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    middleware::StateInformationMiddleware,
    state::{InMemoryState, NotKeyed},
};
use pointsman_actors::domain::Tick;

use crate::{
    access::{
        keys::Caller,
        load::{BufferLimits, KeyBuffer, Load},
    },
    base::{
        clock,
        error::{ApiError, Limit, Overload},
        load_reading::ShedReason,
    },
    config::LimitsConfig,
};

type KeyLimiter = RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>;

/// `retry-after` of a call refused because of the concurrency limit.
const CONCURRENCY_WAIT: Duration = Duration::from_secs(1);

/// The limits in force.
pub struct Admission {
    global_rate: Option<Arc<Rate<DefaultDirectRateLimiter>>>,
    global_concurrency: ConcurrencyLimit,
    keys: Vec<KeyLimits>,
    clock: DefaultClock,
    load: Arc<Load>,
}

struct KeyLimits {
    /// Owner of the key: [`Caller::owner`].
    owner: u64,
    rate: Option<Arc<Rate<KeyLimiter>>>,
    concurrency: ConcurrencyLimit,
    buffer: Arc<KeyBuffer>,
}

/// A limit of requests per minute and its current usage.
struct Rate<L> {
    per_minute: NonZeroU32,
    limiter: L,
    /// When the whole burst is available again, as a [`Tick`]: the limiter cannot be asked without spending.
    full_at: AtomicU64,
}

/// A concurrency limit: calls in flight under all configurations, and the maximum of this configuration.
struct ConcurrencyLimit {
    taken: Arc<AtomicU32>,
    most: Option<u32>,
}

/// Permit of one call in flight. Released when dropped.
pub struct Admitted {
    concurrency: [Arc<AtomicU32>; 2],
    /// State of the rate limit, for the headers of the answer.
    pub rate: Option<RateState>,
}

/// State of a key's request rate limit.
#[derive(Debug, Clone, Copy)]
pub struct RateState {
    /// Requests per minute.
    pub limit: u32,
    /// Requests that would be admitted now.
    pub remaining: u32,
    /// Time until the whole burst is available again.
    pub reset: Duration,
}

impl Admission {
    /// The limits of the configuration, for `callers` in the order of their positions. The counters of the previous
    /// configuration are kept.
    #[must_use]
    pub fn new<'c>(
        limits: &LimitsConfig,
        callers: impl Iterator<Item = &'c Caller>,
        before: Option<&Admission>,
    ) -> Admission {
        let rate = limits.requests_per_minute.and_then(NonZeroU32::new);
        let direct = |rate| RateLimiter::direct(Quota::per_minute(rate));
        let load = Load::carried(BufferLimits::of(limits), before.map(|before| &before.load));
        let known = |owner| before?.keys.iter().find(|limits: &&KeyLimits| limits.owner == owner);
        Admission {
            global_rate: Rate::carried(rate, before.and_then(|before| before.global_rate.as_ref()), direct),
            global_concurrency: ConcurrencyLimit::carried(
                limits.concurrency,
                before.map(|before| &before.global_concurrency),
            ),
            keys: callers.map(|caller| KeyLimits::new(caller, &load, known(caller.owner))).collect(),
            clock: before.map_or_else(DefaultClock::default, |before| before.clock.clone()),
            load,
        }
    }

    /// Load counters of the gateway.
    #[must_use]
    pub fn load(&self) -> &Arc<Load> {
        &self.load
    }

    /// Counter of the buffered bytes of a caller's key.
    ///
    /// # Errors
    /// 500 when the caller belongs to another configuration.
    pub fn buffer(&self, caller: &Caller) -> Result<Arc<KeyBuffer>, ApiError> {
        self.keys.get(caller.position).map(|key| Arc::clone(&key.buffer)).ok_or_else(ApiError::internal)
    }

    /// Admits a call, or gives the error answer with the time to wait.
    ///
    /// # Errors
    /// 429 for the key's own limits, 503 when the gateway as a whole is full.
    pub fn admit(&self, caller: &Caller) -> Result<Admitted, ApiError> {
        let Some(key) = self.keys.get(caller.position) else { return Err(ApiError::internal()) };
        // The concurrency limits come first: a call that is refused below releases them, but spent rate tokens are lost.
        let mut admitted = self.acquire(key)?;
        admitted.rate = key.check_rate(&self.clock)?;
        if let Some(limiter) = &self.global_rate
            && let Err(until) = limiter.limiter.check()
        {
            self.load.shed(ShedReason::RequestRate);
            return Err(ApiError::overloaded(Overload::RequestRate, until.wait_time_from(self.clock.now())));
        }
        caller.life.called();
        Ok(admitted)
    }

    /// Calls of the caller in flight.
    #[must_use]
    pub fn in_flight_of(&self, caller: &Caller) -> u32 {
        self.keys.get(caller.position).map_or(0, |key| key.concurrency.taken.load(Ordering::Relaxed))
    }

    fn acquire(&self, key: &KeyLimits) -> Result<Admitted, ApiError> {
        let full = || {
            self.load.shed(ShedReason::InFlight);
            ApiError::overloaded(Overload::RequestsInFlight, CONCURRENCY_WAIT)
        };
        let global = self.global_concurrency.take().ok_or_else(full)?;
        let Some(own) = key.concurrency.take() else {
            release(&global);
            let error = ApiError::limited(Limit::Concurrency, CONCURRENCY_WAIT);
            return Err(match key.rate_state(clock::now()) {
                Some(state) => state.on_refusal(error, CONCURRENCY_WAIT),
                None => error,
            });
        };
        Ok(Admitted { concurrency: [global, own], rate: None })
    }

    /// Calls in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.global_concurrency.taken.load(Ordering::Relaxed)
    }
}

impl KeyLimits {
    fn new(caller: &Caller, load: &Arc<Load>, before: Option<&KeyLimits>) -> KeyLimits {
        let rate = caller.key.requests_per_minute.and_then(NonZeroU32::new);
        let informed = |rate| RateLimiter::direct(Quota::per_minute(rate)).with_middleware();
        KeyLimits {
            owner: caller.owner,
            rate: Rate::carried(rate, before.and_then(|before| before.rate.as_ref()), informed),
            concurrency: ConcurrencyLimit::carried(caller.key.concurrency, before.map(|before| &before.concurrency)),
            buffer: before.map_or_else(|| KeyBuffer::of(load), |before| Arc::clone(&before.buffer)),
        }
    }

    fn check_rate(&self, clock: &DefaultClock) -> Result<Option<RateState>, ApiError> {
        let Some(rate) = &self.rate else { return Ok(None) };
        let limit = rate.per_minute.get();
        let refill = Duration::from_secs(60) / limit;
        match rate.limiter.check() {
            Ok(state) => {
                let remaining = state.remaining_burst_capacity();
                let reset = refill * limit.saturating_sub(remaining);
                rate.full_at.fetch_max(clock::now().plus(reset).0, Ordering::Relaxed);
                Ok(Some(RateState { limit, remaining, reset }))
            }
            Err(until) => {
                let wait = until.wait_time_from(clock.now());
                let state = RateState { limit, remaining: 0, reset: refill * limit };
                Err(state.on_refusal(ApiError::limited(Limit::Requests, wait), wait))
            }
        }
    }

    /// State of the rate limit. Spends no token.
    fn rate_state(&self, now: Tick) -> Option<RateState> {
        let rate = self.rate.as_ref()?;
        let limit = rate.per_minute.get();
        let refill = Duration::from_secs(60) / limit;
        let reset = Tick(rate.full_at.load(Ordering::Relaxed)).since(now);
        let spent = u32::try_from(reset.as_nanos().div_ceil(refill.as_nanos().max(1))).unwrap_or(u32::MAX);
        Some(RateState { limit, remaining: limit.saturating_sub(spent), reset })
    }
}

impl<L> Rate<L> {
    /// The limiter of `before`, if its limit is unchanged; else a new one with its whole burst.
    fn carried(
        wanted: Option<NonZeroU32>,
        before: Option<&Arc<Rate<L>>>,
        limiter: impl FnOnce(NonZeroU32) -> L,
    ) -> Option<Arc<Rate<L>>> {
        let per_minute = wanted?;
        let same = before.filter(|before| before.per_minute == per_minute);
        Some(
            same.cloned().unwrap_or_else(|| {
                Arc::new(Rate { per_minute, limiter: limiter(per_minute), full_at: AtomicU64::new(0) })
            }),
        )
    }
}

impl ConcurrencyLimit {
    fn carried(most: Option<u32>, before: Option<&ConcurrencyLimit>) -> ConcurrencyLimit {
        ConcurrencyLimit { taken: before.map_or_else(Arc::default, |before| Arc::clone(&before.taken)), most }
    }

    fn take(&self) -> Option<Arc<AtomicU32>> {
        let taken = self.taken.fetch_add(1, Ordering::Relaxed);
        if self.most.is_some_and(|most| taken >= most) {
            release(&self.taken);
            return None;
        }
        Some(Arc::clone(&self.taken))
    }
}

fn release(taken: &AtomicU32) {
    taken.fetch_sub(1, Ordering::Relaxed);
}

impl Drop for Admitted {
    fn drop(&mut self) {
        for concurrency in &self.concurrency {
            release(concurrency);
        }
    }
}

impl RateState {
    /// The headers of an answer, success or not.
    #[must_use]
    pub fn headers(self) -> [(HeaderName, HeaderValue); 3] {
        [
            (HeaderName::from_static("x-ratelimit-limit-requests"), HeaderValue::from(self.limit)),
            (HeaderName::from_static("x-ratelimit-remaining-requests"), HeaderValue::from(self.remaining)),
            (HeaderName::from_static("x-ratelimit-reset-requests"), short_duration(self.reset)),
        ]
    }

    /// Adds all rate-limit headers to a refusal, also the older ones with the reset time in Unix milliseconds.
    fn on_refusal(self, error: ApiError, wait: Duration) -> ApiError {
        let reset = clock::unix_millis().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        let older = [
            (HeaderName::from_static("x-ratelimit-limit"), HeaderValue::from(self.limit)),
            (HeaderName::from_static("x-ratelimit-remaining"), HeaderValue::from(self.remaining)),
            (HeaderName::from_static("x-ratelimit-reset"), HeaderValue::from(reset)),
        ];
        self.headers().into_iter().chain(older).fold(error, |error, (name, value)| error.with_header(name, value))
    }
}

/// A duration as rate-limit headers write it: `350ms`, `1s`, `6m0s`.
fn short_duration(time: Duration) -> HeaderValue {
    let text = match time.as_secs() {
        0 => format!("{}ms", time.as_millis()),
        seconds @ 1..60 => format!("{seconds}s"),
        seconds => format!("{}m{}s", seconds / 60, seconds % 60),
    };
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("0ms"))
}
