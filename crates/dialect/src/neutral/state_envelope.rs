//! Reasoning of one provider in a place that another provider's clients echo: sealed, so that it comes back unchanged.
//!
//! Anthropic clients return the `signature` of a thinking block, Responses clients the `encrypted_content` of a reasoning
//! item. There a client gets `pm1.` and the URL-safe base64 of: one byte for the format, the state, and eight bytes of
//! HMAC-SHA-256 under a key of the installation. Nothing is stored, and any replica with the key can read it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use pointsman_domain::ReasoningFormat;
use sha2::Sha256;

/// Longest state, bytes. A longer one is dropped. The longest are texts of reasoning: 64k tokens of four bytes.
pub(crate) const MAX_STATE: usize = 256 * 1024;
/// Bytes of the authentication code.
const CODE: usize = 8;

/// Key of an installation for its envelopes.
#[derive(Clone)]
pub struct StateKey([u8; 32]);

impl std::fmt::Debug for StateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StateKey")
    }
}

/// What a signature of a client turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Envelope {
    /// Sealed here. `state` is empty if there was none.
    Genuine { format: ReasoningFormat, state: String },
    /// It looks like ours, and is not.
    Forged,
    /// A provider's own.
    Foreign,
}

impl StateKey {
    /// Beginning of every envelope.
    pub(crate) const PREFIX: &'static str = "pm1.";

    /// A key of these bytes.
    pub const fn new(bytes: [u8; 32]) -> StateKey {
        StateKey(bytes)
    }

    /// Seals `state`. A state that is too long is left out.
    pub(crate) fn seal(&self, format: ReasoningFormat, state: &str) -> String {
        let state = if state.len() > MAX_STATE { "" } else { state };
        let mut bytes = Vec::with_capacity(1 + state.len() + CODE);
        bytes.push(byte_of(format));
        bytes.extend_from_slice(state.as_bytes());
        let code = self.code(&bytes);
        bytes.extend_from_slice(&code);
        format!("{}{}", StateKey::PREFIX, URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Opens a signature.
    pub(crate) fn open(&self, signature: &str) -> Envelope {
        let Some(encoded) = signature.strip_prefix(StateKey::PREFIX) else { return Envelope::Foreign };
        self.open_encoded(encoded).unwrap_or(Envelope::Forged)
    }

    fn open_encoded(&self, encoded: &str) -> Option<Envelope> {
        if encoded.len() > (MAX_STATE + 1 + CODE) * 4 / 3 + 4 {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
        let (content, code) = bytes.split_at_checked(bytes.len().checked_sub(CODE)?)?;
        self.hmac(content).verify_truncated_left(code).ok()?;
        let (format, state) = content.split_first()?;
        let state = String::from_utf8(state.to_vec()).ok()?;
        Some(Envelope::Genuine { format: format_of(*format), state })
    }

    fn code(&self, content: &[u8]) -> Vec<u8> {
        let full = self.hmac(content).finalize().into_bytes();
        full.iter().take(CODE).copied().collect()
    }

    fn hmac(&self, content: &[u8]) -> Hmac<Sha256> {
        // A key of 32 bytes fits the block of the hash, so there is no other outcome than a key of that length.
        let mut hmac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| Hmac::new(&Default::default()));
        hmac.update(content);
        hmac
    }
}

fn byte_of(format: ReasoningFormat) -> u8 {
    match format {
        ReasoningFormat::Unknown => 0,
        ReasoningFormat::Anthropic => 1,
        ReasoningFormat::Gemini => 2,
        ReasoningFormat::Responses => 3,
    }
}

fn format_of(byte: u8) -> ReasoningFormat {
    match byte {
        1 => ReasoningFormat::Anthropic,
        2 => ReasoningFormat::Gemini,
        3 => ReasoningFormat::Responses,
        _ => ReasoningFormat::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: StateKey = StateKey::new([7; 32]);

    #[test]
    fn what_was_sealed_is_opened_with_its_format() {
        for state in ["", "AbC=", "é😀\n"] {
            let sealed = KEY.seal(ReasoningFormat::Gemini, state);
            let opened = Envelope::Genuine { format: ReasoningFormat::Gemini, state: state.into() };
            assert_eq!(KEY.open(&sealed), opened);
        }
    }

    #[test]
    fn a_changed_envelope_or_another_key_is_forged_and_anything_else_is_foreign() {
        let sealed = KEY.seal(ReasoningFormat::Responses, "state");
        for place in StateKey::PREFIX.len()..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
            assert_eq!(KEY.open(std::str::from_utf8(&bytes).unwrap()), Envelope::Forged, "{place}");
        }
        assert_eq!(StateKey::new([8; 32]).open(&sealed), Envelope::Forged);
        assert_eq!(KEY.open("pm1."), Envelope::Forged);
        assert_eq!(KEY.open("EqQBCk"), Envelope::Foreign);
    }

    #[test]
    fn a_state_that_is_too_long_is_left_out() {
        let sealed = KEY.seal(ReasoningFormat::Gemini, &"x".repeat(MAX_STATE + 1));
        assert_eq!(KEY.open(&sealed), Envelope::Genuine { format: ReasoningFormat::Gemini, state: String::new() });
    }
}
