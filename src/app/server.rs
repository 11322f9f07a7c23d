//! Start, run and stop of the gateway.
//!
//! [`Gateway`] is the gateway without a listener, which an actix application can mount.
//! [`Server`] is the gateway on its own listeners, as the binary runs it.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use actix::Arbiter;
use actix_rt::task::JoinHandle;
use actix_web::{
    dev::{Server as HttpServing, ServerHandle},
    web::{self, ServiceConfig},
};
use actix_web_lab::extract::LocalData;
use arc_swap::ArcSwap;
use pointsman_actors::{
    ledger::{CountRecords, DeleteRecords, MemoryStore, RecordFollower},
    persistence::StatsStore,
    provider_health::SaveNow,
    published::PublishedState,
    router::{RouterSeeds, Routers},
};
use pointsman_base::{clock, secret::Secret};
use pointsman_config::{AdminConfig, Config, Durability, Key, LedgerConfig, LoadedConfig, MemoryConfig, RoutingConfig};
use pointsman_domain::EndpointId;
use pointsman_ledger::{
    accounts::AccountLog,
    directory::Directory,
    disk::Disk,
    fault::Fault,
    generations::{GenerationStore, LedgerBounds},
    settings::Settings,
};
use pointsman_routing::stats::{LiveBoard, Statistics, seeded_hash};

use crate::{
    access::{analysis::Analyses, keys, registry::Registry},
    api::admin::verdict,
    base::events::Metrics,
    console::{Console, Transport},
    http::{
        host::Listener,
        listeners::{self, ListenerService},
        routes,
    },
    state::{
        accounts,
        alerts::{Alerts, delivery},
        breaker_history::BreakerHistory,
        canaries::Canaries,
        control::{Control, ControlThread, StatsPersistence},
        diff_job::DiffJobs,
        drain::Drain,
        gateway::{Shared, WorkerHandle},
        images::ImageFiles,
        live::LiveFeed,
        reasoning_seal_key,
        refused_calls::RefusedCalls,
        reload::{self, AdoptError, Reload, ReloadTrigger},
        reload_status::Reloads,
        replicas::{
            self, HealthPort, Replicas, node,
            shared_log::{Merged, SharedLog},
        },
        request_history::RequestHistory,
        retry_budget::RetryBudget,
        routing_memory::RoutingMemory,
        running::RunningRequests,
        series_restore,
        setup::{Setup, SetupDraft, SetupError},
        traces::Traces,
        watchdog,
    },
};

/// Worker number of the admin listener. Routing workers count from 0 and do not reach it.
const ADMIN_WORKER: u64 = 0xFFFF;
/// Most connections to the admin listener.
const ADMIN_CONNECTIONS: usize = 256;

/// Records of ended generations that stay in memory beside a durable ledger: few, so that the memory of the oldest is still
/// in a processor's cache when the next record takes its place.
const RECENT_RECORDS: usize = 200;

/// How long the shutdown waits for the last spans to be sent.
const TRACES_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the shutdown waits for each actor, such as for a slow disk.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the gateway did not start.
#[derive(Debug)]
pub enum StartError {
    /// The gateway cannot listen on `server.bind`.
    Bind(SocketAddr, io::Error),
    /// The gateway cannot listen on `admin.bind`.
    BindAdmin(SocketAddr, io::Error),
    /// The configuration cannot be applied.
    Setup(SetupError),
    /// The metrics cannot be registered.
    Metrics(String),
    /// The ledger in this directory cannot be opened.
    Ledger(PathBuf, Fault),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind(address, error) => write!(
                f,
                "cannot listen on {address}: {error}. Choose another address with server.bind or POINTSMAN__SERVER__BIND."
            ),
            StartError::BindAdmin(address, error) => write!(
                f,
                "cannot listen on {address} for administration: {error}. Choose another address with admin.bind or \
                 POINTSMAN__ADMIN__BIND, or \"\" for no admin listener."
            ),
            StartError::Setup(error) => error.fmt(f),
            StartError::Metrics(error) => write!(f, "cannot register metrics: {error}"),
            StartError::Ledger(path, fault) => write!(
                f,
                "cannot open the ledger in {}: {fault}. Choose another directory with ledger.data_dir or \
                 POINTSMAN__LEDGER__DATA_DIR, or keep records in memory only with ledger.durability = \"off\".",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StartError {}

impl From<SetupError> for StartError {
    fn from(error: SetupError) -> StartError {
        StartError::Setup(error)
    }
}

/// A running gateway without a listener. Cloning shares it.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
    /// Seeds of the routing decisions; each worker adds its own number.
    seeds: RouterSeeds,
    workers: Arc<AtomicU64>,
    control: Arc<ControlThread>,
}

impl Gateway {
    /// Starts the control actors and, where configured, the simulated providers. Needs a running actix `System`.
    ///
    /// # Errors
    /// When a provider's TLS settings or the simulation fail.
    pub async fn start(config: impl Into<LoadedConfig>) -> Result<Gateway, StartError> {
        Gateway::start_with(config.into(), None, None).await
    }

    /// Starts with the admin key generated at this start, if any, and with a ledger that is open already, if any.
    async fn start_with(
        loaded: LoadedConfig,
        generated_key: Option<Key>,
        ledger: Option<Arc<GenerationStore>>,
    ) -> Result<Gateway, StartError> {
        clock::start();
        let metrics = Metrics::new().map_err(|error| StartError::Metrics(error.to_string()))?;
        let draft = SetupDraft::new(loaded, 1, None)?;
        let opened = match ledger {
            Some(open) => Opened {
                ledger: Some(open),
                registry: accounts::registry(&draft.config.limits, None)
                    .map_err(|fault| StartError::Ledger(PathBuf::new(), fault))?,
                changes: None,
                disk: None,
            },
            None => open_ledger(&draft.config)?,
        };
        let node = node::name(draft.config.shared.node.as_deref(), opened.disk.as_deref());
        let node = node.map_err(|error| StartError::Ledger(PathBuf::new(), Fault::Disk(error)))?;
        // From here on nothing fails, because a started thread would keep running. Simulated providers stop on drop.
        let RoutingConfig { seed, instance_id, .. } = draft.config.routing;
        let (seed, instance) = (seed.unwrap_or_else(rand::random), instance_id.unwrap_or_else(rand::random));
        log::info!("routing seed {seed}, instance {instance}");
        let seeds = RouterSeeds { seed, instance, worker: ADMIN_WORKER };
        let arbiter = Arbiter::new();
        let shared = Arc::new(shared(draft, generated_key, metrics, seeds, (opened, node), &arbiter));
        if let Some(traces) = &shared.traces {
            let of = Arc::downgrade(&shared);
            let names = move |owner, key| of.upgrade().map(|shared| shared.setup.load().keys.names_of(owner, key));
            traces.name_by(Box::new(move |owner, key| names(owner, key).unwrap_or_default()));
        }
        connect_health(&shared);
        reload::begin(&shared);
        let watchdog = watchdog::start(&shared);
        accounts::start_upkeep(&shared);
        delivery::start(&shared, verdict::findings);
        if let Some(store) = shared.ledger.as_ref().filter(|_| shared.replicas.is_none()) {
            series_restore::start(store, shared.control.ledger(), &arbiter);
        }
        Ok(Gateway { shared, seeds, workers: Arc::default(), control: Arc::new(ControlThread::new(arbiter, watchdog)) })
    }

    /// Mounts the gateway in a host application, at the root or below any scope. Registers only the gateway's own paths:
    /// `/api/v1/…`, `/api/…`, `/v1/…` (unless `server.mount_v1` is off), `/health`, `/health/live`, `/health/ready`,
    /// `/healthz`, `/readyz` and `/metrics`. If the application has the same path, the one registered first answers.
    /// Other paths go to the application's default service. The application's middleware wraps the gateway's.
    ///
    /// Creates the router and the HTTP clients of the calling worker thread. Call it in the factory of the application, on
    /// a clone of the gateway:
    ///
    /// ```no_run
    /// # use actix_web::{App, HttpServer, web};
    /// # async fn run(gateway: pointsman::app::server::Gateway) -> std::io::Result<()> {
    /// let mounted = gateway.clone();
    /// let app = move || App::new().service(web::scope("/llm").configure(|app| mounted.mount(app)));
    /// HttpServer::new(app).h1_allow_half_closed(false).bind("127.0.0.1:8088")?.run().await?;
    /// gateway.close().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The application owns the listener: of `[server]` and `[tls]` only `mount_v1` applies, and client connections have the
    /// limits of its `HttpServer`.
    pub fn mount(&self, app: &mut ServiceConfig) {
        routes::mount(app, &LocalData::new(self.worker_handle()));
    }

    /// Mounts the pages for administrators below `/api/v1/admin`, as [`Gateway::mount`] does. Use a separate listener that
    /// only administrators can reach.
    pub fn mount_admin(&self, app: &mut ServiceConfig) {
        routes::mount_admin(app, &LocalData::new(self.numbered_handle(ADMIN_WORKER)));
    }

    /// A new handle for the calling worker thread.
    pub(crate) fn worker_handle(&self) -> WorkerHandle {
        self.numbered_handle(self.workers.fetch_add(1, Ordering::Relaxed))
    }

    fn numbered_handle(&self, number: u64) -> WorkerHandle {
        let seeds = RouterSeeds { worker: number, ..self.seeds };
        WorkerHandle::new(Arc::clone(&self.shared), Arc::clone(&self.control), seeds)
    }

    /// State shared by all parts of the gateway.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The setup of the configuration in force.
    #[must_use]
    pub fn setup(&self) -> Arc<Setup> {
        self.shared.setup.load_full()
    }

    /// Applies another configuration while requests run, and returns its version. Settings that need a restart
    /// (addresses, workers, mounted paths) do not change.
    ///
    /// # Errors
    /// When the configuration cannot be applied; the current one stays in force.
    pub async fn adopt(&self, config: impl Into<LoadedConfig>) -> Result<u64, AdoptError> {
        reload::adopt(&self.shared, config.into()).await
    }

    /// Reloads the configuration from its source, and applies it if it is valid and has changed.
    pub async fn reload(&self, cause: ReloadTrigger) -> Reload {
        reload::reload(&self.shared, cause).await.0
    }

    /// Sets readiness to `draining`. Saves the statistics now, because the drain may take long or be cut off.
    pub fn begin_drain(&self) {
        self.shared.drain.begin();
        self.shared.event_batchers.flush();
        self.shared.control.health().do_send(SaveNow);
    }

    /// Ends all running calls: those without an answer get 503, streams end with an error chunk.
    pub fn end_requests(&self) {
        self.shared.drain.finish();
    }

    /// Flushes pending events and records, and stops the control actors. Call it after the workers have stopped.
    pub async fn close(&self) {
        self.shared.event_batchers.flush();
        let now_ms = clock::unix_millis();
        // The ledger answers after it has handled all earlier records. If it is gone, no records are left to save.
        let _ = self.shared.control.ledger().send(CountRecords { now_ms }).timeout(CLOSE_TIMEOUT).await;
        if let Some(traces) = &self.shared.traces {
            traces.close(TRACES_TIMEOUT).await;
        }
        // The statistics actor answers after it has handled and saved all earlier events.
        let _ = self.shared.control.health().send(SaveNow).timeout(CLOSE_TIMEOUT).await;
        if let Some(ledger) = self.shared.ledger.clone() {
            // What is not done in time is in the journal and is read back at the next start.
            let flushed = web::block(move || ledger.entries().flush(Instant::now() + CLOSE_TIMEOUT)).await;
            if let Ok(Err(fault)) = flushed {
                log::warn!("the ledger was not flushed: {fault}");
            }
        }
        if let Some(replicas) = self.shared.replicas.clone() {
            // After the ledger is flushed, so that the last records go out too.
            let _ = web::block(move || replicas.stop()).await;
        }
        self.control.stop();
        for provider in self.setup().simulation() {
            provider.stop();
        }
    }
}

/// What the disk held at the start.
struct Opened {
    ledger: Option<Arc<GenerationStore>>,
    registry: Arc<Registry>,
    /// Changes of other replicas.
    changes: Option<(SharedLog, Merged)>,
    disk: Option<Arc<dyn Disk>>,
}

/// Opens the durable ledger, if the configuration has one, and the keys and accounts beside it. Blocks on reading what an
/// earlier process left.
fn open_ledger(config: &Config) -> Result<Opened, StartError> {
    let LedgerConfig { max_age, max_bytes, durability, .. } = config.ledger;
    let path = config.ledger.durable_directory();
    let at = |fault| StartError::Ledger(path.unwrap_or(Path::new("")).to_owned(), fault);
    let Some(path) = path else {
        let registry = accounts::registry(&config.limits, None).map_err(at)?;
        return Ok(Opened { ledger: None, registry, changes: None, disk: None });
    };
    let directory = Directory::open(path).map_err(at)?;
    let disk = directory.disk();
    let (log, mut stored) = AccountLog::open(Arc::clone(&disk)).map_err(at)?;
    let shared_log = SharedLog::open(Arc::clone(&disk)).map_err(at)?;
    let mut merged = shared_log.merge(stored.changes);
    stored.changes = std::mem::take(&mut merged.lines);
    let registry = accounts::registry(&config.limits, Some((log, stored))).map_err(at)?;
    let (sync, queue) = (durability == Durability::Sync, Settings::default().queue);
    let bounds = LedgerBounds { max_age, max_bytes, sync, queue };
    let store = GenerationStore::open_in(directory, bounds).map_err(at)?;
    log::info!("ledger in {}", path.display());
    let (ledger, changes, disk) = (Some(Arc::new(store)), Some((shared_log, merged)), Some(disk));
    Ok(Opened { ledger, registry, changes, disk })
}

/// Begins to share with other replicas, if the configuration names a store.
fn start_replicas(setup: &Setup, opened: Opened, node: String, control: &Control) -> Option<Arc<Replicas>> {
    let config = setup.config.shared.clone();
    if !config.is_on() {
        return None;
    }
    let recent = control.ledger();
    let deleted = move |before_ms, owner| recent.do_send(DeleteRecords { before_ms: Some(before_ms), owner });
    let Opened { ledger, registry, changes, .. } = opened;
    let max_age = setup.config.ledger.max_age;
    let start = replicas::Start { config, node, registry, ledger, max_age, changes, deleted: Box::new(deleted) };
    let started = Replicas::start(start);
    started.inspect_err(|error| log::error!("nothing is shared with other replicas: {error}")).ok()
}

/// Lets replicas advise each other about endpoints that fail.
fn connect_health(shared: &Arc<Shared>) {
    let Some(replicas) = &shared.replicas else { return };
    let (asked, advised) = (Arc::downgrade(shared), Arc::downgrade(shared));
    let open = move || {
        let endpoints = asked.upgrade().map(|shared| shared.setup.load().published.live.open_endpoints(clock::now()));
        endpoints.unwrap_or_default().into_iter().map(|endpoint| endpoint.0).collect()
    };
    let advise = move |endpoint, age| {
        let advise =
            |shared: Arc<Shared>| shared.setup.load().published.live.advise(EndpointId(endpoint), clock::now(), age);
        advised.upgrade().is_some_and(advise)
    };
    replicas.connect_health(HealthPort { open: Box::new(open), advise: Box::new(advise) });
}

/// Creates the shared state, and starts the control actors on `arbiter`.
fn shared(
    draft: SetupDraft,
    generated_key: Option<Key>,
    metrics: Metrics,
    seeds: RouterSeeds,
    (opened, node): (Opened, String),
    arbiter: &Arbiter,
) -> Shared {
    let (durable, registry) = (opened.ledger.clone(), Arc::clone(&opened.registry));
    let mut statistics = Statistics::new(Arc::clone(&draft.catalog), Arc::clone(&draft.policy));
    let MemoryConfig { save_interval: interval, .. } = draft.config.routing.memory;
    let memory = RoutingMemory::load(&draft.config.routing.memory, &mut statistics);
    // Replicas with the same seed must not probe at the same times.
    let live = LiveBoard::new(&draft.catalog, seeded_hash(seeds.seed, seeds.instance));
    let published = Arc::new(PublishedState::new(statistics.snapshot(1), live));
    let state_key = reasoning_seal_key::open(draft.config.ledger.durable_directory());
    let alerts = Alerts::open(draft.config.ledger.durable_directory());
    let setup = draft.adopt(Arc::clone(&published), generated_key.as_ref(), &registry, None);
    if let Some(ledger) = durable.as_deref() {
        accounts::restore_spending(&registry, ledger);
    }
    let (ledger, images) = (&setup.config.ledger, &setup.config.images);
    let capacity = if durable.is_some() { RECENT_RECORDS } else { ledger.capacity };
    let store = MemoryStore::new(capacity, ledger.max_age);
    let place = memory.clone().map(|memory| memory as Arc<dyn StatsStore>);
    let persistence = place.map(|store| StatsPersistence { store, interval });
    let traces = Traces::start(&setup.config.traces, metrics.spans.clone(), seeds.instance);
    let follower = traces.clone().map(|traces| traces as Arc<dyn RecordFollower>);
    let control = Control::start(arbiter, statistics, &published, (store, follower), persistence);
    let replicas = start_replicas(&setup, opened, node, &control);
    Shared {
        state_key,
        call_signatures: Arc::default(),
        replicas,
        images: ImageFiles::new(images.url_ttl, images.max_bytes),
        canaries: Canaries::open(seeds.seed ^ seeds.instance, ledger.durable_directory()),
        registry,
        setup: ArcSwap::from_pointee(setup),
        history: RequestHistory::new(rand::random()),
        metrics,
        retry_budget: RetryBudget::default(),
        waiting: Arc::default(),
        running: RunningRequests::default(),
        analyses: Analyses::default(),
        event_batchers: control.event_batchers(),
        routers: Routers::default(),
        memory,
        breaker_history: BreakerHistory::default(),
        diffs: DiffJobs::default(),
        live: LiveFeed::default(),
        refused_calls: RefusedCalls::default(),
        alerts,
        drain: Drain::default(),
        reloads: Reloads::default(),
        startup_key: generated_key,
        control,
        ledger: durable,
        traces,
    }
}

/// A gateway on its own listeners.
pub struct Server {
    gateway: Gateway,
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    admin_key: Option<Secret>,
    login_link: Option<Secret>,
    serving: HttpServing,
    admin: Option<HttpServing>,
    file_watch: Option<JoinHandle<()>>,
}

impl Server {
    /// Binds the listeners and starts the gateway. Port 0 lets the system choose the port.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn bind(config: impl Into<LoadedConfig>) -> Result<Server, StartError> {
        Server::bind_with(config.into(), None).await
    }

    /// The same with a ledger that is open already, such as one on another disk than that of `ledger.data_dir`.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn bind_with_ledger(
        config: impl Into<LoadedConfig>,
        ledger: Arc<GenerationStore>,
    ) -> Result<Server, StartError> {
        Server::bind_with(config.into(), Some(ledger)).await
    }

    async fn bind_with(loaded: LoadedConfig, ledger: Option<Arc<GenerationStore>>) -> Result<Server, StartError> {
        // Binds first, so that nothing has been started if an address is taken.
        let sockets = Sockets::listen(&loaded.config)?;
        let (admin_key, generated_key) = sockets.generate_admin_key(&loaded.config).unzip();
        let gateway = Gateway::start_with(loaded, generated_key, ledger).await?;
        match sockets.serve(&gateway) {
            Ok(server) => Ok(Server { admin_key, ..server }),
            Err(error) => {
                gateway.close().await;
                Err(error)
            }
        }
    }

    /// Address of the admin listener, if there is one.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// The admin key generated at this start because the configuration has none. Show it once and do not store it.
    pub fn take_admin_key(&mut self) -> Option<Secret> {
        self.admin_key.take()
    }

    /// Path and query of the page of the console that logs in once with that key. Show it once and do not store it.
    pub fn take_login_link(&mut self) -> Option<Secret> {
        self.login_link.take()
    }

    /// Address of the listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The gateway behind the listener.
    #[must_use]
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Handle to stop the server.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.serving.handle()
    }

    /// Serves until stopped, then closes the gateway.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn run(self) -> io::Result<()> {
        let admin = self.admin.map(|admin| {
            let handle = admin.handle();
            actix_rt::spawn(admin);
            handle
        });
        let served = self.serving.await;
        // The admin listener stops last, so that administrators can observe the drain.
        if let Some(admin) = admin {
            admin.stop(false).await;
        }
        if let Some(file_watch) = self.file_watch {
            file_watch.abort();
        }
        self.gateway.close().await;
        served
    }
}

/// The bound sockets and their addresses, before the servers start.
struct Sockets {
    public: (TcpListener, SocketAddr),
    admin: Option<(TcpListener, SocketAddr)>,
}

impl Sockets {
    fn listen(config: &Config) -> Result<Sockets, StartError> {
        let bind = config.server.bind;
        let public = listeners::listen(bind).map_err(|error| StartError::Bind(bind, error))?;
        Ok(Sockets { public, admin: listen_for_admin(&config.admin)? })
    }

    /// An admin key for this start, if the configuration has none and the admin listener is on loopback.
    fn generate_admin_key(&self, config: &Config) -> Option<(Secret, Key)> {
        let is_needed = self.admin.is_some() && config.admin.is_loopback() && !keys::names_administrator(config);
        is_needed.then(|| keys::generate_startup_key(config))
    }

    fn serve(self, gateway: &Gateway) -> Result<Server, StartError> {
        let (setup, mounted) = (gateway.setup(), gateway.clone());
        let (config, has_tls) = (&setup.config, setup.config.tls.is_some());
        let (listener, address) = self.public;
        let cores = || thread::available_parallelism().ok();
        let public = ListenerService {
            workers: config.server.workers.or_else(cores).map_or(1, NonZeroUsize::get),
            max_connections: config.server.max_connections,
            tls: has_tls,
            mount: move |app: &mut ServiceConfig| {
                app.app_data(Listener::Public);
                routes::serve(app, &LocalData::new(mounted.worker_handle()));
            },
        };
        let serving = public.open(listener, &gateway.shared).map_err(|error| StartError::Bind(address, error))?;
        // On loopback TLS is not needed, and no certificate covers the address.
        let tls = has_tls && !config.admin.is_loopback();
        let admin = self.admin.map(|socket| serve_admin(socket, tls, gateway)).transpose()?;
        let (admin, (admin_address, login_link)) =
            admin.map_or_else(Default::default, |(serving, address, link)| (Some(serving), (Some(address), link)));
        let file_watch = reload::watch::start(&gateway.shared);
        let (gateway, admin_key) = (gateway.clone(), None);
        Ok(Server { gateway, address, admin_address, admin_key, login_link, serving, admin, file_watch })
    }
}

/// Binds the admin listener, if it is configured. The default address may be taken; then there is none.
fn listen_for_admin(admin: &AdminConfig) -> Result<Option<(TcpListener, SocketAddr)>, StartError> {
    let Some(bind) = admin.bind else { return Ok(None) };
    match listeners::listen(bind) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if admin.is_default() => {
            log::warn!(
                "{bind} is taken ({error}): this gateway has no admin listener. Choose another address with admin.bind."
            );
            Ok(None)
        }
        Err(error) => Err(StartError::BindAdmin(bind, error)),
    }
}

fn serve_admin(
    (listener, address): (TcpListener, SocketAddr),
    tls: bool,
    gateway: &Gateway,
) -> Result<(HttpServing, SocketAddr, Option<Secret>), StartError> {
    let mounted = gateway.clone();
    let console = Console::new(if tls { Transport::Tls } else { Transport::Plain });
    let login_link = gateway.shared.startup_key.as_ref().map(|key| console.login_link(key.sha256));
    let mount = move |app: &mut ServiceConfig| {
        app.app_data(Listener::Admin);
        routes::serve_admin(app, &LocalData::new(mounted.numbered_handle(ADMIN_WORKER)), &console);
    };
    let private = ListenerService { workers: 1, max_connections: ADMIN_CONNECTIONS, tls, mount };
    let serving = private.open(listener, &gateway.shared).map_err(|error| StartError::BindAdmin(address, error))?;
    Ok((serving, address, login_link))
}
