//! A provider that fails before it has said anything of use: each request in the next of a dozen ways.
//!
//! With a flap it is sound for one period and broken for the next, so that a breaker opens and closes all the time.

use std::{
    cell::Cell,
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};

use crate::{Failure, http::Connection, say, upstream::Script};

/// What it says instead of an answer; nothing: it closes. Each ends the connection.
const FAULTS: [&str; 12] = [
    "",
    "HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\n{}",
    "HTTP/1.1 200 OK\r\ncontent-le",
    "HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\n{}",
    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>",
    "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"id\":",
    "HTTP/1.1 429 Slow down\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n{}",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{\"choices\":[]}",
    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{\"a\":1}",
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n",
    "220 mail.example ESMTP ready\r\n\r\n",
];

/// Serves until it is killed. A flap of zero: it is always broken.
pub(crate) async fn serve(flap: Duration, pause: Duration) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let script = Rc::new(Script::new(pause)?);
    let turn = Rc::new(Cell::new(0_usize));
    let begun = Instant::now();
    say(&format!("listening on {}", listener.local_addr()?))?;
    let accept = async {
        loop {
            let (socket, _) = listener.accept().await?;
            let (script, turn) = (Rc::clone(&script), Rc::clone(&turn));
            tokio::task::spawn_local(async move { drop(serve_one(socket, &script, &turn, (begun, flap)).await) });
        }
    };
    tokio::task::LocalSet::new().run_until(accept).await
}

async fn serve_one(
    socket: TcpStream,
    script: &Script,
    turn: &Cell<usize>,
    (begun, flap): (Instant, Duration),
) -> io::Result<()> {
    let mut connection = Connection::new(socket)?;
    let mut body = Vec::new();
    while let Some(head) = connection.request_head().await? {
        connection.body(&head, &mut body).await?;
        let period = begun.elapsed().as_nanos().checked_div(flap.as_nanos()).unwrap_or(1);
        if period % 2 == 1 {
            let number = turn.replace(turn.get() + 1) % FAULTS.len();
            let fault = FAULTS.get(number).copied().unwrap_or_default();
            return connection.socket.write_all(fault.as_bytes()).await;
        }
        if !script.answer_one(&mut connection, &body).await? {
            return Ok(());
        }
    }
    Ok(())
}
