//! A routing gateway for language models, as a library.

pub mod upstream;
