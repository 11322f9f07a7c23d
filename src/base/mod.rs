//! Foundations used by all other modules: build facts, clock, secrets, error answers, events, request ids.

pub mod build;
pub mod error;
pub mod events;
pub mod licenses;
pub mod load_reading;
pub mod log_output;
pub mod request_id;
pub mod service_manager;
