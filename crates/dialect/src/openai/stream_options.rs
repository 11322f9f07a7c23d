//! What a client wants of a stream, and what a read of one contained.

/// How usage is sent at the end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageChunk {
    /// In a chunk without choices: the client set `include_usage`.
    WithoutChoices,
    /// In a chunk with an empty delta, which is safe for code that reads the first choice: the client did not set
    /// `include_usage`.
    WithEmptyDelta,
    /// Not sent: the client set `include_usage` to false.
    Omitted,
}

/// Options of a stream, from the request and the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOptions {
    /// How usage is sent.
    pub usage_chunk: UsageChunk,
    /// Whether error chunks have the additional member that makes all known clients notice them.
    pub error_compat: bool,
    /// Longest event accepted from the upstream.
    pub max_event_bytes: usize,
}

impl Default for StreamOptions {
    fn default() -> StreamOptions {
        StreamOptions { usage_chunk: UsageChunk::WithEmptyDelta, error_compat: true, max_event_bytes: 8 * 1024 * 1024 }
    }
}

/// What one read contained, for the relay's time-outs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// At least one event that was not a comment.
    pub event: bool,
    /// At least one event that shows that the provider works: with content, which the client may not want to see, or within
    /// an open block of the answer.
    pub content: bool,
}
