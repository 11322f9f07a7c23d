//! The Google Gemini API as upstream, as AI Studio and Vertex speak it.
//!
//! [`write_request`] writes a neutral conversation as the body of `generateContent`, [`path`] is the path of the call,
//! [`Decoder`] reads the answer, streamed or whole, as neutral events, and [`kind_of_response`] classifies the answers that
//! are not a 200. What the models differ in is the table in [`models`].

mod contents;
mod decode;
mod error;
mod finish;
mod generation_config;
mod models;
mod request;
mod tools;

pub(crate) use decode::Decoder;
pub(crate) use error::{kind_of_response, retry_delay};
pub(crate) use request::{path, write_request};

#[cfg(test)]
mod tests;
