use serde::{Deserialize, Serialize};

use super::id::EndpointId;

/// Hashes of the beginning of a conversation, which stays the same from turn to turn. Contains no text.
///
/// A chat request repeats all earlier messages and appends new ones, so its beginning identifies the conversation. The
/// hashes use a public key; to identify a conversation they are hashed again with its owner and a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOpening {
    /// The tools and the leading system and developer messages, which many conversations may share.
    pub instructions: PromptPrefix,
    /// The tools and the first 4 KiB of text, which conversations with short instructions may share; `None` where the
    /// instructions are as long, or the text shorter.
    pub beginning: Option<PromptPrefix>,
    /// Hash of the instructions and of the first message after them, which identifies one conversation.
    pub conversation: u128,
}

/// The first part of a prompt, which other prompts may begin with, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptPrefix {
    /// Hash of it.
    pub hash: u128,
    /// Estimated tokens.
    pub tokens: u32,
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
