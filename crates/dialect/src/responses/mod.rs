//! The OpenAI Responses API, as upstream and as the API of a client.
//!
//! [`write_request`] writes a neutral conversation as the body of `POST /responses`, and [`Decoder`] reads the answer,
//! streamed or whole, as neutral events. Answers that are no 200 have the form of chat. [`inbound`] reads the requests of
//! clients, and [`encode`] writes their answers. [`splice`] is for clients of the same API: it changes a few bytes and keeps
//! all others. What the models differ in is the table in [`models`].

mod decode;
pub(crate) mod encode;
mod error;
mod finish;
mod image_tool;
pub(crate) mod inbound;
mod input;
pub(crate) mod models;
mod namespaces;
mod parameters;
pub(crate) mod passing_tool_calls;
pub(crate) mod provider_state;
mod reasoning;
mod reasoning_state;
mod request;
pub(crate) mod splice;
mod tools;
mod usage;

pub(crate) use decode::Decoder;
pub(crate) use request::write_request;

#[cfg(test)]
mod tests;
