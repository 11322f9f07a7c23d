//! ProviderHealth: the owner of all slow statistics.
//!
//! Workers send it what happened to endpoints in batches ([`Observations`]); it applies them and
//! publishes a snapshot for the routers, at most every 50 ms and at once when a breaker moved.
//! The fast cells (in flight, breaker, cooldown) are shared and already up to date before a batch
//! leaves its worker; this actor never stands between a failure and the next decision.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Actor, AsyncContext, Context, Handler, Message, MessageResult};
use arc_swap::ArcSwap;

use crate::{
    domain::{Event, Tick},
    mailbox::InMailbox,
    stats::{Figures, Snapshot, Statistics},
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

/// Asks for a sign of life.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ping;

/// The actor. Runs on the control arbiter.
pub struct ProviderHealth {
    statistics: Statistics,
    published: Arc<ArcSwap<Snapshot>>,
    version: u64,
    last_published: Instant,
    waiting: bool,
    /// The figures that were summed last, and for which moment.
    figures: Option<(Tick, Arc<Figures>)>,
}

impl ProviderHealth {
    /// The owner of `statistics`, which publishes to `published`.
    #[must_use]
    pub fn new(statistics: Statistics, published: Arc<ArcSwap<Snapshot>>) -> ProviderHealth {
        let version = published.load().version;
        ProviderHealth { statistics, published, version, last_published: Instant::now(), waiting: false, figures: None }
    }

    fn publish(&mut self) {
        self.version += 1;
        self.waiting = false;
        self.last_published = Instant::now();
        self.published.store(Arc::new(self.statistics.snapshot(self.version)));
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

impl Handler<Ping> for ProviderHealth {
    type Result = ();

    fn handle(&mut self, _: Ping, _: &mut Context<Self>) {}
}
