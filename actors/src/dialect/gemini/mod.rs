//! The Google Gemini API as upstream, as AI Studio and Vertex speak it.
//!
//! [`write_request`] writes a neutral conversation as the body of `generateContent`, [`path`] is the path of the call,
//! [`Decoder`] reads the answer, streamed or whole, as neutral events, and [`kind_of_response`] classifies the answers that
//! are not a 200. What the models differ in is the table in [`models`].

mod contents;
mod decode;
mod embeddings;
mod error;
mod finish;
mod generation_config;
mod media;
mod models;
mod request;
mod schema;
mod signatures;
mod thinking;
mod tools;
mod usage;

pub(crate) use decode::Decoder;
pub(crate) use embeddings::{embeddings_of, embeddings_path, write_embeddings};
#[cfg_attr(not(test), expect(unused_imports, reason = "wired by the dispatcher next"))]
pub(crate) use error::refuses_signature;
pub(crate) use error::{kind_of_response, retry_delay};
#[cfg_attr(not(test), expect(unused_imports, reason = "wired by the dispatcher next"))]
pub(crate) use request::write_request_with;
pub(crate) use request::{path, write_request};
#[cfg_attr(not(test), expect(unused_imports, reason = "wired by the dispatcher next"))]
pub(crate) use signatures::Signatures;

#[cfg(test)]
mod tests;
