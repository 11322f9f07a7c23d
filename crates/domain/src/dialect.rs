use serde::{Deserialize, Serialize};

/// Wire format of an API, of a provider or of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Dialect {
    /// OpenAI's chat completions.
    #[default]
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// OpenAI's Responses.
    Responses,
    /// Amazon Bedrock's Converse.
    Converse,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Dialect; 5] =
        [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini, Dialect::Responses, Dialect::Converse];

    /// Its name in the configuration and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Dialect::OpenAi => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::Responses => "openai-responses",
            Dialect::Converse => "converse",
        }
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
