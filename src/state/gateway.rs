//! What the parts of a running gateway share: for the life of the process, for one configuration, on one thread.
//!
//! [`Shared`] is one per process and never replaced; what one configuration brings is its [`Setup`], and the one in
//! force is behind one pointer in it. A [`WorkerHandle`] is what a worker thread has: HTTP clients stay on the thread that made
//! them. A [`Worker`] is a setup at work on one thread; each request takes one when it comes, and keeps it to its end.

use std::{
    cell::{Cell, RefCell},
    future::{Ready, ready},
    ops::Deref,
    rc::{Rc, Weak},
    sync::Arc,
};

use actix::{Actor as _, Addr};
use actix_web::{FromRequest, HttpMessage as _, HttpRequest, dev::Payload};
use arc_swap::ArcSwap;
use pointsman_actors::{
    actors::{
        event_batches::{EventBatcher, EventBatchers, FlushTimer},
        router::{Router, RouterSeeds, Routers},
    },
    decide::splitmix64,
};

use crate::{
    access::{analysis::Analyses, keys::Caller},
    base::{
        error::ApiError,
        events::{ActorReplaced, Metrics},
    },
    config::Key,
    state::{
        budgets::Budgets,
        control::{self, Control},
        conversations::PreferenceMemory,
        drain::Drain,
        images::ImageFiles,
        reload_status::Reloads,
        routing_memory::RoutingMemory,
        setup::Setup,
    },
    upstream::UpstreamClient,
};

/// One per process.
pub struct Shared {
    /// What the configuration in force brought.
    pub setup: ArcSwap<Setup>,
    /// The control actors.
    pub control: Control,
    /// The trays of all workers.
    pub news_room: EventBatchers,
    /// The routers of all workers.
    pub routers: Routers,
    /// Counters and histograms.
    pub metrics: Metrics,
    /// What attempts beyond the ordinary ones may cost.
    pub budgets: Budgets,
    /// Images served by link.
    pub images: ImageFiles,
    /// What is remembered of conversations and latency targets.
    pub intents: PreferenceMemory,
    /// Previews, explanations and replays in progress.
    pub analyses: Analyses,
    /// Changing the configuration.
    pub reloads: Reloads,
    /// The file that the statistics are kept in, if they are.
    pub memory: Option<Arc<RoutingMemory>>,
    /// The administrator's key that this start made; its text is known to whoever read the greeting.
    pub of_this_start: Option<Key>,
    /// When the process leaves.
    pub drain: Drain,
}

impl Shared {
    /// Whether the process was asked to stop.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.drain.has_begun()
    }
}

/// A setup at work on one thread. Cloning shares it; it cannot leave its thread.
#[derive(Clone)]
pub struct Worker(Rc<AtWork>);

/// What a [`Worker`] holds.
pub struct AtWork {
    /// What lives as long as the process.
    pub shared: Arc<Shared>,
    /// The configuration of the requests that hold this.
    pub setup: Arc<Setup>,
    /// This thread's router.
    pub router: Arc<Addr<Router>>,
    /// One client per provider that is on, by position in the catalog.
    pub clients: Vec<Option<UpstreamClient>>,
    /// This thread's tray.
    pub news: Arc<EventBatcher>,
}

impl Deref for Worker {
    type Target = AtWork;

    fn deref(&self) -> &AtWork {
        &self.0
    }
}

impl Worker {
    /// The setup in force, at work on the thread of `desk`. Clients, and with them open connections, are kept where
    /// `before` calls the same address in the same way.
    fn new(
        shared: &Arc<Shared>,
        router: &Arc<Addr<Router>>,
        news: &Arc<EventBatcher>,
        before: Option<&Worker>,
    ) -> Worker {
        let setup = shared.setup.load_full();
        Worker(Rc::new(AtWork {
            clients: setup.providers.clients(before.map(|worker| (&worker.setup.providers, &*worker.clients))),
            setup,
            shared: Arc::clone(shared),
            router: Arc::clone(router),
            news: Arc::clone(news),
        }))
    }

    /// The worker that the frame gave to a request; `None` outside of the frame.
    #[must_use]
    pub fn of(request: &HttpRequest) -> Option<Worker> {
        request.extensions().get::<Worker>().cloned()
    }

    /// Runs a computation about decisions for a caller, off this thread.
    ///
    /// # Errors
    /// As [`Analyses::run`].
    pub async fn analyse<T: Send + 'static>(
        &self,
        caller: &Caller,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        self.shared.analyses.run(caller.owner, self.setup.config.limits.key_analyses, compute).await
    }

    /// Sees to it that fresh news leave within [`EventBatcher::MAX_AGE`].
    pub fn post(&self, timer: FlushTimer) {
        if timer == FlushTimer::Needed {
            let news = Arc::clone(&self.news);
            actix_rt::spawn(async move {
                let mut timer = timer;
                while timer == FlushTimer::Needed {
                    actix_rt::time::sleep(EventBatcher::MAX_AGE).await;
                    timer = news.flush_when_due();
                }
            });
        }
    }
}

impl FromRequest for Worker {
    type Error = ApiError;
    type Future = Ready<Result<Worker, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Worker::of(request).ok_or_else(ApiError::internal))
    }
}

/// One per worker thread: gives every request the worker of the setup in force. Cloning shares it.
#[derive(Clone)]
pub struct WorkerHandle(Rc<HandleState>);

struct HandleState {
    shared: Arc<Shared>,
    seeds: RouterSeeds,
    /// Routers this thread has had.
    lives: Cell<u64>,
    current: RefCell<Worker>,
}

impl WorkerHandle {
    /// The desk of the calling thread, with a router of its own. To be made where actors can be started.
    #[must_use]
    pub fn new(shared: Arc<Shared>, seeds: RouterSeeds) -> WorkerHandle {
        let router = shared.routers.join(Router::new(seeds).start());
        let current = RefCell::new(Worker::new(&shared, &router, &shared.news_room.join(), None));
        let desk = Rc::new(HandleState { shared, seeds, lives: Cell::new(0), current });
        actix_rt::spawn(look_after(Rc::downgrade(&desk)));
        WorkerHandle(desk)
    }

    /// What all workers share.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// The setup in force, at work on this thread. Made anew when the setup has changed since the last request; that
    /// costs some microseconds per provider, and nothing else does.
    #[must_use]
    pub fn worker(&self) -> Worker {
        self.0.worker()
    }
}

impl HandleState {
    fn worker(&self) -> Worker {
        let mut current = self.current.borrow_mut();
        let router = if current.router.connected() { Arc::clone(&current.router) } else { self.another_router() };
        let same = Arc::ptr_eq(&router, &current.router) && Arc::ptr_eq(&self.shared.setup.load(), &current.setup);
        if !same {
            *current = Worker::new(&self.shared, &router, &current.news, Some(&current));
        }
        current.clone()
    }

    /// A router in the place of one that panicked. It draws other numbers: those of its predecessor are spent.
    fn another_router(&self) -> Arc<Addr<Router>> {
        let lives = self.lives.get() + 1;
        self.lives.set(lives);
        let seeds = RouterSeeds { seed: splitmix64(self.seeds.seed ^ lives), ..self.seeds };
        ActorReplaced { actor: "router" }.emit(&self.shared.metrics);
        self.shared.routers.join(Router::new(seeds).start())
    }
}

/// Sees to it that a thread to which no request comes has a router too: readiness asks every one of them.
async fn look_after(desk: Weak<HandleState>) {
    loop {
        actix_rt::time::sleep(control::ROUND).await;
        let Some(desk) = desk.upgrade() else { return };
        if !desk.current.borrow().router.connected() {
            let _ = desk.worker();
        }
    }
}
