//! Client connections: counted, and shut when they neither ask nor end.
//!
//! The HTTP server itself has a clock for the first head of a connection only, none for writes, and asks nobody while
//! a socket is full. So each connection brings two bounds along: the kernel gives up a peer that takes nothing
//! (`ClientWatch::accept`), and a watch per worker shuts a connection on which no call began for too long, whatever
//! trickled in meanwhile. What a call may take, once it began, is decided by others.

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
use socket2::{SockRef, Socket};

use crate::{
    access::load::{Load, OpenConnection},
    config::Config,
    http::pipelining::Turn,
};

/// How often a worker looks at its connections.
const ROUND: Duration = Duration::from_secs(1);

/// The slowest reader that is waited for, bytes per second: an answer that was handed over whole is on its way for as
/// long as such a reader needs.
const SLOWEST_READER: u64 = 16 * 1024;

/// How long a connection that is to end may still be read from: a body that nobody wants must not keep it.
const LAST_READING: Duration = Duration::from_secs(1);

thread_local! {
    /// The connections of this worker.
    static WATCHED: RefCell<Vec<Weak<Watched>>> = const { RefCell::new(Vec::new()) };
}

/// The bounds of client connections.
#[derive(Clone)]
pub struct ClientWatch {
    load: Arc<Load>,
    write_stall: Duration,
    /// Longest time from the end of one call to the whole head of the next.
    silence: Duration,
}

impl ClientWatch {
    /// The bounds of the configuration.
    #[must_use]
    pub fn new(config: &Config, load: &Arc<Load>) -> ClientWatch {
        ClientWatch {
            load: Arc::clone(load),
            write_stall: config.timeouts.client_write_stall,
            silence: config.server.keep_alive + config.timeouts.client_header,
        }
    }

    /// Takes a new connection under watch, on the worker that serves it; its calls tell `turn` when they end. What is watched lives in `extensions`, and
    /// with it as long as the connection.
    pub(crate) fn accept(&self, connection: &dyn Any, turn: &Rc<Turn>, extensions: &mut Extensions) {
        let encrypted = || Some(connection.downcast_ref::<TlsStream<TcpStream>>()?.get_ref().0);
        let tcp = connection.downcast_ref::<TcpStream>().or_else(encrypted);
        if let Some(tcp) = tcp {
            // A connection that is gone already has no more need of it.
            let _ = tcp.set_nodelay(true);
            bound_writes(tcp, self.write_stall);
        }
        let watched = Rc::new(Watched {
            // Without a handle of its own, and it takes a descriptor, a connection is only counted.
            socket: tcp.and_then(|tcp| SockRef::from(tcp).try_clone().ok()),
            silence: self.silence,
            calls: Cell::new(0),
            idle_until: Cell::new(Instant::now() + self.silence),
            turn: Rc::clone(turn),
            _open: self.load.connection(),
        });
        watch(&watched);
        extensions.insert(ClientConnection(watched));
    }
}

/// A client that reads nothing keeps its connection for no longer than this.
fn bound_writes(tcp: &TcpStream, stall: Duration) {
    #[cfg(target_os = "linux")]
    {
        // Refused only by systems that do not know the option; there the system's own patience counts.
        let _ = SockRef::from(tcp).set_tcp_user_timeout(Some(stall));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (tcp, stall);
}

fn watch(connection: &Rc<Watched>) {
    let first = WATCHED.with_borrow_mut(|watched| {
        watched.push(Rc::downgrade(connection));
        watched.len() == 1
    });
    if first {
        actix_rt::spawn(async {
            loop {
                actix_rt::time::sleep(ROUND).await;
                let now = Instant::now();
                let none_left = WATCHED.with_borrow_mut(|watched| {
                    watched
                        .retain(|connection| connection.upgrade().is_some_and(|connection| connection.may_stay(now)));
                    watched.is_empty()
                });
                if none_left {
                    return;
                }
            }
        });
    }
}

/// A connection under watch.
struct Watched {
    socket: Option<Socket>,
    silence: Duration,
    /// Calls whose answer is not handed over yet.
    calls: Cell<u32>,
    idle_until: Cell<Instant>,
    turn: Rc<Turn>,
    _open: OpenConnection,
}

impl Watched {
    /// Shuts the connection if nothing was asked on it for too long; says whether it is still to be watched.
    fn may_stay(&self, now: Instant) -> bool {
        if self.calls.get() > 0 || now < self.idle_until.get() {
            return true;
        }
        if let Some(socket) = &self.socket {
            // The server sees the end of the stream, and closes its side.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        false
    }
}

/// What a connection's extensions hold.
pub(crate) struct ClientConnection(Rc<Watched>);

/// A call on a watched connection: as long as it lives, nothing is held against the connection.
pub struct OngoingCall {
    connection: Rc<Watched>,
    /// What was handed over at once, and still has to reach the client when this call has ended.
    bytes: u64,
    /// Whether it is the last one of its connection.
    last: bool,
}

impl OngoingCall {
    /// The call of `request`; nothing, where connections are not watched.
    #[must_use]
    pub fn begin(request: &ServiceRequest) -> Option<OngoingCall> {
        let call = request.conn_data().map(OngoingCall::on)?;
        if request.head().connection_type() == ConnectionType::Close {
            call.connection.turn.is_last();
        }
        Some(call)
    }

    /// A call on this connection.
    pub(crate) fn on(ClientConnection(connection): &ClientConnection) -> OngoingCall {
        connection.calls.set(connection.calls.get().saturating_add(1));
        OngoingCall { connection: Rc::clone(connection), bytes: 0, last: false }
    }

    /// Lets the server take in what is here already of a body that had to wait for its turn: a call that is refused
    /// before would end the connection, and with it all that waits behind.
    pub(crate) async fn take_in(&self) {
        if self.connection.turn.waited() {
            tokio::task::yield_now().await;
        }
    }

    /// The call was refused, and its connection is to end.
    pub(crate) fn refused(mut self) {
        self.last = true;
        self.connection.turn.is_last();
    }

    /// Lasts until the whole answer was handed over.
    #[must_use]
    pub fn answered(mut self, response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
        let ends = response.response().head().connection_type() == ConnectionType::Close;
        if ends {
            self.connection.turn.is_last();
        }
        // The end of a good answer may take its time to a slow reader.
        self.last = ends && !response.status().is_success();
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

impl Drop for OngoingCall {
    fn drop(&mut self) {
        let Watched { calls, idle_until, silence, turn, .. } = &*self.connection;
        turn.end();
        calls.set(calls.get().saturating_sub(1));
        let silence = if self.last { LAST_READING } else { *silence };
        idle_until.set(Instant::now() + silence + Duration::from_secs(self.bytes / SLOWEST_READER));
    }
}

/// A streamed answer, during which its connection is busy.
struct WatchedBody {
    body: BoxBody,
    _call: OngoingCall,
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
