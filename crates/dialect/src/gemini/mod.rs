//! The Google Gemini API as upstream, as AI Studio and Vertex speak it.
//!
//! [`write_request`] writes a neutral conversation as the body of `generateContent`, [`path`] is the path of the call,
//! [`Decoder`] reads the answer, streamed or whole, as neutral events. What the models differ in is the table in [`models`].

mod contents;
mod decode;
mod error;
mod finish;
mod generation_config;
mod imagen;
mod media;
mod models;
mod request;
mod schema;
mod signature_memory;
mod signatures;
mod thinking;
mod tools;
mod usage;

pub(crate) use decode::Decoder;
pub(crate) use error::{fault, refuses_signature, retry_delay};
pub(crate) use imagen::{images_of, images_path, write_images};
pub(crate) use models::capability_gaps;
#[cfg(test)]
pub(crate) use request::write_request;
pub(crate) use request::{path, write_request_with};
pub use signature_memory::{RememberedSignatures, SignatureMemory};
pub use signatures::{SignatureSources, Signatures};

#[cfg(test)]
mod tests;
