//! The actors: they carry what the rooms below decide. CatalogActor, ProviderHealth, Router, Ledger and Relay,
//! and the event batches, mailboxes and published snapshots between them.

pub mod catalog;
pub mod event_batches;
pub mod ledger;
pub mod mailbox;
pub mod persistence;
pub mod provider_health;
pub mod published;
pub mod relay;
pub mod router;
