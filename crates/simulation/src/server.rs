//! Starting and stopping simulated providers.
//!
//! All providers of one call share a thread with its own runtime. `HttpServer` is not used, because it needs at least two
//! threads and stops as a whole; here each provider accepts its own connections, so that one can stop while others serve.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use actix_http::HttpService;
use actix_service::{IntoServiceFactory, Service, ServiceFactory, map_config};
use actix_web::{
    App,
    dev::AppConfig,
    web::{Data, PayloadConfig, to},
};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener as AsyncListener, TcpStream},
    runtime,
    sync::oneshot,
    task::{JoinSet, LocalSet},
};

use super::{ProviderSettings, counters::Counters, provider::Provider, routes};

/// Largest request body of a provider: twice the default limit of the gateway.
const MAX_BODY_BYTES: usize = 64 << 20;

/// Time that an idle connection is kept. Longer than in the gateway, so that the gateway closes it first.
const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// Timeout of a request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a failed accept, which is usually caused by a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Longest wait of [`ProviderServer::stop`] for open connections.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// A running provider. Dropping it stops it.
#[derive(Debug)]
pub struct ProviderServer {
    /// The slug of its settings.
    pub slug: String,
    /// Its address.
    pub address: SocketAddr,
    provider: Arc<Provider>,
    stop: Mutex<Option<oneshot::Sender<mpsc::Sender<()>>>>,
}

impl ProviderServer {
    /// The base URL for clients.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Its counters. They stay valid after this value is dropped.
    pub fn counters(&self) -> Arc<Counters> {
        self.provider.counters()
    }

    /// Replaces its settings from the next request on, for example to simulate an outage. Slug, port and counters stay.
    pub fn set_settings(&self, settings: ProviderSettings) {
        self.provider.set_settings(settings);
    }

    /// Stops it as a crash would: the port refuses connections, and open connections break. Blocks until it has stopped,
    /// usually for some microseconds. Does nothing the second time.
    pub fn stop(&self) {
        let Some(stop) = self.stop.lock().take() else { return };
        let (done, wait) = mpsc::channel();
        if stop.send(done).is_ok() {
            // An error means that the provider has stopped.
            let _ = wait.recv_timeout(STOP_WAIT);
        }
    }
}

/// Starts a provider for each of the settings on a free loopback port, in the given order. Works on any thread, with or without a runtime.
/// Blocks until all listen.
///
/// # Errors
/// When a port, the thread or its runtime cannot be created.
pub fn start(settings: Vec<ProviderSettings>) -> io::Result<Vec<ProviderServer>> {
    let bound = |settings| Ok((TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, settings));
    serve(settings.into_iter().map(bound).collect::<io::Result<_>>()?)
}

/// Like [`start`], on bound listeners, for fixed ports.
///
/// # Errors
/// When a listener cannot be used, or the thread or its runtime cannot be created.
pub fn serve(bound: Vec<(TcpListener, ProviderSettings)>) -> io::Result<Vec<ProviderServer>> {
    let mut running = Vec::with_capacity(bound.len());
    let mut providers = Vec::with_capacity(bound.len());
    for (listener, settings) in bound {
        listener.set_nonblocking(true)?;
        let (address, slug) = (listener.local_addr()?, settings.slug.clone());
        let provider = Arc::new(Provider::new(settings));
        let (stop, stopped) = oneshot::channel();
        providers.push(BoundProvider { listener, provider: Arc::clone(&provider), stopped });
        running.push(ProviderServer { slug, address, provider, stop: Mutex::new(Some(stop)) });
    }
    let (ready, started) = mpsc::channel();
    thread::Builder::new().name("simulation".to_owned()).spawn(move || run(providers, &ready))?;
    started.recv().map_err(|_| io::Error::other("the simulation's thread died"))??;
    Ok(running)
}

/// A provider with a bound listener, before it accepts connections.
struct BoundProvider {
    listener: TcpListener,
    provider: Arc<Provider>,
    stopped: oneshot::Receiver<mpsc::Sender<()>>,
}

/// The thread: serves all providers until the last one is stopped.
fn run(providers: Vec<BoundProvider>, ready: &mpsc::Sender<io::Result<()>>) {
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(fault) => {
            let _ = ready.send(Err(fault));
            return;
        }
    };
    LocalSet::new().block_on(&runtime, async {
        let listening: io::Result<Vec<_>> = providers
            .into_iter()
            .map(|bound| Ok((AsyncListener::from_std(bound.listener)?, bound.provider, bound.stopped)))
            .collect();
        let (outcome, listening) =
            listening.map_or_else(|fault| (Err(fault), Vec::new()), |providers| (Ok(()), providers));
        // An error means that the caller is gone; then its dropped handles stop all providers.
        let _ = ready.send(outcome);
        let providers =
            listening.into_iter().map(|(listener, provider, stopped)| serve_until_stopped(listener, provider, stopped));
        join_all(providers).await;
    });
}

/// Serves one provider until it is stopped or its handle is dropped.
async fn serve_until_stopped(
    listener: AsyncListener,
    provider: Arc<Provider>,
    stopped: oneshot::Receiver<mpsc::Sender<()>>,
) {
    let mut connections = JoinSet::new();
    let stop = tokio::select! {
        stop = stopped => stop,
        () = accept(listener, provider, &mut connections) => return,
    };
    connections.shutdown().await;
    if let Ok(done) = stop {
        let _ = done.send(());
    }
}

/// Accepts connections forever, each in its own task.
async fn accept(listener: AsyncListener, provider: Arc<Provider>, connections: &mut JoinSet<()>) {
    let Ok(service) = http(provider).new_service(()).await else {
        log::error!("a simulated provider could not start its service");
        return;
    };
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((connection, _)) => {
                    let served = service.call(connection);
                    // Errors of a connection come from the client or are simulated.
                    connections.spawn_local(async { drop(served.await) });
                }
                Err(fault) => {
                    log::warn!("a simulated provider cannot accept: {fault}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The HTTP service of one provider.
fn http(provider: Arc<Provider>) -> impl ServiceFactory<TcpStream, Config = (), Response = (), InitError = ()> {
    let app = App::new()
        .app_data(Data::from(provider))
        .app_data(PayloadConfig::new(MAX_BODY_BYTES))
        .configure(routes::routes)
        .default_service(to(routes::unknown_path));
    HttpService::build()
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(HEAD_TIMEOUT)
        // Otherwise a disconnected client is detected only at the next write.
        .h1_allow_half_closed(false)
        .tcp_nodelay(true)
        .h1(map_config(app.into_factory(), |()| AppConfig::default()))
        .tcp()
}
