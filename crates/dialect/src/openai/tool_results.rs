//! Results of tool calls in a chat body that the gateway writes.

/// How the gateway begins the message of a result.
pub(crate) const RESULT: &[u8] = b"{\"role\":\"tool\",\"tool_call_id\":";
/// The mark of a failed result.
pub(crate) const FAILED: &[u8] = b"\"is_error\":true";
