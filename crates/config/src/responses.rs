//! `[responses]`: what clients of the OpenAI Responses API may count on.

use super::section::Section;

/// `[responses]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponsesConfig {
    /// Whether tools that run at the provider are left out for endpoints of other APIs, instead of excluding these.
    pub drop_hosted_tools: bool,
}

impl Default for ResponsesConfig {
    fn default() -> ResponsesConfig {
        ResponsesConfig { drop_hosted_tools: true }
    }
}

impl ResponsesConfig {
    pub(super) fn read(section: &Section<'_>) -> ResponsesConfig {
        ResponsesConfig { drop_hosted_tools: section.flag_or("drop_hosted_tools", true) }
    }
}
