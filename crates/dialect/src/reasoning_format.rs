//! In which format endpoints give reasoning that goes back to them, and take it back.

use pointsman_domain::{Dialect, ReasoningFormat};

use super::converse;

/// The format of an endpoint of a dialect with this model, by the provider's name of it.
pub fn reasoning_format(dialect: Dialect, upstream_model: &str) -> ReasoningFormat {
    match dialect {
        Dialect::OpenAi => ReasoningFormat::Unknown,
        Dialect::Anthropic => ReasoningFormat::Anthropic,
        Dialect::Gemini => ReasoningFormat::Gemini,
        Dialect::Responses => ReasoningFormat::Responses,
        Dialect::Converse => converse::reasoning_format(upstream_model),
    }
}
