//! Pointsman: a routing gateway for language models on actix.
//!
//! [`app::server::Server`] is the whole thing on a listener of its own, [`app::server::Gateway`] the same to mount
//! in an `App` of yours. `docs/ARCHITECTURE.md` is the map of the house; the routing itself, without any
//! I/O, is the crate `pointsman_routing`.

pub mod access;
mod api;
pub mod app;
pub mod base;
mod console;
pub mod http;
pub mod proxy;
pub mod state;
