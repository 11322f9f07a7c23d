//! Admission: limits of requests and tokens per minute and of calls in flight, per key, per account and for the whole gateway.
//!
//! A call over a limit is refused at once, with the time after which it would be admitted.

use std::{sync::Arc, time::Duration};

use actix_web::http::header::{HeaderName, HeaderValue};

use crate::{
    access::{
        gates::{Gates, InProgress, RateExceeded, RateState, TokenRate},
        keys::Caller,
        load::{BufferLimits, KeyBuffer, Load},
    },
    base::{
        clock,
        error::{ApiError, Limit, Overload},
        load_reading::ShedReason,
    },
    config::{HolderLimits, LimitsConfig},
};

/// `retry-after` of a call refused because of the concurrency limit.
const CONCURRENCY_WAIT: Duration = Duration::from_secs(1);

/// The limits in force.
pub struct Admission {
    global: Arc<Gates>,
    load: Arc<Load>,
}

/// Permit of one call in flight. Released when dropped.
pub struct Admitted {
    _in_progress: [InProgress; 3],
    global: Arc<Gates>,
    caller: Arc<Caller>,
    /// Estimate of the tokens that were taken; `None` until then.
    estimated_tokens: Option<u64>,
    /// State of the limit of requests, for the headers of the answer.
    pub rate: Option<RateState>,
    /// State of the limit of tokens, for the headers of the answer.
    pub token_rate: Option<RateState>,
}

impl Admission {
    /// The limits of the configuration. The usage of `before` is kept.
    #[must_use]
    pub fn new(limits: &LimitsConfig, load: &Arc<Load>, before: Option<&Admission>) -> Admission {
        let global = before.map_or_else(Arc::default, |before| Arc::clone(&before.global));
        global.set(&HolderLimits {
            requests_per_minute: limits.requests_per_minute,
            tokens_per_minute: limits.tokens_per_minute,
            concurrency: limits.concurrency,
            spend: None,
        });
        Admission { global, load: Load::carried(BufferLimits::of(limits), Some(load)) }
    }

    /// Load counters of the gateway.
    #[must_use]
    pub fn load(&self) -> &Arc<Load> {
        &self.load
    }

    /// Counter of the buffered bytes of a caller's key.
    #[must_use]
    pub fn buffer(&self, caller: &Caller) -> Arc<KeyBuffer> {
        Arc::clone(&caller.state.buffer)
    }

    /// Admits a call, or gives the error answer with the time to wait.
    ///
    /// # Errors
    /// 429 for the limits of key and account, 503 when the gateway as a whole is full.
    pub fn admit(&self, caller: &Arc<Caller>) -> Result<Admitted, ApiError> {
        let (key, account) = (&caller.state.gates, &caller.account.gates);
        // The concurrency limits come first: a call that is refused below releases them, but spent rate tokens are lost.
        let in_progress = self.acquire(key, account)?;
        let of_key = key.requests.take().map_err(|exceeded| refusal(Limit::Requests, &exceeded))?;
        let of_account = account.requests.take().map_err(|exceeded| refusal(Limit::Requests, &exceeded))?;
        if let Err(exceeded) = self.global.requests.take() {
            self.load.shed(ShedReason::RequestRate);
            return Err(ApiError::overloaded(Overload::RequestRate, exceeded.wait));
        }
        caller.state.life.called();
        Ok(Admitted {
            _in_progress: in_progress,
            global: Arc::clone(&self.global),
            caller: Arc::clone(caller),
            estimated_tokens: None,
            rate: of_key.or(of_account),
            token_rate: None,
        })
    }

    /// Calls of the caller in flight.
    #[must_use]
    pub fn in_flight_of(&self, caller: &Caller) -> u32 {
        caller.state.gates.concurrency.taken()
    }

    fn acquire(&self, key: &Gates, account: &Gates) -> Result<[InProgress; 3], ApiError> {
        let global = self.global.concurrency.take().ok_or_else(|| {
            self.load.shed(ShedReason::InFlight);
            ApiError::overloaded(Overload::RequestsInFlight, CONCURRENCY_WAIT)
        })?;
        let refused = |gates: &Gates| {
            let error = ApiError::limited(Limit::Concurrency, CONCURRENCY_WAIT);
            match gates.requests.state(clock::now()) {
                Some(state) => state.on_refusal(error, CONCURRENCY_WAIT),
                None => error,
            }
        };
        let of_account = account.concurrency.take().ok_or_else(|| refused(account))?;
        let of_key = key.concurrency.take().ok_or_else(|| refused(key))?;
        Ok([global, of_account, of_key])
    }

    /// Calls in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.global.concurrency.taken()
    }
}

impl Admitted {
    /// The caller.
    #[must_use]
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Takes tokens by estimate from the limits of key, account and gateway.
    ///
    /// # Errors
    /// 429 for the limits of key and account, 503 for that of the gateway.
    pub fn take_tokens(&mut self, estimated: u64) -> Result<(), ApiError> {
        let [key, account, global] = self.token_rates();
        let of_key = key.take(estimated).map_err(|exceeded| refusal(Limit::Tokens, &exceeded))?;
        let of_account = account.take(estimated).map_err(|exceeded| {
            key.correct(estimated, 0);
            refusal(Limit::Tokens, &exceeded)
        })?;
        if let Err(exceeded) = global.take(estimated) {
            key.correct(estimated, 0);
            account.correct(estimated, 0);
            return Err(ApiError::overloaded(Overload::RequestRate, exceeded.wait));
        }
        (self.estimated_tokens, self.token_rate) = (Some(estimated), of_key.or(of_account));
        Ok(())
    }

    /// Takes one request to the free pool.
    ///
    /// # Errors
    /// 429.
    pub fn take_free_request(&self) -> Result<(), ApiError> {
        let taken = self.caller.account.free_pool.take();
        taken.map(drop).map_err(|exceeded| refusal(Limit::FreePool, &exceeded))
    }

    /// Corrects the tokens that were taken to the actual number.
    pub fn correct_tokens(&mut self, actual: u64) {
        if let Some(estimated) = self.estimated_tokens.take() {
            self.token_rates().into_iter().for_each(|rate| rate.correct(estimated, actual));
        }
    }

    fn token_rates(&self) -> [&TokenRate; 3] {
        [&self.caller.state.gates.tokens, &self.caller.account.gates.tokens, &self.global.tokens]
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        // A request that was refused after the estimate used nothing.
        self.correct_tokens(0);
    }
}

fn refusal(limit: Limit, RateExceeded { state, wait }: &RateExceeded) -> ApiError {
    let error = ApiError::limited(limit, *wait);
    match limit {
        Limit::Tokens => state.token_headers().into_iter().fold(state.older_headers(error, *wait), with_header),
        _ => state.on_refusal(error, *wait),
    }
}

fn with_header(error: ApiError, (name, value): (HeaderName, HeaderValue)) -> ApiError {
    error.with_header(name, value)
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

    /// The headers of a limit of tokens.
    #[must_use]
    pub fn token_headers(self) -> [(HeaderName, HeaderValue); 3] {
        [
            (HeaderName::from_static("x-ratelimit-limit-tokens"), HeaderValue::from(self.limit)),
            (HeaderName::from_static("x-ratelimit-remaining-tokens"), HeaderValue::from(self.remaining)),
            (HeaderName::from_static("x-ratelimit-reset-tokens"), short_duration(self.reset)),
        ]
    }

    /// Adds all headers of a limit of requests to a refusal.
    fn on_refusal(self, error: ApiError, wait: Duration) -> ApiError {
        self.headers().into_iter().fold(self.older_headers(error, wait), with_header)
    }

    /// Adds the older headers to a refusal, with the reset time in Unix milliseconds.
    fn older_headers(self, error: ApiError, wait: Duration) -> ApiError {
        let reset = clock::unix_millis().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        let older = [
            (HeaderName::from_static("x-ratelimit-limit"), HeaderValue::from(self.limit)),
            (HeaderName::from_static("x-ratelimit-remaining"), HeaderValue::from(self.remaining)),
            (HeaderName::from_static("x-ratelimit-reset"), HeaderValue::from(reset)),
        ];
        older.into_iter().fold(error, with_header)
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
