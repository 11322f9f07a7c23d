//! One call over a socket, on a kept connection where there is one.

use std::{cell::RefCell, io, net::SocketAddr};

use pointsman_domain::FailureKind;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{Instant, timeout_at},
};

use super::http::{Connection, Head};
use crate::request::Request;

/// How each word of content begins that a provider of ours says; a frame without any has none.
const CONTENT: &[u8] = br#""content":"t"#;
const DONE: &[u8] = b"[DONE]";
const ERROR: &[u8] = br#""error""#;

/// Connections to one address that nobody uses at the moment.
pub struct Line {
    address: SocketAddr,
    path: &'static str,
    idle: RefCell<Vec<Connection>>,
}

/// How a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// Why.
    pub kind: FailureKind,
    /// The status, if one came.
    pub status: Option<u16>,
    /// Whether content had come.
    pub had_content: bool,
}

/// How long a call is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    /// For the first content of a stream.
    pub first: Instant,
    /// For all of it.
    pub total: Instant,
}

impl Line {
    pub fn new(address: SocketAddr, path: &'static str) -> Line {
        Line { address, path, idle: RefCell::default() }
    }

    /// Sends a body and reads the answer. `first` is told when the first content of a stream has come.
    pub async fn call(
        &self,
        request: &Request,
        body: &str,
        clocks: Clocks,
        first: impl FnOnce(),
    ) -> Result<(), Failed> {
        let (mut connection, head) = match timeout_at(clocks.first, self.head(body)).await {
            Err(_) => return Err(failed(FailureKind::Timeout, None, false)),
            Ok(Err(kind)) => return Err(failed(kind, None, false)),
            Ok(Ok(answered)) => answered,
        };
        let status = Some(head.status);
        if head.status != 200 || !request.streamed {
            let mut answer = Vec::new();
            let read = timeout_at(clocks.total, connection.body(&head, &mut answer)).await;
            let kind = match (read, head.status) {
                (Err(_), _) => FailureKind::Timeout,
                (Ok(Err(_)), _) => FailureKind::Reset,
                (Ok(Ok(())), 200) => return self.kept(connection),
                (Ok(Ok(())), 429) => FailureKind::RateLimited,
                (Ok(Ok(())), _) => FailureKind::Server,
            };
            return Err(failed(kind, status, false));
        }
        self.stream(connection, clocks, first).await
    }

    async fn stream(&self, mut connection: Connection, clocks: Clocks, first: impl FnOnce()) -> Result<(), Failed> {
        let (mut answer, mut first) = (Vec::new(), Some(first));
        loop {
            let until = if first.is_some() { clocks.first } else { clocks.total };
            let had_content = first.is_none();
            match timeout_at(until, connection.chunk(&mut answer)).await {
                Err(_) => return Err(failed(FailureKind::Timeout, Some(200), had_content)),
                Ok(Err(_)) => return Err(failed(FailureKind::Reset, Some(200), had_content)),
                Ok(Ok(true)) => {}
                Ok(Ok(false)) if holds(&answer, DONE) && !holds(&answer, ERROR) => return self.kept(connection),
                Ok(Ok(false)) => return Err(failed(FailureKind::Truncated, Some(200), had_content)),
            }
            if first.is_some()
                && holds(&answer, CONTENT)
                && let Some(first) = first.take()
            {
                first();
            }
        }
    }

    /// Sends the body and reads a head. Where a kept connection turns out to be dead, on a fresh one.
    async fn head(&self, body: &str) -> Result<(Connection, Head), FailureKind> {
        let kept = self.idle.borrow_mut().pop();
        if let Some(mut connection) = kept
            && let Ok(head) = self.ask(&mut connection, body).await
        {
            return Ok((connection, head));
        }
        let socket = TcpStream::connect(self.address).await.map_err(|_| FailureKind::Connect)?;
        let mut connection = Connection::new(socket).map_err(|_| FailureKind::Connect)?;
        let head = self.ask(&mut connection, body).await.map_err(|_| FailureKind::Reset)?;
        Ok((connection, head))
    }

    async fn ask(&self, connection: &mut Connection, body: &str) -> io::Result<Head> {
        let (path, address, length) = (self.path, self.address, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        connection.socket.write_all((head + body).as_bytes()).await?;
        connection.answer_head().await
    }

    fn kept(&self, connection: Connection) -> Result<(), Failed> {
        self.idle.borrow_mut().push(connection);
        Ok(())
    }
}

fn failed(kind: FailureKind, status: Option<u16>, had_content: bool) -> Failed {
    Failed { kind, status, had_content }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
