//! What must hold for any bytes, of every crate that reads foreign bytes: this one is the last of them.

// `cfg(test)` is always set here; it tells clippy that helpers may unwrap as tests do.
#[cfg(test)]
mod fuzz_corpus;
#[cfg(test)]
#[path = "../../../../fuzz/properties/mod.rs"]
mod fuzz_properties;
