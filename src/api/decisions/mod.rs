//! Why a call went where it went, and where one would go.

pub(crate) mod caller_view;
pub mod explain;
#[deny(clippy::float_arithmetic)]
pub(crate) mod explain_view;
pub mod preview;
pub(crate) mod preview_api;
pub(crate) mod preview_view;
pub(crate) mod previewed_parameters;
pub(crate) mod quality_view;
pub mod replay;
pub(crate) mod route_view;
pub(crate) mod sentences;
pub(crate) mod shadow_view;
pub(crate) mod split_view;
#[deny(clippy::float_arithmetic)]
pub(crate) mod usage_view;
pub(crate) mod why_not_view;
