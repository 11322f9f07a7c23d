//! ProviderHealth: the owner of all slow statistics.
//!
//! Workers send it what happened to endpoints in batches ([`Observations`]); it applies them and
//! publishes a snapshot for the routers, at most every 50 ms and at once when a breaker moved. With a new
//! configuration ([`Adopt`]) it goes over to another catalog and policy, keeps what it knows, and publishes there.
//! The fast cells (in flight, breaker, cooldown) are shared and already up to date before a batch
//! leaves its worker; this actor never stands between a failure and the next decision.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Actor, AsyncContext, Context, Handler, Message, MessageResult};

use crate::{
    domain::{Catalog, Event, RoutingPolicy, Tick},
    mailbox::InMailbox,
    published::Published,
    stats::{Figures, LiveBoard, Statistics},
};

/// Shortest time between two published snapshots.
const PAUSE: Duration = Duration::from_millis(50);

/// What happened to endpoints, in the order it happened on one worker.
/// Sent by a worker's [`crate::news::News`]; no reply.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Observations(pub Vec<Event>, pub InMailbox);

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

/// Goes over to another configuration. What comes back holds its first snapshot, in which every endpoint that stays
/// keeps what is known about it; from then on this actor publishes there, and no longer where it did before.
#[derive(Message)]
#[rtype(result = "Arc<Published>")]
pub struct Adopt {
    /// The new catalog.
    pub catalog: Arc<Catalog>,
    /// The new constants.
    pub policy: Arc<RoutingPolicy>,
    /// The fast cells over the new catalog.
    pub live: LiveBoard,
}

/// Asks for a sign of life.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ping;

/// The actor. Runs on the control arbiter.
pub struct ProviderHealth {
    statistics: Statistics,
    published: Arc<Published>,
    version: u64,
    last_published: Instant,
    waiting: bool,
    /// The figures that were summed last, and for which moment.
    figures: Option<(Tick, Arc<Figures>)>,
}

impl ProviderHealth {
    /// The owner of `statistics`, which publishes to `published`.
    #[must_use]
    pub fn new(statistics: Statistics, published: Arc<Published>) -> ProviderHealth {
        let version = published.snapshot().version;
        ProviderHealth { statistics, published, version, last_published: Instant::now(), waiting: false, figures: None }
    }

    fn publish(&mut self) {
        self.version += 1;
        self.waiting = false;
        self.last_published = Instant::now();
        self.published.publish(self.statistics.snapshot(self.version));
    }

    /// Publishes now, or when the pause is over. A flood of messages cannot starve it: the
    /// handler itself looks at the clock, the timer only serves the last batch before a silence.
    fn publish_soon(&mut self, ctx: &mut Context<Self>) {
        let since = self.last_published.elapsed();
        if since >= PAUSE {
            return self.publish();
        }
        if !std::mem::replace(&mut self.waiting, true) {
            ctx.run_later(PAUSE - since, |health, _| {
                if health.waiting {
                    health.publish();
                }
            });
        }
    }
}

impl Actor for ProviderHealth {
    type Context = Context<Self>;
}

impl Handler<Observations> for ProviderHealth {
    type Result = ();

    fn handle(&mut self, Observations(events, _handled): Observations, ctx: &mut Context<Self>) {
        for event in &events {
            self.statistics.apply(event);
        }
        self.publish_soon(ctx);
    }
}

impl Handler<ReadFigures> for ProviderHealth {
    type Result = MessageResult<ReadFigures>;

    fn handle(&mut self, ReadFigures { now, patience }: ReadFigures, _: &mut Context<Self>) -> Self::Result {
        if let Some((at, figures)) = &self.figures
            && now.since(*at) < patience
        {
            return MessageResult(Arc::clone(figures));
        }
        let figures = Arc::new(self.statistics.figures(now));
        self.figures = Some((now, Arc::clone(&figures)));
        MessageResult(figures)
    }
}

impl Handler<Adopt> for ProviderHealth {
    type Result = MessageResult<Adopt>;

    fn handle(&mut self, Adopt { catalog, policy, live }: Adopt, _: &mut Context<Self>) -> Self::Result {
        self.statistics.replace_catalog(catalog);
        self.statistics.replace_policy(policy);
        // Positions in them are those of the old catalog.
        self.figures = None;
        self.version += 1;
        self.waiting = false;
        self.last_published = Instant::now();
        self.published = Arc::new(Published::new(self.statistics.snapshot(self.version), live));
        MessageResult(Arc::clone(&self.published))
    }
}

impl Handler<Ping> for ProviderHealth {
    type Result = ();

    fn handle(&mut self, _: Ping, _: &mut Context<Self>) {}
}
