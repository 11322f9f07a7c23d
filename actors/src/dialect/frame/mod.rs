//! Framing of streamed events.

pub mod sse;
