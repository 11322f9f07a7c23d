//! Reasons why an answer ended.

use pointsman_domain::FinishReason;

/// Whether the reason means that the provider failed to make a valid answer, whatever it sent.
pub(super) fn is_fault(reason: &str) -> bool {
    finish(reason, false, true) == FinishReason::Error
}

/// Whether tools or history of the request may be why the provider made no valid answer.
pub(super) fn is_of_request(reason: &str) -> bool {
    ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "OTHER"]
        .contains(&reason)
}

/// The finish of a candidate. [`FinishReason::Error`] if the provider failed to make a valid answer.
pub(super) fn finish(reason: &str, has_calls: bool, has_content: bool) -> FinishReason {
    match reason {
        "STOP" if has_calls => FinishReason::ToolCalls,
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" | "CONTINUATION" => FinishReason::Length,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MALFORMED_RESPONSE"
        | "MISSING_THOUGHT_SIGNATURE"
        | "FINISH_REASON_UNSPECIFIED" => FinishReason::Error,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "IMAGE_OTHER"
        | "NO_IMAGE"
        | "ESCALATION"
        | "PUP_LIMITED_DISABLED"
        | "MODEL_ARMOR" => FinishReason::ContentFilter,
        // `OTHER`, and reasons that are not known yet.
        _ if !has_content => FinishReason::Error,
        _ if has_calls => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}
