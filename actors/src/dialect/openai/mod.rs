//! The OpenAI chat and image convention, both ways.

pub mod request;
