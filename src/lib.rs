//! A routing gateway for language models.

pub mod cli;
pub mod config;
pub mod secret;
