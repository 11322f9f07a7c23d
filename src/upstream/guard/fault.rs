//! What can be wrong with a connection or with the answer on it.

use std::{fmt, io};

use pointsman_actors::domain::FailureKind;

/// Why the guard refuses. Travels through awc inside an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::upstream) enum Fault {
    /// A kept connection was closed, or had bytes on it, before the request was written.
    Stale,
    /// The connection ended before any byte of an answer.
    NoAnswer,
    /// The connection ended inside the head.
    HeadCut,
    /// The connection ended before the announced length or the last chunk.
    BodyCut,
    /// Status 101: nobody asked for another protocol.
    SwitchingProtocols,
    /// More interim heads than anybody needs.
    InterimFlood,
    /// The head does not end.
    HeadTooLarge,
    /// The head breaks a rule of HTTP, or of ours.
    Head(&'static str),
    /// The body's chunks break a rule of HTTP.
    Chunk(&'static str),
}

impl Fault {
    /// The fault inside an error, if the guard made it.
    pub(in crate::upstream) fn of(error: &io::Error) -> Option<Fault> {
        error.get_ref().and_then(|inner| inner.downcast_ref()).copied()
    }

    pub(in crate::upstream) fn kind(self) -> FailureKind {
        match self {
            Fault::Stale | Fault::NoAnswer | Fault::HeadCut => FailureKind::Reset,
            Fault::BodyCut => FailureKind::Truncated,
            Fault::SwitchingProtocols => FailureKind::UnexpectedStatus,
            Fault::InterimFlood | Fault::HeadTooLarge | Fault::Head(_) | Fault::Chunk(_) => FailureKind::Malformed,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Stale => "the kept connection was no longer clean",
            Fault::NoAnswer => "the connection ended without an answer",
            Fault::HeadCut => "the connection ended inside the head",
            Fault::BodyCut => "the connection ended before the body did",
            Fault::SwitchingProtocols => "status 101, though nobody asked for another protocol",
            Fault::InterimFlood => "too many interim heads",
            Fault::HeadTooLarge => "the head is too large",
            Fault::Head(why) | Fault::Chunk(why) => why,
        })
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> io::Error {
        let kind = match fault {
            Fault::Stale => io::ErrorKind::ConnectionReset,
            Fault::NoAnswer | Fault::HeadCut | Fault::BodyCut => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, fault)
    }
}
