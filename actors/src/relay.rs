//! Relay: one actor per stream, from the upstream's first content to the client's last byte.
//!
//! It lives on the worker's own arbiter, reads [`Feed`]s, rewrites them with
//! [`ChatStream`] and hands the bytes to a bounded channel that is the response
//! body (see [`waiting`]). It never opens a connection and never decides where to go: the feed does, and is dropped, with
//! everything it holds, when the client leaves.
//!
//! Promises: a slow client slows the upstream ([`RelayLimits::buffer_bytes`]); silence is filled with
//! comments; every stream ends with `[DONE]`, or visibly not at all ([`Aborted`]); the record of an ended
//! stream is out before its last bytes are.

mod waiting;

use std::{
    cell::Cell,
    fmt,
    pin::Pin,
    rc::Rc,
    task::{self, Poll},
    time::{Duration, Instant},
};

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, StreamHandler, WrapFuture};
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::sync::oneshot;

pub use self::waiting::Account;
use self::waiting::{Receiver, Refused, Sender, waiting};
use crate::{
    dialect::{AnswerFault, ChatStream, Outcome, StreamError},
    domain::FailureKind,
};

/// How long an ended upstream may take to close its body, so that its connection can be used again.
const LINGER: Duration = Duration::from_millis(200);

/// What fills a silence: an SSE comment, which every client skips.
const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// Where a relay's input comes from: attempts that are still running, or an upstream body.
pub type FeedStream = Pin<Box<dyn Stream<Item = Feed>>>;

/// One thing a relay reads.
pub enum Feed {
    /// An upstream gave its first content. Always the first feed of a stream that succeeds.
    Opened(Box<Opened>),
    /// Bytes of the upstream's body, or why there are none.
    Read(Result<Bytes, AnswerFault>),
    /// No upstream gave any content; the last feed.
    Failed(Box<Unopened>),
}

/// A stream whose first content was read.
pub struct Opened {
    /// The rewriter that read it.
    pub chat: ChatStream,
    /// What the rewriter wrote so far, held back until now.
    pub held: BytesMut,
    /// Hears how the stream ended.
    pub observer: Box<dyn Observer>,
}

/// A stream that never began.
pub struct Unopened {
    /// A rewriter that has written nothing, to shape the error chunk.
    pub chat: ChatStream,
    /// What the client is told.
    pub error: StreamError,
}

/// Hears how a stream ended: exactly once, or is dropped when the client left.
pub trait Observer {
    /// The stream ended so, after having produced this much. Called before the last bytes leave.
    fn ended(self: Box<Self>, ending: Ending, outcome: Outcome);
    /// What the client is told when the upstream fails in mid-stream.
    fn error(&self, fault: &AnswerFault) -> StreamError;
    /// What the client is told when the gateway stops in mid-stream.
    fn stopped(&self) -> StreamError;
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// Whole.
    Completed,
    /// The upstream failed after content had been sent.
    Failed(AnswerFault),
    /// The gateway stopped, and nobody is to blame.
    Stopped,
    /// The client left, or read nothing for too long.
    ClientLeft,
}

/// The clocks and bounds of a relay.
#[derive(Debug, Clone, Copy)]
pub struct RelayLimits {
    /// Bytes that may wait for a slow client before the relay stops reading upstream. A single event may be longer;
    /// then it is all that waits.
    pub buffer_bytes: usize,
    /// Silence towards the client that is filled with a comment.
    pub keep_alive: Duration,
    /// Silence of the upstream's content that ends the stream; its comments do not count.
    pub idle: Duration,
    /// How long the client may take nothing while there is no room for more.
    pub write_stall: Duration,
    /// When the request as a whole must have ended.
    pub deadline: Instant,
}

/// What the client reads from. Dropping it tells the relay that the client left.
pub struct RelayBody {
    bytes: Receiver,
    /// Set with the last bytes. A relay that ended otherwise left a torso, which must not look like a whole.
    whole: Rc<Cell<bool>>,
    _gone: oneshot::Sender<()>,
}

impl RelayBody {
    /// The next bytes; `None` after the last.
    ///
    /// # Errors
    /// [`Aborted`], when the relay gave up before the end.
    pub fn poll_bytes(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        self.bytes.poll_piece(cx).map(|bytes| match bytes {
            Some(bytes) => Some(Ok(bytes)),
            None => (!self.whole.get()).then_some(Err(Aborted)),
        })
    }
}

/// The stream was given up before its end: the connection must break, not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted;

impl fmt::Display for Aborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream was given up before its end")
    }
}

impl std::error::Error for Aborted {}

/// The actor. Ends with its stream.
pub struct Relay {
    limits: RelayLimits,
    /// Towards the client; `None` once the last byte was handed over.
    client: Option<Sender>,
    /// `None` until the first feed, and after the end.
    stream: Option<Running>,
    then: Then,
    buffer: BytesMut,
    whole: Rc<Cell<bool>>,
    last_sent: Instant,
    last_content: Instant,
}

struct Running {
    chat: ChatStream,
    observer: Box<dyn Observer>,
}

/// What follows when the bytes in hand are with the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Continue,
    /// End the answer; let the upstream close its body in order.
    Linger,
    /// End the answer and the upstream.
    Close,
}

impl Relay {
    /// Starts a relay on this thread's arbiter and gives the response body it writes to. What waits there counts
    /// in `account`. When `time_up` ends, so does the stream, in band.
    pub fn start(
        feeds: FeedStream,
        limits: RelayLimits,
        account: impl Account + 'static,
        time_up: impl Future<Output = ()> + 'static,
    ) -> RelayBody {
        let (client, bytes) = waiting(limits.buffer_bytes, account);
        let (gone, left) = oneshot::channel();
        let whole = Rc::new(Cell::new(false));
        let shared = Rc::clone(&whole);
        Relay::create(|ctx| {
            ctx.add_stream(feeds);
            let now = Instant::now();
            let relay = Relay {
                limits,
                client: Some(client),
                stream: None,
                then: Then::Continue,
                buffer: BytesMut::new(),
                whole: shared,
                last_sent: now,
                last_content: now,
            };
            ctx.spawn(left.into_actor(&relay).map(|_, relay, ctx| {
                if relay.client.is_some() {
                    relay.client_left(ctx);
                }
            }));
            ctx.spawn(time_up.into_actor(&relay).map(|(), relay, ctx| relay.stop(ctx)));
            relay
        });
        RelayBody { bytes, whole, _gone: gone }
    }

    fn opened(&mut self, opened: Opened, ctx: &mut Context<Self>) {
        self.last_content = Instant::now();
        self.buffer = opened.held;
        self.stream = Some(Running { chat: opened.chat, observer: opened.observer });
        self.deliver(ctx);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut Context<Self>) {
        let Some(stream) = &mut self.stream else { return };
        match stream.chat.push(&bytes, &mut self.buffer) {
            Ok(progress) => {
                if progress.content {
                    self.last_content = Instant::now();
                }
                self.deliver(ctx);
            }
            Err(fault) => self.fail(fault, ctx),
        }
    }

    /// Sends what was rewritten. The bytes that hold `[DONE]` go out only after the record did.
    fn deliver(&mut self, ctx: &mut Context<Self>) {
        if self.stream.as_ref().is_some_and(|stream| stream.chat.is_done()) {
            self.report(Ending::Completed);
            self.then = Then::Linger;
        }
        self.send(ctx);
    }

    /// Ends the stream in band: the error chunk, `[DONE]`, and nothing more from upstream.
    fn fail(&mut self, fault: AnswerFault, ctx: &mut Context<Self>) {
        if self.lost_nothing(&fault) {
            self.report(Ending::Completed);
            self.then = Then::Close;
            return self.send(ctx);
        }
        if let Some(stream) = &mut self.stream {
            let error = stream.observer.error(&fault);
            stream.chat.fail(&error, &mut self.buffer);
        }
        self.report(Ending::Failed(fault));
        self.then = Then::Close;
        self.send(ctx);
    }

    /// Ends the stream in band because the gateway stops. Without a stream, the attempts hear of it themselves.
    fn stop(&mut self, ctx: &mut Context<Self>) {
        let Some(stream) = &mut self.stream else { return };
        let ending = if stream.chat.is_whole() && stream.chat.end(&mut self.buffer).is_ok() {
            Ending::Completed
        } else {
            let error = stream.observer.stopped();
            stream.chat.fail(&error, &mut self.buffer);
            Ending::Stopped
        };
        self.report(ending);
        self.then = Then::Close;
        self.send(ctx);
    }

    /// Whether the upstream broke only after every choice had finished; then the stream is ended as a whole.
    fn lost_nothing(&mut self, fault: &AnswerFault) -> bool {
        use FailureKind::{Deadline, Reset, Shortage, Timeout, Truncated};
        let broke = matches!(fault.kind, Reset | Truncated | Timeout | Deadline | Shortage);
        let Some(stream) = self.stream.as_mut().filter(|stream| broke && stream.chat.is_whole()) else { return false };
        stream.chat.end(&mut self.buffer).is_ok()
    }

    fn never_opened(&mut self, unopened: Unopened, ctx: &mut Context<Self>) {
        let Unopened { mut chat, error } = unopened;
        chat.fail(&error, &mut self.buffer);
        self.then = Then::Close;
        self.send(ctx);
    }

    /// The client is gone or deaf: whatever feeds this relay is dropped with it.
    fn client_left(&mut self, ctx: &mut Context<Self>) {
        self.report(Ending::ClientLeft);
        self.client = None;
        ctx.stop();
    }

    fn report(&mut self, ending: Ending) {
        if let Some(Running { chat, observer }) = self.stream.take() {
            observer.ended(ending, chat.outcome());
        }
    }

    fn send(&mut self, ctx: &mut Context<Self>) {
        if self.buffer.is_empty() {
            return self.go_on(ctx);
        }
        let bytes = self.buffer.split().freeze();
        self.send_bytes(bytes, ctx);
    }

    /// Hands bytes to the client; while there is no room for them, the relay reads nothing.
    fn send_bytes(&mut self, bytes: Bytes, ctx: &mut Context<Self>) {
        let Some(client) = &self.client else { return };
        match client.try_send(bytes) {
            Ok(()) => self.sent(ctx),
            Err(Refused::Left) => self.client_left(ctx),
            Err(Refused::Full(bytes)) => {
                let room = client.send(bytes, self.limits.write_stall);
                ctx.wait(room.into_actor(self).map(|sent, relay, ctx| {
                    if !sent {
                        return relay.client_left(ctx);
                    }
                    // While the client kept us, the upstream was not read: its silence counts from now.
                    relay.last_content = Instant::now();
                    relay.sent(ctx);
                }));
            }
        }
    }

    fn sent(&mut self, ctx: &mut Context<Self>) {
        self.last_sent = Instant::now();
        self.go_on(ctx);
    }

    /// Does what follows when nothing is left to be sent.
    fn go_on(&mut self, ctx: &mut Context<Self>) {
        if self.then == Then::Continue {
            return;
        }
        self.whole.set(true);
        self.client = None;
        if self.then == Then::Linger {
            ctx.run_later(LINGER, |_, ctx| ctx.stop());
        } else {
            ctx.stop();
        }
    }

    /// Arms the timer for whichever clock runs out first.
    fn arm(&self, ctx: &mut Context<Self>) {
        let comment = self.last_sent + self.limits.keep_alive;
        let silence = self.last_content + self.limits.idle;
        let first = comment.min(silence).min(self.limits.deadline);
        let wait = first.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        ctx.run_later(wait, Relay::clock_ran);
    }

    fn clock_ran(&mut self, ctx: &mut Context<Self>) {
        if self.client.is_none() {
            return;
        }
        let now = Instant::now();
        if self.stream.is_none() {
            // The attempts that may still open this stream have clocks of their own.
            self.last_content = now;
        }
        let idle = now.duration_since(self.last_content) >= self.limits.idle;
        if self.stream.is_some() && (idle || now >= self.limits.deadline) {
            let (kind, detail) = match idle {
                true => (FailureKind::Timeout, "no content within the idle time"),
                false => (FailureKind::Deadline, "the request's deadline passed"),
            };
            return self.fail(AnswerFault { kind, detail: detail.into() }, ctx);
        }
        if now.duration_since(self.last_sent) >= self.limits.keep_alive {
            self.send_bytes(KEEP_ALIVE, ctx);
        }
        self.arm(ctx);
    }
}

impl Actor for Relay {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.arm(ctx);
    }
}

impl StreamHandler<Feed> for Relay {
    fn handle(&mut self, feed: Feed, ctx: &mut Context<Self>) {
        match feed {
            Feed::Opened(opened) => self.opened(*opened, ctx),
            Feed::Read(Ok(bytes)) => self.read(bytes, ctx),
            Feed::Read(Err(fault)) if self.stream.is_some() => self.fail(fault, ctx),
            // What breaks after `[DONE]` is nobody's loss.
            Feed::Read(Err(_)) => ctx.stop(),
            Feed::Failed(unopened) => self.never_opened(*unopened, ctx),
        }
    }

    /// The upstream's body ended in order; whether the answer is whole is for the rewriter to say.
    fn finished(&mut self, ctx: &mut Context<Self>) {
        let Some(stream) = &mut self.stream else {
            if self.client.is_none() {
                ctx.stop();
            }
            return;
        };
        match stream.chat.end(&mut self.buffer) {
            Ok(()) => {
                self.report(Ending::Completed);
                self.then = Then::Close;
                self.send(ctx);
            }
            Err(fault) => self.fail(fault, ctx),
        }
    }
}
