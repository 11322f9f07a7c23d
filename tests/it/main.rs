//! Whole servers on free ports, spoken to over real sockets.

// `cfg(test)` is always set here; it tells clippy that helpers may unwrap as tests do.
#[cfg(test)]
mod simulation;
