//! Formats of reasoning that goes back to its provider.

use serde::{Deserialize, Serialize};

/// Format of the reasoning that an answer gives and that the next turn of its conversation brings back. A provider takes
/// back only its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum ReasoningFormat {
    /// `anthropic-claude-v1`
    Anthropic,
    /// `google-gemini-v1`
    Gemini,
    /// `openai-responses-v1`
    Responses,
    /// Any other, or none.
    #[default]
    Unknown,
}

impl ReasoningFormat {
    /// The name in `reasoning_details[].format`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ReasoningFormat::Anthropic => "anthropic-claude-v1",
            ReasoningFormat::Gemini => "google-gemini-v1",
            ReasoningFormat::Responses => "openai-responses-v1",
            ReasoningFormat::Unknown => "unknown",
        }
    }

    /// The format of that name.
    #[must_use]
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
