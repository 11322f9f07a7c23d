//! One endpoint of a world as a process: a server on a loopback port that treats each request as the world says.
//!
//! A request names its number in the world in its text, `#123#`. What an attempt costs is counted here, where it is
//! known whether it was served to its end, and told when standard input ends: request, moment, dollars, and the true
//! probability that it was a bad choice.

use std::{
    cell::{Cell, RefCell},
    fmt::Write as _,
    io::{self, BufRead, ErrorKind, Write as _},
    net::SocketAddr,
    rc::Rc,
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::LocalSet,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    http::Connection,
    stage::{Clock, Stage, micros_now, real},
};
use crate::{
    bucket::Bucket,
    request::Request,
    world::{Effect, Fate, Fault, World},
};

/// Between two looks at whether connections are to be refused, at an endpoint that ever does, and at any other.
const LOOK: Duration = Duration::from_millis(3);
const SELDOM: Duration = Duration::from_secs(1);
/// Until it is told when the world starts, nothing moves.
const NEVER: u64 = 3_600_000_000;

struct Endpoint {
    world: World,
    position: usize,
    look: Duration,
    clock: Cell<Clock>,
    in_flight: Cell<u32>,
    bucket: Cell<Bucket>,
    tally: RefCell<Vec<Entry>>,
}

/// What is told of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Which request.
    pub request: usize,
    /// When it came, virtual seconds.
    pub at: f64,
    /// What it cost, dollars.
    pub dollars: f64,
    /// True probability that it would fail or take too long.
    pub bad: f64,
}

/// What becomes of a connection.
enum Then {
    KeepIt,
    DropIt,
}

/// Serves one endpoint of a stage until standard input ends.
///
/// # Errors
/// A port or a runtime that cannot be had.
pub fn serve(stage: &Stage, position: usize) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let world = stage.world();
    let ever_refuses = world.events.iter().any(|event| event.endpoint == position && event.effect == Effect::Refuses);
    let endpoint = Rc::new(Endpoint {
        world,
        position,
        look: if ever_refuses { LOOK } else { SELDOM },
        clock: Cell::new(Clock::starting_at(micros_now() + NEVER)),
        in_flight: Cell::new(0),
        bucket: Cell::default(),
        tally: RefCell::default(),
    });
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        writeln!(io::stdout(), "listening on {}", listener.local_addr()?)?;
        let (start, started) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        std::thread::spawn(move || listen(start, end));
        let starting = Rc::clone(&endpoint);
        tokio::task::spawn_local(async move {
            if let Ok(micros) = started.await {
                starting.clock.set(Clock::starting_at(micros));
            }
        });
        tokio::select! {
            failed = accept(Rc::clone(&endpoint), listener) => failed,
            _ = ended => Ok(()),
        }
    })?;
    io::stdout().write_all(endpoint.told().as_bytes())
}

/// Reads when the world starts, and waits for the end.
fn listen(start: oneshot::Sender<u64>, end: oneshot::Sender<()>) {
    let mut lines = io::stdin().lock().lines();
    if let Some(micros) = lines.next().and_then(|line| line.ok()?.strip_prefix("start ")?.parse().ok()) {
        _ = start.send(micros);
    }
    lines.for_each(drop);
    _ = end.send(());
}

/// Takes connections. While the world has them refused, nobody listens at all.
async fn accept(endpoint: Rc<Endpoint>, listener: TcpListener) -> io::Result<()> {
    let address = listener.local_addr()?;
    let mut listener = Some(listener);
    loop {
        if endpoint.refuses() {
            listener = None;
            sleep(LOOK).await;
            continue;
        }
        let open = match listener.take() {
            Some(open) => open,
            None => reopened(address).await,
        };
        if let Ok(Ok((socket, _))) = timeout(endpoint.look, open.accept()).await {
            let endpoint = Rc::clone(&endpoint);
            // A caller that leaves in the middle is its own affair.
            tokio::task::spawn_local(async move { drop(endpoint.converse(socket).await) });
        }
        listener = Some(open);
    }
}

async fn reopened(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(_) => sleep(LOOK).await,
        }
    }
}

impl Endpoint {
    fn refuses(&self) -> bool {
        self.world.truth(self.position, self.clock.get().now(), 1).fault == Fault::Refused
    }

    async fn converse(&self, socket: TcpStream) -> io::Result<()> {
        let mut connection = Connection::new(socket)?;
        let mut body = Vec::new();
        while let Some(head) = connection.request_head().await? {
            connection.body(&head, &mut body).await?;
            let Some(request) = number(&body).and_then(|number| self.world.requests.get(number)) else {
                return Err(ErrorKind::InvalidData.into());
            };
            self.in_flight.set(self.in_flight.get() + 1);
            let then = self.treat(&mut connection, request).await;
            self.in_flight.set(self.in_flight.get() - 1);
            if matches!(then?, Then::DropIt) {
                break;
            }
        }
        Ok(())
    }

    async fn treat(&self, connection: &mut Connection, request: &Request) -> io::Result<Then> {
        let (came, now) = (Instant::now(), self.clock.get().now());
        let truth = self.world.truth(self.position, now, self.in_flight.get());
        let bucket = self.bucket.get().at(now, self.world.limit(self.position, now));
        let admitted = bucket.admits();
        self.bucket.set(bucket.asked());
        let bad = if admitted { truth.bad(request) } else { 1.0 };
        let place = self.tally.borrow().len();
        self.tally.borrow_mut().push(Entry { request: request.id, at: now, dollars: 0.0, bad });
        if !admitted {
            return limited(connection, &bucket).await;
        }
        let fate = self.world.fate(request, self.position, &truth);
        match fate {
            Fate::Fails { .. } if truth.fault == Fault::Refused => Ok(Then::DropIt),
            Fate::Fails { after, .. } => {
                sleep_until(came + real(after)).await;
                write(connection, "500 Internal Server Error", "", r#"{"error":{"message":"out of order"}}"#).await
            }
            Fate::Hangs | Fate::Answers { .. } => {
                let generated = self.answer(connection, request, fate, came).await;
                let cost = self.world.cost(self.position, request, generated);
                self.tally.borrow_mut()[place].dollars = cost;
                Ok(if generated < f64::from(request.answer) { Then::DropIt } else { Then::KeepIt })
            }
        }
    }

    /// Answers, unless the caller leaves before. Gives back the output tokens that are to be paid: plain answers are
    /// generated unseen, so that half of what was under way counts.
    async fn answer(&self, connection: &mut Connection, request: &Request, fate: Fate, came: Instant) -> f64 {
        let Fate::Answers { first, total } = fate else {
            _ = connection.request_head().await;
            return 0.0;
        };
        let whole = f64::from(request.answer);
        if !request.streamed {
            let done = came + real(total);
            if waited(connection, done).await && write(connection, "200 OK", "", &plain(request)).await.is_ok() {
                return whole;
            }
            return 0.5 * whole * (came.elapsed().as_secs_f64() / real(total).as_secs_f64()).min(1.0);
        }
        let streamed = async {
            let begun = waited(connection, came + real(first)).await && begin(connection).await.is_ok();
            begun && waited(connection, came + real(total)).await && end(connection, request).await.is_ok()
        };
        if streamed.await { whole } else { 0.0 }
    }

    fn told(&self) -> String {
        let mut text = String::new();
        for Entry { request, at, dollars, bad } in self.tally.borrow().iter() {
            // Writing to a string cannot fail.
            _ = writeln!(text, "{request} {at} {dollars} {bad}");
        }
        text
    }
}

impl Entry {
    /// What [`serve`] said at its end.
    pub fn read(said: &str) -> Vec<Entry> {
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let request = words.next()?.parse().ok()?;
            let mut number = || words.next()?.parse().ok();
            Some(Entry { request, at: number()?, dollars: number()?, bad: number()? })
        };
        said.lines().filter_map(entry).collect()
    }
}

/// The number of a request, which stands in its text.
fn number(body: &[u8]) -> Option<usize> {
    let after = body.get(body.iter().position(|byte| *byte == b'#')? + 1..)?;
    str::from_utf8(after.get(..after.iter().position(|byte| *byte == b'#')?)?).ok()?.parse().ok()
}

/// Waits until a moment; false when the caller leaves before.
async fn waited(connection: &mut Connection, until: Instant) -> bool {
    tokio::select! {
        () = sleep_until(until) => true,
        _ = connection.request_head() => false,
    }
}

async fn limited(connection: &mut Connection, bucket: &Bucket) -> io::Result<Then> {
    let wait = real(bucket.retry_after().unwrap_or_default().as_secs_f64());
    let header = format!("retry-after-ms: {}\r\n", wait.as_millis().max(1));
    write(connection, "429 Too Many Requests", &header, r#"{"error":{"message":"slow down"}}"#).await
}

async fn write(connection: &mut Connection, status: &str, header: &str, body: &str) -> io::Result<Then> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{header}content-length: {length}\r\n\r\n");
    connection.socket.write_all((head + body).as_bytes()).await.map(|()| Then::KeepIt)
}

const FRAME: &str = r#""id":"chatcmpl-1","created":1763629500,"model":"chat""#;

fn usage(request: &Request) -> String {
    let (prompt, answer) = (request.prompt, request.answer);
    format!(r#""usage":{{"prompt_tokens":{prompt},"completion_tokens":{answer},"total_tokens":{}}}"#, prompt + answer)
}

fn plain(request: &Request) -> String {
    let choice = r#"{"index":0,"message":{"role":"assistant","content":"text"},"finish_reason":"stop"}"#;
    format!(r#"{{{FRAME},"object":"chat.completion","choices":[{choice}],{}}}"#, usage(request))
}

async fn begin(connection: &mut Connection) -> io::Result<()> {
    let choice = r#"{"index":0,"delta":{"role":"assistant","content":"text"},"finish_reason":null}"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    connection.socket.write_all((head.to_owned() + &event(choice, "")).as_bytes()).await
}

async fn end(connection: &mut Connection, request: &Request) -> io::Result<()> {
    let choice = r#"{"index":0,"delta":{"content":" more"},"finish_reason":"stop"}"#;
    let last = event(choice, "") + &event("", &usage(request)) + &chunk("data: [DONE]\n\n") + "0\r\n\r\n";
    connection.socket.write_all(last.as_bytes()).await
}

fn event(choice: &str, usage: &str) -> String {
    let comma = if usage.is_empty() { "" } else { "," };
    chunk(&format!("data: {{{FRAME},\"object\":\"chat.completion.chunk\",\"choices\":[{choice}]{comma}{usage}}}\n\n"))
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}
