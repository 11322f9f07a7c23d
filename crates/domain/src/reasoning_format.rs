//! Formats of reasoning that goes back to its provider.

use serde::{Deserialize, Serialize};

crate::named! {
    /// Format of the reasoning that an answer gives and that the next turn of its conversation brings back. A provider takes
    /// back only its own.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    pub enum ReasoningFormat {
        /// `anthropic-claude-v1`
        Anthropic = "anthropic-claude-v1",
        /// `google-gemini-v1`
        Gemini = "google-gemini-v1",
        /// `openai-responses-v1`
        Responses = "openai-responses-v1",
        /// Any other, or none.
        #[default]
        Unknown = "unknown",
    }
}

impl ReasoningFormat {
    /// The format of that name.
    pub fn named(name: &str) -> ReasoningFormat {
        match name {
            "anthropic-claude-v1" => ReasoningFormat::Anthropic,
            "google-gemini-v1" => ReasoningFormat::Gemini,
            "openai-responses-v1" | "azure-openai-responses-v1" => ReasoningFormat::Responses,
            _ => ReasoningFormat::Unknown,
        }
    }

    /// Whether it is one that only endpoints with the same format take back.
    #[must_use]
    pub const fn is_bound(self) -> bool {
        !matches!(self, ReasoningFormat::Unknown)
    }
}
