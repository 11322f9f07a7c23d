//! The crate by what others see of it: requests of clients, answers of providers.

// `cfg(test)` is always set here; it tells clippy that helpers may unwrap as tests do.
#[cfg(test)]
mod answers;
#[cfg(test)]
mod request;
