//! The reader of requests of the Responses API: what it takes becomes one chat body, which the gateway reads like any
//! other; what it refuses, it refuses with words.

use pointsman_dialect::{ProviderState, StateKey, read_responses};

const KEY: StateKey = StateKey::new([7; 32]);
/// The deepest nesting that the reader of this test takes, with space for what a chat body adds.
const MAX_BRACKETS: usize = 100;

/// See the module.
pub(crate) fn check(body: &[u8]) {
    let inbound = match read_responses(body, &KEY) {
        Ok(inbound) => inbound,
        Err(invalid) => return assert!(!invalid.message.is_empty() && !invalid.message.contains(char::is_control)),
    };
    if body.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() > MAX_BRACKETS {
        return;
    }
    let chat = std::str::from_utf8(&inbound.chat).expect("a chat body is UTF-8");
    if let Some(chat) = super::json::read(chat) {
        assert!(chat["messages"].is_array(), "{chat}");
        for name in ["input", "instructions", "previous_response_id", "store", "background"] {
            assert!(chat.get(name).is_none(), "{name} is left in the chat body");
        }
    }
    super::client_body::read(|reader, body| reader.responses(body, || ProviderState::Refused, false).map(drop), body);
}
