//! Stop reasons of the Messages API.

use pointsman_domain::FinishReason;

/// The finish reason of chat for a `stop_reason`; an unknown one becomes `stop`.
pub(super) fn finish(native: &str, has_calls: bool) -> FinishReason {
    match native {
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        "" | "end_turn" if has_calls => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}

/// The `stop_reason` for a finish reason of chat; `None` is a normal end.
pub(super) const fn stop_reason(finish: Option<FinishReason>) -> &'static str {
    match finish {
        Some(FinishReason::Length) => "max_tokens",
        Some(FinishReason::ToolCalls) => "tool_use",
        Some(FinishReason::ContentFilter) => "refusal",
        _ => "end_turn",
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
            ("pause_turn", FinishReason::Stop),
            ("compaction", FinishReason::Stop),
            ("something_new", FinishReason::Stop),
            ("max_tokens", FinishReason::Length),
            ("model_context_window_exceeded", FinishReason::Length),
            ("tool_use", FinishReason::ToolCalls),
            ("refusal", FinishReason::ContentFilter),
        ];
        for (native, expected) in cases {
            assert_eq!(finish(native, false), expected, "{native}");
        }
        assert_eq!(finish("end_turn", true), FinishReason::ToolCalls);
        assert_eq!(finish("max_tokens", true), FinishReason::Length, "an unfinished call");
    }
}
