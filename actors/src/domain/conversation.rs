use super::id::EndpointId;

/// How a conversation begins, without a word of it: fingerprints of what stays the same from one turn to the next.
///
/// A chat sends everything again with each turn and adds to its end, so what it begins with names it. Made with a
/// public key; it becomes a name that means something only together with its owner and a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConversationOpening {
    /// Of the tools and the system and developer messages in front: what many conversations may have in common.
    pub instructions: u128,
    /// Estimated tokens of these.
    pub instruction_tokens: u32,
    /// Of the same and the first message after them: what one conversation keeps to its end.
    pub conversation: u128,
}

/// Where a conversation was served last, and how much of its prompt that endpoint may still hold in its cache.
/// Worth a bonus there, never a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StickyEndpoint {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Prompt tokens expected to be read from its cache.
    pub cached_tokens: u32,
}
