//! The lists of models and endpoints.

pub(crate) mod endpoint_entry;
pub(crate) mod listed_model;
pub(crate) mod measurements;
pub(crate) mod messages_models;
pub(crate) mod model_entry;
pub mod model_handlers;
pub(crate) mod model_list;
pub(crate) mod model_query;
pub(crate) mod parameters_view;
