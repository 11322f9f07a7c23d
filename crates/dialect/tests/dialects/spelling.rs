//! Members that do not reach an endpoint are named as the client wrote them, and nothing else is named.

use pointsman_dialect::{ChatRequest, OutgoingBody};
use pointsman_domain::{Catalog, Dialect};
use serde_json::{Value, json};

use crate::world::{catalog, of_chat, of_messages, of_responses, sent_of};

const TRANSLATED: [Dialect; 4] = [Dialect::Anthropic, Dialect::Gemini, Dialect::Responses, Dialect::Converse];

fn lists(catalog: &Catalog, dialect: Dialect, chat: &ChatRequest) -> [Vec<String>; 2] {
    let OutgoingBody { dropped, emulated, .. } = sent_of(catalog, dialect, chat);
    [dropped, emulated].map(|names| names.iter().map(ToString::to_string).collect())
}

fn dropped(catalog: &Catalog, dialect: Dialect, chat: &ChatRequest) -> Vec<String> {
    let [dropped, _] = lists(catalog, dialect, chat);
    dropped
}

#[test]
fn unknown_members_of_a_chat_are_named_where_the_chat_is_translated() {
    let catalog = catalog();
    let function = json!({"name": "f", "parameters": {"type": "object", "properties": {}}, "bar": 1});
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}", "qux": 1}, "index": 0, "odd": 1});
    let body = json!({
        "model": "acme/m", "tools": [{"type": "function", "function": function, "own": true}],
        "messages": [
            {"role": "user", "foo": 1, "content": [{"type": "text", "text": "Hi", "baz": {}}, {"type": "text", "text": "Ho", "baz": {}}]},
            {"role": "assistant", "content": null, "annotations": [], "audio": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "x", "foo": 2},
        ],
    });
    let expected = [
        "messages[].content[].baz",
        "messages[].foo",
        "messages[].tool_calls[].function.qux",
        "messages[].tool_calls[].odd",
        "tools[].function.bar",
        "tools[].own",
    ];
    let chat = of_chat(&body.to_string());
    for dialect in TRANSLATED {
        assert_eq!(dropped(&catalog, dialect, &chat), expected, "{dialect:?}");
    }
    assert_eq!(dropped(&catalog, Dialect::OpenAi, &chat), [""; 0], "there they are sent");
}

#[test]
fn unknown_members_of_items_parts_and_tools_of_a_client_of_responses_are_named() {
    let catalog = catalog();
    let schema = json!({"type": "object", "properties": {}});
    let chat = of_responses(&json!({
        "model": "acme/m",
        "tools": [
            {"type": "function", "name": "f", "parameters": schema, "own": 1},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g", "parameters": schema, "own": 1}]},
        ],
        "input": [
            {"type": "message", "role": "user", "id": "msg_1", "status": "completed", "baz": 1,
             "content": [{"type": "input_text", "text": "Hi", "foo": 1}]},
            {"type": "message", "role": "assistant", "id": "msg_2", "phase": "commentary",
             "content": [{"type": "output_text", "text": "Ho", "annotations": [], "logprobs": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed", "extra": 1},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x", "foo": 1}]},
        ],
    }));
    let expected = [
        "input[].baz",
        "input[].content[].foo",
        "input[].extra",
        "input[].output[].foo",
        "input[].phase",
        "tools[].own",
        "tools[].tools[].own",
    ];
    for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini, Dialect::Converse] {
        assert_eq!(dropped(&catalog, dialect, &chat), expected, "{dialect:?}");
    }
    assert_eq!(dropped(&catalog, Dialect::Responses, &chat), [""; 0], "there they are sent");
}

#[test]
fn unknown_members_of_messages_and_blocks_of_a_client_of_messages_are_named() {
    let catalog = catalog();
    let chat = of_messages(&json!({
        "model": "acme/m", "max_tokens": 9, "system": [{"type": "text", "text": "s", "foo": 1}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "Hi", "own": 1},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "direct"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "bar": 1,
                                          "content": [{"type": "text", "text": "x", "baz": 1}]}]},
        ],
    }));
    let expected = ["messages[].content[].bar", "messages[].content[].content[].baz", "messages[].own", "system[].foo"];
    for dialect in [Dialect::OpenAi, Dialect::Gemini, Dialect::Responses, Dialect::Converse] {
        assert_eq!(dropped(&catalog, dialect, &chat), expected, "{dialect:?}");
    }
}

/// Parts of names that only clients of chat write.
const OF_CHAT: [&str; 9] = [
    "tool_calls",
    "tool_call_id",
    ".function",
    "reasoning_details",
    "image_url",
    "file.",
    "response_format",
    "parallel_tool_calls",
    "max_completion_tokens",
];

fn picture() -> String {
    "iVBORw0KGgo=".to_owned()
}

/// A request of Messages with what the other APIs lack.
fn messages() -> Value {
    let mark = json!({"type": "ephemeral"});
    json!({
        "model": "acme/m", "max_tokens": 9000, "stop_sequences": ["END", "  "], "temperature": 1, "top_k": 3,
        "thinking": {"type": "enabled", "budget_tokens": 3000}, "metadata": {"user_id": "u"}, "speed": "fast",
        "system": [{"type": "text", "text": "s", "cache_control": mark}],
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": {"type": "string"}}}},
        "tools": [{"name": "f", "strict": true, "input_schema": {"type": "object", "additionalProperties": {"type": "string"}}, "cache_control": mark}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
        "messages": [
            {"role": "user", "content": [
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture()}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "EqQB"}, {"type": "tool_use", "id": "t:1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t:1", "is_error": true, "content": "x"}, {"type": "text", "text": "Go."}]},
        ],
    })
}

#[test]
fn a_client_of_messages_reads_its_own_names() {
    let catalog = catalog();
    let chat = of_messages(&messages());
    for dialect in [Dialect::OpenAi, Dialect::Gemini, Dialect::Responses, Dialect::Converse] {
        let names = lists(&catalog, dialect, &chat).concat();
        let foreign = |name: &&String| {
            OF_CHAT.iter().any(|part| name.contains(part))
                || matches!(&***name, "stop" | "reasoning" | "user" | "service_tier")
        };
        assert_eq!(names.iter().find(foreign), None, "{dialect:?}: {names:?}");
    }
    let [dropped, emulated] = lists(&catalog, Dialect::Gemini, &chat);
    for name in ["system[].cache_control", "tools[].cache_control", "speed", "tool_choice.disable_parallel_tool_use"] {
        assert!(dropped.iter().any(|one| one == name), "{name}: {dropped:?}");
    }
    assert!(!dropped.iter().any(|name| name.contains("messages[].content[].cache_control")), "{dropped:?}");
    assert!(emulated.iter().any(|name| name == "messages[].content[].thinking"), "{emulated:?}");
    let [dropped, emulated] = lists(&catalog, Dialect::Converse, &chat);
    assert!(dropped.iter().any(|name| name == "tools[].strict"), "{dropped:?} {emulated:?}");
}

#[test]
fn an_effort_of_messages_is_named_where_it_stands() {
    let catalog = catalog();
    let mut body = json!({"model": "acme/m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    body["output_config"] = json!({"effort": "max"});
    let of = |body: &Value| lists(&catalog, Dialect::Converse, &of_messages(body)).concat();
    assert_eq!(of(&body), ["output_config.effort"]);
    body["output_config"] = json!({});
    body["thinking"] = json!({"type": "enabled", "budget_tokens": 5000});
    assert_eq!(of(&body), ["thinking"]);
}

#[test]
fn a_client_of_responses_reads_its_own_names() {
    let catalog = catalog();
    let chat = of_responses(&json!({
        "model": "acme/m", "max_output_tokens": 9, "reasoning": {"effort": "xhigh"}, "top_logprobs": 3,
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "a", "schema": {"type": "object", "additionalProperties": {"type": "string"}}}},
        "parallel_tool_calls": false,
        "tools": [{"type": "function", "name": "f", "strict": true, "parameters": {"type": "object", "additionalProperties": {"type": "string"}}}],
        "input": [
            {"role": "user", "content": [
                {"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}},
                {"type": "input_image", "image_url": format!("data:image/png;base64,{}", picture()), "detail": "high"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{"},
            {"role": "user", "content": "Well?"},
        ],
    }));
    for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini, Dialect::Converse] {
        let names = lists(&catalog, dialect, &chat).concat();
        let foreign = |name: &&String| {
            let is_of_chat = OF_CHAT.iter().any(|part| name.contains(part)) && *name != "parallel_tool_calls";
            name.starts_with("messages")
                || is_of_chat
                || matches!(&***name, "reasoning" | "verbosity" | "logprobs" | "include" | "max_tokens")
        };
        assert_eq!(names.iter().find(foreign), None, "{dialect:?}: {names:?}");
    }
    let [dropped, emulated] = lists(&catalog, Dialect::Anthropic, &chat);
    assert_eq!(
        emulated,
        ["input[].arguments", "input[].call_id", "input[].content[].prompt_cache_breakpoint", "text.format"]
    );
    for name in ["input[].content[].detail", "text.verbosity", "tools[].strict", "top_logprobs"] {
        assert!(dropped.iter().any(|one| one == name), "{name}: {dropped:?}");
    }
}

#[test]
fn a_client_of_chat_reads_the_one_of_two_names_that_it_wrote() {
    let catalog = catalog();
    let body = json!({"model": "acme/m", "messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 10_000_000,
        "functions": [{"name": "f", "strict": true, "parameters": {"type": "object", "additionalProperties": {"type": "string"}}}]});
    let [dropped, emulated] = lists(&catalog, Dialect::Anthropic, &of_chat(&body.to_string()));
    assert_eq!((dropped, emulated), (vec!["functions[].strict".to_owned()], vec!["max_completion_tokens".to_owned()]));
}
