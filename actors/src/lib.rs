//! The actix actors (CatalogActor, ProviderHealth, Router, Ledger, Relay) and the event batches, mailbox counts and
//! published state between them. All decisions are made by `pointsman_routing`; actors pass time, state and messages.

pub mod catalog;
#[deny(clippy::float_arithmetic)]
pub mod cost_ceiling;
pub mod event_batches;
pub mod ledger;
pub mod mailbox;
pub mod persistence;
pub mod provider_health;
pub mod published;
pub mod relay;
pub mod router;
