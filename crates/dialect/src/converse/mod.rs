//! The Converse API of Amazon Bedrock as upstream.
//!
//! [`write_request`] writes a neutral conversation as the body of `Converse` and `ConverseStream`, [`path`] is the path of
//! the call, [`Decoder`] reads the answer, streamed or whole, as neutral events. Images go through `InvokeModel` ([`write_images`]). What the families of models differ in is
//! in [`models`].

mod cache_points;
mod capability_gaps;
mod decode;
mod error;
mod finish;
mod images;
mod media;
mod messages;
mod models;
mod parameters;
mod request;
mod tools;
mod usage;

pub(crate) use capability_gaps::capability_gaps;
pub(crate) use decode::Decoder;
pub(crate) use error::{fault_of_body, fault_of_exception};
pub(crate) use images::{images_of, images_path, makes_images, write_images};
pub(crate) use media::has_format_of;
pub(crate) use models::reasoning_format;
pub(crate) use request::{path, write_request};

#[cfg(test)]
mod tests;
