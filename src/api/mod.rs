//! The HTTP API: one file per resource. [`crate::http::routes`] holds all paths, [`crate::base::error`] all status codes.

#[deny(clippy::float_arithmetic)]
pub mod activity;
pub(crate) mod admin;
pub mod auth;
pub mod calibration;
pub mod chat;
pub mod completions;
pub mod embeddings;
pub mod explain;
pub(crate) mod front_page;
pub mod generation;
pub mod generations;
pub mod health;
pub mod image;
pub mod key;
pub(crate) mod keys;
pub(crate) mod ledger_health;
pub(crate) mod ledger_verification;
pub mod lookup;
pub mod messages;
#[expect(clippy::disallowed_methods, reason = "a gauge of Prometheus is a float")]
pub mod metrics;
pub mod models;
pub(crate) mod openapi;
pub mod preview;
pub mod providers;
pub mod replay;
pub mod responses;
pub mod routing_memory;
pub mod slo;
pub mod stats;
mod stores_health;

pub(crate) mod admitted_call;
pub(crate) mod answer;
mod as_chat;
#[deny(clippy::float_arithmetic)]
pub(crate) mod attempt_view;
mod caching;
mod calibration_metrics;
pub(crate) mod calibration_view;
mod condition;
pub(crate) mod csv;
pub(crate) mod cursor;
mod endpoint_entry;
#[deny(clippy::float_arithmetic)]
pub(crate) mod explain_view;
pub(crate) mod generation_row;
#[deny(clippy::float_arithmetic)]
mod generation_view;
pub(crate) mod health_view;
#[deny(clippy::float_arithmetic)]
mod issued_key;
mod key_view;
pub(crate) mod ledger_query;
pub(crate) mod listed_model;
pub(crate) mod measurements;
mod model_entry;
mod model_list;
#[expect(clippy::disallowed_methods, reason = "reads the limit of a client")]
mod model_query;
pub(crate) mod number;
pub(crate) mod parameters_view;
pub(crate) mod path_name;
mod preview_api;
pub(crate) mod preview_view;
mod previewed_fates;
mod providers_view;
pub(crate) mod query_parameters;
mod readiness;
mod route_metadata;
#[cfg(test)]
pub(crate) mod route_samples;
pub(crate) mod route_view;
#[cfg(test)]
pub(crate) mod samples;
mod slo_metrics;
pub(crate) mod trace_view;
pub(crate) mod why_not_view;
