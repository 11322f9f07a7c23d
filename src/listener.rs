//! A listening socket and the HTTP server on it, with the clocks and bounds that every connection is under.

use std::{
    any::Any,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use actix_http::HttpService;
use actix_rt::net::TcpStream;
use actix_service::{IntoServiceFactory as _, map_config};
use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::{
    App, HttpServer,
    dev::{AppConfig, Extensions, Server as HttpServing},
    web::ServiceConfig,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{connections::ClientWatch, drain::LAST_WORDS, gateway::Shared, setup::Setup, tls};

/// Connections the system holds while all workers are busy.
const BACKLOG: i32 = 4096;

/// A listener as actix makes them, with our backlog, and the address it has: a port that was left a moment ago can be had
/// again at once, and port 0 lets the system choose.
pub(crate) fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    #[cfg(not(windows))]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// What is served on a listener.
pub(crate) struct Door<M> {
    /// Threads.
    pub(crate) workers: usize,
    /// Connections per worker; more wait in the system's queue.
    pub(crate) max_connections: usize,
    /// Whether it speaks TLS.
    pub(crate) tls: bool,
    /// Mounts the paths, once per thread.
    pub(crate) mount: M,
}

impl<M: Fn(&mut ServiceConfig) + Clone + Send + 'static> Door<M> {
    /// Serves on `listener` from the moment that what comes back is awaited.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub(crate) fn open(self, listener: TcpListener, shared: &Arc<Shared>) -> io::Result<HttpServing> {
        if self.tls {
            return self.open_encrypted(listener, shared);
        }
        let setup = shared.setup.load();
        let (server, timeouts) = (&setup.config.server, &setup.config.timeouts);
        let connected = Arc::clone(shared);
        let http = HttpServer::new(move || App::new().configure(self.mount.clone()));
        let http = http
            .workers(self.workers)
            .keep_alive(server.keep_alive)
            .client_request_timeout(timeouts.client_header)
            .max_connections(self.max_connections)
            .tcp_nodelay(true)
            .on_connect(move |connection, extensions| watch(&connected, connection, extensions))
            // Otherwise a client that left is not noticed while the upstream is silent.
            .h1_allow_half_closed(false)
            .shutdown_timeout(grace(&setup))
            .disable_signals()
            .listen(listener)?;
        Ok(http.run())
    }

    /// The same over TLS. Not by way of `HttpServer`: it offers HTTP/2 as soon as any crate of the build can speak it.
    fn open_encrypted(self, listener: TcpListener, shared: &Arc<Shared>) -> io::Result<HttpServing> {
        let setup = shared.setup.load();
        let (keep_alive, timeouts) = (setup.config.server.keep_alive, setup.config.timeouts);
        let tls = tls::server_config(shared).map_err(io::Error::other)?;
        let address = listener.local_addr()?;
        let builder = actix_server::Server::build()
            .workers(self.workers)
            .max_concurrent_connections(self.max_connections)
            .shutdown_timeout(grace(&setup))
            .disable_signals();
        let (ending, shared) = (builder.graceful_shutdown_signal(), Arc::clone(shared));
        let builder = builder.listen("https", listener, move || {
            let (ending, connected) = (ending.clone(), Arc::clone(&shared));
            let app = App::new().configure(self.mount.clone());
            HttpService::build()
                .keep_alive(keep_alive)
                .client_request_timeout(timeouts.client_header)
                .h1_allow_half_closed(false)
                .secure()
                .local_addr(address)
                .graceful_shutdown_signal(move || {
                    let ending = ending.clone();
                    async move { ending.notified().await }
                })
                .on_connect_ext(move |connection: &TlsStream<TcpStream>, extensions| {
                    // A connection that is gone already has no more need of it.
                    let _ = connection.get_ref().0.set_nodelay(true);
                    watch(&connected, connection, extensions);
                })
                .h1(map_config(app.into_factory(), |()| AppConfig::default()))
                .rustls_0_23(tls.clone())
        })?;
        Ok(builder.run())
    }
}

/// Seconds that connections get to end when the server stops: the grace, and a moment for what is said last.
fn grace(setup: &Setup) -> u64 {
    (setup.config.timeouts.drain_grace + LAST_WORDS).as_secs().max(1)
}

/// Takes a new connection under watch, with the bounds that are in force now.
fn watch(shared: &Shared, connection: &dyn Any, extensions: &mut Extensions) {
    let setup = shared.setup.load();
    ClientWatch::new(&setup.config, setup.admission.load()).accept(connection, extensions);
}
