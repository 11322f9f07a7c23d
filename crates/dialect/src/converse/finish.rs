//! Stop reasons of Converse.

use pointsman_domain::FinishReason;

/// The finish reason of chat for a `stopReason`. [`FinishReason::Error`] if the model failed to make a valid answer.
pub(super) fn finish(native: &str, has_calls: bool) -> FinishReason {
    match native {
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "content_filtered" | "guardrail_intervened" => FinishReason::ContentFilter,
        "malformed_model_output" | "malformed_tool_use" => FinishReason::Error,
        "tool_use" => FinishReason::ToolCalls,
        _ if has_calls => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_reasons_become_finish_reasons() {
        let cases = [
            ("end_turn", FinishReason::Stop),
            ("stop_sequence", FinishReason::Stop),
            ("something_new", FinishReason::Stop),
            ("max_tokens", FinishReason::Length),
            ("model_context_window_exceeded", FinishReason::Length),
            ("tool_use", FinishReason::ToolCalls),
            ("content_filtered", FinishReason::ContentFilter),
            ("guardrail_intervened", FinishReason::ContentFilter),
            ("malformed_model_output", FinishReason::Error),
            ("malformed_tool_use", FinishReason::Error),
        ];
        for (native, expected) in cases {
            assert_eq!(finish(native, false), expected, "{native}");
        }
        assert_eq!(finish("end_turn", true), FinishReason::ToolCalls);
        assert_eq!(finish("max_tokens", true), FinishReason::Length, "an unfinished call");
    }
}
