//! The HTTP API: one folder per resource, handlers and views beside each other. [`crate::http::routes`] holds all paths, [`crate::base::error`] all status codes.

#[macro_use]
mod view;

pub(crate) mod admin;
pub mod auth;
pub(crate) mod front_page;
pub mod image;
pub(crate) mod openapi;

pub(crate) mod answer;
mod caching;
mod condition;
pub(crate) mod csv;
pub(crate) mod cursor;
pub mod decisions;
pub(crate) mod diff;
pub mod generations;
pub mod health;
pub mod inference;
pub mod keys;
pub mod models;
pub(crate) mod number;
pub(crate) mod path_name;
pub(crate) mod query_parameters;
#[cfg(test)]
pub(crate) mod route_samples;
#[cfg(test)]
pub(crate) mod samples;
