//! Whatever a client got as an answer it may send back, and every provider is sent a body that it takes.

use pointsman_dialect::{AnswerContext, ChatRequest};
use pointsman_domain::Dialect;
use serde_json::{Value, json};

use crate::{
    upstream::{End, Said, answered, put_together, relayed},
    world::{catalog, context, of_chat, of_messages, of_responses, sent_of},
};

/// Answers of each kind.
fn kinds() -> Vec<(&'static str, Said)> {
    vec![
        ("empty", Said::NOTHING),
        ("text", Said { text: "Hi.", ..Said::NOTHING }),
        ("tools only", Said { calls: vec![&["{\"a\":1}"], &["{}"]], ..Said::NOTHING }),
        ("reasoning only", Said { thought: "hm", ..Said::NOTHING }),
        ("reasoning, cut off", Said { thought: "hm", end: End::Cut, ..Said::NOTHING }),
        ("cut off", Said { text: "Hi", end: End::Cut, ..Said::NOTHING }),
        ("empty, cut off", Said { end: End::Cut, ..Said::NOTHING }),
        ("blocked", Said { end: End::Blocked, ..Said::NOTHING }),
    ]
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The next request over each door after an answer: the message, the content or the output that it was, and results of its calls.
fn next(door: &str, answer: &Value) -> Box<ChatRequest> {
    let mut turns = vec![user("Hi")];
    match door {
        "chat" => {
            let mut message = answer.clone();
            message["role"] = json!("assistant");
            turns.push(message);
            for call in answer["tool_calls"].as_array().into_iter().flatten() {
                turns.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "1"}));
            }
        }
        "messages" => {
            turns.push(json!({"role": "assistant", "content": answer}));
            let calls = answer.as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
            let results: Vec<Value> =
                calls.map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": "1"})).collect();
            if !results.is_empty() {
                turns.push(json!({"role": "user", "content": results}));
            }
        }
        _ => {
            let items = answer.as_array().unwrap();
            turns.extend(items.iter().cloned());
            let calls = items.iter().filter(|item| item["type"] == "function_call");
            turns.extend(
                calls.map(|call| json!({"type": "function_call_output", "call_id": call["call_id"], "output": "1"})),
            );
        }
    }
    turns.push(user("Go on."));
    request(door, json!(turns))
}

fn request(door: &str, turns: Value) -> Box<ChatRequest> {
    let schema = json!({"type": "object", "properties": {}});
    match door {
        "chat" => of_chat(&json!({"model": "acme/m", "messages": turns, "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}).to_string()),
        "messages" => of_messages(&json!({"model": "acme/m", "max_tokens": 9, "messages": turns, "tools": [{"name": "f", "input_schema": schema}]})),
        _ => of_responses(&json!({"model": "acme/m", "input": turns, "tools": [{"type": "function", "name": "f", "parameters": schema}]})),
    }
}

/// Fails for a body that the API of this dialect refuses.
#[track_caller]
fn check_sent(request: &ChatRequest, dialect: Dialect, what: &str) {
    let sent = sent_of(&catalog(), dialect, request);
    let body: Value = serde_json::from_slice(&sent.bytes).unwrap();
    let is_text = |text: &Value| text.as_str().is_some_and(|text| !text.trim().is_empty());
    match dialect {
        Dialect::OpenAi => {
            for message in body["messages"].as_array().unwrap() {
                let calls = message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
                let content = &message["content"];
                let is_filled = content.is_string() || content.as_array().is_some_and(|parts| !parts.is_empty());
                assert!(is_filled || calls, "{what}: {body}");
            }
        }
        Dialect::Anthropic => {
            for message in body["messages"].as_array().unwrap() {
                let content = &message["content"];
                let blocks =
                    content.as_array().cloned().unwrap_or_else(|| vec![json!({"type": "text", "text": content})]);
                assert!(!blocks.is_empty(), "{what}: {body}");
                assert!(
                    blocks.iter().all(|block| block["type"] != "text" || is_text(&block["text"])),
                    "{what}: {body}"
                );
            }
        }
        Dialect::Gemini => {
            for content in body["contents"].as_array().unwrap() {
                assert!(!content["parts"].as_array().unwrap().is_empty(), "{what}: {body}");
            }
        }
        Dialect::Responses => {
            for item in body["input"].as_array().unwrap().iter().filter(|item| item["type"] != "reasoning") {
                assert!(item["content"] != json!([]) && item.get("content") != Some(&Value::Null), "{what}: {body}");
            }
        }
        Dialect::Converse => {
            for message in body["messages"].as_array().unwrap() {
                let content = message["content"].as_array().unwrap();
                assert!(!content.is_empty(), "{what}: {body}");
                assert!(content.iter().all(|block| block.get("text").is_none_or(is_text)), "{what}: {body}");
            }
        }
    }
}

/// Every door, every dialect, whole and streamed.
#[test]
fn every_answer_is_accepted_when_it_comes_back_and_is_sent_on_in_a_valid_form() {
    for door in ["chat", "messages", "responses"] {
        let first = request(door, json!([user("Hi")]));
        for (kind, said) in kinds() {
            for dialect in Dialect::ALL {
                let context: AnswerContext = context();
                let whole = answered(&first, dialect, &said.whole(dialect).unwrap(), &context);
                let whole = [&whole["choices"][0]["message"], &whole["content"], &whole["output"]];
                let whole = whole.into_iter().find(|message| !message.is_null()).unwrap().clone();
                let streamed = put_together(&relayed(&first, dialect, &said.stream(dialect), &context));
                for (form, answer) in [("whole", whole), ("streamed", streamed)] {
                    let back = next(door, &answer);
                    for to in Dialect::ALL {
                        check_sent(&back, to, &format!("{kind} of {dialect:?}, {form}, over {door} to {to:?}"));
                    }
                }
            }
        }
    }
}

/// In other words than ours, as clients write an answer that says nothing.
#[test]
fn an_answer_that_says_nothing_is_accepted_in_any_form() {
    let chat = [
        json!({"role": "assistant", "content": null}),
        json!({"role": "assistant"}),
        json!({"role": "assistant", "content": ""}),
        json!({"role": "assistant", "content": []}),
        json!({"content": [], "role": "assistant", "tool_calls": []}),
        json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": null, "audio": null, "function_call": null, "annotations": []}),
        json!({"role": "assistant", "content": null, "reasoning": null, "reasoning_details": []}),
        json!({"role": "assistant", "content": null, "refusal": "No."}),
        json!({"role": "assistant", "content": null, "reasoning_content": "hm"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": ""}]}),
    ];
    let messages = [
        json!({"role": "assistant", "content": []}),
        json!({"role": "assistant", "content": ""}),
        json!({"role": "assistant", "content": null}),
        json!({"role": "assistant"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": ""}]}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "", "citations": null}, {"type": "text", "text": "\n"}]}),
    ];
    let responses = [
        json!({"type": "message", "role": "assistant", "content": []}),
        json!({"type": "message", "role": "assistant", "content": null, "id": "msg_1", "status": "incomplete"}),
        json!({"role": "assistant"}),
        json!({"role": "assistant", "content": ""}),
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "", "annotations": [], "logprobs": null}]}),
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": null, "encrypted_content": null, "status": null}),
    ];
    for (door, forms) in [("chat", &chat[..]), ("messages", &messages), ("responses", &responses)] {
        for form in forms {
            let back = request(door, json!([user("Hi"), form, user("Go on.")]));
            for to in Dialect::ALL {
                check_sent(&back, to, &format!("{form} over {door} to {to:?}"));
            }
        }
    }
}
