//! ProviderHealth: the owner of the learned statistics.
//!
//! Workers send endpoint events in batches ([`Observations`]). The actor applies them and publishes a snapshot for the
//! routers: at most every 50 ms, within 4 ms when a breaker changed state. Without events it publishes at longer
//! intervals, because estimates decay with time. On a new configuration ([`AdoptConfig`]) it changes to the new
//! catalog and policy and keeps what it learned about the endpoints that stay.
//!
//! The live board (requests in flight, breakers, cooldowns) is shared memory and is updated before a batch leaves its
//! worker, so a decision never waits for this actor. If persistence is configured, the statistics are saved
//! ([`crate::persistence`]) and survive a restart.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, MessageResult, ResponseFuture, clock::timeout};
use parking_lot::Mutex;
use pointsman_domain::{Catalog, EndpointEvent, EventKind, RoutingPolicy, Tick};
use pointsman_routing::{
    quality::{Evidence, QualityTable},
    stats::{Calibrations, Figures, LiveBoard, Statistics},
};

use crate::{
    mailbox::MailboxToken,
    persistence::{SaveSchedule, StatsStore},
    published::PublishedState,
};

/// Shortest time between two published snapshots.
const PAUSE: Duration = Duration::from_millis(50);
/// Shortest time between two snapshots when a breaker changed state. Many breakers may change at the same time, and
/// each snapshot covers all endpoints.
const URGENT_PAUSE: Duration = Duration::from_millis(4);
/// While no event arrives, snapshots are published so many times per half-life ...
const RENEWALS: u32 = 12;
/// ... for so many half-lives, in which recent estimates fade; then once per half-life ...
const RECENT: u32 = 16;
/// ... until the usual failure counts have faded too: they are only read, and then halve every forty half-lives.
const FADED: u32 = 16 * 40;

/// Time between two publications after `idle` without an event; `None` when nothing is left to fade.
fn renewal_pause(idle: Duration, half_life: Duration) -> Option<Duration> {
    let pause = if idle < half_life.saturating_mul(RECENT) { half_life / RENEWALS } else { half_life };
    (idle < half_life.saturating_mul(FADED)).then(|| pause.max(PAUSE))
}

/// Endpoint events in the order in which they happened on one worker.
/// Sent by a worker's [`crate::event_batches::EventBatcher`]; no reply.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Observations(pub Vec<EndpointEvent>, pub MailboxToken);

/// Asks for the figures of every endpoint and provider at `now`.
#[derive(Message)]
#[rtype(result = "Arc<Figures>")]
pub struct ReadFigures {
    /// End of the time windows.
    pub now: Tick,
    /// Age up to which cached figures are returned. Summing takes some microseconds per endpoint, so pages that are
    /// requested often accept cached figures.
    pub patience: Duration,
}

/// Asks for the calibration of the predictions over the hour that ends at `now`.
#[derive(Message)]
#[rtype(result = "Arc<Calibrations>")]
pub struct ReadCalibrations {
    /// End of the hour.
    pub now: Tick,
    /// Age up to which cached figures are returned, as in [`ReadFigures`].
    pub patience: Duration,
}

/// Changes to a new configuration. Returns its published state with the first snapshot, in which every endpoint that
/// stays keeps its statistics. From then on the actor publishes only there. Returns `None` and changes nothing when
/// the offer was withdrawn. Sent by [`adopt`].
#[derive(Message)]
#[rtype(result = "Option<Arc<PublishedState>>")]
pub struct AdoptConfig {
    /// The new catalog.
    pub catalog: Arc<Catalog>,
    /// The new policy.
    pub policy: Arc<RoutingPolicy>,
    /// The live board over the new catalog.
    pub live: LiveBoard,
    /// Whether the sender still waits for the change.
    pub offer: AdoptionOffer,
}

/// Whether the sender of an [`AdoptConfig`] still waits: the receiver accepts the offer or the sender withdraws it,
/// never both. Cloning shares the offer.
#[derive(Debug, Clone, Default)]
pub struct AdoptionOffer(Arc<AtomicBool>);

impl AdoptionOffer {
    /// Accepts or withdraws the offer. Returns whether it was still open.
    fn close(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// The actor did not change to the new configuration in time. The old configuration stays active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdoptionRefused;

/// Changes the statistics to a new configuration. An actor that does not handle the message within `patience` must not
/// handle it later, because nobody would read what it publishes: the offer is withdrawn.
///
/// # Errors
/// When the actor is gone or too busy.
pub async fn adopt(
    health: &Addr<ProviderHealth>,
    catalog: Arc<Catalog>,
    policy: Arc<RoutingPolicy>,
    live: LiveBoard,
    patience: Duration,
) -> Result<Arc<PublishedState>, AdoptionRefused> {
    let offer = AdoptionOffer::default();
    let mut answer = pin!(health.send(AdoptConfig { catalog, policy, live, offer: offer.clone() }));
    let answered = match timeout(patience, answer.as_mut()).await {
        Ok(answered) => answered,
        Err(_) if offer.close() => return Err(AdoptionRefused),
        // The actor has accepted the offer and answers soon.
        Err(_) => answer.await,
    };
    answered.ok().flatten().ok_or(AdoptionRefused)
}

/// Saves unsaved statistics at once, if persistence is configured. Answered when they are written or the save failed;
/// other messages are handled meanwhile.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SaveNow;

/// What ratings say of the quality of answers from now on. Sent when ratings came; no reply.
#[derive(Message)]
#[rtype(result = "()")]
pub struct AdoptEvidence {
    /// What they say.
    pub evidence: Arc<Evidence>,
    /// The catalog in use when it was sent.
    pub catalog: Arc<Catalog>,
    /// What follows for its endpoints. Made by the sender, because it may take tens of milliseconds.
    pub quality: Arc<QualityTable>,
}

impl AdoptEvidence {
    /// With the table for a catalog. May take tens of milliseconds.
    pub fn new(evidence: Arc<Evidence>, catalog: Arc<Catalog>) -> AdoptEvidence {
        let quality = Arc::new(QualityTable::of_catalog(&catalog, &evidence));
        AdoptEvidence { evidence, catalog, quality }
    }
}

/// Checks that the actor is alive.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ping;

/// The actor. Runs on the control arbiter.
pub struct ProviderHealth {
    /// Used by this actor alone. A restarted actor continues with the same statistics.
    statistics: Arc<Mutex<Statistics>>,
    published: Arc<PublishedState>,
    version: u64,
    last_published: Instant,
    /// When the newest batch arrived.
    heard: Instant,
    /// When the scheduled publication is due.
    due: Option<Instant>,
    figures: CachedFigures<Figures>,
    calibrations: CachedFigures<Calibrations>,
    persistence: SaveSchedule,
}

/// The last computed figures, with the time they are for.
struct CachedFigures<T>(Option<(Tick, Arc<T>)>);

impl<T> Default for CachedFigures<T> {
    fn default() -> CachedFigures<T> {
        CachedFigures(None)
    }
}

impl<T> CachedFigures<T> {
    /// The cached figures if they are younger than `patience`, otherwise the result of `sum`.
    fn read(&mut self, now: Tick, patience: Duration, sum: impl FnOnce() -> T) -> Arc<T> {
        if let Some((at, known)) = &self.0
            && now.since(*at) < patience
        {
            return Arc::clone(known);
        }
        let fresh = Arc::new(sum());
        self.0 = Some((now, Arc::clone(&fresh)));
        fresh
    }
}

impl ProviderHealth {
    /// An actor that owns `statistics` and publishes to `published`.
    pub fn new(statistics: Statistics, published: Arc<PublishedState>) -> ProviderHealth {
        ProviderHealth::resume(Arc::new(Mutex::new(statistics)), published)
    }

    /// The same with shared statistics, which survive a restart of the actor.
    pub fn resume(statistics: Arc<Mutex<Statistics>>, published: Arc<PublishedState>) -> ProviderHealth {
        let version = published.snapshot().version;
        ProviderHealth {
            statistics,
            published,
            version,
            last_published: Instant::now(),
            heard: Instant::now(),
            due: None,
            figures: CachedFigures::default(),
            calibrations: CachedFigures::default(),
            persistence: SaveSchedule::disabled(),
        }
    }

    /// The same actor that also saves its statistics to `store`: at this interval if they changed, and on [`SaveNow`].
    #[must_use]
    pub fn with_persistence(self, store: Arc<dyn StatsStore>, interval: Duration) -> ProviderHealth {
        ProviderHealth { persistence: SaveSchedule::to(store, interval), ..self }
    }

    fn publish(&mut self) {
        self.version += 1;
        self.due = None;
        self.last_published = Instant::now();
        let now = self.now();
        self.published.publish(self.statistics.lock().snapshot_at(self.version, now));
    }

    /// The current time: the time of the newest event plus the time since it arrived. Never before the last snapshot.
    fn now(&self) -> Tick {
        let now = self.statistics.lock().latest().plus(self.heard.elapsed());
        now.max(self.published.snapshot().at)
    }

    /// Publishes decayed estimates while no events arrive, and schedules the next call.
    fn age(&mut self, ctx: &mut Context<Self>) {
        let half_life = self.published.snapshot().policy.stats.half_life;
        let aged = self.last_published.saturating_duration_since(self.heard);
        let pause = renewal_pause(aged, half_life);
        if pause.is_some_and(|pause| self.last_published.elapsed() >= pause) {
            self.publish();
        }
        // Events start the ageing anew, so the timer goes on.
        let pause = (half_life / RENEWALS).max(PAUSE);
        ctx.run_later(pause, |health, ctx| health.age(ctx));
    }

    /// Publishes when `pause` has passed since the last publication. A flood of messages cannot delay it: the handler
    /// itself checks the clock; the timer only covers the last batch before a silence.
    fn publish_after(&mut self, pause: Duration, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let due = self.last_published + pause;
        if due <= now {
            return self.publish();
        }
        if self.due.is_none_or(|known| due < known) {
            self.due = Some(due);
            ctx.run_later(due - now, move |health, _| {
                if health.due == Some(due) {
                    health.publish();
                }
            });
        }
    }
}

impl Actor for ProviderHealth {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if self.persistence.is_on() {
            ctx.run_interval(self.persistence.interval, |health, _| {
                health.persistence.write(&health.statistics.lock())
            });
        }
        self.age(ctx);
    }
}

impl Handler<Observations> for ProviderHealth {
    type Result = ();

    fn handle(&mut self, Observations(events, _handled): Observations, ctx: &mut Context<Self>) {
        let mut statistics = self.statistics.lock();
        events.iter().for_each(|event| statistics.apply(event));
        drop(statistics);
        self.heard = Instant::now();
        if events.iter().any(|event| event.kind != EventKind::Dispatched) {
            self.persistence.note_change();
        }
        let urgent = events.iter().any(EndpointEvent::is_urgent);
        self.publish_after(if urgent { URGENT_PAUSE } else { PAUSE }, ctx);
    }
}

impl Handler<ReadFigures> for ProviderHealth {
    type Result = MessageResult<ReadFigures>;

    fn handle(&mut self, ReadFigures { now, patience }: ReadFigures, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.figures.read(now, patience, || self.statistics.lock().figures(now)))
    }
}

impl Handler<ReadCalibrations> for ProviderHealth {
    type Result = MessageResult<ReadCalibrations>;

    fn handle(&mut self, ReadCalibrations { now, patience }: ReadCalibrations, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.calibrations.read(now, patience, || self.statistics.lock().calibrations(now)))
    }
}

impl Handler<AdoptConfig> for ProviderHealth {
    type Result = MessageResult<AdoptConfig>;

    fn handle(&mut self, adopt: AdoptConfig, _: &mut Context<Self>) -> Self::Result {
        let AdoptConfig { catalog, policy, live, offer } = adopt;
        if !offer.close() {
            return MessageResult(None);
        }
        let now = self.now();
        let mut statistics = self.statistics.lock();
        statistics.replace_catalog(catalog);
        statistics.replace_policy(policy);
        // The cached figures refer to positions in the old catalog.
        (self.figures, self.calibrations) = Default::default();
        self.version += 1;
        self.due = None;
        self.last_published = Instant::now();
        self.published = Arc::new(PublishedState::new(statistics.snapshot_at(self.version, now), live));
        MessageResult(Some(Arc::clone(&self.published)))
    }
}

impl Handler<AdoptEvidence> for ProviderHealth {
    type Result = ();

    fn handle(&mut self, adopt: AdoptEvidence, ctx: &mut Context<Self>) {
        self.statistics.lock().adopt_evidence(adopt.evidence, &adopt.catalog, adopt.quality);
        self.publish_after(PAUSE, ctx);
    }
}

impl Handler<SaveNow> for ProviderHealth {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: SaveNow, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.persistence.write_last(&self.statistics.lock()))
    }
}

impl Handler<Ping> for ProviderHealth {
    type Result = ();

    fn handle(&mut self, _: Ping, _: &mut Context<Self>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_published_until_the_slowest_of_them_has_faded() {
        let half_life = Duration::from_secs(60);
        let after = |half_lives: u32| renewal_pause(half_life * half_lives, half_life);
        assert_eq!(after(0), Some(Duration::from_secs(5)));
        assert_eq!(after(17), Some(half_life), "recent estimates have faded, usual failure counts have not");
        assert_eq!(after(40), Some(half_life));
        assert_eq!(after(639), Some(half_life));
        assert_eq!(after(640), None);
        assert_eq!(renewal_pause(Duration::ZERO, Duration::from_millis(1)), Some(PAUSE), "never faster than events");
    }
}
