//! One simulated provider at work: its character, its counters, and the turns it gives.
//!
//! The only place that looks at the clock, and the only one that sleeps.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, web::Bytes};
use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::{
    Dice,
    character::Character,
    counters::{Counters, End, InFlight, SeenRequest},
    load::{self, Draw},
    quota::Quota,
    refusal::Refusal,
};

/// How much of the time to the first token passes before the head of an answer. In a stream the head and
/// the role leave then; the first word follows when the rest has passed, as many real servers do it.
const HEAD_SHARE: f64 = 0.75;

/// What the handlers of one provider share.
#[derive(Debug)]
pub(super) struct Provider {
    character: ArcSwap<Character>,
    counters: Arc<Counters>,
    /// Requests admitted so far: the position of a request picks its dice.
    admitted: AtomicU64,
    quota: Mutex<Quota>,
}

impl Provider {
    pub(super) fn new(character: Character) -> Provider {
        Provider {
            character: ArcSwap::from_pointee(character),
            counters: Arc::default(),
            admitted: AtomicU64::new(0),
            quota: Mutex::default(),
        }
    }

    pub(super) fn character(&self) -> Arc<Character> {
        self.character.load_full()
    }

    /// From the next request on it is like that.
    pub(super) fn become_like(&self, character: Character) {
        self.character.store(Arc::new(character));
    }

    pub(super) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Notes a request that arrived, before anything can be wrong with it.
    pub(super) fn saw(&self, request: &HttpRequest, body: &Bytes) {
        let text = |value: &actix_web::http::header::HeaderValue| value.to_str().ok().map(str::to_owned);
        let headers = request.headers().iter().filter_map(|(name, value)| Some((name.to_string(), text(value)?)));
        self.counters.saw(SeenRequest {
            path: request.path().to_owned(),
            headers: headers.collect(),
            body: body.clone(),
        });
    }

    /// Admits a checked request for `model`, or says that the minute is used up.
    pub(super) fn admit(&self, character: &Arc<Character>, model: &str) -> Result<Turn, Refusal> {
        let mut places = None;
        if let Some(limit) = character.rate_limit_per_minute {
            let admitted = self.quota.lock().admit(Instant::now(), limit);
            let left = admitted.map_err(|wait| {
                self.counters.refused_for_rate();
                Refusal::RateLimited { model: model.to_owned(), limit, wait }
            })?;
            places = Some((limit, left));
        }
        let mut dice = character.dice(self.admitted.fetch_add(1, Relaxed));
        Ok(Turn {
            character: Arc::clone(character),
            draw: character.draw(&mut dice),
            dice,
            in_flight: InFlight::begin(&self.counters),
            places,
        })
    }
}

/// One admitted request, to its end. Dropped early, it counts as cancelled.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) character: Arc<Character>,
    pub(super) draw: Draw,
    pub(super) dice: Dice,
    in_flight: InFlight,
    /// Requests allowed in a minute, and how many of them are left.
    places: Option<(u32, u32)>,
}

impl Turn {
    /// `time` under the load of this moment.
    pub(super) fn loaded(&self, time: Duration) -> Duration {
        load::scaled(time, self.character.slowdown(self.in_flight.company()))
    }

    /// The part of the time to the first token that passes before the head, and the rest.
    pub(super) fn head_and_rest(&self) -> (Duration, Duration) {
        let head = load::scaled(self.draw.first_token, HEAD_SHARE);
        (head, self.draw.first_token.saturating_sub(head))
    }

    /// The time between the first and the last of `tokens` tokens.
    pub(super) fn telling(&self, tokens: u32) -> Duration {
        self.draw.per_token.saturating_mul(tokens.saturating_sub(1))
    }

    /// Lets `time` pass, under the load of this moment.
    pub(super) async fn pass(&self, time: Duration) {
        let time = self.loaded(time);
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
    }

    /// Fails on purpose, when the head would have been due.
    pub(super) async fn fail(mut self) -> Refusal {
        self.pass(self.head_and_rest().0).await;
        self.ends(End::Failed);
        Refusal::Failed { provider: self.character.name.clone() }
    }

    /// Falls silent: holds the connection until the client gives up.
    pub(super) async fn hang(&self) {
        std::future::pending().await
    }

    /// Says how it ends, as soon as that is certain.
    pub(super) fn ends(&mut self, end: End) {
        self.in_flight.ends(end);
    }

    /// The start of a good answer.
    pub(super) fn accepted(&self) -> HttpResponseBuilder {
        let mut response = HttpResponse::Ok();
        if let Some((limit, left)) = self.places {
            response
                .insert_header(("x-ratelimit-limit-requests", limit.to_string()))
                .insert_header(("x-ratelimit-remaining-requests", left.to_string()));
        }
        response
    }
}
