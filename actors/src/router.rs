//! Router: one per worker, decides where a request goes.
//!
//! It waits for no other actor: the published snapshot is an `Arc`, what a decision reads of the live board is copied, and
//! [`decide_to_serve`] decides. The request passes the [`PublishedState`] of its configuration. Each served request
//! takes the next sequence number for the seed of its exploration noise. A [`Preview`] takes none, ranks without noise
//! unless it has a seed, and needs no actor: it reads the same published state on any thread.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use actix::{Actor, Addr, Context, Handler, Message, MessageResult};
use parking_lot::Mutex;
use pointsman_domain::{Catalog, Decision, Query, RouteError, RoutingPolicy, Tick};
use pointsman_routing::{
    decide::{self, ExplorationBudget, decide_to_serve, decide_with_terms},
    explain::{
        ResolvedWhatIf, WhatIfWorld, WhyNot,
        diff::{Asked, Shadow},
        why_not_now,
    },
    stats::{LiveView, Snapshot},
};

use crate::published::PublishedState;

/// Asks for a plan to serve a request with. One per request, answered at once.
#[derive(Message)]
#[rtype(result = "Result<Routed, RouteError>")]
pub struct Route {
    /// What is asked.
    pub query: Box<Query>,
    /// Time of the decision.
    pub now: Tick,
    /// The same on the wall clock, Unix milliseconds: by it shadows end.
    pub unix_ms: i64,
    /// Published state of the request's configuration.
    pub published: Arc<PublishedState>,
    /// Its shadow policies, if there are any.
    pub shadows: Option<Arc<[Shadow]>>,
}

/// A dry run of [`Route`] that changes nothing. Not a message: with `why_not` the decision is repeated up to a few
/// hundred times, which must not block a worker.
#[derive(Debug)]
pub struct Preview {
    /// What is asked.
    pub query: Box<Query>,
    /// The moment of asking.
    pub now: Tick,
    /// What the configuration of the request has published.
    pub published: Arc<PublishedState>,
    /// The seed of a past decision, to rank as it did; without noise otherwise.
    pub seed: Option<u64>,
    /// Changes for a second, hypothetical decision.
    pub imagination: Option<Box<ResolvedWhatIf>>,
    /// Name of the model or provider for which the answer explains why it was not chosen.
    pub why_not: Option<String>,
}

/// The answer to a [`Preview`]. All parts use the same snapshot and live state.
#[derive(Debug)]
pub struct Previewed {
    /// The decision.
    pub actual: PreviewedDecision,
    /// The decision under the hypothetical changes.
    pub imagined: Option<PreviewedDecision>,
}

/// A decision or the error, and the why-not explanation.
#[derive(Debug)]
pub struct PreviewedDecision {
    /// The decision, or why there is none.
    pub decided: Result<Decision, RouteError>,
    /// The snapshot used by the decision.
    pub snapshot: Snapshot,
    /// Why the named model or provider was not chosen.
    pub why_not: Option<WhyNot>,
}

/// Checks that the actor is alive.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Ping;

/// A decision with the catalog and policy it was made under.
#[derive(Debug, Clone)]
pub struct Routed {
    /// The decision.
    pub decision: Arc<Decision>,
    /// The catalog its positions point into.
    pub catalog: Arc<Catalog>,
    /// The policy it was made under.
    pub policy: Arc<RoutingPolicy>,
    /// Time that the decision took.
    pub took: Duration,
    /// What it read, if a shadow policy is to decide the same.
    pub asked: Option<Arc<Asked>>,
}

/// Origin of the seeds of a worker's decisions.
#[derive(Debug, Clone, Copy)]
pub struct RouterSeeds {
    /// The configured or drawn seed of the process.
    pub seed: u64,
    /// Number of the replica.
    pub instance: u64,
    /// Number of the worker.
    pub worker: u64,
}

/// The actor. Runs on its worker's arbiter.
pub struct Router {
    seeds: RouterSeeds,
    sequence: u64,
    /// The last copies of parts of the live board, kept to reuse their allocation.
    view: LiveView,
    /// What this worker may still spend on choices at random.
    budget: ExplorationBudget,
}

impl Router {
    /// A router with these seeds.
    pub fn new(seeds: RouterSeeds) -> Router {
        Router { seeds, sequence: 0, view: LiveView::default(), budget: ExplorationBudget::default() }
    }

    fn next_seed(&mut self) -> u64 {
        self.sequence = self.sequence.wrapping_add(1);
        let RouterSeeds { seed, instance, worker } = self.seeds;
        decide::splitmix64(seed ^ instance ^ (worker << 48) ^ self.sequence)
    }

    fn decide(&mut self, route: Route, seed: u64) -> Result<Routed, RouteError> {
        let Route { query, now, unix_ms, published, shadows } = route;
        let began = Instant::now();
        let seed = Some(seed);
        let snapshot = published.snapshot();
        let watches = |shadow: &&Shadow| shadow.watches(&query, seed, unix_ms);
        let mut watching = shadows.iter().flat_map(|shadows| shadows.iter()).filter(watches).peekable();
        let is_watched = watching.peek().is_some();
        if watching.any(Shadow::reads_further) {
            published.live.refresh(now, &mut self.view);
        } else {
            published.live.refresh_for(&query, &snapshot.catalog, now, &mut self.view);
        }
        let (decision, terms) = if is_watched {
            decide_with_terms(&snapshot, &self.view, &query, now, seed)?
        } else {
            (decide_to_serve(&snapshot, &self.view, &query, now, seed)?, None)
        };
        Ok(Routed {
            decision: Arc::new(decision),
            catalog: Arc::clone(&snapshot.catalog),
            policy: Arc::clone(&snapshot.policy),
            took: began.elapsed(),
            asked: is_watched.then(|| {
                let live = std::mem::take(&mut self.view);
                Arc::new(Asked { query, snapshot: Arc::clone(&snapshot), live, now, seed, terms })
            }),
        })
    }
}

/// The routers of all workers, for liveness checks. Each worker owns its router; a router whose worker is gone is no
/// longer listed.
#[derive(Default)]
pub struct Routers(Mutex<Vec<Weak<Addr<Router>>>>);

impl Routers {
    /// Adds the router of a worker. The worker must keep the returned address.
    pub fn join(&self, router: Addr<Router>) -> Arc<Addr<Router>> {
        let router = Arc::new(router);
        self.0.lock().push(Arc::downgrade(&router));
        router
    }

    /// The routers of all running workers.
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

    fn handle(&mut self, mut route: Route, _: &mut Context<Self>) -> Self::Result {
        let seed = self.next_seed();
        let (exploration, now) = (route.query.exploration, route.now);
        if exploration.share > 0.0 && !self.budget.allows(exploration) {
            route.query.exploration.share = 0.0;
        }
        let routed = self.decide(route, seed);
        if let Ok(routed) = &routed {
            self.budget.count(&routed.decision, exploration, now);
        }
        MessageResult(routed)
    }
}

impl Preview {
    /// Decides. Takes some microseconds; with `why_not` up to some milliseconds, more with thousands of endpoints.
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
