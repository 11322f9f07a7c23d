//! Bind, run, drain.
//!
//! [`Gateway`] is everything but the listener: an actix team mounts it in an `App` of its own.
//! [`Server`] is the gateway on its own listener, as the binary runs it.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use actix::Arbiter;
use actix_rt::task::JoinHandle;
use actix_web::{
    dev::{Server as HttpServing, ServerHandle},
    web::ServiceConfig,
};
use actix_web_lab::extract::LocalData;
use arc_swap::ArcSwap;
use pointsman_actors::{
    actors::{
        ledger::{CountRecords, MemoryStore},
        persistence::StatsStore,
        provider_health::SaveNow,
        published::PublishedState,
        router::{RouterSeeds, Routers},
    },
    stats::{LiveBoard, Statistics, mix},
};

use crate::{
    access::{analysis::Analyses, keys},
    base::{clock, events::Metrics, secret::Secret},
    config::{AdminConfig, Config, Key, LoadedConfig, MemoryConfig, RoutingConfig},
    http::{
        host::Listener,
        listeners::{self, ListenerService},
        routes,
    },
    state::{
        budgets::Budgets,
        control::{Control, StatsPersistence},
        conversations::PreferenceMemory,
        drain::Drain,
        gateway::{Shared, WorkerHandle},
        images::ImageFiles,
        reload::{self, AdoptError, Reload, ReloadTrigger},
        reload_status::Reloads,
        routing_memory::RoutingMemory,
        setup::{Setup, SetupDraft, SetupError},
        watchdog,
    },
};

/// Stands for the worker of the listener for administration wherever workers have numbers: it must not take one that
/// decisions are made with.
const ADMIN_WORKER: u64 = 0xFFFF;
/// Connections to the listener for administration.
const ADMIN_CONNECTIONS: usize = 256;

/// How long the end of the process may wait for a slow disk.
const LAST_NEWS: Duration = Duration::from_secs(5);

/// Why the gateway did not start.
#[derive(Debug)]
pub enum StartError {
    /// The address cannot be listened on.
    Bind(SocketAddr, io::Error),
    /// The address for administration cannot be listened on.
    BindAdmin(SocketAddr, io::Error),
    /// What the configuration asks for cannot be put to work.
    Setup(SetupError),
    /// The metrics clash.
    Metrics(String),
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
                 POINTSMAN__ADMIN__BIND, or \"\" for none."
            ),
            StartError::Setup(error) => error.fmt(f),
            StartError::Metrics(what) => write!(f, "cannot set up metrics: {what}"),
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
    /// Of its decisions; each worker has a number of its own.
    seeds: RouterSeeds,
    workers: Arc<AtomicU64>,
    control: Arc<Arbiter>,
    watchdog: Arc<JoinHandle<()>>,
}

impl Gateway {
    /// Starts the control actors and, where configured, the simulated providers. Needs a running actix `System`.
    ///
    /// # Errors
    /// When a provider's TLS settings or the simulation fail.
    pub async fn start(config: impl Into<LoadedConfig>) -> Result<Gateway, StartError> {
        Gateway::start_with(config.into(), None).await
    }

    /// The same, with the administrator's key that this start made.
    async fn start_with(loaded: LoadedConfig, startup_key: Option<Key>) -> Result<Gateway, StartError> {
        clock::start();
        let metrics = Metrics::new().map_err(|error| StartError::Metrics(error.to_string()))?;
        let draft = SetupDraft::new(loaded, 1, None)?;
        // Nothing fails from here on: a thread that was started would stay. Simulated providers stop when dropped.
        let RoutingConfig { seed, instance_id, .. } = draft.config.routing;
        let (seed, instance) = (seed.unwrap_or_else(rand::random), instance_id.unwrap_or_else(rand::random));
        log::info!("routing seed {seed}, instance {instance}");
        let seeds = RouterSeeds { seed, instance, worker: ADMIN_WORKER };
        let arbiter = Arbiter::new();
        let shared = Arc::new(shared(draft, startup_key, metrics, seeds, &arbiter));
        reload::begin(&shared);
        let watchdog = Arc::new(watchdog::start(&shared));
        Ok(Gateway { shared, seeds, workers: Arc::default(), control: Arc::new(arbiter), watchdog })
    }

    /// Mounts the gateway in an application of somebody else, wherever in the `App` and under whatever scope: it claims
    /// its own paths (`/api/v1/…`, `/api/…`, `/v1/…` unless `server.mount_v1` is off, and `/health`, `/healthz`,
    /// `/readyz`, `/metrics`) and no other. Of two who have a path the one that was registered first answers it; what
    /// nobody has stays with the application's default service. Middleware of the application stands around ours.
    ///
    /// Runs once per worker thread, and gives that thread its router and its clients. So call it inside the factory of
    /// the application, on a clone of the gateway:
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
    /// The listener is the application's: `[server]` and `[tls]` are not read but for `mount_v1`, and the bounds of
    /// client connections are those of `HttpServer`.
    pub fn mount(&self, app: &mut ServiceConfig) {
        routes::mount(app, &LocalData::new(self.desk()));
    }

    /// Mounts what administrators need, below `/api/v1/admin`, as [`Gateway::mount`] does: for a listener of its own
    /// that strangers do not reach.
    pub fn mount_admin(&self, app: &mut ServiceConfig) {
        routes::mount_admin(app, &LocalData::new(self.desk_of(ADMIN_WORKER)));
    }

    /// The desk of the calling thread.
    pub(crate) fn desk(&self) -> WorkerHandle {
        self.desk_of(self.workers.fetch_add(1, Ordering::Relaxed))
    }

    fn desk_of(&self, number: u64) -> WorkerHandle {
        WorkerHandle::new(Arc::clone(&self.shared), RouterSeeds { worker: number, ..self.seeds })
    }

    /// What the parts of the gateway share.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What the configuration in force brought.
    #[must_use]
    pub fn setup(&self) -> Arc<Setup> {
        self.shared.setup.load_full()
    }

    /// Takes over another configuration while requests run, and gives the version it is in force under. What only a
    /// start can change (addresses, workers, what is mounted) stays as it is.
    ///
    /// # Errors
    /// When it cannot be put to work; the configuration in force then goes on.
    pub async fn adopt(&self, config: impl Into<LoadedConfig>) -> Result<u64, AdoptError> {
        reload::adopt(&self.shared, config.into()).await
    }

    /// Reads the configuration again from where it came from, and takes it over if it is whole and says anything new.
    pub async fn reload(&self, cause: ReloadTrigger) -> Reload {
        reload::reload(&self.shared, cause).await.0
    }

    /// From now on readiness says `draining`. What was learned is written down already now: nobody knows how long
    /// running requests will be waited for.
    pub fn begin_drain(&self) {
        self.shared.drain.begin();
        self.shared.event_batchers.flush();
        self.shared.control.health().do_send(SaveNow);
    }

    /// From now on nothing runs on: calls without an answer are refused with 503, streams end with an error chunk.
    pub fn end_requests(&self) {
        self.shared.drain.finish();
    }

    /// Hands in the last news and stops the control actors. Call it when no worker serves any more.
    pub async fn close(&self) {
        self.shared.event_batchers.flush();
        let now_ms = clock::unix_millis();
        // Answers only after every record before; a dead actor has nothing left to lose.
        let _ = self.shared.control.ledger().send(CountRecords { now_ms }).timeout(LAST_NEWS).await;
        // Answers only after every event before, and when they are written down.
        let _ = self.shared.control.health().send(SaveNow).timeout(LAST_NEWS).await;
        self.watchdog.abort();
        self.control.stop();
        for provider in self.setup().simulation() {
            provider.stop();
        }
    }
}

/// What all parts share, with the control actors on `arbiter` at work.
fn shared(
    draft: SetupDraft,
    startup_key: Option<Key>,
    metrics: Metrics,
    seeds: RouterSeeds,
    arbiter: &Arbiter,
) -> Shared {
    let mut statistics = Statistics::new(Arc::clone(&draft.catalog), Arc::clone(&draft.policy));
    let MemoryConfig { save_interval: interval, .. } = draft.config.routing.memory;
    let memory = RoutingMemory::load(&draft.config.routing.memory, &mut statistics);
    // Replicas with the same seed must not probe in step.
    let live = LiveBoard::new(&draft.catalog, mix(seeds.seed, seeds.instance));
    let published = Arc::new(PublishedState::new(statistics.snapshot(1), live));
    let setup = draft.adopt(Arc::clone(&published), startup_key.as_ref(), None);
    let (ledger, images) = (&setup.config.ledger, &setup.config.images);
    let store = MemoryStore::new(ledger.capacity, ledger.max_age);
    let place = memory.clone().map(|memory| memory as Arc<dyn StatsStore>);
    let persistence = place.map(|store| StatsPersistence { store, interval });
    let control = Control::start(arbiter, statistics, &published, store, persistence);
    Shared {
        images: ImageFiles::new(images.url_ttl, images.max_bytes),
        setup: ArcSwap::from_pointee(setup),
        preferences: PreferenceMemory::new(rand::random()),
        metrics,
        budgets: Budgets::default(),
        analyses: Analyses::default(),
        event_batchers: control.event_batchers(),
        routers: Routers::default(),
        memory,
        drain: Drain::default(),
        reloads: Reloads::default(),
        startup_key,
        control,
    }
}

/// A gateway on its own listener.
pub struct Server {
    gateway: Gateway,
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    admin_key: Option<Secret>,
    serving: HttpServing,
    admin: Option<HttpServing>,
    watching: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the gateway and binds its listener; port 0 lets the system choose.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn bind(config: impl Into<LoadedConfig>) -> Result<Server, StartError> {
        // First, so that an address that is taken leaves nothing behind that runs.
        let loaded = config.into();
        let sockets = Sockets::listen(&loaded.config)?;
        let (admin_key, startup_key) = sockets.key_of_this_start(&loaded.config).unzip();
        let gateway = Gateway::start_with(loaded, startup_key).await?;
        match sockets.serve(&gateway) {
            Ok(server) => Ok(Server { admin_key, ..server }),
            Err(error) => {
                gateway.close().await;
                Err(error)
            }
        }
    }

    /// Where administrators are listened to, if they are.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// The administrator's key that this start made because the configuration names none: to be shown once, and kept
    /// nowhere.
    pub fn take_admin_key(&mut self) -> Option<Secret> {
        self.admin_key.take()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The gateway behind the listener.
    #[must_use]
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Stops it from elsewhere.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.serving.handle()
    }

    /// Serves until stopped, then hands in the last news.
    ///
    /// # Errors
    /// When the listener breaks.
    pub async fn run(self) -> io::Result<()> {
        let closing = self.admin.map(|admin| {
            let handle = admin.handle();
            actix_rt::spawn(admin);
            handle
        });
        let served = self.serving.await;
        // Until here administrators could watch how it went.
        if let Some(admin) = closing {
            admin.stop(false).await;
        }
        if let Some(watching) = self.watching {
            watching.abort();
        }
        self.gateway.close().await;
        served
    }
}

/// The listening sockets with their addresses, before anything is served on them.
struct Sockets {
    public: (TcpListener, SocketAddr),
    admin: Option<(TcpListener, SocketAddr)>,
}

impl Sockets {
    fn listen(config: &Config) -> Result<Sockets, StartError> {
        let bind = config.server.bind;
        let public = listeners::listen(bind).map_err(|error| StartError::Bind(bind, error))?;
        Ok(Sockets { public, admin: listen_for_administrators(&config.admin)? })
    }

    /// A key for whoever started it, where nobody else can administrate and only this machine reaches the listener.
    fn key_of_this_start(&self, config: &Config) -> Option<(Secret, Key)> {
        let wanted = self.admin.is_some() && config.admin.is_loopback() && !keys::names_administrator(config);
        wanted.then(keys::generate_startup_key)
    }

    fn serve(self, gateway: &Gateway) -> Result<Server, StartError> {
        let (setup, mounted) = (gateway.setup(), gateway.clone());
        let (config, encrypted) = (&setup.config, setup.config.tls.is_some());
        let (listener, address) = self.public;
        let cores = || thread::available_parallelism().ok();
        let public = ListenerService {
            workers: config.server.workers.or_else(cores).map_or(1, NonZeroUsize::get),
            max_connections: config.server.max_connections,
            tls: encrypted,
            mount: move |app: &mut ServiceConfig| {
                app.app_data(Listener::Public);
                routes::serve(app, &LocalData::new(mounted.desk()));
            },
        };
        let serving = public.open(listener, &gateway.shared).map_err(|error| StartError::Bind(address, error))?;
        // On loopback nobody listens in, and no certificate names it.
        let tls = encrypted && !config.admin.is_loopback();
        let admin = self.admin.map(|socket| administer(socket, tls, gateway)).transpose()?;
        let (admin, admin_address) = admin.unzip();
        let watching = reload::watch::start(&gateway.shared);
        Ok(Server { gateway: gateway.clone(), address, admin_address, admin_key: None, serving, admin, watching })
    }
}

/// The socket for administration, if there is to be one.
fn listen_for_administrators(admin: &AdminConfig) -> Result<Option<(TcpListener, SocketAddr)>, StartError> {
    let Some(bind) = admin.bind else { return Ok(None) };
    match listeners::listen(bind) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if admin.is_default() => {
            log::warn!("{bind} is taken ({error}): this gateway has no listener for administration. See admin.bind.");
            Ok(None)
        }
        Err(error) => Err(StartError::BindAdmin(bind, error)),
    }
}

fn administer(
    (listener, address): (TcpListener, SocketAddr),
    tls: bool,
    gateway: &Gateway,
) -> Result<(HttpServing, SocketAddr), StartError> {
    let mounted = gateway.clone();
    let mount = move |app: &mut ServiceConfig| {
        app.app_data(Listener::Admin);
        routes::serve_admin(app, &LocalData::new(mounted.desk_of(ADMIN_WORKER)));
    };
    let private = ListenerService { workers: 1, max_connections: ADMIN_CONNECTIONS, tls, mount };
    let serving = private.open(listener, &gateway.shared).map_err(|error| StartError::BindAdmin(address, error))?;
    Ok((serving, address))
}
