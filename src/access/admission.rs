//! Admission: limits of requests and tokens per minute and of calls in flight, per key, per account and for the whole gateway.
//!
//! A call over a limit is refused at once, with the time after which it would be admitted: the longest of those of all limits
//! that refuse it. It gives back what it took from the others.

use std::{sync::Arc, time::Duration};

use actix_web::http::header::{HeaderName, HeaderValue};
use pointsman_base::clock;
use pointsman_config::{HolderLimits, LimitsConfig};
use pointsman_domain::Tick;

use crate::{
    access::{
        concurrency_limit::InProgress,
        keys::Caller,
        lease::Moment,
        load::{BufferLimits, KeyBuffer, Load},
        rate_limits::{RateExceeded, RateLimits, RateState, TokenRate},
    },
    base::{
        error::{ApiError, Limit, Overload},
        load_reading::ShedReason,
    },
};

/// The limits in force.
pub struct Admission {
    global: Arc<RateLimits>,
    load: Arc<Load>,
}

/// Permit of one call in flight. Released when dropped.
pub struct Admitted {
    in_progress: [InProgress; 3],
    /// When it was admitted.
    since: Tick,
    global: Arc<RateLimits>,
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
    pub fn new(limits: &LimitsConfig, load: &Arc<Load>, before: Option<&Admission>) -> Admission {
        let global = before.map_or_else(Arc::default, |before| Arc::clone(&before.global));
        global.set(&HolderLimits {
            requests_per_minute: limits.requests_per_minute,
            tokens_per_minute: limits.tokens_per_minute,
            concurrency: limits.concurrency,
            spend: None,
        });
        Admission { global, load: Load::carried(BufferLimits::new(limits), Some(load)) }
    }

    /// Load counters of the gateway.
    pub fn load(&self) -> &Arc<Load> {
        &self.load
    }

    /// Counter of the buffered bytes of a caller's key.
    pub fn buffer(&self, caller: &Caller) -> Arc<KeyBuffer> {
        Arc::clone(&caller.state.buffer)
    }

    /// Admits a call that came at `accepted`, or gives the error answer with the time to wait.
    ///
    /// # Errors
    /// 429 for the limits of requests, and of calls in flight of key and account; 503 when the gateway as a whole is full.
    pub fn admit(&self, caller: &Arc<Caller>, accepted: Moment) -> Result<Admitted, ApiError> {
        let (key, account) = (&caller.state.limits, &caller.account.limits);
        let in_progress = self.acquire(key, account)?;
        let rates = [&key.requests, &account.requests, &self.global.requests];
        let [of_key, of_account, _] =
            take_all(rates, |rate| rate.take(), |rate| rate.give_back()).map_err(|refused| {
                let is_global = refused.position == 2;
                if is_global {
                    self.load.shed(ShedReason::RequestRate);
                }
                refusal(if is_global { Limit::AllRequests } else { Limit::Requests }, &refused.exceeded)
            })?;
        caller.state.life.called(accepted.now_ms);
        Ok(Admitted {
            in_progress,
            since: accepted.now,
            global: Arc::clone(&self.global),
            caller: Arc::clone(caller),
            estimated_tokens: None,
            rate: of_key.or(of_account),
            token_rate: None,
        })
    }

    /// Calls of the caller in flight.
    pub fn in_flight_of(&self, caller: &Caller) -> u32 {
        caller.state.limits.concurrency.taken()
    }

    fn acquire(&self, key: &RateLimits, account: &RateLimits) -> Result<[InProgress; 3], ApiError> {
        let global = self.global.concurrency.take().ok_or_else(|| {
            self.load.shed(ShedReason::InFlight);
            ApiError::overloaded(Overload::RequestsInFlight, self.global.concurrency.wait())
        })?;
        let refused = |limits: &RateLimits| {
            let wait = limits.concurrency.wait();
            let error = ApiError::limited(Limit::Concurrency, limits.concurrency.most(), wait);
            match limits.requests.state(clock::now()) {
                Some(state) => state.on_refusal(error, wait),
                None => error,
            }
        };
        let of_account = account.concurrency.take().ok_or_else(|| refused(account))?;
        let of_key = key.concurrency.take().ok_or_else(|| refused(key))?;
        Ok([global, of_account, of_key])
    }

    /// Calls in flight.
    pub fn in_flight(&self) -> u32 {
        self.global.concurrency.taken()
    }
}

impl Admitted {
    /// The caller.
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Takes what depends on the plan: tokens by estimate from the limits of key, account and gateway, and a request to the free
    /// pool if it is asked. All, or nothing. From here on the call is one of those by which a refused one is told how long to
    /// wait.
    ///
    /// # Errors
    /// 429.
    pub fn take_for_plan(&mut self, estimated: u64, asks_free_pool: bool) -> Result<(), ApiError> {
        let pool = &self.caller.account.free_pool;
        let free = if asks_free_pool { pool.take() } else { Ok(None) };
        let tokens = take_all(self.token_rates(), |rate| rate.take(estimated), |rate| rate.correct(estimated, 0));
        let (limit, exceeded, wait) = match (free, tokens) {
            (Ok(_), Ok([of_key, of_account, _])) => {
                (self.estimated_tokens, self.token_rate) = (Some(estimated), of_key.or(of_account));
                self.in_progress.iter_mut().for_each(|in_progress| in_progress.time_from(self.since));
                return Ok(());
            }
            (Ok(_), Err(tokens)) => {
                if asks_free_pool {
                    pool.give_back();
                }
                let limit = if tokens.position == 2 { Limit::AllTokens } else { Limit::Tokens };
                (limit, tokens.exceeded, Duration::ZERO)
            }
            (Err(free), Ok(_)) => {
                self.token_rates().into_iter().for_each(|rate| rate.correct(estimated, 0));
                (Limit::FreePool, free, Duration::ZERO)
            }
            (Err(free), Err(tokens)) => (Limit::FreePool, free, tokens.exceeded.wait),
        };
        Err(refusal(limit, &RateExceeded { wait: exceeded.wait.max(wait), ..exceeded }))
    }

    /// Gives back the request that was taken: the call is refused, and was told when to come again.
    pub fn give_back(&self) {
        let (key, account) = (&self.caller.state.limits, &self.caller.account.limits);
        [key, account, &*self.global].into_iter().for_each(|limits| limits.requests.give_back());
    }

    /// Corrects the tokens that were taken to the actual number.
    pub fn correct_tokens(&mut self, actual: u64) {
        if let Some(estimated) = self.estimated_tokens.take() {
            self.token_rates().into_iter().for_each(|rate| rate.correct(estimated, actual));
        }
    }

    fn token_rates(&self) -> [&TokenRate; 3] {
        [&self.caller.state.limits.tokens, &self.caller.account.limits.tokens, &self.global.tokens]
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        // A request that was refused after the estimate used nothing.
        self.correct_tokens(0);
    }
}

/// A refusal by one of several limits.
#[derive(Debug)]
struct Refused {
    /// Position of the first limit that refused.
    position: usize,
    /// Its state, with the longest wait of all that refused.
    exceeded: RateExceeded,
}

/// Takes from all limits, or from none.
fn take_all<R>(
    rates: [&R; 3],
    take: impl Fn(&R) -> Result<Option<RateState>, RateExceeded>,
    give_back: impl Fn(&R),
) -> Result<[Option<RateState>; 3], Refused> {
    let taken = rates.map(take);
    let refusals = || taken.iter().filter_map(|taken| taken.as_ref().err());
    let Some((position, Err(first))) = taken.iter().enumerate().find(|(_, taken)| taken.is_err()) else {
        return Ok(taken.map(|taken| taken.ok().flatten()));
    };
    let wait = refusals().map(|refused| refused.wait).max().unwrap_or_default();
    rates.iter().zip(&taken).filter(|(_, taken)| taken.is_ok()).for_each(|(rate, _)| give_back(rate));
    Err(Refused { position, exceeded: RateExceeded { wait, ..*first } })
}

fn refusal(limit: Limit, RateExceeded { state, wait }: &RateExceeded) -> ApiError {
    let error = ApiError::limited(limit, state.limit, *wait);
    match limit {
        Limit::Tokens | Limit::AllTokens => {
            state.token_headers().into_iter().fold(state.older_headers(error, *wait), with_header)
        }
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
        self.named(
            ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
            short_duration(self.reset),
        )
    }

    /// The headers of a limit of tokens.
    #[must_use]
    pub fn token_headers(self) -> [(HeaderName, HeaderValue); 3] {
        self.named(
            ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
            short_duration(self.reset),
        )
    }

    fn named(self, names: [&'static str; 3], reset: HeaderValue) -> [(HeaderName, HeaderValue); 3] {
        let [limit, remaining, until] = names.map(HeaderName::from_static);
        [(limit, self.limit.into()), (remaining, self.remaining.into()), (until, reset)]
    }

    /// Adds all headers of a limit of requests to a refusal.
    fn on_refusal(self, error: ApiError, wait: Duration) -> ApiError {
        self.headers().into_iter().fold(self.older_headers(error, wait), with_header)
    }

    /// Adds the older headers to a refusal, with the reset time in Unix milliseconds.
    fn older_headers(self, error: ApiError, wait: Duration) -> ApiError {
        let reset = clock::unix_millis().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        let older = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
        self.named(older, reset.into()).into_iter().fold(error, with_header)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::rate_limits::RequestRate;

    #[test]
    fn a_refusal_takes_from_no_limit_and_tells_the_longest_wait() {
        clock::start();
        let (key, account, global) = (RequestRate::default(), RequestRate::default(), RequestRate::default());
        key.set(Some(2));
        account.set(Some(1));
        let take = || take_all([&key, &account, &global], RequestRate::take, RequestRate::give_back);
        assert_eq!(take().unwrap().map(|state| state.map(|state| state.remaining)), [Some(1), Some(0), None]);
        for _ in 0..3 {
            let refused = take().unwrap_err();
            assert_eq!(refused.position, 1);
        }
        assert_eq!(key.state(clock::now()).unwrap().remaining, 1, "the key has given its request back");
        key.take().unwrap();
        let refused = take().unwrap_err();
        assert_eq!((refused.position, refused.exceeded.state.limit), (0, 2));
        assert!(refused.exceeded.wait > Duration::from_secs(40), "that of the account: {refused:?}");
    }
}
