//! The Anthropic Messages API, as upstream and as the API of a client.
//!
//! As upstream: [`write_request`] writes a neutral conversation as the body of `POST /v1/messages`, [`Decoder`] reads the
//! answer, streamed or whole, as neutral events. What the models differ in is in [`claude`](crate::claude).
//!
//! For clients: [`inbound`] reads their requests into the neutral form, [`encode`] writes their answers, [`client_error`] their
//! errors.
//!
//! [`splice`] is for a client and an endpoint that both have this API: it changes a few bytes and keeps all others, and
//! [`foreign_reasoning`] cuts what only this gateway can read.

mod betas;
mod cache_breakpoints;
mod citations;
pub(crate) mod client_error;
mod content;
mod decode;
pub(crate) mod encode;
mod finish;
pub(crate) mod foreign_reasoning;
mod foreign_state;
pub(crate) mod inbound;
mod messages;
mod parameters;
pub(crate) mod platform;
mod request;
pub(crate) mod splice;
mod tools;
mod usage;

pub(crate) use decode::Decoder;
pub(crate) use foreign_reasoning::without_foreign_reasoning;
pub(crate) use request::{limit_to_context, write_request};
#[cfg(test)]
pub(crate) use {parameters::ApiVersion, request::write_request_for};

#[cfg(test)]
mod tests;
