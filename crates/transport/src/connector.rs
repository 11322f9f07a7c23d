//! Opens connections: name resolution, TCP, TLS if the provider uses it, and the guard, which sees the plain bytes.

use std::{fmt, io, net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use pointsman_domain::FailureKind;
use rustls::{CertificateError, ClientConfig, pki_types::ServerName};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};
use tokio_rustls::TlsConnector;

use super::{
    connection::Connection,
    connection_events,
    exchange::Guarded,
    guard::Guard,
    keep_alive::{KeepAlive, SocketPool},
    names::{NameCache, system_names},
    shortage::{self, is_shortage},
    transport::Transport,
};

/// Opens the connections of one client. Clones share their sockets.
#[derive(Clone)]
pub(super) struct Connector(Rc<Destination>);

struct Destination {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// For name resolution, TCP and TLS handshake together.
    timeout: Duration,
    names: Arc<NameCache>,
    /// The open sockets.
    sockets: Rc<SocketPool<Transport>>,
}

/// Why a connection failed.
#[derive(Debug)]
pub(super) enum ConnectFault {
    /// Name resolution failed.
    Resolve(io::Error),
    /// No address accepted a TCP connection; the error of the last one.
    Connect(io::Error),
    /// The TLS handshake failed.
    Tls(io::Error),
    /// No connection within this time.
    Timeout(Duration),
}

impl ConnectFault {
    pub(super) fn kind(&self) -> FailureKind {
        match self {
            ConnectFault::Resolve(error) | ConnectFault::Connect(error) | ConnectFault::Tls(error)
                if is_shortage(error) =>
            {
                FailureKind::Shortage
            }
            // The peer accepted and closed. Timing decides whether that shows here or at the first write.
            ConnectFault::Connect(error) | ConnectFault::Tls(error) if is_broken(error) => FailureKind::Reset,
            ConnectFault::Resolve(_) | ConnectFault::Connect(_) => FailureKind::Connect,
            ConnectFault::Tls(_) => FailureKind::Tls,
            ConnectFault::Timeout(_) => FailureKind::Timeout,
        }
    }
}

/// Whether an open connection was closed by the peer.
fn is_broken(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected)
}

/// The cause in one word, for clients. It names no host.
pub(super) fn cause(fault: &ConnectFault) -> &'static str {
    match fault {
        _ if fault.kind() == FailureKind::Shortage => shortage::CAUSE,
        _ if fault.kind() == FailureKind::Reset => "reset",
        ConnectFault::Resolve(_) => "name_unknown",
        ConnectFault::Timeout(_) => "timed_out",
        ConnectFault::Connect(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => "refused",
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "unreachable",
            _ => "not_connected",
        },
        ConnectFault::Tls(error) => tls_cause(error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())),
    }
}

fn tls_cause(error: Option<&rustls::Error>) -> &'static str {
    let Some(rustls::Error::InvalidCertificate(fault)) = error else { return "tls_handshake" };
    match fault {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => "tls_name_mismatch",
        CertificateError::UnknownIssuer => "tls_unknown_issuer",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "tls_expired",
        _ => "tls_certificate",
    }
}

/// A fault with the address.
#[derive(Debug)]
pub(super) struct ConnectFailure {
    /// Host and port.
    address: String,
    /// Why the connection failed.
    pub(super) fault: ConnectFault,
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.address, cause(&self.fault), self.fault)
    }
}

impl std::error::Error for ConnectFailure {}

impl fmt::Display for ConnectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectFault::Resolve(error) => write!(f, "name resolution: {error}"),
            ConnectFault::Connect(error) => write!(f, "connect: {error}"),
            ConnectFault::Tls(error) => write!(f, "TLS handshake: {error}"),
            ConnectFault::Timeout(limit) => write!(f, "no connection within {limit:?}"),
        }
    }
}

impl std::error::Error for ConnectFault {}

impl Connector {
    pub(super) fn new(
        connection: &Connection,
        tls: &Arc<ClientConfig>,
        timeout: Duration,
        keep_alive: KeepAlive,
    ) -> Connector {
        let tls = connection.server_name.clone().map(|name| (TlsConnector::from(Arc::clone(tls)), name));
        let (names, sockets) = (system_names(), SocketPool::new(keep_alive));
        Connector(Rc::new(Destination {
            host: connection.host.clone(),
            port: connection.port,
            tls,
            timeout,
            names,
            sockets,
        }))
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// When none is open within the timeout.
    pub(super) async fn open(&self) -> Result<Guarded, ConnectFailure> {
        let target = &*self.0;
        let opened = target.open().await;
        let transport = opened.map_err(|fault| ConnectFailure { address: target.address(), fault })?;
        Ok(Box::new(Guard::new(target.sockets.admit(transport))))
    }
}

impl Destination {
    /// Host and port, with brackets around an IPv6 address.
    fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    async fn open(&self) -> Result<Transport, ConnectFault> {
        let started = Instant::now();
        let deadline = started + self.timeout;
        let dialled = timeout_at(deadline, self.dial(deadline)).await;
        let tcp = dialled.map_err(|_| ConnectFault::Timeout(self.timeout))??;
        connection_events::note_connected(started.elapsed());
        let Some((connector, name)) = &self.tls else { return Ok(Transport::Plain(tcp)) };

        let started = Instant::now();
        let secured = timeout_at(deadline, connector.connect(name.clone(), tcp)).await;
        let session = secured.map_err(|_| ConnectFault::Timeout(self.timeout))?.map_err(ConnectFault::Tls)?;
        connection_events::note_secured(started.elapsed());
        Ok(Transport::Tls(Box::new(session)))
    }

    /// Tries the host's addresses in order. Each gets an equal share of the time that is left, so that a dead address (IPv6
    /// without a route, for example) leaves time for the others.
    async fn dial(&self, deadline: Instant) -> Result<TcpStream, ConnectFault> {
        let addresses = self.names.resolve(&self.host).await.map_err(ConnectFault::Resolve)?;
        let mut last = None;
        for (position, address) in addresses.iter().enumerate() {
            let address = SocketAddr::new(*address, self.port);
            let untried = u32::try_from(addresses.len() - position).unwrap_or(u32::MAX);
            let now = Instant::now();
            let share = deadline.saturating_duration_since(now) / untried;
            match timeout_at(now + share, TcpStream::connect(address)).await {
                Ok(Ok(tcp)) => return prepare(tcp).map_err(ConnectFault::Connect),
                // A failure of the provider at one address counts more than a shortage of the gateway for another.
                Ok(Err(error)) if last.is_some() && is_shortage(&error) => {}
                Ok(Err(error)) => last = Some(error),
                Err(_) => last = Some(io::ErrorKind::TimedOut.into()),
            }
        }
        let last = last.unwrap_or_else(|| io::Error::other("the name has no address"));
        if !is_shortage(&last) {
            // Its addresses may have changed.
            self.names.refresh(&self.host);
        }
        match last.kind() {
            io::ErrorKind::TimedOut => Err(ConnectFault::Timeout(self.timeout)),
            _ => Err(ConnectFault::Connect(last)),
        }
    }
}

/// Sets TCP_NODELAY. Without it, the second write of a request waits up to 40 ms for the acknowledgement of the first.
fn prepare(tcp: TcpStream) -> io::Result<TcpStream> {
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::tls::client_config;

    fn target(address: &str, timeout: Duration) -> Rc<Destination> {
        let connection = Connection::new(&format!("http://{address}")).unwrap();
        Connector::new(&connection, &client_config(None).unwrap(), timeout, KeepAlive::NEVER).0
    }

    #[actix_web::test]
    async fn every_connection_is_opened_without_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();

        let transport = target(&address, Duration::from_secs(2)).open().await.unwrap();

        assert!(transport.tcp().nodelay().unwrap(), "TCP_NODELAY is set on every socket");
    }

    #[actix_web::test]
    async fn a_host_whose_first_address_is_dead_is_reached_at_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();

        // "localhost" may resolve to ::1 first, which has no listener.
        let transport = target(&format!("localhost:{port}"), Duration::from_secs(2)).open().await.unwrap();

        assert_eq!(transport.tcp().peer_addr().unwrap().port(), port);
    }

    #[actix_web::test]
    async fn a_tls_handshake_without_an_answer_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connection = Connection::new(&format!("https://{address}")).unwrap();
        let limit = Duration::from_millis(50);
        let connector = Connector::new(&connection, &client_config(None).unwrap(), limit, KeepAlive::NEVER);

        let fault = connector.0.open().await.unwrap_err();

        assert!(matches!(fault, ConnectFault::Timeout(_)), "{fault}");
        assert_eq!(fault.kind(), FailureKind::Timeout);
    }

    #[actix_web::test]
    async fn a_name_that_does_not_resolve_is_a_connect_failure() {
        // Longer than a name may be, so that no name server is asked.
        let mut target = target("localhost:80", Duration::from_secs(5));
        Rc::get_mut(&mut target).unwrap().host = "x".repeat(64);
        let fault = target.open().await.unwrap_err();
        assert_eq!((fault.kind(), cause(&fault)), (FailureKind::Connect, "name_unknown"), "{fault}");
    }

    #[test]
    fn a_shortage_of_the_gateway_is_no_failed_connection_of_the_provider() {
        for number in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS, libc::EADDRNOTAVAIL, libc::EAGAIN] {
            for fault in [ConnectFault::Resolve, ConnectFault::Connect, ConnectFault::Tls] {
                let fault = fault(io::Error::from_raw_os_error(number));
                assert_eq!((fault.kind(), cause(&fault)), (FailureKind::Shortage, "gateway_shortage"), "{fault}");
            }
        }
    }

    #[test]
    fn a_connection_closed_by_the_peer_was_not_refused() {
        for number in [libc::ECONNRESET, libc::ECONNABORTED, libc::EPIPE, libc::ENOTCONN] {
            for fault in [ConnectFault::Connect, ConnectFault::Tls] {
                let fault = fault(io::Error::from_raw_os_error(number));
                assert_eq!((fault.kind(), cause(&fault)), (FailureKind::Reset, "reset"), "{fault}");
            }
        }
        let refused = ConnectFault::Connect(io::Error::from_raw_os_error(libc::ECONNREFUSED));
        assert_eq!((refused.kind(), cause(&refused)), (FailureKind::Connect, "refused"));
    }

    #[test]
    fn each_certificate_fault_has_its_own_cause() {
        let refused = |fault| cause(&ConnectFault::Tls(io::Error::other(rustls::Error::InvalidCertificate(fault))));
        assert_eq!(refused(CertificateError::NotValidForName), "tls_name_mismatch");
        assert_eq!(refused(CertificateError::UnknownIssuer), "tls_unknown_issuer");
        assert_eq!(refused(CertificateError::Expired), "tls_expired");
        assert_eq!(refused(CertificateError::Revoked), "tls_certificate");
        assert_eq!(cause(&ConnectFault::Tls(io::ErrorKind::UnexpectedEof.into())), "tls_handshake");
    }
}
