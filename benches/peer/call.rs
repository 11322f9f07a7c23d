//! One call as a client sees it, judged: whole, failed, or left.

use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{Failure, Options, http::Connection, question::chat};

/// What a call is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An answer in one piece.
    Plain,
    /// A stream, read to its end.
    Stream,
    /// A stream that is left after its first chunks.
    Left,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Seen {
    /// A whole answer.
    Whole,
    /// Anything else, in a few words.
    Failed(String),
    /// The client went away.
    Left,
}

/// A client with a connection that it keeps as long as it is good.
pub(crate) struct Caller<'a> {
    options: &'a Options,
    connection: Option<Connection>,
    body: Vec<u8>,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(options: &'a Options) -> Caller<'a> {
        Caller { options, connection: None, body: Vec::new() }
    }

    /// Makes one call of `model`.
    pub(crate) async fn call(&mut self, model: &str, kind: Kind) -> Result<Seen, Failure> {
        let request = chat(self.options, model, kind != Kind::Plain)?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::new(TcpStream::connect(self.options.address).await?)?,
        };
        connection.socket.write_all(&request).await?;
        let head = connection.answer_head().await?;
        if kind == Kind::Left && head.status == 200 {
            for _ in 0..3 {
                connection.chunk(&mut self.body).await?;
            }
            return Ok(Seen::Left);
        }
        connection.body(&head, &mut self.body).await?;
        self.connection = Some(connection);
        Ok(judge(head.status, kind, &String::from_utf8_lossy(&self.body)))
    }
}

fn judge(status: u16, kind: Kind, body: &str) -> Seen {
    let whole = match kind {
        Kind::Plain => body.contains(r#""finish_reason":"stop""#),
        Kind::Stream | Kind::Left => body.ends_with("data: [DONE]\n\n") && !body.contains(r#""error":{"#),
    };
    if status == 200 && whole {
        return Seen::Whole;
    }
    let words = body.rsplit(r#""error":{"#).next().unwrap_or(body);
    Seen::Failed(format!("{status} {}", words.chars().take(200).collect::<String>()))
}
