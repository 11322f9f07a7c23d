use serde::{Deserialize, Serialize};

use super::id::EndpointId;

/// Hashes of the beginning of a conversation, which stays the same from turn to turn. Contains no text.
///
/// A chat request repeats all earlier messages and appends new ones, so its beginning identifies the conversation. The
/// hashes use a public key; to identify a conversation they are hashed again with its owner and a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOpening {
    /// Hash of what many conversations may share: the tools, and the leading system and developer messages or, where these are
    /// short, the beginning of the text.
    pub instructions: u128,
    /// Estimated tokens of that.
    pub instruction_tokens: u32,
    /// Hash of the same and of the first message after them, which identifies one conversation.
    pub conversation: u128,
}

/// The endpoint that served a conversation last. It gets a bonus in the ranking for its prompt cache, but the
/// conversation may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StickyEndpoint {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Prompt tokens expected to be read from its cache.
    pub cached_tokens: u32,
}
