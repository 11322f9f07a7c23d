//! The reader of requests of the Responses API: what it takes can be measured and judged like a chat; what it
//! refuses, it refuses with words.

use pointsman_dialect::{ProviderState, StateKey, read_responses};

const KEY: StateKey = StateKey::new([7; 32]);

/// See the module.
pub(crate) fn check(body: &[u8]) {
    if let Err(invalid) = read_responses(body, &KEY) {
        return assert!(!invalid.message.is_empty() && !invalid.message.contains(char::is_control));
    }
    super::client_body::read(|reader, body| reader.responses(body, || ProviderState::Refused, false).map(drop), body);
}
