//! One inference request: body, query, dispatch over the plan, replay.

pub mod body;
pub mod dispatch;
pub mod names;
pub mod no_candidate;
pub mod query;
pub mod replay;
pub mod request_headers;
pub mod shadowing;
pub mod splitting;
pub mod token_count;
pub mod unknown_fields;
