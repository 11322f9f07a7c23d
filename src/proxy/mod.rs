//! One inference request: body, query, dispatch over the plan, record.

pub mod body;
pub mod dispatch;
pub mod names;
pub mod query;
pub mod record;
pub mod refusal;
pub mod request_headers;
pub mod splitting;
pub mod token_count;
pub mod unknown_fields;
