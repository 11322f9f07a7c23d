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
    ledger::{CountRecords, Ledger, MemoryStore},
    news::{News, NewsRoom},
    provider_health::{Ping, ProviderHealth},
    router::{Router, Routers, Seeds},
    stats::{LiveBoard, Statistics},
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::Semaphore;

use crate::{
    admission::Admission,
    auth::KeyTable,
    clock,
    config::Config,
    connections::ClientWatch,
    drain::Drain,
    events::Metrics,
    gateway::{Control, Permits, Shared, Worker},
    images::ImageFiles,
    providers::Providers,
    routes,
    simulation::{self, Running as SimulatedProvider},
};

/// Connections the system holds while all workers are busy.
const BACKLOG: i32 = 4096;

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
    simulation: Arc<Vec<SimulatedProvider>>,
}

impl Gateway {
    /// Starts the control actors and, where configured, the simulated providers. Needs a running actix `System`.
    ///
    /// # Errors
    /// When a provider's TLS settings or the simulation fail.
    pub async fn start(config: Config) -> Result<Gateway, StartError> {
        clock::start();
        let simulation = play(&config).map_err(StartError::Simulation)?;
        let (catalog, policy) = (Arc::new(config.catalog(1)), Arc::new(config.routing_policy(1)));
        let providers = Providers::new(&config, &catalog, &simulation).map_err(StartError::Provider)?;
        let metrics = Metrics::new().map_err(|error| StartError::Metrics(error.to_string()))?;
        let seed = config.routing.seed.unwrap_or_else(rand::random);
        let instance = config.routing.instance_id.unwrap_or_else(rand::random);
        log::info!("routing seed {seed}, instance {instance}");
        let live = Arc::new(LiveBoard::new(&catalog, seed));
        let mut statistics = Statistics::new(Arc::clone(&catalog), policy);
        let snapshot = Arc::new(ArcSwap::from_pointee(statistics.snapshot(1)));
        // Nothing fails from here on: a thread that was started would stay. Simulated providers stop when dropped.
        let arbiter = Arbiter::new();
        let health = {
            let published = Arc::clone(&snapshot);
            ProviderHealth::start_in_arbiter(&arbiter.handle(), move |_| ProviderHealth::new(statistics, published))
        };
        let store = MemoryStore::new(config.ledger.capacity, config.ledger.max_age);
        let control = Control {
            catalog: CatalogActor::start_in_arbiter(&arbiter.handle(), move |_| CatalogActor::new(catalog)),
            health,
            ledger: Ledger::start_in_arbiter(&arbiter.handle(), move |_| Ledger::new(store)),
        };
        let permits = providers.iter().map(|provider| Permits {
            places: Arc::new(Semaphore::new(provider.max_in_flight)),
            wait: provider.permit_wait,
        });
        let shared = Shared {
            keys: KeyTable::new(config.auth.mode, &config.keys),
            admission: Admission::new(&config.limits, &config.keys),
            permits: permits.collect(),
            images: ImageFiles::new(config.images.url_ttl, config.images.max_bytes),
            metrics,
            news_room: NewsRoom::default(),
            routers: Routers::default(),
            drain: Drain::default(),
            providers,
            snapshot,
            live,
            control,
            config,
        };
        Ok(Gateway {
            shared: Arc::new(shared),
            seed,
            instance,
            workers: Arc::default(),
            control: Arc::new(arbiter),
            simulation: Arc::new(simulation),
        })
    }

    /// Mounts every path of the gateway in an application. Call it last: it answers what nobody else did.
    /// Runs once per worker thread, and gives that thread its router and its clients.
    pub fn mount(&self, app: &mut ServiceConfig) {
        routes::mount(app, &LocalData::new(self.worker()));
    }

    fn worker(&self) -> Worker {
        let shared = Arc::clone(&self.shared);
        let number = self.workers.fetch_add(1, Ordering::Relaxed);
        let seeds = Seeds { seed: self.seed, instance: self.instance, worker: number };
        let router = Router::new(Arc::clone(&shared.snapshot), Arc::clone(&shared.live), seeds);
        let control = &shared.control;
        let news = Arc::new(News::new(
            control.health.clone().recipient(),
            control.ledger.clone().recipient(),
            shared.news_room.depths.clone(),
        ));
        shared.news_room.join(Arc::clone(&news));
        Worker { clients: shared.providers.clients(), router: shared.routers.join(router.start()), news, shared }
    }

    /// What the parts of the gateway share.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The simulated providers it plays.
    #[must_use]
    pub fn simulation(&self) -> &[SimulatedProvider] {
        &self.simulation
    }

    /// From now on readiness says `draining`.
    pub fn begin_drain(&self) {
        self.shared.drain.begin();
    }

    /// From now on nothing runs on: calls without an answer are refused with 503, streams end with an error chunk.
    pub fn end_requests(&self) {
        self.shared.drain.finish();
    }

    /// Hands in the last news and stops the control actors. Call it when no worker serves any more.
    pub async fn close(&self) {
        self.shared.news_room.flush();
        let now_ms = clock::unix_millis();
        // Both answer only after every record and event before; a dead actor has nothing left to lose.
        let _ = self.shared.control.ledger.send(CountRecords { now_ms }).await;
        let _ = self.shared.control.health.send(Ping).await;
        self.control.stop();
        for provider in self.simulation.iter() {
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

/// Starts the simulated providers, if they are to serve.
fn play(config: &Config) -> io::Result<Vec<SimulatedProvider>> {
    let active = config.simulation.providers.iter().filter(|_| config.simulation.active);
    let characters: Vec<_> = active.map(|(_, character)| character.clone()).collect();
    if characters.is_empty() { Ok(Vec::new()) } else { simulation::start(characters) }
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
        let watch = ClientWatch::new(&gateway.shared.config, gateway.shared.admission.load());
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
