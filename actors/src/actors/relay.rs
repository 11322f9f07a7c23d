//! Relay: one actor per stream, from the upstream's first content to the client's last byte.
//!
//! It lives on the worker's own arbiter, reads [`RelayInput`]s, rewrites them with
//! [`ChatStream`] and hands the bytes to a bounded channel that is the response
//! body (see [`send_buffer`]). It never opens a connection and never decides where to go: the feed does, and is dropped, with
//! everything it holds, when the client leaves.
//!
//! Promises: a slow client slows the upstream ([`RelayLimits::buffer_bytes`]); silence is filled with
//! comments; every stream ends with `[DONE]`, or visibly not at all ([`Aborted`]); the record of an ended
//! stream is out before its last bytes are.

mod send_buffer;

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

use self::send_buffer::{BufferReceiver, BufferSender, SendError, waiting};
use crate::{
    dialect::{AnswerFault, ChatStream, Outcome, StreamError},
    domain::FailureKind,
};
pub use send_buffer::BufferBudget;

/// How long an ended upstream may take to close its body, so that its connection can be used again.
const LINGER: Duration = Duration::from_millis(200);

/// What fills a silence: an SSE comment, which every client skips.
const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// Where a relay's input comes from: attempts that are still running, or an upstream body.
pub type RelayInputStream = Pin<Box<dyn Stream<Item = RelayInput>>>;

/// One thing a relay reads.
pub enum RelayInput {
    /// An upstream gave its first content. Always the first feed of a stream that succeeds.
    Opened(Box<StreamOpened>),
    /// Bytes of the upstream's body, or why there are none.
    Read(Result<Bytes, AnswerFault>),
    /// No upstream gave any content; the last feed.
    Failed(Box<StreamNotOpened>),
}

/// A stream whose first content was read.
pub struct StreamOpened {
    /// The rewriter that read it.
    pub chat: ChatStream,
    /// What the rewriter wrote so far, held back until now.
    pub held: BytesMut,
    /// Hears how the stream ended.
    pub observer: Box<dyn RelayObserver>,
}

/// A stream that never began.
pub struct StreamNotOpened {
    /// A rewriter that has written nothing, to shape the error chunk.
    pub chat: ChatStream,
    /// What the client is told.
    pub error: StreamError,
}

/// Hears how a stream ended: exactly once, or is dropped when the client left.
pub trait RelayObserver {
    /// The stream ended so, after having produced this much. Called before the last bytes leave.
    fn ended(self: Box<Self>, ending: StreamEnd, outcome: Outcome);
    /// What the client is told when the upstream fails in mid-stream.
    fn error(&self, fault: &AnswerFault) -> StreamError;
    /// What the client is told when the gateway stops in mid-stream.
    fn stopped(&self) -> StreamError;
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEnd {
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
    bytes: BufferReceiver,
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
    client: Option<BufferSender>,
    /// `None` until the first feed, and after the end.
    stream: Option<OpenStream>,
    then: AfterSend,
    buffer: BytesMut,
    whole: Rc<Cell<bool>>,
    last_sent: Instant,
    last_content: Instant,
}

struct OpenStream {
    chat: ChatStream,
    observer: Box<dyn RelayObserver>,
}

/// What follows when the bytes in hand are with the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterSend {
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
        feeds: RelayInputStream,
        limits: RelayLimits,
        account: impl BufferBudget + 'static,
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
                then: AfterSend::Continue,
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

    fn opened(&mut self, opened: StreamOpened, ctx: &mut Context<Self>) {
        self.last_content = Instant::now();
        self.buffer = opened.held;
        self.stream = Some(OpenStream { chat: opened.chat, observer: opened.observer });
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
            self.report(StreamEnd::Completed);
            self.then = AfterSend::Linger;
        }
        self.send(ctx);
    }

    /// Ends the stream in band: the error chunk, `[DONE]`, and nothing more from upstream.
    fn fail(&mut self, fault: AnswerFault, ctx: &mut Context<Self>) {
        if self.lost_nothing(&fault) {
            self.report(StreamEnd::Completed);
            self.then = AfterSend::Close;
            return self.send(ctx);
        }
        if let Some(stream) = &mut self.stream {
            let error = stream.observer.error(&fault);
            stream.chat.fail(&error, &mut self.buffer);
        }
        self.report(StreamEnd::Failed(fault));
        self.then = AfterSend::Close;
        self.send(ctx);
    }

    /// Ends the stream in band because the gateway stops. Without a stream, the attempts hear of it themselves.
    fn stop(&mut self, ctx: &mut Context<Self>) {
        let Some(stream) = &mut self.stream else { return };
        let ending = if stream.chat.is_whole() && stream.chat.end(&mut self.buffer).is_ok() {
            StreamEnd::Completed
        } else {
            let error = stream.observer.stopped();
            stream.chat.fail(&error, &mut self.buffer);
            StreamEnd::Stopped
        };
        self.report(ending);
        self.then = AfterSend::Close;
        self.send(ctx);
    }

    /// Whether the upstream broke only after every choice had finished; then the stream is ended as a whole.
    fn lost_nothing(&mut self, fault: &AnswerFault) -> bool {
        use FailureKind::{Deadline, Reset, Shortage, Timeout, Truncated};
        let broke = matches!(fault.kind, Reset | Truncated | Timeout | Deadline | Shortage);
        let Some(stream) = self.stream.as_mut().filter(|stream| broke && stream.chat.is_whole()) else { return false };
        stream.chat.end(&mut self.buffer).is_ok()
    }

    fn never_opened(&mut self, unopened: StreamNotOpened, ctx: &mut Context<Self>) {
        let StreamNotOpened { mut chat, error } = unopened;
        chat.fail(&error, &mut self.buffer);
        self.then = AfterSend::Close;
        self.send(ctx);
    }

    /// The client is gone or deaf: whatever feeds this relay is dropped with it.
    fn client_left(&mut self, ctx: &mut Context<Self>) {
        self.report(StreamEnd::ClientLeft);
        self.client = None;
        ctx.stop();
    }

    fn report(&mut self, ending: StreamEnd) {
        if let Some(OpenStream { chat, observer }) = self.stream.take() {
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
            Err(SendError::Left) => self.client_left(ctx),
            Err(SendError::Full(bytes)) => {
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
        if self.then == AfterSend::Continue {
            return;
        }
        self.whole.set(true);
        self.client = None;
        if self.then == AfterSend::Linger {
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

impl StreamHandler<RelayInput> for Relay {
    fn handle(&mut self, feed: RelayInput, ctx: &mut Context<Self>) {
        match feed {
            RelayInput::Opened(opened) => self.opened(*opened, ctx),
            RelayInput::Read(Ok(bytes)) => self.read(bytes, ctx),
            RelayInput::Read(Err(fault)) if self.stream.is_some() => self.fail(fault, ctx),
            // What breaks after `[DONE]` is nobody's loss.
            RelayInput::Read(Err(_)) => ctx.stop(),
            RelayInput::Failed(unopened) => self.never_opened(*unopened, ctx),
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
                self.report(StreamEnd::Completed);
                self.then = AfterSend::Close;
                self.send(ctx);
            }
            Err(fault) => self.fail(fault, ctx),
        }
    }
}
