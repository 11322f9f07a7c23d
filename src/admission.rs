//! How much a caller may call: requests per minute and calls at a time, per key and for everybody.
//!
//! Nothing waits here: a call over a limit is refused at once with the time after which it would pass.

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
    auth::Caller,
    clock,
    config::{Key, LimitsConfig},
    error::{ApiError, Limit, Overload},
    load::{Load, Shed},
};

type KeyLimiter = RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>;

/// Longest wait that is worth telling a client that is refused for concurrency.
const CONCURRENCY_WAIT: Duration = Duration::from_secs(1);

/// The limits in force.
pub struct Admission {
    global_rate: Option<DefaultDirectRateLimiter>,
    global_places: Arc<Places>,
    keys: Vec<KeyLimits>,
    clock: DefaultClock,
    load: Arc<Load>,
}

struct KeyLimits {
    rate: Option<(NonZeroU32, KeyLimiter)>,
    /// When the whole burst is available again, as a [`Tick`]: the limiter cannot be asked without spending.
    full_at: AtomicU64,
    places: Arc<Places>,
}

/// Calls at a time.
struct Places {
    taken: AtomicU32,
    most: Option<u32>,
}

/// A call in progress. Gives its places back when dropped.
pub struct Admitted {
    places: [Arc<Places>; 2],
    /// What the rate limit still allows, for the answer's headers.
    pub rate: Option<RateState>,
}

/// Where a key's request rate stands.
#[derive(Debug, Clone, Copy)]
pub struct RateState {
    /// Requests per minute.
    pub limit: u32,
    /// Requests that would pass right now.
    pub remaining: u32,
    /// Until the whole burst is available again.
    pub reset: Duration,
}

impl Admission {
    /// The limits of the configuration, for `keys` and the anonymous caller behind them.
    #[must_use]
    pub fn new(limits: &LimitsConfig, keys: &[Key]) -> Admission {
        let anonymous = Key::anonymous();
        Admission {
            global_rate: limits
                .requests_per_minute
                .and_then(NonZeroU32::new)
                .map(|rate| RateLimiter::direct(Quota::per_minute(rate))),
            global_places: Places::new(limits.concurrency),
            keys: keys.iter().chain([&anonymous]).map(KeyLimits::new).collect(),
            clock: DefaultClock::default(),
            load: Load::new(limits.buffered_bytes),
        }
    }

    /// What the gateway carries, whoever sent it.
    #[must_use]
    pub fn load(&self) -> &Arc<Load> {
        &self.load
    }

    /// Lets a call in, or says why not and for how long.
    ///
    /// # Errors
    /// 429 for the key's own limits, 503 when the gateway as a whole is full.
    pub fn admit(&self, caller: &Caller) -> Result<Admitted, ApiError> {
        let Some(key) = self.keys.get(caller.position) else { return Err(ApiError::internal()) };
        // Places first: they are given back to a call that is refused below, a rate's tokens are not.
        let mut admitted = self.place(key)?;
        admitted.rate = key.check_rate(&self.clock)?;
        if let Some(limiter) = &self.global_rate
            && let Err(until) = limiter.check()
        {
            self.load.shed(Shed::RequestRate);
            return Err(ApiError::overloaded(Overload::RequestRate, until.wait_time_from(self.clock.now())));
        }
        Ok(admitted)
    }

    fn place(&self, key: &KeyLimits) -> Result<Admitted, ApiError> {
        let full = || {
            self.load.shed(Shed::InFlight);
            ApiError::overloaded(Overload::RequestsInFlight, CONCURRENCY_WAIT)
        };
        let global = Places::take(&self.global_places).ok_or_else(full)?;
        let Some(own) = Places::take(&key.places) else {
            global.give_back();
            let error = ApiError::limited(Limit::Concurrency, CONCURRENCY_WAIT);
            return Err(match key.rate_state(clock::now()) {
                Some(state) => state.on_refusal(error, CONCURRENCY_WAIT),
                None => error,
            });
        };
        Ok(Admitted { places: [global, own], rate: None })
    }

    /// Calls in progress.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.global_places.taken.load(Ordering::Relaxed)
    }
}

impl KeyLimits {
    fn new(key: &Key) -> KeyLimits {
        let rate = key.requests_per_minute.and_then(NonZeroU32::new).map(|rate| {
            let limiter = RateLimiter::direct(Quota::per_minute(rate)).with_middleware::<StateInformationMiddleware>();
            (rate, limiter)
        });
        KeyLimits { rate, full_at: AtomicU64::new(0), places: Places::new(key.concurrency) }
    }

    fn check_rate(&self, clock: &DefaultClock) -> Result<Option<RateState>, ApiError> {
        let Some((limit, limiter)) = &self.rate else { return Ok(None) };
        let limit = limit.get();
        let refill = Duration::from_secs(60) / limit;
        match limiter.check() {
            Ok(state) => {
                let remaining = state.remaining_burst_capacity();
                let reset = refill * limit.saturating_sub(remaining);
                self.full_at.fetch_max(clock::now().plus(reset).0, Ordering::Relaxed);
                Ok(Some(RateState { limit, remaining, reset }))
            }
            Err(until) => {
                let wait = until.wait_time_from(clock.now());
                let state = RateState { limit, remaining: 0, reset: refill * limit };
                Err(state.on_refusal(ApiError::limited(Limit::Requests, wait), wait))
            }
        }
    }

    /// Where the rate stands, spending nothing.
    fn rate_state(&self, now: Tick) -> Option<RateState> {
        let limit = self.rate.as_ref()?.0.get();
        let refill = Duration::from_secs(60) / limit;
        let reset = Tick(self.full_at.load(Ordering::Relaxed)).since(now);
        let spent = u32::try_from(reset.as_nanos().div_ceil(refill.as_nanos().max(1))).unwrap_or(u32::MAX);
        Some(RateState { limit, remaining: limit.saturating_sub(spent), reset })
    }
}

impl Places {
    fn new(most: Option<u32>) -> Arc<Places> {
        Arc::new(Places { taken: AtomicU32::new(0), most })
    }

    fn take(places: &Arc<Places>) -> Option<Arc<Places>> {
        let taken = places.taken.fetch_add(1, Ordering::Relaxed);
        if places.most.is_some_and(|most| taken >= most) {
            places.give_back();
            return None;
        }
        Some(Arc::clone(places))
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        for places in &self.places {
            places.give_back();
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

    /// A refusal also says it in the older form: limit, remaining, and the moment in Unix milliseconds.
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

/// A time as rate-limit headers write it: `350ms`, `1s`, `6m0s`.
fn short_duration(time: Duration) -> HeaderValue {
    let text = match time.as_secs() {
        0 => format!("{}ms", time.as_millis()),
        seconds @ 1..60 => format!("{seconds}s"),
        seconds => format!("{}m{}s", seconds / 60, seconds % 60),
    };
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("0ms"))
}
