//! What every other room stands on: the clock, secrets, typed failures, and the events that log and count.

pub mod clock;
pub mod error;
pub mod events;
pub mod load_reading;
pub mod request_id;
pub mod secret;
