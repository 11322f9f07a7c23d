//! Connections to Redis.

use std::{fmt, io, time::Duration};

use pointsman_config::StoreAddress;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisError,
    aio::{MultiplexedConnection, PubSub},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};

use crate::state::replicas::transport::Tls;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest wait for an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Why Redis did not do what it was asked. Holds no password.
#[derive(Debug)]
pub enum RedisFault {
    /// The address cannot be read.
    Address,
    /// A certificate cannot be read.
    Tls(String),
    /// No connection.
    Connect(io::Error),
    /// The server refused, or the connection broke.
    Server(RedisError),
    /// Redis refuses these commands within scripts, and why it refuses the last of them.
    Refused(String, String),
    /// An answer that makes no sense.
    Answer,
    /// Another process has the name of this replica.
    NameTaken(String),
    /// No answer in time.
    Timeout,
}

impl fmt::Display for RedisFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedisFault::Address => {
                f.write_str("the address cannot be read; it must be like redis://:password@host:6379/0")
            }
            RedisFault::Tls(why) => f.write_str(why),
            RedisFault::Connect(error) => error.fmt(f),
            RedisFault::Server(error) => error.fmt(f),
            RedisFault::Refused(commands, why) => write!(f, "it refuses {commands} within scripts: {why}"),
            RedisFault::Answer => f.write_str("an answer that cannot be read; another program may use the same names"),
            RedisFault::NameTaken(name) => write!(
                f,
                "another process, or one that was killed in the last 3 s, is the replica \"{name}\"; give each replica a name of \
                 its own with shared.node"
            ),
            RedisFault::Timeout => f.write_str("no answer in time"),
        }
    }
}

impl RedisFault {
    /// Whether Redis does not let this user do what it was asked, or does not know the command.
    pub fn is_refusal(&self) -> bool {
        matches!(self, RedisFault::Server(error) if matches!(error.code(), Some("NOPERM" | "ERR")))
    }
}

impl From<RedisError> for RedisFault {
    fn from(error: RedisError) -> RedisFault {
        RedisFault::Server(error)
    }
}

/// Where Redis is, and how it is reached.
#[derive(Clone)]
pub struct Server {
    info: ConnectionInfo,
    host: String,
    port: u16,
    tls: Option<Tls>,
}

/// An open connection for questions. Closed when dropped.
pub struct Session {
    /// Asks.
    pub connection: MultiplexedConnection,
    driver: JoinHandle<()>,
}

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Server {
    /// Reads the address.
    ///
    /// # Errors
    /// It is none, or a certificate cannot be read.
    pub fn new(address: &StoreAddress) -> Result<Server, RedisFault> {
        let url = address.url.expose();
        let encrypted = url.strip_prefix("rediss://");
        // The encryption is ours; the address is read as one without.
        let plain = encrypted.map_or_else(|| url.to_owned(), |rest| format!("redis://{rest}"));
        let info = plain.into_connection_info().map_err(|_| RedisFault::Address)?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else { return Err(RedisFault::Address) };
        let tls = encrypted.map(|_| Tls::new(address.ca_file.as_deref())).transpose();
        let tls = tls.map_err(|fault| RedisFault::Tls(fault.to_string()))?;
        Ok(Server { host: host.clone(), port: *port, info, tls })
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, RedisFault> {
        let connect = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            let Some(tls) = &self.tls else { return Ok(Box::new(stream) as Box<dyn Stream>) };
            let (connector, name) = tls.to(&self.host)?;
            Ok(Box::new(connector.connect(name, stream).await?) as Box<dyn Stream>)
        };
        let connected = timeout(CONNECT_TIMEOUT, connect).await.map_err(|_| RedisFault::Timeout)?;
        connected.map_err(RedisFault::Connect)
    }

    /// A connection for questions.
    ///
    /// # Errors
    /// The server is away or refuses.
    pub async fn open(&self) -> Result<Session, RedisFault> {
        let stream = self.connect().await?;
        let config = AsyncConnectionConfig::new();
        let open = MultiplexedConnection::new_with_config(self.info.redis_settings(), stream, config);
        let (mut connection, driver) = timeout(CONNECT_TIMEOUT, open).await.map_err(|_| RedisFault::Timeout)??;
        connection.set_response_timeout(ANSWER_TIMEOUT);
        Ok(Session { connection, driver: tokio::spawn(driver) })
    }

    /// A connection that hears a channel.
    ///
    /// # Errors
    /// The server is away or refuses.
    pub async fn listen(&self, channel: &str) -> Result<PubSub, RedisFault> {
        let stream = self.connect().await?;
        let open = async {
            let mut open = PubSub::new(self.info.redis_settings(), stream).await?;
            open.subscribe(channel).await?;
            Ok::<_, RedisFault>(open)
        };
        timeout(CONNECT_TIMEOUT, open).await.map_err(|_| RedisFault::Timeout)?
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
