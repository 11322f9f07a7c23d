//! Pointsman: a routing gateway for language models on actix.
//!
//! [`server::Server`] is the whole thing on a listener of its own, [`server::Gateway`] the same to mount
//! in an `App` of yours. `docs/ARCHITECTURE.md` is the map of the house; the routing itself, without any
//! I/O, is the crate `pointsman_actors`.

mod admission;
mod analysis;
mod api;
mod ask;
mod auth;
mod body;
mod budget;
pub mod cli;
pub mod clock;
pub mod config;
mod connections;
mod control;
mod cors;
mod dispatch;
mod drain;
pub mod error;
mod events;
mod expectation;
mod frame;
mod framing;
mod gateway;
mod host;
mod images;
mod intent;
mod keys;
mod listener;
mod load;
mod lookup;
mod memory;
mod misspelt;
mod permits;
mod providers;
mod query;
mod record;
pub mod recorded;
mod refusal;
pub mod reload;
mod routes;
pub mod secret;
pub mod serve;
pub mod server;
mod setup;
pub mod simulation;
mod standing;
mod tls;
mod turns;
pub mod upstream;
mod watchdog;
