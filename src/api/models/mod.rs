//! The lists of models and endpoints.

pub(crate) mod endpoint_entry;
pub(crate) mod listed_model;
pub(crate) mod measurements;
pub(crate) mod model_entry;
pub mod model_handlers;
pub(crate) mod model_list;
#[expect(clippy::disallowed_methods, reason = "reads the limit of a client")]
pub(crate) mod model_query;
pub(crate) mod parameters_view;
