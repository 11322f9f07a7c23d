//! ProviderHealth: the owner of all slow statistics.
//!
//! Workers send it what happened to endpoints in batches ([`Observations`]); it applies them and
//! publishes a snapshot for the routers, at most every 50 ms, but within 4 ms when a gate moved. While nothing happens it
//! publishes now and then, because estimates age all the same. With a new
//! configuration ([`AdoptConfig`]) it goes over to another catalog and policy, keeps what it knows, and publishes there.
//! The fast cells (in flight, breaker, cooldown) are shared and already up to date before a batch
//! leaves its worker; this actor never stands between a failure and the next decision. Where it may, it writes down
//! what it knows ([`crate::actors::persistence`]), so that a restart does not begin from nothing.

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

use crate::{
    actors::{
        mailbox::MailboxToken,
        persistence::{SaveSchedule, StatsStore},
        published::PublishedState,
    },
    domain::{Catalog, EndpointEvent, EventKind, RoutingPolicy, Tick},
    stats::{Calibrations, Figures, LiveBoard, Statistics},
};

/// Shortest time between two published snapshots.
const PAUSE: Duration = Duration::from_millis(50);
/// The same when a gate moved. Gates of many endpoints may move at the same time, and a publication goes over all of them.
const URGENT_PAUSE: Duration = Duration::from_millis(4);
/// While nothing happens, snapshots are renewed so many times per half-life ...
const RENEWALS: u32 = 12;
/// ... for so many half-lives: then nothing is left to fade.
const FADED: u32 = 16;

/// What happened to endpoints, in the order it happened on one worker.
/// Sent by a worker's [`crate::actors::event_batches::EventBatcher`]; no reply.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Observations(pub Vec<EndpointEvent>, pub MailboxToken);

/// Asks for the figures of every endpoint and provider as they stand at `now`.
#[derive(Message)]
#[rtype(result = "Arc<Figures>")]
pub struct ReadFigures {
    /// The moment the windows end at.
    pub now: Tick,
    /// Figures that were summed up to this long ago will do. Summing takes some microseconds per endpoint,
    /// so pages that anybody may ask for as often as they like should not have it done each time.
    pub patience: Duration,
}

/// Asks how predictions held over the hour that ends at `now`.
#[derive(Message)]
#[rtype(result = "Arc<Calibrations>")]
pub struct ReadCalibrations {
    /// The moment the hour ends at.
    pub now: Tick,
    /// As of [`ReadFigures`].
    pub patience: Duration,
}

/// Goes over to another configuration. What comes back holds its first snapshot, in which every endpoint that stays
/// keeps what is known about it; from then on this actor publishes there, and no longer where it did before. Nothing
/// comes back, and nothing changes, when the offer was withdrawn meanwhile. Sent by [`adopt`].
#[derive(Message)]
#[rtype(result = "Option<Arc<PublishedState>>")]
pub struct AdoptConfig {
    /// The new catalog.
    pub catalog: Arc<Catalog>,
    /// The new constants.
    pub policy: Arc<RoutingPolicy>,
    /// The fast cells over the new catalog.
    pub live: LiveBoard,
    /// Whether it is still wanted.
    pub offer: AdoptionOffer,
}

/// Whether an [`AdoptConfig`] is still wanted: either its receiver takes it or its sender withdraws it, never both. Cloning
/// shares it.
#[derive(Debug, Clone, Default)]
pub struct AdoptionOffer(Arc<AtomicBool>);

impl AdoptionOffer {
    /// Takes or withdraws it. Whether that was the first to happen to it.
    fn close(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// The owner of the statistics did not go over to another configuration in time; it stays where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdoptionRefused;

/// Has the owner of the statistics go over to another configuration. One that does not come to it within `patience`
/// is not to do so later either: nobody would read what it publishes there.
///
/// # Errors
/// When it is gone, or too busy.
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
        // It has begun, and ends soon: it waits for nobody.
        Err(_) => answer.await,
    };
    answered.ok().flatten().ok_or(AdoptionRefused)
}

/// Writes down at once what is known and not written yet, if it is kept anywhere. Answered when it is written, or
/// was not possible; other messages are handled meanwhile.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SaveNow;

/// Asks for a sign of life.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ping;

/// The actor. Runs on the control arbiter.
pub struct ProviderHealth {
    /// Shared with nobody while this actor lives: its successor goes on from it.
    statistics: Arc<Mutex<Statistics>>,
    published: Arc<PublishedState>,
    version: u64,
    last_published: Instant,
    /// When the newest event was heard of.
    heard: Instant,
    /// When the publication that a timer waits for is due.
    due: Option<Instant>,
    figures: CachedFigures<Figures>,
    calibrations: CachedFigures<Calibrations>,
    keeping: SaveSchedule,
}

/// What was summed last, and for which moment.
struct CachedFigures<T>(Option<(Tick, Arc<T>)>);

impl<T> Default for CachedFigures<T> {
    fn default() -> CachedFigures<T> {
        CachedFigures(None)
    }
}

impl<T> CachedFigures<T> {
    /// What was summed up to `patience` before `now`, or what `sum` gives.
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
    /// The owner of `statistics`, which publishes to `published`.
    #[must_use]
    pub fn new(statistics: Statistics, published: Arc<PublishedState>) -> ProviderHealth {
        ProviderHealth::of(Arc::new(Mutex::new(statistics)), published)
    }

    /// The same, of statistics that outlive it.
    #[must_use]
    pub fn of(statistics: Arc<Mutex<Statistics>>, published: Arc<PublishedState>) -> ProviderHealth {
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
            keeping: SaveSchedule::nowhere(),
        }
    }

    /// The same, which also writes down what it knows: at that place, this often when there is news, and when it is
    /// told to ([`SaveNow`]).
    #[must_use]
    pub fn keeping(self, place: Arc<dyn StatsStore>, interval: Duration) -> ProviderHealth {
        ProviderHealth { keeping: SaveSchedule::at(place, interval), ..self }
    }

    fn publish(&mut self) {
        self.version += 1;
        self.due = None;
        self.last_published = Instant::now();
        let now = self.now();
        self.published.publish(self.statistics.lock().snapshot_at(self.version, now));
    }

    /// The present moment, which events alone tell: the newest, and what has passed since it was heard of. Never before
    /// that of the last snapshot.
    fn now(&self) -> Tick {
        let now = self.statistics.lock().latest().plus(self.heard.elapsed());
        now.max(self.published.snapshot().at)
    }

    /// Publishes what became of the estimates since the last event, and sees to it that this goes on.
    fn age(&mut self, ctx: &mut Context<Self>) {
        let half_life = self.published.snapshot().policy.stats.half_life;
        let pause = (half_life / RENEWALS).max(PAUSE);
        let aged = self.last_published.saturating_duration_since(self.heard);
        if self.last_published.elapsed() >= pause && aged < half_life.saturating_mul(FADED) {
            self.publish();
        }
        ctx.run_later(pause, |health, ctx| health.age(ctx));
    }

    /// Publishes now, or when so much has passed since the last publication. A flood of messages cannot starve it: the
    /// handler itself looks at the clock, the timer only serves the last batch before a silence.
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
        if self.keeping.is_on() {
            ctx.run_interval(self.keeping.interval, |health, _| health.keeping.write(&health.statistics.lock()));
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
            self.keeping.learned();
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
        // Positions in them are those of the old catalog.
        (self.figures, self.calibrations) = Default::default();
        self.version += 1;
        self.due = None;
        self.last_published = Instant::now();
        self.published = Arc::new(PublishedState::new(statistics.snapshot_at(self.version, now), live));
        MessageResult(Some(Arc::clone(&self.published)))
    }
}

impl Handler<SaveNow> for ProviderHealth {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: SaveNow, _: &mut Context<Self>) -> Self::Result {
        Box::pin(self.keeping.write_last(&self.statistics.lock()))
    }
}

impl Handler<Ping> for ProviderHealth {
    type Result = ();

    fn handle(&mut self, _: Ping, _: &mut Context<Self>) {}
}
