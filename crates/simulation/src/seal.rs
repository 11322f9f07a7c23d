//! Signatures of thoughts.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use sha2::{Digest, Sha256};

use super::ProviderSettings;

/// A text in the prompt that makes the thinking come back encrypted.
pub(super) const REDACTED_TRIGGER: &str = "ANTHROPIC_MAGIC_STRING_TRIGGER_REDACTED_THINKING";

/// The signature of a thought: changed text does not fit it.
pub(super) fn signature(settings: &ProviderSettings, thought: &str) -> String {
    let hash = Sha256::new().chain_update(&settings.slug).chain_update([0]).chain_update(thought);
    BASE64.encode(hash.finalize())
}

/// Whether `data` is encrypted thinking of this provider.
pub(super) fn is_own_redacted(settings: &ProviderSettings, data: &str) -> bool {
    data == signature(settings, REDACTED_TRIGGER)
}
