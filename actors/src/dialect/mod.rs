//! Provider wire formats, server-sent events, both ways: bytes to domain words and back, nothing else.

pub mod answer;
mod json;
pub mod openai;
pub mod sse;
mod text;
