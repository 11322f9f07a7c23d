//! A listening socket and the HTTP server on it, with the clocks and bounds that every connection is under.

use std::{
    any::Any,
    io,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use actix_rt::net::TcpStream;
use actix_web::{App, HttpServer, dev::Server as HttpServing, web::ServiceConfig};
use socket2::{Domain, Protocol, Socket, Type};

use crate::server::Gateway;

/// Connections the system holds while all workers are busy.
const BACKLOG: i32 = 4096;

/// A listener as actix makes them, with our backlog; a port that was left a moment ago can be had again at once.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    #[cfg(not(windows))]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What is served on a listener.
pub(crate) struct Door {
    /// Threads.
    pub(crate) workers: usize,
    /// Connections per worker; more wait in the system's queue.
    pub(crate) max_connections: usize,
    /// The paths.
    pub(crate) mount: fn(&Gateway, &mut ServiceConfig),
}

impl Door {
    /// Serves on `listener` from the moment that what comes back is awaited.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub(crate) fn open(self, listener: TcpListener, gateway: &Gateway) -> io::Result<HttpServing> {
        let setup = gateway.setup();
        let (server, timeouts) = (&setup.config.server, &setup.config.timeouts);
        let (mounted, connected) = (gateway.clone(), gateway.clone());
        let http = HttpServer::new(move || {
            let (gateway, mount) = (mounted.clone(), self.mount);
            App::new().configure(move |app| mount(&gateway, app))
        });
        let http = http
            .workers(self.workers)
            .keep_alive(server.keep_alive)
            .client_request_timeout(timeouts.client_header)
            .max_connections(self.max_connections)
            .tcp_nodelay(true)
            .on_connect(move |connection, _| {
                bound_writes(connection, connected.shared().setup.load().config.timeouts.client_write_stall);
            })
            // Otherwise a client that left is not noticed while the upstream is silent.
            .h1_allow_half_closed(false)
            .shutdown_timeout(timeouts.drain_grace.as_secs().max(1))
            .disable_signals()
            .listen(listener)?;
        Ok(http.run())
    }
}

/// A client that reads nothing keeps its connection for no longer than this: the server itself has no clock for
/// writes, and asks nobody while the socket is full.
fn bound_writes(connection: &dyn Any, stall: Duration) {
    #[cfg(target_os = "linux")]
    if let Some(tcp) = connection.downcast_ref::<TcpStream>() {
        // Refused only by systems that do not know the option; there the system's own patience counts.
        let _ = socket2::SockRef::from(tcp).set_tcp_user_timeout(Some(stall));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (connection, stall);
}
