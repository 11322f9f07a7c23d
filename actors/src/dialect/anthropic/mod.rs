//! The Anthropic Messages API.

pub(crate) mod encode;
pub(crate) mod inbound;
