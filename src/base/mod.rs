//! Used by all other rooms: facts of the build, error answers, events, log output, ids of requests.

pub(crate) mod background;
pub mod build;
pub mod error;
pub mod events;
pub mod licenses;
pub mod load_reading;
pub mod log_output;
pub mod request_id;
pub(crate) mod resources;
pub mod service_manager;
pub mod unknown_path;
#[cfg(test)]
pub(crate) mod words;
