//! Simulated providers by what their clients see.

// `cfg(test)` is always set here; it tells clippy that helpers may unwrap as tests do.
#[cfg(test)]
#[path = "../../../../tests/it/patience.rs"]
#[allow(dead_code, reason = "the tests of whole servers use all of it")]
mod patience;
#[cfg(test)]
mod sockets;
