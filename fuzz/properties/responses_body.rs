//! The reader of requests of the Responses API: what it takes becomes a chat; what it refuses, it refuses with words.

use pointsman_dialect::ProviderState;

/// See the module.
pub(crate) fn check(body: &[u8]) {
    super::client_body::read(|reader, body| reader.responses(body, || ProviderState::Refused, false).map(drop), body);
}
