//! What models behind Converse refuse.

use pointsman_domain::{Capability, CapabilitySet};

use super::models::{capabilities, is_claude};
use crate::claude;

/// What an endpoint of that model refuses.
pub(crate) fn capability_gaps(upstream_model: &str) -> CapabilitySet {
    let of_api = CapabilitySet::NONE
        .with(Capability::RemoteMedia)
        .with(Capability::NoCallAfterCalls)
        .with(Capability::TokenIds)
        .with(Capability::OtherImages)
        .with(Capability::RareMedia)
        .with(Capability::OtherFiles);
    match capabilities(upstream_model).json_schema {
        _ if is_claude(upstream_model) => {
            of_api.union(claude::models::capability_gaps(upstream_model).without(Capability::OtherMedia))
        }
        true => of_api.with(Capability::SingleCalls),
        false => of_api.with(Capability::SingleCalls).with(Capability::StrictSchema),
    }
}
