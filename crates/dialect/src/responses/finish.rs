//! How an answer of the Responses API ended.

use pointsman_domain::FinishReason;

/// The finish reason of chat for the reason of an incomplete answer, or for `completed`.
pub(super) fn finish(native: &str, has_calls: bool) -> FinishReason {
    match native {
        "completed" if has_calls => FinishReason::ToolCalls,
        "completed" => FinishReason::Stop,
        "content_filter" => FinishReason::ContentFilter,
        // Whatever else stopped it, it stopped before its end.
        _ => FinishReason::Length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_reasons_become_finish_reasons() {
        assert_eq!(finish("completed", false), FinishReason::Stop);
        assert_eq!(finish("completed", true), FinishReason::ToolCalls);
        assert_eq!(finish("max_output_tokens", true), FinishReason::Length, "an unfinished call");
        assert_eq!(finish("content_filter", false), FinishReason::ContentFilter);
        assert_eq!(finish("something_new", false), FinishReason::Length);
    }
}
