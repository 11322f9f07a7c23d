//! How events are framed on the wire.

pub mod sse;
