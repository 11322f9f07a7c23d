use serde::{Deserialize, Serialize};

/// Kind of API call that made a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApiType {
    /// A chat completion.
    Completions,
    /// An image generation.
    Image,
    /// Embeddings.
    Embeddings,
}

impl ApiType {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ApiType::Completions => "completions",
            ApiType::Image => "image",
            ApiType::Embeddings => "embeddings",
        }
    }
}
