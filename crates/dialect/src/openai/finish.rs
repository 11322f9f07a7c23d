//! Normalises the finish reasons of providers.

use std::borrow::Cow;

use pointsman_domain::FinishReason;

use crate::{
    json::Raw,
    sanitize::{NAME_CHARS, clean},
};

/// Finish reasons used by providers of this API, except those that mean `stop`.
const WORDS: [(&str, FinishReason); 20] = [
    ("length", FinishReason::Length),
    ("max_tokens", FinishReason::Length),
    ("max_output_tokens", FinishReason::Length),
    ("max_completion_tokens", FinishReason::Length),
    ("model_length", FinishReason::Length),
    ("model_context_window_exceeded", FinishReason::Length),
    ("tool_calls", FinishReason::ToolCalls),
    ("tool_call", FinishReason::ToolCalls),
    ("tool_use", FinishReason::ToolCalls),
    ("function_call", FinishReason::ToolCalls),
    ("content_filter", FinishReason::ContentFilter),
    ("content_filtered", FinishReason::ContentFilter),
    ("safety", FinishReason::ContentFilter),
    ("recitation", FinishReason::ContentFilter),
    ("refusal", FinishReason::ContentFilter),
    ("blocklist", FinishReason::ContentFilter),
    ("prohibited_content", FinishReason::ContentFilter),
    ("sensitive", FinishReason::ContentFilter),
    ("error", FinishReason::Error),
    ("network_error", FinishReason::Error),
];

/// The normalised finish reason; an unknown one becomes `stop`.
pub(super) fn normalise(native: &str) -> FinishReason {
    let known = WORDS.iter().find(|(word, _)| native.eq_ignore_ascii_case(word));
    known.map_or(FinishReason::Stop, |(_, finish)| *finish)
}

/// A name or id the provider gave, cleaned and cut; `None` for anything but a string that is not empty.
pub(super) fn clean_name(raw: Raw<'_>) -> Option<Cow<'_, str>> {
    let text = match raw.text()? {
        Cow::Borrowed(text) => clean(text, NAME_CHARS),
        Cow::Owned(text) => Cow::Owned(clean(&text, NAME_CHARS).into_owned()),
    };
    (!text.is_empty()).then_some(text)
}

/// The same of a text.
pub(super) fn clean_text(text: &str) -> Option<String> {
    let text = clean(text, NAME_CHARS);
    (!text.is_empty()).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_words_become_one_of_five() {
        let check = |native: &str, finish: FinishReason| assert_eq!(normalise(native), finish, "{native}");
        check("stop", FinishReason::Stop);
        check("eos_token", FinishReason::Stop);
        check("MAX_TOKENS", FinishReason::Length);
        check("function_call", FinishReason::ToolCalls);
        check("SAFETY", FinishReason::ContentFilter);
        check("error", FinishReason::Error);
        check("something new", FinishReason::Stop);
    }
}
