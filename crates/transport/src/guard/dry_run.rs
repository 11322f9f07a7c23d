//! Runs the guard on given bytes instead of a socket, for tests and fuzzing.

use std::collections::VecDeque;

use futures_util::task::noop_waker_ref;

use super::{AsyncRead, AsyncWrite, Context, Guard, Pin, Poll, Rc, ReadBuf, Wire, fault::Fault, io};
use crate::keep_alive::KeepAlive;
use crate::keep_alive::ManagedSocket;

/// Outcome of one exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExaminedExchange {
    /// Bytes that pass: the head, and the body with its framing.
    pub passed: Vec<u8>,
    /// Why the answer is not regular.
    pub fault: Option<String>,
    /// Whether the connection would be used again.
    pub reusable: bool,
}

/// Sends one request over a guarded connection that returns `reads`, one per read, and then ends.
pub fn examine(reads: impl IntoIterator<Item = Vec<u8>>) -> ExaminedExchange {
    let mut cx = Context::from_waker(noop_waker_ref());
    let reads = reads.into_iter().filter(|read| !read.is_empty()).collect();
    let mut guard = Guard::new(Rc::new(ManagedSocket::new(ScriptedSocket { reads }, KeepAlive::LONG)));
    let mut examined = ExaminedExchange { passed: Vec::new(), fault: None, reusable: false };
    if let Poll::Ready(Err(error)) = Pin::new(&mut guard).poll_write(&mut cx, b"GET / HTTP/1.1\r\n\r\n") {
        examined.fault = Some(error.to_string());
        return examined;
    }
    let mut room = [0; 512];
    loop {
        let mut buf = ReadBuf::new(&mut room);
        match Pin::new(&mut guard).poll_read(&mut cx, &mut buf) {
            Poll::Pending => return examined,
            Poll::Ready(Ok(())) if buf.filled().is_empty() => return examined,
            Poll::Ready(Ok(())) => examined.passed.extend_from_slice(buf.filled()),
            Poll::Ready(Err(error)) => {
                examined.fault = Some(Fault::of(&error).map_or_else(|| error.to_string(), |fault| fault.to_string()));
                return examined;
            }
        }
        // Reusable if the exchange is over, every byte was read, and the socket is open.
        let whole = matches!(guard.phase, super::Phase::Idle) && guard.passed.is_empty();
        examined.reusable = whole && guard.socket.stream().as_ref().is_some_and(|wire| wire.reads.is_empty());
    }
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
