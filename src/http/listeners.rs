//! A listening socket and the HTTP server on it, with the clocks and bounds that every connection is under.

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
        connections::ClientWatch,
        expectation::KeyFirst,
        pipelining::{InTurn, OnSocket},
        tls,
    },
    state::{drain::FLUSH_TIMEOUT, gateway::Shared, setup::Setup},
};

/// Connections the system holds while all workers are busy.
const BACKLOG: i32 = 4096;
/// How long a connection that is to end may still carry what was said last, and be read from so that it arrives.
const LAST_BYTES: Duration = Duration::from_secs(1);

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
pub(crate) struct ListenerService<M> {
    /// Threads.
    pub(crate) workers: usize,
    /// Connections per worker; more wait in the system's queue.
    pub(crate) max_connections: usize,
    /// Whether it speaks TLS.
    pub(crate) tls: bool,
    /// Mounts the paths, once per thread.
    pub(crate) mount: M,
}

impl<M: Fn(&mut ServiceConfig) + Clone + Send + 'static> ListenerService<M> {
    /// Serves on `listener` from the moment that what comes back is awaited, in HTTP/1.1 only. Not by way of
    /// `HttpServer`: over TLS it offers HTTP/2 as soon as any crate of the build can speak it, and it leaves nobody a
    /// say in who is told to go on with a body.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub(crate) fn open(self, listener: TcpListener, shared: &Arc<Shared>) -> io::Result<HttpServing> {
        let builder = HttpServing::build()
            .workers(self.workers)
            .max_concurrent_connections(self.max_connections)
            .shutdown_timeout(grace(&shared.setup.load()))
            .disable_signals();
        let address = listener.local_addr()?;
        let (encrypted, max_connections) = (self.tls, self.max_connections);
        let entrance = Entrance { mount: self.mount, shared: Arc::clone(shared), address };
        let ending = builder.graceful_shutdown_signal();
        let ending = move || {
            let ending = ending.clone();
            async move { ending.notified().await }
        };
        if !encrypted {
            let serve = move || {
                let bounded = entrance.bounded().graceful_shutdown_signal(ending.clone());
                fn_service(|io: TcpStream| ready(Ok::<_, DispatchError>(in_turn(io))))
                    .and_then(bounded.h1(map_config(entrance.app().into_factory(), |()| AppConfig::default())))
            };
            return Ok(builder.listen("http", listener, serve)?.run());
        }
        let tls = tls::server_config(shared).map_err(io::Error::other)?;
        // Otherwise a few hundred clients that do not even say hello keep everybody else waiting.
        max_concurrent_tls_connect(max_connections);
        let serve = move || {
            let bounded = entrance.bounded().secure().graceful_shutdown_signal(ending.clone());
            let served = bounded.h1(map_config(entrance.app().into_factory(), |()| AppConfig::default()));
            Acceptor::new(tls.clone())
                .map_init_err(|_| ())
                .map_err(TlsError::into_service_error)
                .map(|io: TlsStream<TcpStream>| in_turn(io))
                .and_then(served.map_err(TlsError::Service))
        };
        Ok(builder.listen("https", listener, serve)?.run())
    }
}

/// What every worker makes its service of.
#[derive(Clone)]
struct Entrance<M> {
    mount: M,
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl<M: Fn(&mut ServiceConfig) + Clone + Send + 'static> Entrance<M> {
    /// The clocks and bounds of a connection, encrypted or not.
    fn bounded<T: OnSocket + 'static, S>(&self) -> HttpServiceBuilder<InTurn<T>, S, KeyFirst, UpgradeHandler>
    where
        S: ServiceFactory<Request, Config = ()>,
        S::Error: Into<Response<BoxBody>> + 'static,
        S::InitError: fmt::Debug,
        <S::Service as Service<Request>>::Future: 'static,
    {
        let (setup, connected) = (self.shared.setup.load(), Arc::clone(&self.shared));
        HttpServiceBuilder::default()
            .keep_alive(setup.config.server.keep_alive)
            .client_request_timeout(setup.config.timeouts.client_header)
            .client_disconnect_timeout(LAST_BYTES)
            // Otherwise a client that left is not noticed while the upstream is silent.
            .h1_allow_half_closed(false)
            .local_addr(self.address)
            .expect(KeyFirst::new(&self.shared))
            .on_connect_ext(move |connection: &InTurn<T>, extensions| watch(&connected, connection, extensions))
    }

    fn app(
        &self,
    ) -> App<
        impl ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse, Error = Error, InitError = ()> + use<M>,
    > {
        App::new().configure(self.mount.clone())
    }
}

/// Seconds that connections get to end when the server stops: the grace, and a moment for what is said last.
fn grace(setup: &Setup) -> u64 {
    (setup.config.timeouts.drain_grace + FLUSH_TIMEOUT).as_secs().max(1)
}

/// A new connection, as the HTTP server takes it: with the address of its other end.
fn in_turn<T: OnSocket>(io: T) -> (InTurn<T>, Option<SocketAddr>) {
    let peer = io.socket().peer_addr().ok();
    (InTurn::new(io), peer)
}

/// Takes a new connection under watch, with the bounds that are in force now.
fn watch<T: OnSocket + 'static>(shared: &Shared, connection: &InTurn<T>, extensions: &mut Extensions) {
    let setup = shared.setup.load();
    let clients = ClientWatch::new(&setup.config, setup.admission.load());
    clients.accept(connection.io(), connection.turn(), extensions);
}
