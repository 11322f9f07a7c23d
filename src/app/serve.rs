//! The life of the process: greet, serve, drain on a signal, leave.

mod greeting;

use std::{
    fmt,
    io::{self, Write as _},
    net::SocketAddr,
    pin::pin,
    time::{Duration, Instant},
};

use actix_web::dev::ServerHandle;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

use crate::{
    app::server::{Gateway, Server, StartError},
    config::LoadedConfig,
    state::reload::ReloadTrigger,
};

/// Fewer descriptors than this are worth a warning.
const FEW_DESCRIPTORS: u64 = 4096;

/// How long running calls have for their last words when the process must leave at once: less than when it drains.
const HASTY_WORDS: Duration = Duration::from_secs(1);
/// How long what was said last may be on its way when no call runs any more.
const ON_ITS_WAY: Duration = Duration::from_millis(300);

/// Why it does not serve, or no longer.
#[derive(Debug)]
pub enum ServeError {
    /// It did not start.
    Start(StartError),
    /// The listener at that address broke while it served.
    Broke(SocketAddr, io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Start(error) => error.fmt(f),
            ServeError::Broke(address, error) => write!(f, "stopped: the listener on {address} broke: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}

impl From<StartError> for ServeError {
    fn from(error: StartError) -> ServeError {
        ServeError::Start(error)
    }
}

/// Serves until SIGTERM or SIGINT, then drains; a second signal stops at once. SIGHUP makes the configuration be read
/// again.
///
/// # Errors
/// When the gateway cannot start, or its listener breaks.
pub async fn serve(config: impl Into<LoadedConfig>) -> Result<(), ServeError> {
    // Listened for before anybody is told that we are here: who stops us then must not kill us.
    let mut signals = Signals::listen();
    raise_descriptor_limit();
    let mut server = Server::bind(config).await?;
    greet(&mut server);
    let (address, handle, gateway) = (server.address(), server.handle(), server.gateway().clone());
    let (urge, urged) = oneshot::channel();
    actix_rt::spawn(reload_on_request(signals.hangup.take(), gateway.clone()));
    actix_rt::spawn(stop_on_signal(signals, handle, gateway.clone(), urge));
    let mut serving = pin!(server.run());
    let broke = |error| ServeError::Broke(address, error);
    tokio::select! {
        served = &mut serving => served.map_err(broke),
        // A stop that waits for running requests cannot be hastened: it is left where it is. But it must not be dropped
        // before the last words are said: the workers would go with it.
        Ok(()) = urged => tokio::select! {
            () = end_at_once(&gateway) => Ok(()),
            served = &mut serving => served.map_err(broke),
        },
    }
}

/// Drains at the first signal; `urge` is told of the second.
async fn stop_on_signal(mut signals: Signals, handle: ServerHandle, gateway: Gateway, urge: oneshot::Sender<()>) {
    signals.next().await;
    log::info!("stopping: draining");
    gateway.begin_drain();
    let second = async {
        signals.next().await;
        log::info!("stopping at once");
        // The other end is gone only when the server has stopped already.
        let _ = urge.send(());
    };
    tokio::join!(drain(&handle, &gateway), second);
}

/// Stops the server after the notice; what still runs when the grace is over is ended.
async fn drain(handle: &ServerHandle, gateway: &Gateway) {
    let setup = gateway.setup();
    let (notice, grace) = (setup.config.server.drain_notice, setup.config.timeouts.drain_grace);
    drop(setup);
    actix_rt::time::sleep(notice).await;
    let time_up = async {
        actix_rt::time::sleep(grace).await;
        log::info!("stopping: the grace is over, what still runs is ended");
        gateway.end_requests();
    };
    tokio::join!(handle.stop(true), time_up);
}

/// Reads the configuration again at every SIGHUP.
async fn reload_on_request(hangup: Option<Signal>, gateway: Gateway) {
    let Some(mut hangup) = hangup else { return };
    while hangup.recv().await.is_some() {
        gateway.reload(ReloadTrigger::Signal).await;
    }
}

/// A stream takes three descriptors: its client, the handle its connection is shut by, its provider. Systems start
/// processes with room for a few hundred and let them take more.
fn raise_descriptor_limit() {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(most) if most < FEW_DESCRIPTORS => {
            log::warn!("only {most} descriptors may be open: that is room for about {} streams", most / 3);
        }
        Ok(_) => {}
        Err(error) => log::warn!("the limit of open descriptors stays as it is: {error}"),
    }
}

/// Ends what still runs, gives it a moment to say so to its clients, and hands in the last news.
async fn end_at_once(gateway: &Gateway) {
    gateway.end_requests();
    let (begun, mut last_running) = (Instant::now(), Instant::now());
    while begun.elapsed() < HASTY_WORDS && last_running.elapsed() < ON_ITS_WAY {
        let setup = gateway.setup();
        if setup.admission.load().read().connections == 0 {
            break;
        }
        if setup.admission.in_flight() > 0 {
            last_running = Instant::now();
        }
        actix_rt::time::sleep(Duration::from_millis(5)).await;
    }
    gateway.close().await;
}

/// SIGTERM, SIGINT and SIGHUP, from one moment on.
struct Signals {
    ending: Option<(Signal, Signal)>,
    hangup: Option<Signal>,
}

impl Signals {
    fn listen() -> Signals {
        let ending = signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
        let ending = ending.inspect_err(|error| log::error!("signals do not stop this process in order: {error}"));
        let hangup = signal(SignalKind::hangup());
        let hangup = hangup.inspect_err(|error| log::error!("SIGHUP does not make the configuration be read: {error}"));
        Signals { ending: ending.ok(), hangup: hangup.ok() }
    }

    /// The next that asks for an end, also one that came while nobody asked.
    async fn next(&mut self) {
        let Some((terminate, interrupt)) = &mut self.ending else { return std::future::pending().await };
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    }
}

/// Tells on stdout what a stranger needs for a first call. A closed stdout is not a reason to stop.
fn greet(server: &mut Server) {
    let administration = greeting::Administration { address: server.admin_address(), key: server.take_admin_key() };
    let text = greeting::text(&server.gateway().setup().config, &server.address().to_string(), &administration);
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
