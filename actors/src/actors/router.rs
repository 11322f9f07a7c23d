//! Router: one per worker, it answers "where to?" from what is published.
//!
//! It asks nobody and waits for nobody: the slow statistics are an `Arc`, the fast cells are copied once, and
//! [`decide_to_serve`] does the rest. Whoever asks brings the [`PublishedState`] of the configuration it works under. Serving counts
//! a sequence number into the seed of its noise. A [`Preview`] takes none, ranks without noise unless it is given a seed, and
//! needs no actor: it reads the same published state on whatever thread it is answered.

use std::sync::{Arc, Weak};

use actix::{Actor, Addr, Context, Handler, Message, MessageResult};
use parking_lot::Mutex;

use crate::{
    actors::published::PublishedState,
    decide::{self, decide_to_serve},
    domain::{Catalog, Decision, Query, RouteError, RoutingPolicy, Tick},
    explain::{ResolvedWhatIf, WhatIfWorld, WhyNot, why_not_now},
    stats::{LiveView, Snapshot},
};

/// Asks for a plan to serve a request with. One per request, answered at once.
#[derive(Message)]
#[rtype(result = "Result<Routed, RouteError>")]
pub struct Route {
    /// What is asked.
    pub query: Query,
    /// The moment of asking.
    pub now: Tick,
    /// What the configuration of the request has published.
    pub published: Arc<PublishedState>,
}

/// The question what [`Route`] would answer, without leaving a trace. No message: with `why_not` the decision is made up
/// to a few hundred times, which no thread that serves has the time for.
#[derive(Debug)]
pub struct Preview {
    /// What is asked.
    pub query: Query,
    /// The moment of asking.
    pub now: Tick,
    /// What the configuration of the request has published.
    pub published: Arc<PublishedState>,
    /// The seed of a past decision, to rank as it did; without noise otherwise.
    pub seed: Option<u64>,
    /// A world that is to be imagined beside this one.
    pub imagination: Option<Box<ResolvedWhatIf>>,
    /// Whom the answer is to say why it is not the choice.
    pub why_not: Option<String>,
}

/// What [`Route`] would have answered, and what was asked besides. All of it from one look at the world.
#[derive(Debug)]
pub struct Previewed {
    /// What is decided.
    pub actual: PreviewedDecision,
    /// What would be decided in the imagined world.
    pub imagined: Option<PreviewedDecision>,
}

/// A decision, or that there is none, and why not somebody else.
#[derive(Debug)]
pub struct PreviewedDecision {
    /// What is decided.
    pub decided: Result<Decision, RouteError>,
    /// What it was decided with.
    pub snapshot: Snapshot,
    /// Why not whom was asked about.
    pub why_not: Option<WhyNot>,
}

/// Asks for a sign of life.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ping;

/// A decision and the catalog and policy it speaks of.
#[derive(Debug, Clone)]
pub struct Routed {
    /// What was decided.
    pub decision: Arc<Decision>,
    /// The catalog its positions point into.
    pub catalog: Arc<Catalog>,
    /// The policy it was made under.
    pub policy: Arc<RoutingPolicy>,
}

/// Where a worker's decisions get their seeds from.
#[derive(Debug, Clone, Copy)]
pub struct RouterSeeds {
    /// The configured or drawn seed of the process.
    pub seed: u64,
    /// Tells replicas apart.
    pub instance: u64,
    /// Which worker this is.
    pub worker: u64,
}

/// The actor. Runs on its worker's arbiter.
pub struct Router {
    seeds: RouterSeeds,
    sequence: u64,
    /// The last copy of the fast cells, kept for its memory.
    view: LiveView,
}

impl Router {
    /// A router with these seeds.
    #[must_use]
    pub fn new(seeds: RouterSeeds) -> Router {
        Router { seeds, sequence: 0, view: LiveView::default() }
    }

    fn next_seed(&mut self) -> u64 {
        self.sequence = self.sequence.wrapping_add(1);
        let RouterSeeds { seed, instance, worker } = self.seeds;
        decide::splitmix64(seed ^ instance ^ (worker << 48) ^ self.sequence)
    }

    fn decide(
        &mut self,
        published: &PublishedState,
        query: &Query,
        now: Tick,
        seed: Option<u64>,
    ) -> Result<Routed, RouteError> {
        published.live.refresh(now, &mut self.view);
        let snapshot = published.snapshot();
        let decision = decide_to_serve(&snapshot, &self.view, query, now, seed)?;
        Ok(Routed {
            decision: Arc::new(decision),
            catalog: Arc::clone(&snapshot.catalog),
            policy: Arc::clone(&snapshot.policy),
        })
    }
}

/// The routers of all workers, for whoever asks whether each of them lives. A worker holds its own; when it is gone,
/// its router is no longer asked.
#[derive(Default)]
pub struct Routers(Mutex<Vec<Weak<Addr<Router>>>>);

impl Routers {
    /// Adds a worker's router. What comes back is for the worker to hold.
    #[must_use]
    pub fn join(&self, router: Addr<Router>) -> Arc<Addr<Router>> {
        let router = Arc::new(router);
        self.0.lock().push(Arc::downgrade(&router));
        router
    }

    /// Those of all workers that are there.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Addr<Router>>> {
        let mut routers = self.0.lock();
        routers.retain(|router| router.strong_count() > 0);
        routers.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Actor for Router {
    type Context = Context<Self>;
}

impl Handler<Route> for Router {
    type Result = MessageResult<Route>;

    fn handle(&mut self, Route { query, now, published }: Route, _: &mut Context<Self>) -> Self::Result {
        let seed = self.next_seed();
        MessageResult(self.decide(&published, &query, now, Some(seed)))
    }
}

impl Preview {
    /// The answer. Takes some microseconds; with `why_not` up to some milliseconds, with thousands of endpoints more.
    #[must_use]
    pub fn answer(self) -> Previewed {
        let Preview { query, now, published, seed, imagination, why_not } = self;
        let (snapshot, live) = (published.snapshot_to_keep(), published.live.view(now));
        let imagined = imagination.map(|imagination| imagination.world(&snapshot, &live, &query, now));
        let actual = WhatIfWorld::real(&snapshot, &live, &query);
        let foresee = |world| foresee(world, now, seed, why_not.as_deref());
        Previewed { actual: foresee(actual), imagined: imagined.map(foresee) }
    }
}

fn foresee(world: WhatIfWorld, now: Tick, seed: Option<u64>, asked: Option<&str>) -> PreviewedDecision {
    let decided = world.decide(now, seed);
    let why_not = asked.map(|asked| why_not_now(asked, &world, &decided, now, seed));
    PreviewedDecision { decided, why_not, snapshot: world.snapshot }
}

impl Handler<Ping> for Router {
    type Result = ();

    fn handle(&mut self, _: Ping, _: &mut Context<Self>) {}
}
