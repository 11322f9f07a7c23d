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
    keeping::Keep,
    ledger::{CountRecords, MemoryStore},
    provider_health::WriteDown,
    published::Published,
    router::{Routers, Seeds},
    stats::{LiveBoard, Statistics, mix},
};

use crate::{
    clock,
    config::{AdminConfig, Config},
    control::{Control, Keeping},
    dispatch::budget::Budgets,
    drain::Drain,
    events::Metrics,
    gateway::{Desk, Shared},
    images::ImageFiles,
    intent::Intents,
    listener::{self, Door},
    memory::Memory,
    reload::{self, AdoptError, Attempt, Cause, Reloads},
    routes,
    setup::{Draft, Setup},
    watchdog,
};

/// Stands for the worker of the listener for administration wherever workers have numbers: it must not take one that
/// decisions are made with.
const ADMIN_WORKER: u64 = 0xFFFF;
/// Connections to the listener for administration.
const ADMIN_CONNECTIONS: usize = 256;

/// How long the end of the process may wait for a slow disk.
const LAST_NEWS: Duration = Duration::from_secs(5);
/// How long, behind the grace of a drain, connections may still take to carry what was said last.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(3);

/// Why the gateway did not start.
#[derive(Debug)]
pub enum StartError {
    /// The address cannot be listened on.
    Bind(SocketAddr, io::Error),
    /// The address for administration cannot be listened on.
    BindAdmin(SocketAddr, io::Error),
    /// A provider cannot be called as configured.
    Provider(String),
    /// A simulated provider did not start.
    Simulation(io::Error),
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
            StartError::Provider(what) => f.write_str(what),
            StartError::Simulation(error) => write!(f, "cannot start the simulated providers: {error}"),
            StartError::Metrics(what) => write!(f, "cannot set up metrics: {what}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A running gateway without a listener. Cloning shares it.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
    seed: u64,
    instance: u64,
    workers: Arc<AtomicU64>,
    control: Arc<Arbiter>,
    watchdog: Arc<JoinHandle<()>>,
}

impl Gateway {
    /// Starts the control actors and, where configured, the simulated providers. Needs a running actix `System`.
    ///
    /// # Errors
    /// When a provider's TLS settings or the simulation fail.
    pub async fn start(config: Config) -> Result<Gateway, StartError> {
        clock::start();
        let metrics = Metrics::new().map_err(|error| StartError::Metrics(error.to_string()))?;
        let draft = Draft::new(config, 1, None)?;
        // Nothing fails from here on: a thread that was started would stay. Simulated providers stop when dropped.
        let (catalog, policy) = (Arc::clone(&draft.catalog), Arc::clone(&draft.policy));
        let (ledger, images) = (draft.config.ledger.clone(), draft.config.images.clone());
        let seed = draft.config.routing.seed.unwrap_or_else(rand::random);
        let instance = draft.config.routing.instance_id.unwrap_or_else(rand::random);
        log::info!("routing seed {seed}, instance {instance}");
        let mut statistics = Statistics::new(Arc::clone(&catalog), policy);
        let remembering = draft.config.routing.memory.clone();
        let memory = Memory::recall(&remembering, &mut statistics);
        // Replicas with the same seed must not probe in step.
        let live = LiveBoard::new(&catalog, mix(seed, instance));
        let published = Arc::new(Published::new(statistics.snapshot(1), live));
        let setup = draft.adopt(Arc::clone(&published), None);
        let arbiter = Arbiter::new();
        let store = MemoryStore::new(ledger.capacity, ledger.max_age);
        let keeping = memory
            .as_ref()
            .map(|memory| Keeping { place: Arc::clone(memory) as Arc<dyn Keep>, interval: remembering.save_interval });
        let control = Control::start(&arbiter, statistics, &published, store, keeping);
        let shared = Shared {
            setup: ArcSwap::from_pointee(setup),
            images: ImageFiles::new(images.url_ttl, images.max_bytes),
            intents: Intents::new(rand::random()),
            metrics,
            budgets: Budgets::default(),
            news_room: control.news_room(),
            routers: Routers::default(),
            memory,
            drain: Drain::default(),
            reloads: Reloads::default(),
            control,
        };
        reload::begin(&shared);
        let shared = Arc::new(shared);
        let watchdog = Arc::new(watchdog::start(&shared));
        Ok(Gateway { shared, seed, instance, workers: Arc::default(), control: Arc::new(arbiter), watchdog })
    }

    /// Mounts every path of the gateway in an application. Call it last: it answers what nobody else did.
    /// Runs once per worker thread, and gives that thread its router and its clients.
    pub fn mount(&self, app: &mut ServiceConfig) {
        routes::mount(app, &LocalData::new(self.desk()));
    }

    /// Mounts what administrators need in an application of its own, below `/api/v1/admin`; not for a listener that
    /// strangers reach.
    pub fn mount_admin(&self, app: &mut ServiceConfig) {
        routes::mount_admin(app, &LocalData::new(self.desk_of(ADMIN_WORKER)));
    }

    /// The desk of the calling thread.
    pub(crate) fn desk(&self) -> Desk {
        self.desk_of(self.workers.fetch_add(1, Ordering::Relaxed))
    }

    fn desk_of(&self, number: u64) -> Desk {
        let seeds = Seeds { seed: self.seed, instance: self.instance, worker: number };
        Desk::new(Arc::clone(&self.shared), seeds)
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
    pub async fn adopt(&self, config: Config) -> Result<u64, AdoptError> {
        reload::adopt(&self.shared, config).await
    }

    /// Reads the configuration again from where it came from, and takes it over if it is whole and says anything new.
    pub async fn reload(&self, cause: Cause) -> Attempt {
        reload::reload(&self.shared, cause).await.0
    }

    /// From now on readiness says `draining`. What was learned is written down already now: nobody knows how long
    /// running requests will be waited for.
    pub fn begin_drain(&self) {
        self.shared.drain.begin();
        self.shared.news_room.flush();
        self.shared.control.health().do_send(WriteDown);
    }

    /// From now on nothing runs on: calls without an answer are refused with 503, streams end with an error chunk.
    pub fn end_requests(&self) {
        self.shared.drain.finish();
    }

    /// Hands in the last news and stops the control actors. Call it when no worker serves any more.
    pub async fn close(&self) {
        self.shared.news_room.flush();
        let now_ms = clock::unix_millis();
        // Answers only after every record before; a dead actor has nothing left to lose.
        let _ = self.shared.control.ledger().send(CountRecords { now_ms }).timeout(LAST_NEWS).await;
        // Answers only after every event before, and when they are written down.
        let _ = self.shared.control.health().send(WriteDown).timeout(LAST_NEWS).await;
        self.watchdog.abort();
        self.control.stop();
        for provider in self.setup().simulation() {
            provider.stop();
        }
    }
}

/// A gateway on its own listener.
pub struct Server {
    gateway: Gateway,
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    serving: HttpServing,
    admin: Option<HttpServing>,
    watching: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the gateway and binds its listener; port 0 lets the system choose.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn bind(config: Config) -> Result<Server, StartError> {
        let server = config.server.clone();
        let refused = |error| StartError::Bind(server.bind, error);
        // First, so that an address that is taken leaves nothing behind that runs.
        let listener = listener::listen(server.bind).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let admin_listener = listen_for_administrators(&config.admin)?;
        let admin_address = admin_listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let gateway = Gateway::start(config).await?;
        let encrypted = gateway.setup().config.tls.is_some();
        let workers = server.workers.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        let public = Door { workers, max_connections: server.max_connections, tls: encrypted, mount: Gateway::mount };
        // On loopback nobody listens in, and no certificate names it.
        let tls = encrypted && !gateway.setup().config.admin.is_loopback();
        let private = Door { workers: 1, max_connections: ADMIN_CONNECTIONS, tls, mount: Gateway::mount_admin };
        let opened = match admin_listener.map(|listener| private.open(listener, &gateway)).transpose() {
            Ok(admin) => public.open(listener, &gateway).map(|serving| (serving, admin)),
            Err(error) => Err(error),
        };
        let (serving, admin) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                gateway.close().await;
                return Err(refused(error));
            }
        };
        let watching = reload::watch::start(&gateway.shared);
        Ok(Server { gateway, address, admin_address, serving, admin, watching })
    }

    /// Where administrators are listened to, if they are.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
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

/// The listener for administration, if there is to be one.
fn listen_for_administrators(admin: &AdminConfig) -> Result<Option<TcpListener>, StartError> {
    let Some(bind) = admin.bind else { return Ok(None) };
    match listener::listen(bind) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if admin.is_default() => {
            log::warn!("{bind} is taken ({error}): this gateway has no listener for administration. See admin.bind.");
            Ok(None)
        }
        Err(error) => Err(StartError::BindAdmin(bind, error)),
    }
}
