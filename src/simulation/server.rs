//! Starting and stopping simulated providers.
//!
//! All providers of one call share a thread with its own runtime, whatever the caller runs on: idle ones
//! cost a socket each. It is not `HttpServer`, which brings at least two threads and can only stop as a
//! whole: here each provider accepts for itself, so that one can go down while its neighbours serve.

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

use super::{character::Character, counters::Counters, provider::Provider, routes};

/// The largest body a provider reads: twice what the gateway lets through by default.
const LARGEST_BODY: usize = 64 << 20;

/// How long an idle connection stays open. Longer than the gateway keeps one, so that the gateway closes.
const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// How long a request's head may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a failed accept, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long [`Running::stop`] waits for the connections to be gone.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// A provider that serves. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    /// The slug of its character.
    pub slug: String,
    /// Where it listens.
    pub address: SocketAddr,
    provider: Arc<Provider>,
    stop: Mutex<Option<oneshot::Sender<mpsc::Sender<()>>>>,
}

impl Running {
    /// The base address that clients are configured with.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What it has seen so far; keeps counting after this value is gone.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        self.provider.counters()
    }

    /// Gives it another character from the next request on: an outage, a recovery, a new speed. Slug,
    /// port and counters stay.
    pub fn become_like(&self, character: Character) {
        self.provider.become_like(character);
    }

    /// Stops it as a crash would: the port refuses, connections break. Returns when that is done (blocks
    /// the calling thread for some microseconds); does nothing the second time.
    pub fn stop(&self) {
        let Some(stop) = self.stop.lock().take() else { return };
        let (done, wait) = mpsc::channel();
        if stop.send(done).is_ok() {
            // An error says that the sender is gone, and with it the provider.
            let _ = wait.recv_timeout(STOP_WAIT);
        }
    }
}

/// Starts each character on a free loopback port, in the order given. Works from any thread, inside a
/// runtime or without one; blocks until all listen.
///
/// # Errors
/// When a port, the thread or its runtime cannot be had.
pub fn start(characters: Vec<Character>) -> io::Result<Vec<Running>> {
    let bound = |character| Ok((TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, character));
    serve(characters.into_iter().map(bound).collect::<io::Result<_>>()?)
}

/// Like [`start`], on listeners that the caller has bound: for fixed ports.
///
/// # Errors
/// When a listener cannot be used, or the thread or its runtime cannot be had.
pub fn serve(bound: Vec<(TcpListener, Character)>) -> io::Result<Vec<Running>> {
    let mut running = Vec::with_capacity(bound.len());
    let mut seats = Vec::with_capacity(bound.len());
    for (listener, character) in bound {
        listener.set_nonblocking(true)?;
        let (address, slug) = (listener.local_addr()?, character.slug.clone());
        let provider = Arc::new(Provider::new(character));
        let (stop, stopped) = oneshot::channel();
        seats.push(Seat { listener, provider: Arc::clone(&provider), stopped });
        running.push(Running { slug, address, provider, stop: Mutex::new(Some(stop)) });
    }
    let (ready, started) = mpsc::channel();
    thread::Builder::new().name("simulation".to_owned()).spawn(move || run(seats, &ready))?;
    started.recv().map_err(|_| io::Error::other("the simulation's thread died"))??;
    Ok(running)
}

/// One provider before it serves.
struct Seat {
    listener: TcpListener,
    provider: Arc<Provider>,
    stopped: oneshot::Receiver<mpsc::Sender<()>>,
}

/// The thread: serves all seats until the last one is stopped.
fn run(seats: Vec<Seat>, ready: &mpsc::Sender<io::Result<()>>) {
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(fault) => {
            let _ = ready.send(Err(fault));
            return;
        }
    };
    LocalSet::new().block_on(&runtime, async {
        let listening: io::Result<Vec<_>> = seats
            .into_iter()
            .map(|seat| Ok((AsyncListener::from_std(seat.listener)?, seat.provider, seat.stopped)))
            .collect();
        let (outcome, listening) = listening.map_or_else(|fault| (Err(fault), Vec::new()), |seats| (Ok(()), seats));
        // Nobody waits any more if the caller is gone; its dropped handles stop the seats at once.
        let _ = ready.send(outcome);
        let seats = listening.into_iter().map(|(listener, provider, stopped)| sit(listener, provider, stopped));
        join_all(seats).await;
    });
}

/// Serves one provider until it is stopped or its handle is dropped.
async fn sit(listener: AsyncListener, provider: Arc<Provider>, stopped: oneshot::Receiver<mpsc::Sender<()>>) {
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

/// Accepts for ever, each connection as a task of its own.
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
                    // How a connection ends is the client's affair, or was arranged here.
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
        .app_data(PayloadConfig::new(LARGEST_BODY))
        .configure(routes::routes)
        .default_service(to(routes::unknown_path));
    HttpService::build()
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(HEAD_TIMEOUT)
        // Without this a client that left is noticed only when something is written to it.
        .h1_allow_half_closed(false)
        .tcp_nodelay(true)
        .h1(map_config(app.into_factory(), |()| AppConfig::default()))
        .tcp()
}
