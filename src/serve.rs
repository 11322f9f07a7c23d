//! The life of the process: greet, serve, drain on a signal, leave.

mod greeting;

use std::{
    fmt,
    io::{self, Write as _},
    net::SocketAddr,
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

use crate::{
    config::Config,
    reload::Cause,
    server::{Gateway, Server, StartError},
};

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
pub async fn serve(config: Config) -> Result<(), ServeError> {
    // Listened for before anybody is told that we are here: who stops us then must not kill us.
    let mut signals = Signals::listen();
    let server = Server::bind(config).await?;
    greet(&server);
    let (address, handle, gateway) = (server.address(), server.handle(), server.gateway().clone());
    let (urge, urged) = oneshot::channel();
    let flushed = gateway.clone();
    actix_rt::spawn(reload_on_request(signals.hangup.take(), gateway.clone()));
    actix_rt::spawn(async move {
        signals.next().await;
        log::info!("stopping: draining");
        gateway.begin_drain();
        let second = async {
            signals.next().await;
            log::info!("stopping at once");
            // The other end is gone only when the server has stopped already.
            let _ = urge.send(());
        };
        let graceful = async {
            actix_rt::time::sleep(gateway.setup().config.server.drain_notice).await;
            gateway.begin_stop();
            handle.stop(true).await;
        };
        tokio::join!(graceful, second);
    });
    // A stop that waits for running requests cannot be hastened: it is left where it is.
    tokio::select! {
        served = server.run() => served.map_err(|error| ServeError::Broke(address, error)),
        Ok(()) = urged => {
            flushed.close().await;
            Ok(())
        }
    }
}

/// Reads the configuration again at every SIGHUP.
async fn reload_on_request(hangup: Option<Signal>, gateway: Gateway) {
    let Some(mut hangup) = hangup else { return };
    while hangup.recv().await.is_some() {
        gateway.reload(Cause::Signal).await;
    }
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
fn greet(server: &Server) {
    let text = greeting::text(&server.gateway().setup().config, &server.address().to_string());
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
