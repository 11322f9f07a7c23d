//! A hostile client's words: heads to put anything behind.

use crate::harness::KEY;

/// Where a hostile body hurts most.
pub(crate) const PATH: &str = "/api/v1/chat/completions";

/// The head of a chat request with a good key; `more` are further header lines, each ended with CR LF.
pub(crate) fn head(more: &str) -> String {
    format!(
        "POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n{more}\r\n"
    )
}
