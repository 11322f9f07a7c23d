//! Marks of the prompt cache, which clients write in one of two forms.

use crate::json::Raw;

/// The client's name for the member: that of Claude has a type.
pub(crate) fn name_of_cache_mark(mark: Raw<'_>) -> &'static str {
    if mark.member(b"type").is_some() { "cache_control" } else { "prompt_cache_breakpoint" }
}
