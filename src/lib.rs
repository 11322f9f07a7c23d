//! A routing gateway for language models, as a library.

pub mod secret;
pub mod upstream;
