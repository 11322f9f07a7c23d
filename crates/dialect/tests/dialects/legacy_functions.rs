//! A client that declares `functions` gets a `function_call`, whatever the provider was sent and whatever it answers.

use bytes::{Bytes, BytesMut};
use pointsman_dialect::{AnswerContext, ChatStream, OutgoingBody, StreamOptions, rewrite_whole};
use pointsman_domain::Dialect;
use serde_json::{Value, json};

use crate::world::{catalog, context, of_chat, sent_of};

const BODY: &str = r#"{"model":"acme/m","messages":[{"role":"user","content":"Hi"}],"functions":[{"name":"f","parameters":{"type":"object","properties":{}}}],"function_call":"auto"}"#;

fn legacy() -> AnswerContext {
    AnswerContext { legacy_functions: of_chat(BODY).legacy_functions(), ..context() }
}

/// Two calls, as a provider of this dialect answers and streams them.
fn calls(dialect: Dialect) -> (Value, String) {
    let event = |value: Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default());
    if dialect == Dialect::Anthropic {
        let usage = json!({"input_tokens": 9, "output_tokens": 5});
        let block = |index: usize, input: Value| json!({"type": "tool_use", "id": format!("t{index}"), "name": "f", "input": input});
        let whole = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
            "content": [block(0, json!({"a": 1})), block(1, json!({"b": 2}))], "usage": usage});
        let begun =
            json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage});
        let call = |index: usize, pieces: [&str; 2]| {
            let delta = |text: &str| {
                event(
                    json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}),
                )
            };
            event(json!({"type": "content_block_start", "index": index, "content_block": block(index, json!({}))}))
                + &delta(pieces[0])
                + &delta(pieces[1])
                + &event(json!({"type": "content_block_stop", "index": index}))
        };
        let stream = event(json!({"type": "message_start", "message": begun}))
            + &call(0, ["{\"a\"", ":1}"])
            + &call(1, ["{\"b\"", ":2}"])
            + &event(
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}),
            )
            + &event(json!({"type": "message_stop"}));
        return (whole, stream);
    }
    let call = |index: usize, arguments: &str| json!({"index": index, "id": format!("c{index}"), "type": "function", "function": {"name": "f", "arguments": arguments}});
    let message =
        json!({"role": "assistant", "content": null, "tool_calls": [call(0, "{\"a\":1}"), call(1, "{\"b\":2}")]});
    let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let chunk = |delta: Value, finish: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let more = |index: usize, text: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]});
    let stream = [
        chunk(json!({"tool_calls": [call(0, "")]}), Value::Null),
        chunk(more(0, "{\"a\""), Value::Null),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}, call(1, "{\"b\"")]}), Value::Null),
        chunk(more(1, ":2}"), Value::Null),
        chunk(json!({}), json!("tool_calls")),
        "data: [DONE]\n\n".to_owned(),
    ];
    (whole, stream.concat())
}

fn outgoing(dialect: Dialect) -> OutgoingBody {
    sent_of(&catalog(), dialect, &of_chat(BODY))
}

/// The one form of a call that stands in the deprecated API, and its finish reason.
#[test]
fn a_client_of_functions_gets_one_function_call_in_an_answer_and_in_a_stream() {
    for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
        let (whole, stream) = calls(dialect);
        let outgoing = outgoing(dialect);
        let answer = rewrite_whole(&Bytes::from(whole.to_string()), &outgoing, None, &legacy()).unwrap();
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        let choice = &answer["choices"][0];
        assert_eq!(choice["message"]["function_call"], json!({"name": "f", "arguments": "{\"a\":1}"}), "{answer}");
        assert_eq!(
            (choice["message"].get("tool_calls"), &choice["finish_reason"]),
            (None, &json!("function_call")),
            "{answer}"
        );

        let mut chat = ChatStream::between(Some(&outgoing), None, legacy(), StreamOptions::default());
        let mut out = BytesMut::new();
        chat.push(&Bytes::from(stream), &mut out).unwrap();
        let text = String::from_utf8(out.to_vec()).unwrap();
        let chunks = text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        let deltas: Vec<Value> = chunks.map(|chunk| chunk["choices"][0]["delta"].clone()).collect();
        let called: Vec<&Value> = deltas.iter().filter_map(|delta| delta.get("function_call")).collect();
        let names: Vec<&str> = called.iter().filter_map(|call| call["name"].as_str()).collect();
        let arguments: String = called.iter().filter_map(|call| call["arguments"].as_str()).collect();
        assert_eq!((names, &*arguments), (vec!["f"], "{\"a\":1}"), "{text}");
        assert!(!text.contains("\"tool_calls\":"), "{text}");
    }
}

#[test]
fn a_provider_that_can_be_told_so_makes_one_call() {
    let body: Value = serde_json::from_slice(&outgoing(Dialect::Anthropic).bytes).unwrap();
    assert_eq!(body["tool_choice"], json!({"type": "auto", "disable_parallel_tool_use": true}), "{body}");
    for dialect in Dialect::ALL {
        let OutgoingBody { dropped, emulated, .. } = outgoing(dialect);
        assert!(
            !dropped.iter().chain(&emulated).any(|name| name.contains("tool")),
            "{dialect:?}: {dropped:?} {emulated:?}"
        );
    }
}

#[test]
fn a_client_of_tools_gets_tool_calls() {
    let chat = of_chat(&BODY.replace(
        "\"functions\":[",
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"functions\":[",
    ));
    assert!(!chat.legacy_functions(), "who declares both reads the form of today");
}
