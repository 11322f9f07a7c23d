//! Start, run and stop of the gateway.
//!
//! [`Gateway`] is the gateway without a listener, which an actix application can mount.
//! [`Server`] is the gateway on its own listeners, as the binary runs it.

mod shared_state;

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    path::PathBuf,
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
use pointsman_actors::{ledger::CountRecords, provider_health::SaveNow, router::RouterSeeds};
use pointsman_base::{clock, secret::Secret};
use pointsman_config::{AdminConfig, Config, Key, LoadedConfig, RoutingConfig};
use pointsman_ledger::{fault::Fault, generations::GenerationStore};

use self::shared_state::{Opened, connect_health, open_ledger, shared};
use crate::{
    access::keys,
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
        alerts::delivery,
        control::ControlThread,
        gateway::{Shared, WorkerHandle},
        quality_upkeep,
        reload::{self, AdoptError, Reload, ReloadTrigger},
        replicas::node,
        series_restore,
        setup::{Setup, SetupDraft, SetupError},
        watchdog,
    },
};

/// Worker number of the admin listener. Routing workers count from 0 and do not reach it.
const ADMIN_WORKER: u64 = 0xFFFF;
/// Most connections to the admin listener.
const ADMIN_CONNECTIONS: usize = 256;

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
        if let Some(traces) = &shared.records.traces {
            let of = Arc::downgrade(&shared);
            let names = move |owner, key| of.upgrade().map(|shared| shared.setup.load().keys.names_of(owner, key));
            traces.name_by(Box::new(move |owner, key| names(owner, key).unwrap_or_default()));
        }
        connect_health(&shared);
        reload::begin(&shared);
        let watchdog = watchdog::start(&shared);
        accounts::start_upkeep(&shared);
        quality_upkeep::start(&shared);
        delivery::start(&shared, verdict::findings);
        if let Some(store) = shared.records.ledger.as_ref().filter(|_| shared.records.replicas.is_none()) {
            series_restore::start(store, shared.actors.control.ledger(), &arbiter);
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
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The setup of the configuration in force.
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
        self.shared.process.drain.begin();
        self.shared.actors.event_batchers.flush();
        self.shared.actors.control.health().do_send(SaveNow);
    }

    /// Ends all running calls: those without an answer get 503, streams end with an error chunk.
    pub fn end_requests(&self) {
        self.shared.process.drain.finish();
    }

    /// Flushes pending events and records, and stops the control actors. Call it after the workers have stopped.
    pub async fn close(&self) {
        self.shared.actors.event_batchers.flush();
        let now_ms = clock::unix_millis();
        // The ledger answers after it has handled all earlier records. If it is gone, no records are left to save.
        let _ = self.shared.actors.control.ledger().send(CountRecords { now_ms }).timeout(CLOSE_TIMEOUT).await;
        if let Some(traces) = &self.shared.records.traces {
            traces.close(TRACES_TIMEOUT).await;
        }
        // The statistics actor answers after it has handled and saved all earlier events.
        let _ = self.shared.actors.control.health().send(SaveNow).timeout(CLOSE_TIMEOUT).await;
        if let Some(ledger) = self.shared.records.ledger.clone() {
            // What is not done in time is in the journal and is read back at the next start.
            let flushed = web::block(move || ledger.entries().flush(Instant::now() + CLOSE_TIMEOUT)).await;
            if let Ok(Err(fault)) = flushed {
                log::warn!("the ledger was not flushed: {fault}");
            }
        }
        if let Some(replicas) = self.shared.records.replicas.clone() {
            // After the ledger is flushed, so that the last records go out too.
            let _ = web::block(move || replicas.stop()).await;
        }
        self.control.stop();
        for provider in self.setup().simulation() {
            provider.stop();
        }
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
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The gateway behind the listener.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Handle to stop the server.
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
    let login_link = gateway.shared.access.startup_key.as_ref().map(|key| console.login_link(key.sha256));
    let mount = move |app: &mut ServiceConfig| {
        app.app_data(Listener::Admin);
        routes::serve_admin(app, &LocalData::new(mounted.numbered_handle(ADMIN_WORKER)), &console);
    };
    let private = ListenerService { workers: 1, max_connections: ADMIN_CONNECTIONS, tls, mount };
    let serving = private.open(listener, &gateway.shared).map_err(|error| StartError::BindAdmin(address, error))?;
    Ok((serving, address, login_link))
}
