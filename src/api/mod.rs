//! The HTTP API: one file per resource. [`crate::http::routes`] holds all paths, [`crate::base::error`] all status codes.

pub mod activity;
pub(crate) mod admin;
pub mod auth;
pub mod calibration;
pub mod chat;
pub mod explain;
pub mod generation;
pub mod generations;
pub mod health;
pub mod image;
pub mod key;
mod ledger_health;
pub(crate) mod ledger_verification;
pub mod lookup;
pub mod memory;
pub mod metrics;
pub mod models;
pub mod preview;
pub mod providers;
pub mod replay;
pub mod slo;
pub mod stats;

mod answer;
mod attempt_view;
mod caching;
mod calibration_metrics;
mod calibration_view;
mod condition;
pub(crate) mod csv;
mod cursor;
mod endpoint_entry;
mod explain_view;
pub(crate) mod generation_row;
mod generation_view;
mod health_view;
mod key_view;
pub(crate) mod ledger_query;
mod listed_model;
mod model_entry;
mod model_list;
mod model_query;
mod number;
mod parameters_view;
mod path_name;
mod preview_view;
mod providers_view;
mod readiness;
mod readings;
mod route_metadata;
#[cfg(test)]
mod route_samples;
mod route_view;
#[cfg(test)]
mod samples;
mod slo_metrics;
mod why_not_view;
