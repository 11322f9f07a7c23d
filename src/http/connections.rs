//! Client connections: counts them, and closes stalled and idle ones.
//!
//! The HTTP server has a timeout for the first head of a connection only and none for writes. Therefore each connection
//! has two limits: the kernel drops a peer that acknowledges no data (`TCP_USER_TIMEOUT`), and a task per worker shuts a
//! connection on which no call began within the idle timeout, even if single bytes arrived. The duration of a call is
//! limited elsewhere.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    pin::Pin,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use actix_rt::net::TcpStream;
use actix_tls::accept::rustls_0_23::TlsStream;
use actix_web::{
    body::{BodySize, BoxBody, MessageBody},
    dev::{Extensions, ServiceRequest, ServiceResponse},
    http::ConnectionType,
};
use bytes::Bytes;
use pointsman_config::Config;
use socket2::{SockRef, Socket};

use crate::{
    access::load::{Load, OpenConnection},
    http::pipelining::RequestProgress,
};

/// Time between two checks of a worker's connections.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Slowest supported client, in bytes per second: the idle timeout starts after the time that such a client needs to
/// read an unstreamed answer.
const SLOWEST_READER: u64 = 16 * 1024;

/// How long the connection of a refused call is still read: an unwanted body must not keep it open.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

thread_local! {
    /// The watched connections of this worker.
    static WATCHED: RefCell<Vec<Weak<Watched>>> = const { RefCell::new(Vec::new()) };
}

/// The limits of client connections.
#[derive(Clone)]
pub struct ConnectionLimits {
    load: Arc<Load>,
    write_stall: Duration,
    /// Longest time from the end of one call to the complete head of the next.
    idle_timeout: Duration,
}

impl ConnectionLimits {
    /// The limits of the configuration.
    pub fn new(config: &Config, load: &Arc<Load>) -> ConnectionLimits {
        ConnectionLimits {
            load: Arc::clone(load),
            write_stall: config.timeouts.client_write_stall,
            idle_timeout: config.server.keep_alive + config.timeouts.client_header,
        }
    }

    /// Watches a new connection on the worker that serves it; its calls update `progress` when they end. The watch lives
    /// in `extensions`, as long as the connection.
    pub(crate) fn watch(&self, connection: &dyn Any, progress: &Rc<RequestProgress>, extensions: &mut Extensions) {
        let encrypted = || Some(connection.downcast_ref::<TlsStream<TcpStream>>()?.get_ref().0);
        let tcp = connection.downcast_ref::<TcpStream>().or_else(encrypted);
        if let Some(tcp) = tcp {
            // Fails only if the connection is already closed.
            let _ = tcp.set_nodelay(true);
            bound_writes(tcp, self.write_stall);
        }
        let watched = Rc::new(Watched {
            // The handle takes a descriptor. If none is left, the connection is counted but cannot be shut.
            socket: tcp.and_then(|tcp| SockRef::from(tcp).try_clone().ok()),
            idle_timeout: self.idle_timeout,
            calls: Cell::new(0),
            idle_until: Cell::new(Instant::now() + self.idle_timeout),
            progress: Rc::clone(progress),
            _open: self.load.connection(),
        });
        register(&watched);
        extensions.insert(ClientConnection(watched));
    }
}

/// Lets the kernel drop the connection when the client has acknowledged no data for `stall`.
fn bound_writes(tcp: &TcpStream, stall: Duration) {
    #[cfg(target_os = "linux")]
    {
        // Fails only where the option is unknown; there the system's default applies.
        let _ = SockRef::from(tcp).set_tcp_user_timeout(Some(stall));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (tcp, stall);
}

/// Adds the connection to the watched ones of this worker; the first one starts the checks.
fn register(connection: &Rc<Watched>) {
    let first = WATCHED.with_borrow_mut(|watched| {
        watched.push(Rc::downgrade(connection));
        watched.len() == 1
    });
    if first {
        actix_rt::spawn(async {
            loop {
                actix_rt::time::sleep(CHECK_INTERVAL).await;
                let now = Instant::now();
                let none_left = WATCHED.with_borrow_mut(|watched| {
                    watched
                        .retain(|connection| connection.upgrade().is_some_and(|connection| connection.check_idle(now)));
                    watched.is_empty()
                });
                if none_left {
                    return;
                }
            }
        });
    }
}

/// A watched connection.
struct Watched {
    socket: Option<Socket>,
    idle_timeout: Duration,
    /// Calls whose answer has not been handed to the HTTP server.
    calls: Cell<u32>,
    idle_until: Cell<Instant>,
    progress: Rc<RequestProgress>,
    _open: OpenConnection,
}

impl Watched {
    /// Shuts the connection if its idle timeout has passed. Returns whether it is still open.
    fn check_idle(&self, now: Instant) -> bool {
        if self.calls.get() > 0 || now < self.idle_until.get() {
            return true;
        }
        if let Some(socket) = &self.socket {
            // The HTTP server then reads the end of the stream and closes the connection.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        false
    }
}

/// The watched connection, as a connection extension.
pub(crate) struct ClientConnection(Rc<Watched>);

/// A request on a watched connection. While it lives, the connection is not idle.
pub struct OngoingRequest {
    connection: Rc<Watched>,
    /// Size of an unstreamed answer, which may still be in transit to the client when this call ends.
    bytes: u64,
    /// Whether the connection closes after [`LINGER_TIMEOUT`] because the call was refused.
    closes_early: bool,
}

impl OngoingRequest {
    /// Starts the call of `request`; `None` if its connection is not watched.
    pub fn begin(request: &ServiceRequest) -> Option<OngoingRequest> {
        let call = request.conn_data().map(OngoingRequest::on)?;
        if request.head().connection_type() == ConnectionType::Close {
            call.connection.progress.mark_last();
        }
        Some(call)
    }

    /// Starts a call on `connection`.
    pub(crate) fn on(ClientConnection(connection): &ClientConnection) -> OngoingRequest {
        connection.calls.set(connection.calls.get().saturating_add(1));
        OngoingRequest { connection: Rc::clone(connection), bytes: 0, closes_early: false }
    }

    /// Lets the HTTP server read the buffered body of a pipelined request: refusing the call before would close the
    /// connection and lose the requests behind it.
    pub(crate) async fn read_buffered(&self) {
        if self.connection.progress.was_buffered() {
            tokio::task::yield_now().await;
        }
    }

    /// Ends a refused call and closes its connection.
    pub(crate) fn end_refused(mut self) {
        self.closes_early = true;
        self.connection.progress.mark_last();
    }

    /// Ends the call once the HTTP server has taken the whole answer.
    #[must_use]
    pub fn end_with(mut self, response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
        let closes = response.response().head().connection_type() == ConnectionType::Close;
        if closes {
            self.connection.progress.mark_last();
        }
        // A slow client keeps the full time to read a successful answer.
        self.closes_early = closes && !response.status().is_success();
        match response.response().body().size() {
            BodySize::None => response,
            BodySize::Sized(bytes) => {
                self.bytes = bytes;
                response
            }
            BodySize::Stream => response.map_body(|_, body| BoxBody::new(WatchedBody { body, _call: self })),
        }
    }
}

impl Drop for OngoingRequest {
    fn drop(&mut self) {
        let Watched { calls, idle_until, idle_timeout, progress, .. } = &*self.connection;
        progress.mark_answered();
        calls.set(calls.get().saturating_sub(1));
        let timeout = if self.closes_early { LINGER_TIMEOUT } else { *idle_timeout };
        idle_until.set(Instant::now() + timeout + Duration::from_secs(self.bytes / SLOWEST_READER));
    }
}

/// A streamed answer with its call, which ends with it.
struct WatchedBody {
    body: BoxBody,
    _call: OngoingRequest,
}

impl MessageBody for WatchedBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}
