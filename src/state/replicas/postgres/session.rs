//! A connection to PostgreSQL.

use std::{
    fmt,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pointsman_config::StoreAddress;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::JoinHandle,
    time::timeout,
};
use tokio_postgres::{
    Client, Config, Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream as IsTlsStream},
    types::{ToSql, Type},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::schema;
use crate::state::replicas::transport::Tls;

/// Longest wait for a connection and for the tables.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A value for a statement, with its type. Statements are sent with the types of their values and without a name: a named one is
/// gone with the next transaction where a pooler such as PgBouncer gives every transaction another connection.
pub type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// Why PostgreSQL did not do what it was asked. Holds no password.
#[derive(Debug)]
pub enum PostgresFault {
    /// The address cannot be read.
    Address,
    /// A certificate cannot be read.
    Tls(String),
    /// The database cannot hold every text: the name of its encoding.
    Encoding(String),
    /// The server refused, or the connection broke.
    Server(tokio_postgres::Error),
    /// No answer in time.
    Timeout,
    /// The ledger on disk cannot be read at present.
    Ledger(pointsman_ledger::fault::Fault),
}

impl fmt::Display for PostgresFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PostgresFault::Address => {
                f.write_str("the address cannot be read; it must be like postgres://user:password@host:5432/database")
            }
            PostgresFault::Tls(why) => f.write_str(why),
            PostgresFault::Encoding(encoding) => write!(
                f,
                "the database has the encoding {encoding}, which lacks most characters; make one with: create database name \
                 encoding 'UTF8' template template0"
            ),
            PostgresFault::Server(error) => match error.as_db_error() {
                Some(error) => write!(f, "{}: {}", error.severity(), error.message()),
                None => error.fmt(f),
            },
            PostgresFault::Timeout => f.write_str("no answer in time"),
            PostgresFault::Ledger(fault) => write!(f, "the ledger on disk cannot be read: {fault}"),
        }
    }
}

impl PostgresFault {
    /// Whether values in a row are the reason, so that other rows may be taken: values that cannot be converted or are too long,
    /// or that a check or a trigger refuses.
    pub fn is_about_values(&self) -> bool {
        let PostgresFault::Server(error) = self else { return false };
        let is_refused = |code: &str| {
            ["22", "54"].iter().any(|class| code.starts_with(class)) || ["23502", "23514", "P0001"].contains(&code)
        };
        error.code().is_some_and(|code| is_refused(code.code()))
    }
}

impl From<tokio_postgres::Error> for PostgresFault {
    fn from(error: tokio_postgres::Error) -> PostgresFault {
        PostgresFault::Server(error)
    }
}

impl From<pointsman_ledger::fault::Fault> for PostgresFault {
    fn from(fault: pointsman_ledger::fault::Fault) -> PostgresFault {
        PostgresFault::Ledger(fault)
    }
}

/// Where PostgreSQL is, and how it is reached.
#[derive(Clone)]
pub struct Server {
    config: Config,
    tls: MakeTls,
}

/// An open connection. Closed when dropped.
pub struct Session {
    /// Asks.
    pub client: Client,
    connection: JoinHandle<()>,
}

impl Server {
    /// Reads the address.
    ///
    /// # Errors
    /// It is none, or a certificate cannot be read.
    pub fn new(address: &StoreAddress) -> Result<Server, PostgresFault> {
        let mut config: Config = address.url.expose().parse().map_err(|_| PostgresFault::Address)?;
        config.connect_timeout(CONNECT_TIMEOUT).application_name("pointsman");
        let tls = Tls::new(address.ca_file.as_deref()).map_err(|fault| PostgresFault::Tls(fault.to_string()))?;
        Ok(Server { config, tls: MakeTls(tls) })
    }

    /// Connects, and makes the tables that are missing.
    ///
    /// # Errors
    /// The server is away or refuses.
    pub async fn open(&self) -> Result<Session, PostgresFault> {
        let open = async {
            let (client, connection) = self.config.connect(self.tls.clone()).await?;
            let connection = tokio::spawn(async move {
                // The next question on this connection tells the reason.
                let _ = connection.await;
            });
            let mut session = Session { client, connection };
            check(&mut session.client).await?;
            schema::extend(&mut session.client).await?;
            Ok(session)
        };
        timeout(CONNECT_TIMEOUT, open).await.map_err(|_| PostgresFault::Timeout)?
    }
}

/// Refuses a database that cannot hold every text, and a pooler that gives every statement another connection: it refuses the
/// transaction.
async fn check(client: &mut Client) -> Result<(), PostgresFault> {
    let transaction = client.transaction().await?;
    let encoding = transaction.query_typed_one("select current_setting('server_encoding')", &[]).await?;
    let encoding: String = encoding.try_get(0)?;
    transaction.commit().await?;
    // The latter takes texts as they come.
    if ["UTF8", "SQL_ASCII"].contains(&&*encoding) { Ok(()) } else { Err(PostgresFault::Encoding(encoding)) }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// TLS as `tokio_postgres` asks for it.
#[derive(Clone)]
struct MakeTls(Tls);

impl MakeTlsConnect<Socket> for MakeTls {
    type Stream = Stream;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Connect> {
        let (connector, name) = self.0.to(host)?;
        Ok(Connect { connector, name })
    }
}

/// One connection to be made.
struct Connect {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Connect {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, socket).await.map(|stream| Stream(Box::new(stream))) })
    }
}

/// An encrypted connection.
struct Stream(Box<TlsStream<Socket>>);

impl IsTlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
