//! Bodies in the forms of other APIs, as structs for the schemas alone: requests that `dialect` reads, and answers that it writes or
//! passes on, member by member and without structs. Compiled in tests only; tests hold real bodies against them.
//!
//! In an answer a member of type `Option` may be absent, and [`OrNull`](crate::base::words::OrNull) is the value or `null`. In a request both are the same:
//! `null` counts as absent.

#![expect(dead_code, reason = "described, never made")]

pub(super) mod chat;
pub(super) mod completions;
pub(super) mod messages;
pub(super) mod responses;
pub(super) mod routing;
pub(super) mod vectors_and_images;

use schemars::JsonSchema;
use serde_json::{Value, json};

/// Any object.
type Object = serde_json::Map<String, Value>;

/// What a request has beside its own members.
fn members_of(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "$ref": format!("#/components/schemas/{name}") })).collect()
}

// Members of what has a cost; a doc comment would become the description of each.
#[derive(JsonSchema)]
struct Cost {
    /// Cost of the answer in US dollars, without that of failed attempts; 0 where a price is not known, and `cost_unknown` says so.
    cost: f64,
    /// `true` where a price is not known; absent otherwise.
    cost_unknown: Option<bool>,
}
