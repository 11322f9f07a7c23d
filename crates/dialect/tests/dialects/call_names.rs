//! Names of tools and ids of calls: each endpoint gets them in a form that it takes, and the client sees its own.

use bytes::{Bytes, BytesMut};
use pointsman_dialect::{ChatRequest, ChatStream, OutgoingBody, StreamOptions, rewrite_whole};
use pointsman_domain::Dialect;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{catalog, context, of_messages, of_responses, sent, sent_of};

fn long_name() -> String {
    format!("mcp__files__{}", "read".repeat(20))
}

/// A client of Messages with a tool of this name, a choice of it, and a call of it with this id and its result.
fn messages(name: &str, id: &str) -> Box<ChatRequest> {
    of_messages(&json!({
        "model": "acme/m", "max_tokens": 9, "tool_choice": {"type": "tool", "name": name},
        "tools": [{"name": name, "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": {"name": "a.b"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]},
        ],
    }))
}

/// The same of a client of Responses.
fn responses(name: &str, id: &str) -> Box<ChatRequest> {
    let chosen = json!({"type": "function", "name": name});
    of_responses(&json!({
        "model": "acme/m", "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [chosen]},
        "tools": [{"type": "function", "name": name, "parameters": {"type": "object"}}],
        "input": [
            {"role": "user", "content": "Hi"},
            {"type": "function_call", "call_id": id, "name": name, "arguments": "{\"name\":\"a.b\"}"},
            {"type": "function_call_output", "call_id": id, "output": "x"},
        ],
    }))
}

fn json_of(outgoing: &OutgoingBody) -> Value {
    serde_json::from_slice(&outgoing.bytes).unwrap()
}

fn fits(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Whole answer and stream of a chat server that calls this tool, as the client gets them.
fn answered(chat: &ChatRequest, outgoing: &OutgoingBody, name: &str) -> [String; 2] {
    let client = chat.client.as_deref();
    let function = json!({"name": name, "arguments": "{}"});
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}).to_string();
    let whole = rewrite_whole(&Bytes::from(body), outgoing, client, &context()).unwrap();
    let chunk = |delta: Value, finish: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let events = [
        chunk(json!({"tool_calls": [call]}), Value::Null),
        chunk(json!({}), json!("tool_calls")),
        "data: [DONE]\n\n".into(),
    ];
    let mut stream = ChatStream::between(Some(outgoing), client, context(), StreamOptions::default());
    let mut out = BytesMut::new();
    stream.push(&Bytes::from(events.concat()), &mut out).unwrap();
    [whole.body.to_vec(), out.to_vec()].map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn a_chat_endpoint_gets_names_and_ids_that_openai_takes_and_the_client_sees_its_own() {
    let catalog = catalog();
    let long_id = format!("toolu_{}", "7".repeat(60));
    for (name, id) in
        [(long_name(), "call_1".to_owned()), ("look".to_owned(), long_id), (long_name(), "call:1.2".to_owned())]
    {
        for chat in [messages(&name, &id), responses(&name, &id)] {
            let outgoing = sent_of(&catalog, Dialect::OpenAi, &chat);
            let body = json_of(&outgoing);
            let sent = body["tools"][0]["function"]["name"].as_str().unwrap();
            let call = &body["messages"][1]["tool_calls"][0];
            assert!(fits(sent, 64) && fits(call["id"].as_str().unwrap(), 40), "{body}");
            assert_eq!(call["function"]["name"], sent, "{body}");
            assert_eq!(call["function"]["arguments"], "{\"name\":\"a.b\"}", "arguments are the model's: {body}");
            assert_eq!(body["messages"][2]["tool_call_id"], call["id"], "{body}");
            assert!(body["tool_choice"].to_string().contains(sent), "{body}");
            for seen in answered(&chat, &outgoing, sent) {
                assert!(seen.contains(&format!("\"name\":\"{name}\"")), "{seen}");
            }
        }
    }
}

#[test]
fn names_of_any_characters_fit_and_stay_different() {
    let catalog = catalog();
    let chat = of_responses(&json!({"model": "acme/m", "input": "Hi", "tools": [
        {"type": "function", "name": "fs.read"}, {"type": "function", "name": "fs_read"}, {"type": "function", "name": "fs/read"}]}));
    let body = json_of(&sent_of(&catalog, Dialect::OpenAi, &chat));
    let names: Vec<&str> =
        body["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| fits(name, 64)), "{names:?}");
    assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
    assert_eq!(names[1], "fs_read");
}

/// The body of a client of chat is its own: whether a server takes a name is between them.
#[test]
fn names_and_ids_of_a_client_of_chat_stay_as_they_are_at_a_chat_endpoint() {
    let (name, id) = ("fs.read ".repeat(12), "call:1".repeat(10));
    let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let messages = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": "x"}]);
    let body =
        json!({"model": "acme/m", "messages": messages, "tools": [{"type": "function", "function": {"name": name}}]});
    let outgoing = sent(&catalog(), Dialect::OpenAi, &body.to_string());
    let mut expected = body;
    expected["model"] = json!("m");
    assert_eq!(json_of(&outgoing), expected);
}

#[test]
fn a_responses_endpoint_gets_ids_of_at_most_64_characters() {
    let catalog = catalog();
    let body = json_of(&sent_of(&catalog, Dialect::Responses, &messages("look", &"i".repeat(200))));
    let ids: Vec<&str> = body["input"].as_array().unwrap().iter().filter_map(|item| item["call_id"].as_str()).collect();
    assert!(ids.len() == 2 && ids[0] == ids[1] && fits(ids[0], 64), "{body}");
    let body = json_of(&sent_of(&catalog, Dialect::Responses, &messages("look", &"i".repeat(64))));
    assert_eq!(body["input"][1]["call_id"], "i".repeat(64));
}

#[test]
fn calls_without_an_id_get_one_by_their_place() {
    let catalog = catalog();
    let call = json!({"id": "", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let mut messages = vec![
        json!({"role": "user", "content": "Hi"}),
        json!({"role": "assistant", "content": null, "tool_calls": [call, call]}),
        json!({"role": "user", "content": "Well?"}),
    ];
    let ids = |messages: &[Value]| -> Vec<String> {
        let body = json!({"model": "acme/m", "messages": messages}).to_string();
        let sent = json_of(&sent(&catalog, Dialect::Anthropic, &body));
        let blocks =
            sent["messages"].as_array().unwrap().iter().flat_map(|turn| turn["content"].as_array().unwrap().clone());
        blocks.filter_map(|block| Some(block["id"].as_str().or(block["tool_use_id"].as_str())?.to_owned())).collect()
    };
    let before = ids(&messages);
    assert_eq!((before.len(), &before[..2]), (4, &before[2..]), "two calls, and their results: {before:?}");
    let digits = |id: &String| {
        id.strip_prefix("call_").is_some_and(|rest| rest.len() == 8 && rest.chars().all(|c| c.is_ascii_hexdigit()))
    };
    assert!(before.iter().all(digits) && before[0] != before[1], "{before:?}");
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
    let after = ids(&messages);
    assert_eq!(after[..4], before, "what follows changes nothing");
    assert!(!before.contains(&after[4]), "{after:?}");
}

proptest! {
    #[test]
    fn a_written_chat_is_a_prefix_of_that_with_one_more_call(
        calls in prop::collection::vec(("[a-z./ ]{1,90}", "[a-z:0-9]{1,60}"), 1..6),
    ) {
        let catalog = catalog();
        let body = |calls: &[(String, String)]| {
            let turns = calls.iter().flat_map(|(name, id)| [
                json!({"type": "function_call", "call_id": id, "name": name, "arguments": "{}"}),
                json!({"type": "function_call_output", "call_id": id, "output": "x"}),
            ]);
            let input: Vec<Value> = std::iter::once(json!({"role": "user", "content": "Hi"})).chain(turns).collect();
            let chat = of_responses(&json!({"model": "acme/m", "input": input}));
            String::from_utf8(sent_of(&catalog, Dialect::OpenAi, &chat).bytes.to_vec()).unwrap()
        };
        let (longer, shorter) = (body(&calls), body(&calls[..calls.len() - 1]));
        prop_assert!(serde_json::from_str::<Value>(&longer).is_ok(), "{longer}");
        prop_assert!(longer.starts_with(shorter.strip_suffix("]}").unwrap()), "{shorter}\n{longer}");
    }
}
