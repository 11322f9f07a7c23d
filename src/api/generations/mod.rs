//! Records of ended generations: lists, one by its id, activity.

#[deny(clippy::float_arithmetic)]
pub mod activity;
#[deny(clippy::float_arithmetic)]
pub(crate) mod attempt_view;
pub mod feedback;
pub(crate) mod feedback_body;
pub(crate) mod feedback_view;
pub mod generation;
pub mod generation_list;
pub(crate) mod generation_row;
#[deny(clippy::float_arithmetic)]
pub(crate) mod generation_view;
pub(crate) mod ledger_query;
pub mod lookup;
pub(crate) mod neighbours;
pub(crate) mod trace_view;
