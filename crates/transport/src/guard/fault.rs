//! Faults of a connection or of the answer on it.

use std::{fmt, io};

use pointsman_domain::FailureKind;

/// Why the guard rejects an answer. Passed on inside an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection ended before any byte of an answer.
    NoAnswer,
    /// The connection ended inside the head.
    HeadCut,
    /// The connection ended before the announced length or the last chunk.
    BodyCut,
    /// Status 101, though the request did not ask for another protocol.
    SwitchingProtocols,
    /// More than the allowed number of interim heads.
    InterimFlood,
    /// The head exceeds the size limit.
    HeadTooLarge,
    /// The head breaks a rule of HTTP, or can be read in two ways.
    Head(&'static str),
    /// The framing of the chunks breaks a rule of HTTP.
    Chunk(&'static str),
}

impl Fault {
    /// The fault inside an error of the guard; `None` for other errors.
    pub(crate) fn of(error: &io::Error) -> Option<Fault> {
        error.get_ref().and_then(|inner| inner.downcast_ref()).copied()
    }

    pub(crate) fn kind(self) -> FailureKind {
        match self {
            Fault::NoAnswer | Fault::HeadCut => FailureKind::Reset,
            Fault::BodyCut => FailureKind::Truncated,
            Fault::SwitchingProtocols => FailureKind::UnexpectedStatus,
            Fault::InterimFlood | Fault::HeadTooLarge | Fault::Head(_) | Fault::Chunk(_) => FailureKind::Malformed,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::NoAnswer => "the connection ended without an answer",
            Fault::HeadCut => "the connection ended inside the head",
            Fault::BodyCut => "the connection ended before the body did",
            Fault::SwitchingProtocols => "status 101, though the request named no other protocol",
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
            Fault::NoAnswer | Fault::HeadCut | Fault::BodyCut => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, fault)
    }
}
