//! Missing resources of the gateway itself when a connection fails. Not a failure of the provider.

use std::io;

use socket2::{Domain, Socket, Type};

/// Cause of such a failure, as clients see it.
pub(super) const CAUSE: &str = "gateway_shortage";

/// Whether the system lacks a descriptor, memory or a local port.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    use libc::{EADDRNOTAVAIL, EAGAIN, EMFILE, ENFILE, ENOBUFS, ENOMEM};
    // EAGAIN: no port for a connect, or no memory for a thread.
    error
        .raw_os_error()
        .is_some_and(|number| [EMFILE, ENFILE, ENOMEM, ENOBUFS, EADDRNOTAVAIL, EAGAIN].contains(&number))
}

/// The error if no socket can be opened now. The system's resolver reports a lack of descriptors as an unknown name.
pub(super) fn current() -> Option<io::Error> {
    Socket::new(Domain::IPV4, Type::STREAM, None).err().filter(is_shortage)
}
