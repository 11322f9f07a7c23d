//! Pointsman: a routing gateway for language models.

pub mod simulation;
