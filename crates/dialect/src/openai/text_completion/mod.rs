//! The deprecated completions of texts: `POST /completions`, by which editors complete code in the middle of a file.
//!
//! A request is turned into a chat with the prompt as its message, and the answer back into a text. What chat cannot say,
//! such as a `suffix`, is only for endpoints that serve this API themselves: they get the client's bytes.

mod decode;
mod encode;
mod inbound;
pub(crate) mod splice;

pub(crate) use self::{
    decode::Decoder,
    encode::{TextEncoder, text_of_completion},
};
pub use inbound::{InboundCompletion, read_completion_request};

/// Path of the API, relative to the base address of an upstream.
pub(crate) const PATH: &str = "/completions";
/// The value of `object` in answers.
const OBJECT: &[u8] = b"\"text_completion\"";

#[cfg(test)]
mod tests;
