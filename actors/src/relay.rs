//! Relay: one actor per stream, from the upstream's first content to the client's last byte.
//!
//! It runs on the worker's own arbiter, reads [`RelayInput`]s, rewrites them with [`ChatStream`] and writes the bytes
//! to a bounded buffer that is the response body (see `send_buffer`). It never opens a connection and never chooses
//! an endpoint: the input stream does. When the client leaves, the input stream is dropped with its connections.
//!
//! Guarantees: a slow client slows the upstream ([`RelayLimits::buffer_bytes`]); silence is filled with SSE comments;
//! every stream ends with `[DONE]` or with a broken connection ([`Aborted`]); the record of a stream is sent to the
//! ledger before its last bytes are sent to the client.

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
use pointsman_dialect::{AnswerFault, ChatStream, KEEP_ALIVE, Outcome, StreamError};
use pointsman_domain::FailureKind;
use tokio::sync::oneshot;

use self::send_buffer::{BufferReceiver, BufferSender, SendError, send_buffer};
use crate::cost_ceiling::CostCeiling;
pub use send_buffer::BufferBudget;

/// How long an ended upstream may take to close its body, so that its connection can be used again.
const LINGER: Duration = Duration::from_millis(200);

/// Input of a relay: attempts that are still running, or an upstream body.
pub type RelayInputStream = Pin<Box<dyn Stream<Item = RelayInput>>>;

/// One item of a relay's input.
pub enum RelayInput {
    /// An upstream sent its first content. Always the first item of a successful stream.
    Opened(Box<StreamOpened>),
    /// Bytes of the upstream's body, or the error that ended it.
    Read(Result<Bytes, AnswerFault>),
    /// No upstream sent any content. Always the last item.
    Failed(Box<StreamNotOpened>),
}

/// A stream whose first content has been read.
pub struct StreamOpened {
    /// The rewriter that read the first content.
    pub chat: ChatStream,
    /// Output of the rewriter that was held back until the first content.
    pub held: BytesMut,
    /// Receives how the stream ended.
    pub observer: Box<dyn RelayObserver>,
    /// Highest cost of the stream.
    pub ceiling: Option<CostCeiling>,
}

/// A stream without any content.
pub struct StreamNotOpened {
    /// A rewriter without output, which writes the error chunk.
    pub chat: ChatStream,
    /// The error shown to the client.
    pub error: StreamError,
}

/// Receives how a stream ended: exactly once, unless it is dropped because the client left.
pub trait RelayObserver {
    /// The stream ended with this outcome. Called before the last bytes are sent.
    fn ended(self: Box<Self>, end: StreamEnd, outcome: Outcome);
    /// The estimated tokens of the answer so far. Called for each read with content; must be cheap.
    fn produced(&self, _tokens: u64) {}
    /// The error shown to the client when the upstream fails during the stream, after so many estimated tokens and with
    /// so much time since the last content.
    fn error(&self, fault: &AnswerFault, tokens: u64, silence: Duration) -> StreamError;
    /// The error shown to the client when the gateway shuts down during the stream.
    fn stopped(&self) -> StreamError;
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEnd {
    /// The answer was complete.
    Completed,
    /// The upstream failed after content was sent.
    Failed(AnswerFault),
    /// The gateway shut down. Does not count as a failure of the endpoint.
    Stopped,
    /// The client disconnected, or read nothing for too long.
    ClientLeft,
}

/// Time-outs and bounds of a relay.
#[derive(Debug, Clone, Copy)]
pub struct RelayLimits {
    /// Bytes buffered for a slow client before the relay stops reading upstream. A single longer event is accepted when
    /// the buffer is empty.
    pub buffer_bytes: usize,
    /// Silence towards the client after which a comment is sent.
    pub keep_alive: Duration,
    /// Time without content from the upstream after which the stream fails, see [`ChatStream::longest_silence`]; comments do
    /// not count as content.
    pub idle: Duration,
    /// How long the client may read nothing while the buffer is full.
    pub write_stall: Duration,
    /// End of the time budget of the whole request.
    pub deadline: Instant,
}

/// The response body. Dropping it tells the relay that the client disconnected.
pub struct RelayBody {
    bytes: BufferReceiver,
    /// Set with the last bytes. If the relay ended without setting it, the answer is incomplete and must not look
    /// complete.
    complete: Rc<Cell<bool>>,
    _gone: oneshot::Sender<()>,
}

impl RelayBody {
    /// The next bytes; `None` after the last.
    ///
    /// # Errors
    /// [`Aborted`] when the relay stopped before the end.
    pub fn poll_bytes(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        self.bytes.poll_piece(cx).map(|bytes| match bytes {
            Some(bytes) => Some(Ok(bytes)),
            None => (!self.complete.get()).then_some(Err(Aborted)),
        })
    }
}

/// The stream stopped before its end: the connection must be closed without a regular end of the body.
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
    /// Sends to the client; `None` after the last byte.
    client: Option<BufferSender>,
    /// `None` before the first content and after the end.
    stream: Option<OpenStream>,
    after_send: AfterSend,
    buffer: BytesMut,
    complete: Rc<Cell<bool>>,
    last_sent: Instant,
    last_content: Instant,
}

struct OpenStream {
    chat: ChatStream,
    observer: Box<dyn RelayObserver>,
    ceiling: Option<CostCeiling>,
}

/// What to do after the buffered bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterSend {
    Continue,
    /// End the answer; wait for the upstream to end its body, so that the connection can be reused.
    Linger,
    /// End the answer and the upstream.
    Close,
}

impl Relay {
    /// Starts a relay on this thread's arbiter and returns the response body. Buffered bytes count in `budget`. When
    /// `time_up` completes, the stream ends with an error chunk.
    pub fn start(
        input: RelayInputStream,
        limits: RelayLimits,
        budget: impl BufferBudget + 'static,
        time_up: impl Future<Output = ()> + 'static,
    ) -> RelayBody {
        let (client, bytes) = send_buffer(limits.buffer_bytes, budget);
        let (gone, left) = oneshot::channel();
        let complete = Rc::new(Cell::new(false));
        let shared = Rc::clone(&complete);
        Relay::create(|ctx| {
            ctx.add_stream(input);
            let now = Instant::now();
            let relay = Relay {
                limits,
                client: Some(client),
                stream: None,
                after_send: AfterSend::Continue,
                buffer: BytesMut::new(),
                complete: shared,
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
        RelayBody { bytes, complete, _gone: gone }
    }

    fn opened(&mut self, opened: StreamOpened, ctx: &mut Context<Self>) {
        self.last_content = Instant::now();
        self.buffer = opened.held;
        opened.observer.produced(opened.chat.produced_tokens());
        self.stream = Some(OpenStream { chat: opened.chat, observer: opened.observer, ceiling: opened.ceiling });
        self.deliver(ctx);
    }

    fn read(&mut self, bytes: Bytes, ctx: &mut Context<Self>) {
        let Some(stream) = &mut self.stream else { return };
        let pushed = match &mut stream.ceiling {
            Some(ceiling) => ceiling.push(&mut stream.chat, &bytes, &mut self.buffer),
            None => stream.chat.push(&bytes, &mut self.buffer),
        };
        match pushed {
            Ok(progress) => {
                if progress.content {
                    self.last_content = Instant::now();
                    stream.observer.produced(stream.chat.produced_tokens());
                }
                self.deliver(ctx);
            }
            Err(fault) => self.fail(fault, ctx),
        }
    }

    /// Sends rewritten bytes. The record is sent to the ledger before the bytes with `[DONE]`.
    fn deliver(&mut self, ctx: &mut Context<Self>) {
        if self.stream.as_ref().is_some_and(|stream| stream.chat.is_done()) {
            let is_cut = self.stream.as_ref().and_then(|stream| stream.ceiling.as_ref());
            let is_cut = is_cut.is_some_and(CostCeiling::is_reached);
            self.report(StreamEnd::Completed);
            self.after_send = if is_cut { AfterSend::Close } else { AfterSend::Linger };
        }
        self.send(ctx);
    }

    /// Ends the stream with an error chunk and `[DONE]`, and closes the upstream.
    fn fail(&mut self, fault: AnswerFault, ctx: &mut Context<Self>) {
        if self.is_already_complete(&fault) {
            self.report(StreamEnd::Completed);
            self.after_send = AfterSend::Close;
            return self.send(ctx);
        }
        if let Some(stream) = &mut self.stream {
            let error = stream.observer.error(&fault, stream.chat.produced_tokens(), self.last_content.elapsed());
            stream.chat.fail(&error, &mut self.buffer);
        }
        self.report(StreamEnd::Failed(fault));
        self.after_send = AfterSend::Close;
        self.send(ctx);
    }

    /// Ends the stream because the gateway shuts down. Attempts without content are stopped elsewhere.
    fn stop(&mut self, ctx: &mut Context<Self>) {
        let Some(stream) = &mut self.stream else { return };
        let end = if stream.chat.is_whole() && stream.chat.end(&mut self.buffer).is_ok() {
            StreamEnd::Completed
        } else {
            let error = stream.observer.stopped();
            stream.chat.fail(&error, &mut self.buffer);
            StreamEnd::Stopped
        };
        self.report(end);
        self.after_send = AfterSend::Close;
        self.send(ctx);
    }

    /// Whether the upstream broke after every choice had finished. Then the stream ends as complete.
    fn is_already_complete(&mut self, fault: &AnswerFault) -> bool {
        use FailureKind::{Deadline, Reset, Shortage, Timeout, Truncated};
        let broke = matches!(fault.kind, Reset | Truncated | Timeout | Deadline | Shortage);
        let Some(stream) = self.stream.as_mut().filter(|stream| broke && stream.chat.is_whole()) else { return false };
        stream.chat.end(&mut self.buffer).is_ok()
    }

    fn not_opened(&mut self, unopened: StreamNotOpened, ctx: &mut Context<Self>) {
        let StreamNotOpened { mut chat, error } = unopened;
        chat.fail(&error, &mut self.buffer);
        self.after_send = AfterSend::Close;
        self.send(ctx);
    }

    /// The client disconnected or stopped reading. Stopping the actor drops its input.
    fn client_left(&mut self, ctx: &mut Context<Self>) {
        self.report(StreamEnd::ClientLeft);
        self.client = None;
        ctx.stop();
    }

    fn report(&mut self, end: StreamEnd) {
        if let Some(OpenStream { chat, observer, .. }) = self.stream.take() {
            observer.ended(end, chat.outcome());
        }
    }

    fn send(&mut self, ctx: &mut Context<Self>) {
        if self.buffer.is_empty() {
            return self.after_send(ctx);
        }
        let bytes = self.buffer.split().freeze();
        self.send_bytes(bytes, ctx);
    }

    /// Sends bytes to the client. While the buffer is full, the relay reads no input.
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
                    // The upstream was not read while the buffer was full, so its silence counts from now.
                    relay.last_content = Instant::now();
                    relay.sent(ctx);
                }));
            }
        }
    }

    fn sent(&mut self, ctx: &mut Context<Self>) {
        self.last_sent = Instant::now();
        self.after_send(ctx);
    }

    /// Continues after all bytes were sent.
    fn after_send(&mut self, ctx: &mut Context<Self>) {
        if self.after_send == AfterSend::Continue {
            return;
        }
        self.complete.set(true);
        self.client = None;
        if self.after_send == AfterSend::Linger {
            ctx.run_later(LINGER, |_, ctx| ctx.stop());
        } else {
            ctx.stop();
        }
    }

    fn longest_silence(&self) -> Duration {
        let stream = self.stream.as_ref();
        stream.map_or(self.limits.idle, |stream| stream.chat.longest_silence(self.limits.idle))
    }

    /// Starts the timer for the next time-out.
    fn arm(&self, ctx: &mut Context<Self>) {
        let comment = self.last_sent + self.limits.keep_alive;
        let silence = self.last_content + self.longest_silence();
        let first = comment.min(silence).min(self.limits.deadline);
        let wait = first.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        ctx.run_later(wait, Relay::timed_out);
    }

    fn timed_out(&mut self, ctx: &mut Context<Self>) {
        if self.client.is_none() {
            return;
        }
        let now = Instant::now();
        if self.stream.is_none() {
            // The attempts that may still open this stream have their own time-outs.
            self.last_content = now;
        }
        let idle = now.duration_since(self.last_content) >= self.longest_silence();
        if self.stream.is_some() && (idle || now >= self.limits.deadline) {
            let (kind, detail) = match idle {
                true => (FailureKind::Timeout, "no content within the idle time"),
                false => (FailureKind::Deadline, "the request's deadline passed"),
            };
            return self.fail(AnswerFault::new(kind, detail), ctx);
        }
        if now.duration_since(self.last_sent) >= self.limits.keep_alive {
            let mut silence = BytesMut::new();
            match &mut self.stream {
                Some(stream) => stream.chat.keep_alive(&mut silence),
                None => silence.extend_from_slice(KEEP_ALIVE),
            }
            self.send_bytes(silence.freeze(), ctx);
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
    fn handle(&mut self, item: RelayInput, ctx: &mut Context<Self>) {
        match item {
            RelayInput::Opened(opened) => self.opened(*opened, ctx),
            RelayInput::Read(Ok(bytes)) => self.read(bytes, ctx),
            RelayInput::Read(Err(fault)) if self.stream.is_some() => self.fail(fault, ctx),
            // The answer is complete after `[DONE]`, so a later error changes nothing.
            RelayInput::Read(Err(_)) => ctx.stop(),
            RelayInput::Failed(unopened) => self.not_opened(*unopened, ctx),
        }
    }

    /// The upstream's body ended regularly. The rewriter knows whether the answer is complete.
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
                self.after_send = AfterSend::Close;
                self.send(ctx);
            }
            Err(fault) => self.fail(fault, ctx),
        }
    }
}
