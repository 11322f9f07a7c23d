//! State of a running gateway, per process, per configuration and per thread.
//!
//! [`Shared`] exists once per process and is never replaced. It points to the [`Setup`] of the configuration in force.
//! Each worker thread has a [`WorkerHandle`], because HTTP clients cannot leave the thread that made them. A [`Worker`]
//! is one setup on one thread; each request takes the current one at its start and keeps it to its end.

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
    event_batches::{EventBatcher, EventBatchers, FlushTimer},
    router::{Router, RouterSeeds, Routers},
};
use pointsman_config::Key;
use pointsman_dialect::{SignatureMemory, StateKey};
use pointsman_domain::Generation;
use pointsman_ledger::{
    engine,
    generations::{GenerationRecorder, GenerationStore},
    journal::Started,
    write_batch::Saving,
};
use pointsman_routing::decide::splitmix64;
use pointsman_transport::UpstreamClient;

use crate::{
    access::{analysis::Analyses, cascade_budgets::CascadeBudgets, keys::Caller, registry::Registry},
    base::{
        error::{ApiError, Overload},
        events::Metrics,
    },
    state::{
        alerts::Alerts,
        breaker_history::BreakerHistory,
        canaries::Canaries,
        control::{self, Control, ControlThread},
        diff_job::DiffJobs,
        drain::Drain,
        feedback::Feedback,
        images::ImageFiles,
        live::LiveFeed,
        refused_calls::RefusedCalls,
        reload_status::Reloads,
        replicas::Replicas,
        request_history::RequestHistory,
        retry_budget::RetryBudget,
        routing_memory::RoutingMemory,
        running::{RunningRequests, WorkerRequests},
        setup::Setup,
        shadows::Shadows,
        traces::Traces,
        waiting_requests::WaitingRequests,
    },
};

/// State of the process. Shared by all threads.
pub struct Shared {
    /// The setup in force.
    pub setup: ArcSwap<Setup>,
    /// The control actors, and what sends to them.
    pub actors: SharedActors,
    /// What is known of calls: running, ended, refused.
    pub records: SharedRecords,
    /// Who may call, and how much.
    pub access: SharedAccess,
    /// The process itself.
    pub process: SharedProcess,
}

/// The control actors, and what sends to them.
pub struct SharedActors {
    /// The control actors.
    pub control: Control,
    /// The event batchers of all workers.
    pub event_batchers: EventBatchers,
    /// The routers of all workers.
    pub routers: Routers,
}

/// What is known of calls: running, ended, refused.
pub struct SharedRecords {
    /// The ledger on disk; `None` if records are kept in memory only.
    pub ledger: Option<Arc<GenerationStore>>,
    /// What replicas share; `None` for a gateway alone.
    pub replicas: Option<Arc<Replicas>>,
    /// State of conversations and latency targets.
    pub history: RequestHistory,
    /// The calls in progress.
    pub running: RunningRequests,
    /// The inference calls that were refused last.
    pub refused_calls: RefusedCalls,
    /// How breakers moved in the last hour.
    pub breaker_history: BreakerHistory,
    /// Subscribers of the live feed.
    pub live: LiveFeed,
    /// Sends spans of generations to a collector; `None` when traces are off.
    pub traces: Option<Arc<Traces>>,
    /// Alerts that wait, and what receivers were told.
    pub alerts: Alerts,
    /// Parts of divided aliases, and which canaries have fallen back.
    pub canaries: Canaries,
    /// What shadow policies would have chosen.
    pub shadows: Shadows,
    /// Ratings of answers.
    pub feedback: Arc<Feedback>,
}

/// Who may call, and how much.
pub struct SharedAccess {
    /// Issued keys, accounts, and the usage of all limits.
    pub registry: Arc<Registry>,
    /// The administrator's key generated at this start. Its text was printed once, in the greeting.
    pub startup_key: Option<Key>,
    /// Previews, explanations, replays and lists in progress.
    pub analyses: Analyses,
    /// What second answers of cascades cost in this hour.
    pub cascade_budgets: CascadeBudgets,
    /// Token buckets for hedges and retries.
    pub retry_budget: RetryBudget,
    /// Calls that wait for an endpoint to take requests again.
    pub waiting: Arc<WaitingRequests>,
}

/// The process itself.
pub struct SharedProcess {
    /// Reloads of the configuration.
    pub reloads: Reloads,
    /// The file that stores the statistics; `None` when persistence is off.
    pub memory: Option<Arc<RoutingMemory>>,
    /// State of the shutdown.
    pub drain: Drain,
    /// Counters and histograms.
    pub metrics: Metrics,
    /// Images served by link.
    pub images: ImageFiles,
    /// The comparison of configurations, if one was asked for.
    pub diffs: DiffJobs,
    /// Seals reasoning for clients of another dialect than the provider's.
    pub state_key: StateKey,
    /// Signatures of tool calls for clients that drop them.
    pub call_signatures: Arc<SignatureMemory>,
}

impl Shared {
    /// Whether the process was asked to stop.
    pub fn is_draining(&self) -> bool {
        self.process.drain.has_begun()
    }
}

/// A setup on one thread. Clones share their state; it cannot leave its thread.
#[derive(Clone)]
pub struct Worker(Rc<WorkerState>);

/// The process with one setup: all that is shown of a gateway. On any thread.
#[derive(Clone)]
pub struct GatewayView {
    /// State of the process.
    pub shared: Arc<Shared>,
    /// The setup of the requests that hold this worker, or the one in force.
    pub setup: Arc<Setup>,
}

impl GatewayView {
    /// The process with the setup in force.
    pub fn in_force(shared: Arc<Shared>) -> GatewayView {
        GatewayView { setup: shared.setup.load_full(), shared }
    }
}

/// State of a [`Worker`].
pub struct WorkerState {
    view: GatewayView,
    /// This thread's router.
    pub router: Arc<Addr<Router>>,
    /// One client per enabled provider, by position in the catalog.
    pub clients: Vec<Option<UpstreamClient>>,
    /// This thread's event batcher.
    pub events: Arc<EventBatcher>,
    /// The calls in progress on this thread.
    pub calls: Arc<WorkerRequests>,
    /// This thread's journal; `None` if records are kept in memory only.
    recorder: Option<Rc<RefCell<GenerationRecorder>>>,
}

impl Deref for Worker {
    type Target = WorkerState;

    fn deref(&self) -> &WorkerState {
        &self.0
    }
}

impl Deref for WorkerState {
    type Target = GatewayView;

    fn deref(&self) -> &GatewayView {
        &self.view
    }
}

impl Worker {
    /// A worker for the setup in force. It takes over the clients of `before`, with their open connections, for
    /// providers whose connection settings are unchanged.
    fn new(
        shared: &Arc<Shared>,
        router: &Arc<Addr<Router>>,
        (events, calls): (&Arc<EventBatcher>, &Arc<WorkerRequests>),
        recorder: Option<Rc<RefCell<GenerationRecorder>>>,
        before: Option<&Worker>,
    ) -> Worker {
        let view = GatewayView::in_force(Arc::clone(shared));
        Worker(Rc::new(WorkerState {
            clients: view.setup.providers.clients(before.map(|worker| (&worker.setup.providers, &*worker.clients))),
            view,
            router: Arc::clone(router),
            events: Arc::clone(events),
            calls: Arc::clone(calls),
            recorder,
        }))
    }

    /// The worker that the frame middleware attached to a request; `None` without that middleware.
    pub fn of(request: &HttpRequest) -> Option<Worker> {
        request.extensions().get::<Worker>().cloned()
    }

    /// Runs a computation about decisions for a caller, on another thread.
    ///
    /// # Errors
    /// As [`Analyses::run`].
    pub async fn analyse<T: Send + 'static>(
        &self,
        caller: &Caller,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        self.shared.access.analyses.run(caller.owner, self.setup.config.limits.key_analyses, compute).await
    }

    /// Records that a generation runs: in the ledger's memory, so that clients can read it, and in the journal what is to be
    /// left of it if the process is killed.
    pub fn record_running(&self, generation: &Arc<Generation>, left: impl FnOnce() -> Generation) -> Option<Started> {
        self.schedule_flush(self.events.record(Arc::clone(generation)));
        self.recorder.as_ref()?.borrow_mut().start(&left())
    }

    /// Replaces the record of a running generation in the ledger's memory.
    pub fn update_running(&self, generation: &Arc<Generation>) {
        self.schedule_flush(self.events.record(Arc::clone(generation)));
    }

    /// Records an ended generation. Gives what becomes ready when the operating system has its record, at the latest at the end of
    /// this turn of the event loop, or with `ledger.durability = "sync"` when the disk has it.
    pub fn record_ended(&self, generation: &Arc<Generation>, started: Option<Started>) -> Option<Saving> {
        let saving = self.recorder.as_ref().and_then(|recorder| {
            let mut held = recorder.borrow_mut();
            let was_waiting = held.is_waiting();
            let saving = held.record(generation, started);
            let begins = held.is_waiting() && !was_waiting;
            if self.calls.is_empty() {
                // No other call of this worker can end in this turn.
                held.write();
                return saving;
            }
            drop(held);
            if begins {
                let turn = TurnEnd(Rc::clone(recorder));
                // It runs when every task that is ready now has run: their records are written with this one.
                actix_rt::spawn(async move { drop(turn) });
            }
            saving
        });
        self.schedule_flush(self.events.record(Arc::clone(generation)));
        saving
    }

    /// Refuses a request whose record could be lost: with `ledger.required`, while the disk fails and memory has no room.
    ///
    /// # Errors
    /// 503 with the time to wait.
    pub fn require_ledger(&self) -> Result<(), ApiError> {
        let Some(ledger) = self.shared.records.ledger.as_ref().filter(|_| self.setup.config.ledger.required) else {
            return Ok(());
        };
        let running = self.setup.admission.in_flight() as usize;
        if ledger.entries().has_room_for(running) {
            return Ok(());
        }
        Err(ApiError::overloaded(Overload::Ledger, engine::LONGEST_RETRY))
    }

    /// Starts the flush timer if `timer` needs one, so that new events leave within [`EventBatcher::MAX_AGE`].
    pub fn schedule_flush(&self, timer: FlushTimer) {
        if timer == FlushTimer::Needed {
            let events = Arc::clone(&self.events);
            actix_rt::spawn(async move {
                let mut timer = timer;
                while timer == FlushTimer::Needed {
                    actix_rt::time::sleep(EventBatcher::MAX_AGE).await;
                    timer = events.flush_when_due();
                }
            });
        }
    }
}

/// Writes the records that wait when it is dropped, even if nothing runs any more.
struct TurnEnd(Rc<RefCell<GenerationRecorder>>);

impl Drop for TurnEnd {
    fn drop(&mut self) {
        self.0.borrow_mut().write();
    }
}

impl FromRequest for Worker {
    type Error = ApiError;
    type Future = Ready<Result<Worker, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Worker::of(request).ok_or_else(ApiError::internal))
    }
}

/// One per worker thread: provides the worker of the setup in force. Clones share their state.
#[derive(Clone)]
pub struct WorkerHandle(Rc<HandleState>);

struct HandleState {
    shared: Arc<Shared>,
    /// Keeps the control actors running while a worker serves.
    _control: Arc<ControlThread>,
    seeds: RouterSeeds,
    /// Routers of this thread that were replaced.
    replaced_routers: Cell<u64>,
    current: RefCell<Worker>,
}

impl WorkerHandle {
    /// The handle of the calling thread, with a router of its own. The thread must run an actix system.
    pub fn new(shared: Arc<Shared>, control: Arc<ControlThread>, seeds: RouterSeeds) -> WorkerHandle {
        let router = shared.actors.routers.join(Router::new(seeds).start());
        let recorder = shared.records.ledger.as_ref().map(|ledger| ledger.recorder(seeds.worker as u16));
        let recorder = recorder.map(|recorder| Rc::new(RefCell::new(recorder)));
        let lists = (&shared.actors.event_batchers.join(), &shared.records.running.join());
        let current = RefCell::new(Worker::new(&shared, &router, lists, recorder, None));
        let state = Rc::new(HandleState { shared, _control: control, seeds, replaced_routers: Cell::new(0), current });
        actix_rt::spawn(watch_router(Rc::downgrade(&state)));
        WorkerHandle(state)
    }

    /// State of the process.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// The worker of the setup in force. It is rebuilt when the setup or the router has changed since the last call,
    /// which costs some microseconds per provider.
    pub fn worker(&self) -> Worker {
        self.0.worker()
    }
}

impl HandleState {
    fn worker(&self) -> Worker {
        let mut current = self.current.borrow_mut();
        let router = if current.router.connected() { Arc::clone(&current.router) } else { self.replace_router() };
        let same = Arc::ptr_eq(&router, &current.router) && Arc::ptr_eq(&self.shared.setup.load(), &current.setup);
        if !same {
            let (lists, recorder) = ((&current.events, &current.calls), current.recorder.clone());
            *current = Worker::new(&self.shared, &router, lists, recorder, Some(&current));
        }
        current.clone()
    }

    /// Starts a router in place of one that panicked. Its seed differs, so that it does not draw the same numbers again.
    fn replace_router(&self) -> Arc<Addr<Router>> {
        let replaced = self.replaced_routers.get() + 1;
        self.replaced_routers.set(replaced);
        let seeds = RouterSeeds { seed: splitmix64(self.seeds.seed ^ replaced), ..self.seeds };
        self.shared.process.metrics.actor_replaced("router");
        self.shared.actors.routers.join(Router::new(seeds).start())
    }
}

/// Replaces a stopped router even on a thread without requests, because readiness checks the routers of all threads.
async fn watch_router(state: Weak<HandleState>) {
    loop {
        actix_rt::time::sleep(control::CHECK_INTERVAL).await;
        let Some(state) = state.upgrade() else { return };
        if !state.current.borrow().router.connected() {
            let _ = state.worker();
        }
    }
}
