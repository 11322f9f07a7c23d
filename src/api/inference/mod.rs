//! Calls that a model answers: chat, messages, responses, completions, embeddings.

pub(crate) mod admitted_request;
pub(crate) mod as_chat;
pub mod chat;
mod client_reader;
pub mod completions;
pub mod embeddings;
pub mod messages;
pub mod responses;
pub(crate) mod route_metadata;
