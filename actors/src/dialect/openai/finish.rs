//! How an answer ended: the provider's word and ours.

use std::borrow::Cow;

use crate::{
    dialect::{
        json::Raw,
        text::{NAME_CHARS, clean},
    },
    domain::Finish,
};

/// Words in use among providers of this convention, beside those for a plain end.
const WORDS: [(&str, Finish); 20] = [
    ("length", Finish::Length),
    ("max_tokens", Finish::Length),
    ("max_output_tokens", Finish::Length),
    ("max_completion_tokens", Finish::Length),
    ("model_length", Finish::Length),
    ("model_context_window_exceeded", Finish::Length),
    ("tool_calls", Finish::ToolCalls),
    ("tool_call", Finish::ToolCalls),
    ("tool_use", Finish::ToolCalls),
    ("function_call", Finish::ToolCalls),
    ("content_filter", Finish::ContentFilter),
    ("content_filtered", Finish::ContentFilter),
    ("safety", Finish::ContentFilter),
    ("recitation", Finish::ContentFilter),
    ("refusal", Finish::ContentFilter),
    ("blocklist", Finish::ContentFilter),
    ("prohibited_content", Finish::ContentFilter),
    ("sensitive", Finish::ContentFilter),
    ("error", Finish::Error),
    ("network_error", Finish::Error),
];

/// Our word for the provider's; a word nobody knows is a plain end.
pub(super) fn normalise(native: &str) -> Finish {
    let known = WORDS.iter().find(|(word, _)| native.eq_ignore_ascii_case(word));
    known.map_or(Finish::Stop, |(_, finish)| *finish)
}

/// A name or id the provider gave, cleaned and cut; `None` for anything but a string that is not empty.
pub(super) fn clean_name(raw: Raw<'_>) -> Option<Cow<'_, str>> {
    let text = match raw.text()? {
        Cow::Borrowed(text) => clean(text, NAME_CHARS),
        Cow::Owned(text) => Cow::Owned(clean(&text, NAME_CHARS).into_owned()),
    };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_words_become_one_of_five() {
        let check = |native: &str, finish: Finish| assert_eq!(normalise(native), finish, "{native}");
        check("stop", Finish::Stop);
        check("eos_token", Finish::Stop);
        check("MAX_TOKENS", Finish::Length);
        check("function_call", Finish::ToolCalls);
        check("SAFETY", Finish::ContentFilter);
        check("error", Finish::Error);
        check("something new", Finish::Stop);
    }
}
