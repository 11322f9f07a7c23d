//! State of one simulated provider: its settings, its counters and its active requests.
//!
//! Together with `stream` the only module that reads the clock and waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use actix_web::{HttpResponse, HttpResponseBuilder};
use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::{
    ProviderSettings, Rng,
    counters::{Counters, End, InFlight},
    load::{self, Draw},
    prompt_cache::PromptCache,
    quota::Quota,
    rejection::Rejection,
};

/// Share of the time to first token that passes before the head of an answer. A stream sends the head and the role then,
/// and the first word after the rest of the time, as many real servers do.
const HEAD_SHARE: f64 = 0.75;

/// State shared by the handlers of one provider.
#[derive(Debug)]
pub(super) struct Provider {
    settings: ArcSwap<ProviderSettings>,
    counters: Arc<Counters>,
    /// Requests admitted so far. The position of a request selects its random numbers.
    admitted: AtomicU64,
    quota: Mutex<Quota>,
    prompts: PromptCache,
}

impl Provider {
    pub(super) fn new(settings: ProviderSettings) -> Provider {
        Provider {
            settings: ArcSwap::from_pointee(settings),
            counters: Arc::default(),
            admitted: AtomicU64::new(0),
            quota: Mutex::default(),
            prompts: PromptCache::default(),
        }
    }

    pub(super) fn settings(&self) -> Arc<ProviderSettings> {
        self.settings.load_full()
    }

    /// Replaces the settings, from the next request on.
    pub(super) fn set_settings(&self, settings: ProviderSettings) {
        self.settings.store(Arc::new(settings));
    }

    pub(super) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// The prompts that it remembers.
    pub(super) fn prompts(&self) -> &PromptCache {
        &self.prompts
    }

    /// Records a request before it is checked.
    pub(super) fn record_request(&self) {
        self.counters.record_request();
    }

    /// Admits a valid request for `model`, or refuses it because of the rate limit.
    pub(super) fn admit(&self, settings: &Arc<ProviderSettings>, model: &str) -> Result<ActiveRequest, Rejection> {
        let mut rate_limit = None;
        if let Some(limit) = settings.rate_limit_per_minute {
            let admitted = self.quota.lock().admit(Instant::now(), limit);
            let left = admitted.map_err(|wait| {
                self.counters.record_rate_limited();
                Rejection::RateLimited { model: model.to_owned(), limit, wait }
            })?;
            rate_limit = Some((limit, left));
        }
        let mut rng = load::rng(settings, self.admitted.fetch_add(1, Relaxed));
        Ok(ActiveRequest {
            settings: Arc::clone(settings),
            draw: Draw::new(settings, &mut rng),
            rng,
            in_flight: InFlight::begin(&self.counters),
            rate_limit,
        })
    }
}

/// One admitted request. It counts as cancelled if it is dropped before its end.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    pub(super) settings: Arc<ProviderSettings>,
    pub(super) draw: Draw,
    pub(super) rng: Rng,
    in_flight: InFlight,
    /// Requests allowed in a minute, and how many of them are left.
    rate_limit: Option<(u32, u32)>,
}

impl ActiveRequest {
    /// `time` under the current load.
    pub(super) fn loaded(&self, time: Duration) -> Duration {
        let factor = load::slowdown(self.in_flight.count(), self.settings.capacity, self.settings.slowdown_power);
        load::scaled(time, factor)
    }

    /// The part of the time to the first token that passes before the head, and the rest.
    pub(super) fn head_and_rest(&self) -> (Duration, Duration) {
        let head = load::scaled(self.draw.first_token, HEAD_SHARE);
        (head, self.draw.first_token.saturating_sub(head))
    }

    /// The time between the first and the last of `tokens` tokens.
    pub(super) fn generation_time(&self, tokens: u32) -> Duration {
        self.draw.per_token.saturating_mul(tokens.saturating_sub(1))
    }

    /// Waits for `time` under the current load.
    pub(super) async fn pass(&self, time: Duration) {
        let time = self.loaded(time);
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
    }

    /// Fails at the time when the head would be due.
    pub(super) async fn fail(mut self) -> Rejection {
        self.pass(self.head_and_rest().0).await;
        self.ends(End::Failed);
        Rejection::Failed { provider: self.settings.name.clone() }
    }

    /// Hangs: keeps the connection open until the client closes it.
    pub(super) async fn hang(&self) {
        std::future::pending().await
    }

    /// Sets how the request ends, as soon as that is certain.
    pub(super) fn ends(&mut self, end: End) {
        self.in_flight.ends(end);
    }

    /// The head of a successful answer.
    pub(super) fn accepted(&self) -> HttpResponseBuilder {
        let mut response = HttpResponse::Ok();
        if let Some((limit, left)) = self.rate_limit {
            response
                .insert_header(("x-ratelimit-limit-requests", limit.to_string()))
                .insert_header(("x-ratelimit-remaining-requests", left.to_string()));
        }
        response
    }
}
