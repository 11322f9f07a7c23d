//! The client's own names of fields for which the neutral form knows one name.

use std::borrow::Cow;

use super::ChatRequest;

impl ChatRequest {
    /// Whether the request uses the deprecated `functions`, so that its client expects `function_call`.
    pub fn legacy_functions(&self) -> bool {
        self.envelope.gives("functions") && !self.envelope.gives("tools")
    }

    /// The name that the body has for a field of the neutral form. `None` if the body does not have the field: then the gateway
    /// asked for it.
    pub(crate) fn spelling<'n>(&self, name: &'n str) -> Option<Cow<'n, str>> {
        let gives_only = |given: &str, other: &str| self.envelope.gives(given) && !self.envelope.gives(other);
        Some(Cow::Borrowed(match name {
            "reasoning" if gives_only("reasoning_effort", "reasoning") => "reasoning_effort",
            "max_tokens" if gives_only("max_completion_tokens", "max_tokens") => "max_completion_tokens",
            "tool_choice" if gives_only("function_call", "tool_choice") => "function_call",
            "parallel_tool_calls" if self.legacy_functions() && !self.envelope.gives("parallel_tool_calls") => {
                return None;
            }
            name if name.starts_with("tools") && self.legacy_functions() => {
                let member = name.strip_prefix("tools[].function").or(name.strip_prefix("tools[]"));
                return Some(member.map_or(Cow::Borrowed("functions"), |member| format!("functions[]{member}").into()));
            }
            name => name,
        }))
    }
}
