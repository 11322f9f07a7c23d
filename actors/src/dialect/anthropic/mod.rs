//! The Anthropic Messages API, as upstream and as the API of a client.
//!
//! [`write_request`] writes a neutral conversation as the body of `POST /v1/messages`, [`Decoder`] reads the answer,
//! streamed or whole, as neutral events, and [`kind_of_response`] classifies the answers that are not a 200.
//! [`splice`] is for clients of the same API: it changes a few bytes and keeps all others. What the models differ in is
//! the table in [`models`].
#![cfg_attr(not(test), expect(dead_code, reason = "wired by the dispatcher next"))]
#![expect(unused_imports, reason = "wired by the dispatcher next")]

mod betas;
mod cache_marks;
mod citations;
mod content;
mod decode;
pub(crate) mod encode;
mod error;
mod finish;
pub(crate) mod inbound;
mod messages;
pub(crate) mod models;
mod parameters;
mod request;
pub(crate) mod schema;
pub(crate) mod splice;
mod thinking;
mod tools;
mod usage;

pub(crate) use betas::required_betas;
pub(crate) use decode::Decoder;
pub(crate) use error::kind_of_response;
pub(crate) use request::{ApiVersion, write_request, write_request_for};

use crate::dialect::neutral::surrogates;

#[cfg(test)]
mod tests;
