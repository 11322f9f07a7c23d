//! Whether a provider keeps responses.

use pointsman_domain::{Capability, Catalog, Endpoint};

/// The member that names the response which a request continues.
pub(crate) const PREVIOUS_RESPONSE_ID: &str = "previous_response_id";

/// Whether the provider may keep responses for its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProviderState {
    /// Each request brings the whole conversation.
    #[default]
    Refused,
    /// A request may continue a response, by the provider's id of it.
    Allowed,
}

impl ProviderState {
    /// As an endpoint allows it.
    pub fn at(endpoint: &Endpoint) -> ProviderState {
        if endpoint.lacks.has(Capability::KeptResponses) { ProviderState::Refused } else { ProviderState::Allowed }
    }

    /// `Allowed` if any endpoint of the catalog allows it.
    pub fn anywhere_in(catalog: &Catalog) -> ProviderState {
        let mut states = catalog.endpoints.iter().map(ProviderState::at);
        states.find(|state| *state == ProviderState::Allowed).unwrap_or_default()
    }
}
