//! What we ourselves lack when no connection comes about. No provider is to blame for it.

use std::io;

use socket2::{Domain, Socket, Type};

/// The word for it, which clients may read.
pub(super) const CAUSE: &str = "gateway_shortage";

/// Whether the system refused us a descriptor, memory or a port of our own.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    use libc::{EADDRNOTAVAIL, EAGAIN, EMFILE, ENFILE, ENOBUFS, ENOMEM};
    // EAGAIN is what a connect or a new thread gets that finds no port or no room.
    error
        .raw_os_error()
        .is_some_and(|number| [EMFILE, ENFILE, ENOMEM, ENOBUFS, EADDRNOTAVAIL, EAGAIN].contains(&number))
}

/// Why no socket can be opened at the moment, if none can. The system's resolver, short of descriptors, only says that
/// it did not find the name.
pub(super) fn current() -> Option<io::Error> {
    Socket::new(Domain::IPV4, Type::STREAM, None).err().filter(is_shortage)
}
