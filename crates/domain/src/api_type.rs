use serde::{Deserialize, Serialize};

crate::named! {
    /// Kind of API call that made a generation.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum ApiType {
        /// A chat completion.
        Completions = "completions",
        /// An image generation.
        Image = "image",
        /// Embeddings.
        Embeddings = "embeddings",
    }
}
