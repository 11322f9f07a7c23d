//! The client's names for fields of the chat body that its request became.

use std::borrow::Cow;

use crate::{json::Raw, neutral::renamed_within};

/// The client's name for a field of the chat body.
pub(crate) fn field_name(name: &str) -> Cow<'_, str> {
    Cow::Borrowed(match name {
        "max_tokens" | "max_completion_tokens" => "max_output_tokens",
        "response_format" => "text.format",
        "verbosity" => "text.verbosity",
        "reasoning" | "reasoning_effort" => "reasoning.effort",
        "logprobs" => "include",
        "messages" => "input",
        "messages[].content" => "input[].output",
        "messages[].role" => "input[].role",
        "messages[].tool_calls[].id" | "messages[].tool_call_id" => "input[].call_id",
        "messages[].tool_calls[].function.arguments" => "input[].arguments",
        "messages[].tool_calls[].custom" => "input[].custom_tool_call",
        "messages[].reasoning_details" | "reasoning_details" => "input[].reasoning",
        "messages[].cache_control" => "input[].output[].prompt_cache_breakpoint",
        "messages[].content[].cache_control" => "input[].content[].prompt_cache_breakpoint",
        "messages[].content[].file" => "input[].content[].input_file",
        "messages[].content[].file.filename" => "input[].content[].filename",
        "messages[].content[].image_url.detail" => "input[].content[].detail",
        name => return renamed_within(name, &PLACES),
    })
}

/// Beginnings of names of places within a field, and the client's.
const PLACES: [(&str, &str); 3] = [
    ("tools[].function.", "tools[]."),
    ("response_format.json_schema", "text.format"),
    ("messages[].content[]", "input[].content[]"),
];

/// The fields of the client that became this one, where its body tells. `None` where the name alone does. `member`: a
/// member of the body with a value.
pub(crate) fn given_fields<'b>(member: impl Fn(&[u8]) -> Option<Raw<'b>>, name: &str) -> Option<Vec<&'static str>> {
    // Either asks for them.
    let asks = |wanted: Raw<'_>| wanted.inner_text() == "message.output_text.logprobs";
    match name {
        "logprobs" if !member(b"include").is_some_and(|include| include.elements().any(asks)) => {
            Some(vec!["top_logprobs"])
        }
        _ => None,
    }
}
