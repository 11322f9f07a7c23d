//! A socket to a provider, with or without TLS.

use std::{
    fmt, io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use super::{connection_events, guard::Wire};

/// A plain or a TLS connection. The guard does not know which.
pub(super) enum Transport {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    pub(super) fn tcp(&self) -> &TcpStream {
        match self {
            Transport::Plain(tcp) => tcp,
            Transport::Tls(tls) => tls.get_ref().0,
        }
    }
}

impl Wire for Transport {
    fn has_unread(&self) -> bool {
        // Asks the kernel, because tokio's readiness is only as new as its last poll, and two calls may follow each other
        // without one.
        let mut byte = [MaybeUninit::uninit()];
        match socket2::SockRef::from(self.tcp()).peek(&mut byte) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Transport::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(tcp) => {
                let written = Pin::new(tcp).poll_write(cx, bytes);
                if matches!(written, Poll::Ready(Ok(1..))) {
                    connection_events::note_written();
                }
                written
            }
            Transport::Tls(tls) => {
                // A write may consist of several records. Those before a failed or pending one are sent.
                connection_events::note_written();
                Pin::new(tls).poll_write(cx, bytes)
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Transport::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Transport::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self, Transport::Plain(_)) { "plain" } else { "tls" };
        write!(f, "Transport({kind})")
    }
}
