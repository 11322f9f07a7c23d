//! The client's names for fields of the chat body that its request became.

use std::borrow::Cow;

use crate::{json::Raw, neutral::renamed_within};

const SYSTEM_BREAKPOINT: &str = "system[].cache_control";
const CONTENT_BREAKPOINT: &str = "messages[].content[].cache_control";

/// The client's name for a field of the chat body.
pub(crate) fn field_name(name: &str) -> Cow<'_, str> {
    Cow::Borrowed(match name {
        "stop" => "stop_sequences",
        "stop[]" => "stop_sequences[]",
        "max_completion_tokens" => "max_tokens",
        "response_format" => "output_config.format",
        "reasoning" | "reasoning_effort" => "thinking",
        "user" => "metadata.user_id",
        "parallel_tool_calls" => "tool_choice.disable_parallel_tool_use",
        "messages[].content" => "messages[].content[].content",
        "messages[].is_error" => "messages[].content[].is_error",
        "messages[].cache_control" => CONTENT_BREAKPOINT,
        "messages[].tool_calls[].id" => "messages[].content[].id",
        "messages[].tool_call_id" => "messages[].content[].tool_use_id",
        "messages[].tool_calls[].function.arguments" => "messages[].content[].input",
        "messages[].reasoning_details" | "reasoning_details" => "messages[].content[].thinking",
        "messages[].content[].image_url" | "messages[].content[].file" => "messages[].content[].source",
        name => return renamed_within(name, &PLACES),
    })
}

/// Beginnings of names of places within a field, and the client's.
const PLACES: [(&str, &str); 3] = [
    ("tools[].function.parameters", "tools[].input_schema"),
    ("tools[].function.", "tools[]."),
    ("response_format.json_schema", "output_config.format"),
];

/// The fields of the client that became this one, where its body tells. `None` where the name alone does. `member`: a
/// member of the body with a value.
pub(crate) fn given_fields<'b>(member: impl Fn(&[u8]) -> Option<Raw<'b>>, name: &str) -> Option<Vec<&'static str>> {
    let given = match name {
        "reasoning" | "reasoning_effort" => {
            let effort = member(b"output_config").and_then(|config| config.member(b"effort"));
            let effort = effort.filter(|effort| !effort.is_null()).map(|_| "output_config.effort");
            effort.into_iter().chain(member(b"thinking").map(|_| "thinking")).collect()
        }
        "service_tier" if member(b"speed").is_some_and(|speed| speed.bytes() == b"\"fast\"") => vec!["speed"],
        CONTENT_BREAKPOINT => {
            let system = member(b"system").is_some_and(has_breakpoint).then_some(SYSTEM_BREAKPOINT);
            let mut messages = member(b"messages").into_iter().flat_map(Raw::elements);
            let content = messages.any(|message| message.member(b"content").is_some_and(has_breakpoint));
            system.into_iter().chain(content.then_some(CONTENT_BREAKPOINT)).collect()
        }
        // Its title stands in a text as well, and a document without one has got a name here.
        "messages[].content[].file.filename" => Vec::new(),
        _ => return None,
    };
    Some(given)
}

/// Whether a block is marked.
fn has_breakpoint(blocks: Raw<'_>) -> bool {
    blocks.elements().any(|block| block.member(b"cache_control").is_some_and(Raw::is_object))
}
