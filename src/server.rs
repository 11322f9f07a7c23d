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

use actix::{Actor as _, Arbiter};
use actix_web::{
    App, HttpServer,
    dev::{Server as HttpServing, ServerHandle},
    web::ServiceConfig,
};
use actix_web_lab::extract::LocalData;
use arc_swap::ArcSwap;
use pointsman_actors::{
    catalog::CatalogActor,
    keeping::Keep,
    ledger::{CountRecords, Ledger, MemoryStore},
    news::{News, NewsRoom},
    provider_health::{ProviderHealth, WriteDown},
    published::Published,
    router::{Router, Routers, Seeds},
    stats::{LiveBoard, Statistics, mix},
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    clock,
    config::Config,
    connections::ClientWatch,
    dispatch::budget::Budgets,
    drain::Drain,
    events::Metrics,
    gateway::{Control, Desk, Shared},
    images::ImageFiles,
    memory::Memory,
    reload::{self, AdoptError},
    routes,
    setup::{Draft, Setup},
};

/// Connections the system holds while all workers are busy.
const BACKLOG: i32 = 4096;

/// How long the end of the process may wait for a slow disk.
const LAST_NEWS: Duration = Duration::from_secs(5);
/// How long, behind the grace of a drain, connections may still take to carry what was said last.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Why the gateway did not start.
#[derive(Debug)]
pub enum StartError {
    /// The address cannot be listened on.
    Bind(SocketAddr, io::Error),
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
    /// Held while a configuration is taken over.
    adopting: Arc<tokio::sync::Mutex<()>>,
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
        let control = Control::new(
            CatalogActor::start_in_arbiter(&arbiter.handle(), move |_| CatalogActor::new(catalog)),
            {
                let health = ProviderHealth::new(statistics, published);
                let health = match &memory {
                    Some(memory) => health.keeping(Arc::clone(memory) as Arc<dyn Keep>, remembering.save_interval),
                    None => health,
                };
                ProviderHealth::start_in_arbiter(&arbiter.handle(), move |_| health)
            },
            Ledger::start_in_arbiter(&arbiter.handle(), move |_| Ledger::new(store)),
        );
        let shared = Shared {
            setup: ArcSwap::from_pointee(setup),
            images: ImageFiles::new(images.url_ttl, images.max_bytes),
            metrics,
            budgets: Budgets::default(),
            news_room: NewsRoom::default(),
            routers: Routers::default(),
            memory,
            drain: Drain::default(),
            control,
        };
        Ok(Gateway {
            shared: Arc::new(shared),
            seed,
            instance,
            workers: Arc::default(),
            control: Arc::new(arbiter),
            adopting: Arc::default(),
        })
    }

    /// Mounts every path of the gateway in an application. Call it last: it answers what nobody else did.
    /// Runs once per worker thread, and gives that thread its router and its clients.
    pub fn mount(&self, app: &mut ServiceConfig) {
        routes::mount(app, &LocalData::new(self.desk()));
    }

    /// The desk of the calling thread.
    pub(crate) fn desk(&self) -> Desk {
        let shared = &self.shared;
        let number = self.workers.fetch_add(1, Ordering::Relaxed);
        let router = Router::new(Seeds { seed: self.seed, instance: self.instance, worker: number });
        let control = &shared.control;
        let news = Arc::new(News::new(
            control.health().as_ref().clone().recipient(),
            control.ledger().as_ref().clone().recipient(),
            shared.news_room.depths.clone(),
        ));
        shared.news_room.join(Arc::clone(&news));
        Desk::new(Arc::clone(shared), &shared.routers.join(router.start()), &news)
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
        let _alone = self.adopting.lock().await;
        reload::adopt(&self.shared, config).await
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
        let _ = self.shared.control.ledger().send(CountRecords { now_ms }).await;
        // Answers only after every event before, and when they are written down.
        let _ = self.shared.control.health().send(WriteDown).timeout(LAST_NEWS).await;
        self.control.stop();
        for provider in self.setup().simulation() {
            provider.stop();
        }
    }
}

/// A listener as actix makes them, with our backlog; a port that was left a moment ago can be had again at once.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    #[cfg(not(windows))]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A gateway on its own listener.
pub struct Server {
    gateway: Gateway,
    address: SocketAddr,
    serving: HttpServing,
}

impl Server {
    /// Starts the gateway and binds its listener; port 0 lets the system choose.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn bind(config: Config) -> Result<Server, StartError> {
        let server = config.server.clone();
        let timeouts = config.timeouts;
        let refused = |error| StartError::Bind(server.bind, error);
        // First, so that an address that is taken leaves nothing behind that runs.
        let listener = listen(server.bind).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let gateway = Gateway::start(config).await?;
        let mounted = gateway.clone();
        let watch = {
            let setup = gateway.setup();
            ClientWatch::new(&setup.config, setup.admission.load())
        };
        let workers = server.workers.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        let http = HttpServer::new(move || {
            let gateway = mounted.clone();
            App::new().configure(move |app| gateway.mount(app))
        });
        let http = http
            .workers(workers)
            .keep_alive(server.keep_alive)
            .client_request_timeout(timeouts.client_header)
            .max_connections(server.max_connections)
            .tcp_nodelay(true)
            .on_connect(move |connection, extensions| watch.accept(connection, extensions))
            // Otherwise a client that left is not noticed while the upstream is silent.
            .h1_allow_half_closed(false)
            .shutdown_timeout((timeouts.drain_grace + LAST_WORDS).as_secs().max(1))
            .disable_signals()
            .listen(listener);
        let http = match http {
            Ok(http) => http,
            Err(error) => {
                gateway.close().await;
                return Err(refused(error));
            }
        };
        Ok(Server { gateway, address, serving: http.run() })
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
        let served = self.serving.await;
        self.gateway.close().await;
        served
    }
}
