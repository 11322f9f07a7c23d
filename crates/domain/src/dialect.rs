use serde::{Deserialize, Serialize};

crate::named! {
    /// Wire format of an API, of a provider or of a client.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub enum Dialect {
        /// OpenAI's chat completions.
        #[default]
        OpenAi = "openai",
        /// Anthropic's Messages.
        Anthropic = "anthropic",
        /// Google's Gemini.
        Gemini = "gemini",
        /// OpenAI's Responses.
        Responses = "openai-responses",
        /// Amazon Bedrock's Converse.
        Converse = "converse",
    }
}

/// Who serves an API, where paths, framing and a few members differ from those of its maker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Platform {
    /// Its maker, or somebody who serves it in the same way.
    #[default]
    Native,
    /// Amazon Bedrock, with the name of the model in the path and streams in frames of its own.
    Bedrock,
    /// Google Vertex AI, with the name of the model in the path.
    Vertex,
}
