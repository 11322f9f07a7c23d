//! The life cycle of the server process: start, print the greeting, serve, drain on a signal, exit.

mod greeting;

use std::{
    fmt,
    io::{self, Write as _},
    net::SocketAddr,
    pin::pin,
    time::{Duration, Instant},
};

use actix_web::dev::ServerHandle;
use pointsman_config::LoadedConfig;
use pointsman_transport::read_system_roots;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

use crate::{
    app::server::{Gateway, Server, StartError},
    base::{log_output, service_manager},
    state::reload::ReloadTrigger,
};

/// Below this limit of open descriptors the start logs a warning.
const MIN_DESCRIPTORS: u64 = 4096;

/// How long running calls have to send their error answers after a second signal: less than when draining.
const IMMEDIATE_STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the connections stay open after the last call, so that its answer reaches the client.
const DELIVERY_TIMEOUT: Duration = Duration::from_millis(300);

/// Why the server did not start, or stopped.
#[derive(Debug)]
pub enum ServeError {
    /// The server did not start.
    Start(StartError),
    /// The listener at this address failed while serving.
    Listener(SocketAddr, io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Start(error) => error.fmt(f),
            ServeError::Listener(address, error) => write!(f, "stopped: the listener on {address} failed: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}

impl From<StartError> for ServeError {
    fn from(error: StartError) -> ServeError {
        ServeError::Start(error)
    }
}

/// Serves until SIGTERM or SIGINT, then drains; a second signal stops at once. SIGHUP reloads the configuration.
///
/// # Errors
/// When the gateway cannot start, or its listener fails.
pub async fn serve(config: impl Into<LoadedConfig>) -> Result<(), ServeError> {
    let config: LoadedConfig = config.into();
    let log = &config.config.log;
    log_output::configure(log.format, log.level, log.requests);
    // Before the start is announced, so that a signal from then on drains instead of killing the process.
    let mut signals = Signals::listen();
    raise_descriptor_limit();
    let mut server = Server::bind(config).await?;
    print_greeting(&mut server);
    service_manager::ready(&status(server.gateway()));
    let (address, handle, gateway) = (server.address(), server.handle(), server.gateway().clone());
    if gateway.setup().providers.any_by_tls() {
        // Off the way to readiness: they take longer than all else at the start.
        std::thread::spawn(read_system_roots);
    }
    let (second_signal, second_signalled) = oneshot::channel();
    actix_rt::spawn(reload_on_signal(signals.hangup.take(), gateway.clone()));
    actix_rt::spawn(stop_on_signal(signals, handle, gateway.clone(), second_signal));
    let mut serving = pin!(server.run());
    let failed = |error| ServeError::Listener(address, error);
    tokio::select! {
        served = &mut serving => served.map_err(failed),
        // The graceful stop under way cannot be shortened. Its future is kept until the running calls have sent their
        // error answers, because dropping it ends the workers.
        Ok(()) = second_signalled => tokio::select! {
            () = end_at_once(&gateway) => Ok(()),
            served = &mut serving => served.map_err(failed),
        },
    }
}

/// Drains at the first signal; sends on `second_signal` at the second.
async fn stop_on_signal(
    mut signals: Signals,
    handle: ServerHandle,
    gateway: Gateway,
    second_signal: oneshot::Sender<()>,
) {
    signals.next_stop().await;
    log::info!(event = "stop"; "stopping: draining");
    service_manager::stopping();
    gateway.begin_drain();
    let second = async {
        signals.next_stop().await;
        log::info!("stopping at once");
        // The receiver is gone only when the server has already stopped.
        let _ = second_signal.send(());
    };
    tokio::join!(drain(&handle, &gateway), second);
}

/// Stops the server after `server.drain_notice`; ends the calls that still run after `timeouts.drain_grace`.
async fn drain(handle: &ServerHandle, gateway: &Gateway) {
    let setup = gateway.setup();
    let (notice, grace) = (setup.config.server.drain_notice, setup.config.timeouts.drain_grace);
    drop(setup);
    actix_rt::time::sleep(notice).await;
    let end_after_grace = async {
        actix_rt::time::sleep(grace).await;
        log::info!("stopping: timeouts.drain_grace is over, ending the running calls");
        gateway.end_requests();
    };
    tokio::join!(handle.stop(true), end_after_grace);
}

/// Reloads the configuration at every SIGHUP.
async fn reload_on_signal(hangup: Option<Signal>, gateway: Gateway) {
    let Some(mut hangup) = hangup else { return };
    while hangup.recv().await.is_some() {
        service_manager::reloading();
        gateway.reload(ReloadTrigger::Signal).await;
        service_manager::ready(&status(&gateway));
    }
}

/// What a service manager shows beside the state of the process.
fn status(gateway: &Gateway) -> String {
    format!("serving configuration version {}", gateway.setup().version)
}

/// Raises the limit of open descriptors as far as the system allows. A stream takes three: the client's socket, the handle
/// that shuts it, and the provider's socket.
fn raise_descriptor_limit() {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) if limit < MIN_DESCRIPTORS => {
            log::warn!(
                "only {limit} descriptors may be open, enough for about {} streams; raise the limit (ulimit -n)",
                limit / 3
            );
        }
        Ok(_) => {}
        Err(error) => log::warn!("cannot raise the limit of open descriptors: {error}"),
    }
}

/// Ends the running calls, waits shortly for their error answers, and closes the gateway.
async fn end_at_once(gateway: &Gateway) {
    gateway.end_requests();
    let (started, mut last_running) = (Instant::now(), Instant::now());
    while started.elapsed() < IMMEDIATE_STOP_TIMEOUT && last_running.elapsed() < DELIVERY_TIMEOUT {
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

/// Receivers of SIGTERM, SIGINT and SIGHUP.
struct Signals {
    stop: Option<(Signal, Signal)>,
    hangup: Option<Signal>,
}

impl Signals {
    fn listen() -> Signals {
        let stop = signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
        let stop = stop.inspect_err(|error| {
            log::error!("cannot listen for SIGTERM and SIGINT, so a stop will not drain: {error}")
        });
        let hangup = signal(SignalKind::hangup());
        let hangup = hangup.inspect_err(|error| {
            log::error!("cannot listen for SIGHUP, so it will not reload the configuration: {error}")
        });
        Signals { stop: stop.ok(), hangup: hangup.ok() }
    }

    /// Waits for SIGTERM or SIGINT, also for one received before the call.
    async fn next_stop(&mut self) {
        let Some((terminate, interrupt)) = &mut self.stop else { return std::future::pending().await };
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    }
}

/// Prints the greeting to stdout. A closed stdout is not an error.
fn print_greeting(server: &mut Server) {
    let (address, key) = (server.admin_address(), server.take_admin_key());
    let admin = greeting::AdminAccess { address, key, login_link: server.take_login_link() };
    let text = greeting::text(&server.gateway().setup().config, &server.address().to_string(), &admin);
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
