//! Just enough HTTP/1.1: reading one message after the other from a connection.
//!
//! Knows content-length and chunked bodies. Anything irregular is an error, never repaired.

use std::io::{self, ErrorKind};

use tokio::{io::AsyncReadExt, net::TcpStream};

/// Heads here are a few hundred bytes; more is a mistake.
const LONGEST_HEAD: usize = 16 * 1024;

/// A connection and what was read from it beyond the last message.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    unread: Vec<u8>,
}

/// How the body of a message is framed, and the status if it is an answer.
pub(crate) struct Head {
    pub(crate) status: u16,
    framing: Framing,
}

enum Framing {
    Length(usize),
    Chunked,
}

impl Connection {
    pub(crate) fn new(socket: TcpStream) -> io::Result<Connection> {
        socket.set_nodelay(true)?;
        Ok(Connection { socket, unread: Vec::with_capacity(LONGEST_HEAD) })
    }

    /// The head of the next request; `None` when the client closed instead.
    pub(crate) async fn request_head(&mut self) -> io::Result<Option<Head>> {
        self.head(|bytes| {
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut request = httparse::Request::new(&mut headers);
            let status = request.parse(bytes).map_err(io::Error::other)?;
            Ok(status.is_complete().then(|| Head { status: 0, framing: framing(request.headers) }))
        })
        .await
    }

    /// The head of the next answer.
    pub(crate) async fn answer_head(&mut self) -> io::Result<Head> {
        let head = self.head(|bytes| {
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut answer = httparse::Response::new(&mut headers);
            let status = answer.parse(bytes).map_err(io::Error::other)?;
            let code = answer.code.unwrap_or_default();
            Ok(status.is_complete().then(|| Head { status: code, framing: framing(answer.headers) }))
        });
        head.await?.ok_or_else(|| ErrorKind::UnexpectedEof.into())
    }

    /// Reads a body to its end into `body`, replacing what it held.
    pub(crate) async fn body(&mut self, head: &Head, body: &mut Vec<u8>) -> io::Result<()> {
        self.watched_body(head, body, |_| {}).await
    }

    /// The same, and shows `seen` what is there after every chunk.
    pub(crate) async fn watched_body(
        &mut self,
        head: &Head,
        body: &mut Vec<u8>,
        mut seen: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        body.clear();
        match head.framing {
            Framing::Length(length) => self.take(length, body).await,
            Framing::Chunked => {
                while self.chunk(body).await? {
                    seen(body);
                }
                Ok(())
            }
        }
    }

    /// Reads one chunk of a chunked body onto the end of `body`; false when it was the last.
    pub(crate) async fn chunk(&mut self, body: &mut Vec<u8>) -> io::Result<bool> {
        let line = self.line().await?;
        let digits = str::from_utf8(&line).unwrap_or_default().trim();
        let length = usize::from_str_radix(digits, 16).map_err(io::Error::other)?;
        self.take(length, body).await?;
        self.line().await?;
        Ok(length > 0)
    }

    async fn head<T>(&mut self, parse: impl Fn(&[u8]) -> io::Result<Option<T>>) -> io::Result<Option<T>> {
        loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                let bytes: Vec<u8> = self.unread.drain(..end + 4).collect();
                return parse(&bytes)?.map(Some).ok_or_else(|| ErrorKind::InvalidData.into());
            }
            if self.unread.len() > LONGEST_HEAD {
                return Err(ErrorKind::InvalidData.into());
            }
            if self.socket.read_buf(&mut self.unread).await? == 0 {
                return if self.unread.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    async fn line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = find(&self.unread, b"\r\n") {
                return Ok(self.unread.drain(..end + 2).take(end).collect());
            }
            self.more().await?;
        }
    }

    async fn take(&mut self, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
        let mut missing = length;
        loop {
            let ready = missing.min(self.unread.len());
            body.extend(self.unread.drain(..ready));
            missing -= ready;
            if missing == 0 {
                return Ok(());
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> io::Result<()> {
        if self.socket.read_buf(&mut self.unread).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

fn framing(headers: &[httparse::Header<'_>]) -> Framing {
    let named = |name: &str| headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    if named("transfer-encoding").is_some() {
        return Framing::Chunked;
    }
    let length = named("content-length").and_then(|header| str::from_utf8(header.value).ok()?.parse().ok());
    Framing::Length(length.unwrap_or(0))
}

/// Where `wanted` first stands in `bytes`.
pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
