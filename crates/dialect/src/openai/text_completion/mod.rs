//! The deprecated completions of texts: `POST /completions`, by which editors complete code in the middle of a file.
//!
//! Only endpoints that serve this API themselves get such requests, as the client wrote them, and their answers pass. The chat
//! that a request would be is only measured.

mod encode;
mod inbound;
pub(crate) mod splice;

pub(crate) use self::{
    encode::TextEncoder,
    inbound::{conversation_of, read_completion_request},
};

/// Path of the API, relative to the base address of an upstream.
pub(crate) const PATH: &str = "/completions";
/// The value of `object` in answers.
const OBJECT: &str = "text_completion";

#[cfg(test)]
mod tests;
