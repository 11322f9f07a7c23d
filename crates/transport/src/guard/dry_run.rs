//! Runs the guard on given bytes instead of a socket, for tests and fuzzing.

use std::collections::VecDeque;

use futures_util::task::noop_waker_ref;

use super::{AsyncRead, AsyncWrite, Context, Guard, Pin, Poll, Rc, ReadBuf, Wire, fault::Fault, io};
use crate::keep_alive::{KeepAlive, ManagedSocket};

/// Outcome of one exchange.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExaminedExchange {
    /// The status, if the head passes.
    pub status: Option<u16>,
    /// The content that passes.
    pub content: Vec<u8>,
    /// Why the answer is not regular.
    pub fault: Option<String>,
    /// Whether the connection would be used again.
    pub reusable: bool,
}

/// Sends one request over a guarded connection that returns `reads`, one per read, and then ends.
pub fn examine(reads: impl IntoIterator<Item = Vec<u8>>) -> ExaminedExchange {
    let reads = reads.into_iter().filter(|read| !read.is_empty()).collect();
    let mut guard = Guard::new(Rc::new(ManagedSocket::new(ScriptedSocket { reads }, KeepAlive::LONG)));
    let mut examined = ExaminedExchange::default();
    if let Err(error) = exchange(&mut guard, &mut examined) {
        examined.fault = Some(Fault::of(&error).map_or_else(|| error.to_string(), |fault| fault.to_string()));
    }
    // The exchange is over, every byte was read, and the socket is open.
    let has_read_all = guard.socket.stream().as_ref().is_some_and(|wire| wire.reads.is_empty());
    examined.reusable = guard.is_idle() && has_read_all;
    examined
}

fn exchange(guard: &mut Guard<ScriptedSocket>, examined: &mut ExaminedExchange) -> io::Result<()> {
    let mut cx = Context::from_waker(noop_waker_ref());
    if let Poll::Ready(written) = Pin::new(&mut *guard).poll_write(&mut cx, b"GET / HTTP/1.1\r\n\r\n") {
        written?;
    }
    let Poll::Ready(head) = guard.poll_head(&mut cx) else { return Ok(()) };
    examined.status = Some(head?.0.as_u16());
    while let Poll::Ready(Some(content)) = guard.poll_content(&mut cx) {
        examined.content.extend_from_slice(&content?);
    }
    Ok(())
}

/// A socket that returns the reads of a list.
struct ScriptedSocket {
    reads: VecDeque<Vec<u8>>,
}

impl Wire for ScriptedSocket {
    fn has_unread(&self) -> bool {
        !self.reads.is_empty()
    }
}

impl AsyncRead for ScriptedSocket {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(mut bytes) = self.reads.pop_front() {
            let later = bytes.split_off(bytes.len().min(buf.remaining()));
            buf.put_slice(&bytes);
            if !later.is_empty() {
                self.reads.push_front(later);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ScriptedSocket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
