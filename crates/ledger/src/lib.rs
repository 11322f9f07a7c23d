//! The durable store: an append-only journal per worker in front, SQLite behind it.
//!
//! A worker appends an [`entry::Entry`] to a journal segment of its own, with one `write` call for all that end in one turn
//! of its event loop ([`write_batch`]), and puts it into the [`queue`]. A thread of the store commits queued entries to SQLite, with columns and sums, and deletes journal
//! segments that SQLite holds completely. Readers see queued and committed entries alike.
//!
//! Only [`generations`], [`inspection`], [`verify`], [`traffic`] and [`record`] read generations; elsewhere an entry is an id, a time, a few
//! facts for filters and columns, and bytes. [`accounts`] is a file of its own beside them.
//! [`ratings`] are rows of a table of their own.
//! [`handle::Store`] is what others call; [`directory::Directory`] guards the files.

pub mod accounts;
#[deny(clippy::float_arithmetic)]
pub mod activity;
pub mod database;
pub mod directory;
pub mod disk;
pub mod engine;
pub mod entry;
pub mod event;
pub mod facts;
pub mod facts_view;
pub mod fault;
#[deny(clippy::float_arithmetic)]
pub mod generations;
pub mod handle;
pub mod inspection;
pub mod journal;
pub mod other_replicas;
pub mod packed;
pub mod page;
pub mod queue;
mod rating_store;
pub mod ratings;
pub mod record;
pub mod recovery;
pub mod settings;
pub mod traffic;
pub mod verify;
pub mod version_cache;
pub mod write_batch;

#[cfg(test)]
mod tests;
