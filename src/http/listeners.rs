//! Listening sockets and the HTTP servers on them, with the timeouts and limits of every connection.

use std::{
    fmt,
    future::ready,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use actix_http::{HttpServiceBuilder, Request, Response, error::DispatchError, h1::UpgradeHandler};
use actix_rt::net::TcpStream;
use actix_service::{IntoServiceFactory as _, Service, ServiceFactory, ServiceFactoryExt as _, fn_service, map_config};
use actix_tls::accept::{
    TlsError, max_concurrent_tls_connect,
    rustls_0_23::{Acceptor, TlsStream},
};
use actix_web::{
    App, Error,
    body::BoxBody,
    dev::{AppConfig, Extensions, Server as HttpServing, ServiceRequest, ServiceResponse},
    web::ServiceConfig,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    http::{
        connections::ConnectionLimits,
        expectation::ContinueCheck,
        pipelining::{SerialConnection, TcpConnection},
        tls,
    },
    state::{drain::FLUSH_TIMEOUT, gateway::Shared, setup::Setup},
};

/// Connections that the system queues while all workers are busy.
const BACKLOG: i32 = 4096;
/// How long a closing connection may still send its last answer; it is read meanwhile, so that the answer arrives.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Binds a listener with address reuse and [`BACKLOG`], and returns it with its address. Port 0 lets the system choose the
/// port.
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

/// Settings of the HTTP server on one listener.
pub(crate) struct ListenerService<M> {
    /// Worker threads.
    pub(crate) workers: usize,
    /// Connections per worker; more wait in the system's queue.
    pub(crate) max_connections: usize,
    /// Whether connections use TLS.
    pub(crate) tls: bool,
    /// Mounts the paths, once per worker thread.
    pub(crate) mount: M,
}

impl<M: Fn(&mut ServiceConfig) + Clone + Send + 'static> ListenerService<M> {
    /// Builds the HTTP/1.1 server on `listener`; it serves once it is awaited. `HttpServer` is not used: over TLS it
    /// offers HTTP/2 if any crate of the build enables it, and it does not accept a handler for `Expect: 100-continue`.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub(crate) fn open(self, listener: TcpListener, shared: &Arc<Shared>) -> io::Result<HttpServing> {
        let builder = HttpServing::build()
            .workers(self.workers)
            .max_concurrent_connections(self.max_connections)
            .shutdown_timeout(shutdown_timeout(&shared.setup.load()))
            .disable_signals();
        let address = listener.local_addr()?;
        let (encrypted, max_connections) = (self.tls, self.max_connections);
        let services = ServiceBuilder { mount: self.mount, shared: Arc::clone(shared), address };
        let shutdown = builder.graceful_shutdown_signal();
        let shutdown = move || {
            let shutdown = shutdown.clone();
            async move { shutdown.notified().await }
        };
        if !encrypted {
            let serve = move || {
                let http_service = services.http_builder().graceful_shutdown_signal(shutdown.clone());
                fn_service(|io: TcpStream| ready(Ok::<_, DispatchError>(with_peer(io))))
                    .and_then(http_service.h1(map_config(services.app().into_factory(), |()| AppConfig::default())))
            };
            return Ok(builder.listen("http", listener, serve)?.run());
        }
        let tls = tls::server_config(shared).map_err(io::Error::other)?;
        // With the default of 256, as many clients that never finish the handshake would block all others.
        max_concurrent_tls_connect(max_connections);
        let serve = move || {
            let http_service = services.http_builder().secure().graceful_shutdown_signal(shutdown.clone());
            let served = http_service.h1(map_config(services.app().into_factory(), |()| AppConfig::default()));
            Acceptor::new(tls.clone())
                .map_init_err(|_| ())
                .map_err(TlsError::into_service_error)
                .map(|io: TlsStream<TcpStream>| with_peer(io))
                .and_then(served.map_err(TlsError::Service))
        };
        Ok(builder.listen("https", listener, serve)?.run())
    }
}

/// Builds the HTTP service of each worker.
#[derive(Clone)]
struct ServiceBuilder<M> {
    mount: M,
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl<M: Fn(&mut ServiceConfig) + Clone + Send + 'static> ServiceBuilder<M> {
    /// The service builder with the timeouts and limits of a connection, encrypted or not.
    fn http_builder<T: TcpConnection + 'static, S>(
        &self,
    ) -> HttpServiceBuilder<SerialConnection<T>, S, ContinueCheck, UpgradeHandler>
    where
        S: ServiceFactory<Request, Config = ()>,
        S::Error: Into<Response<BoxBody>> + 'static,
        S::InitError: fmt::Debug,
        <S::Service as Service<Request>>::Future: 'static,
    {
        let (setup, shared) = (self.shared.setup.load(), Arc::clone(&self.shared));
        HttpServiceBuilder::default()
            .keep_alive(setup.config.server.keep_alive)
            .client_request_timeout(setup.config.timeouts.client_header)
            .client_disconnect_timeout(DISCONNECT_TIMEOUT)
            // Otherwise a disconnect of the client goes unnoticed while the upstream is silent.
            .h1_allow_half_closed(false)
            .local_addr(self.address)
            .expect(ContinueCheck::new(&self.shared))
            .on_connect_ext(move |connection: &SerialConnection<T>, extensions| watch(&shared, connection, extensions))
    }

    fn app(
        &self,
    ) -> App<
        impl ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse, Error = Error, InitError = ()> + use<M>,
    > {
        App::new().configure(self.mount.clone())
    }
}

/// Seconds that connections have to end when the server stops: the grace period and the time for the last bytes.
fn shutdown_timeout(setup: &Setup) -> u64 {
    (setup.config.timeouts.drain_grace + FLUSH_TIMEOUT).as_secs().max(1)
}

/// Wraps a new connection, and adds the address of its peer as the HTTP server expects it.
fn with_peer<T: TcpConnection>(io: T) -> (SerialConnection<T>, Option<SocketAddr>) {
    let peer = io.socket().peer_addr().ok();
    (SerialConnection::new(io), peer)
}

/// Starts to watch a new connection, with the limits of the current configuration.
fn watch<T: TcpConnection + 'static>(shared: &Shared, connection: &SerialConnection<T>, extensions: &mut Extensions) {
    let setup = shared.setup.load();
    let limits = ConnectionLimits::new(&setup.config, setup.admission.load());
    limits.watch(connection.io(), connection.progress(), extensions);
}
