//! A client gets the arguments of a call as one object, whatever its provider sends before or behind them, and the whole name
//! of the tool.

use pointsman_dialect::{AnswerContext, ChatRequest};
use pointsman_domain::Dialect;
use serde_json::{Value, json};

use crate::{
    upstream::{End, Said, answered, calls_of, put_together, relayed},
    world::{context, of_chat, of_messages, of_responses},
};

const CITY: &str = r#"{"city":"Oslo"}"#;

/// Clients of each API that have the tool `f`; the second knows only the deprecated form of a call.
fn clients() -> [(&'static str, Box<ChatRequest>); 4] {
    let schema = json!({"type": "object", "properties": {}});
    let function = json!({"name": "f", "parameters": schema});
    let user = json!([{"role": "user", "content": "Hi"}]);
    let chat = json!({"model": "acme/m", "messages": user, "tools": [{"type": "function", "function": function}]});
    let legacy = json!({"model": "acme/m", "messages": user, "functions": [function]});
    let messages =
        json!({"model": "acme/m", "max_tokens": 9, "messages": user, "tools": [{"name": "f", "input_schema": schema}]});
    let responses =
        json!({"model": "acme/m", "input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": schema}]});
    [
        ("chat", of_chat(&chat.to_string())),
        ("functions", of_chat(&legacy.to_string())),
        ("messages", of_messages(&messages)),
        ("responses", of_responses(&responses)),
    ]
}

fn context_of(request: &ChatRequest) -> AnswerContext {
    AnswerContext { legacy_functions: request.legacy_functions(), ..context() }
}

/// The first call as each client reads it, of a whole answer and of a stream.
#[track_caller]
fn check(said: &Said, expected: &str) {
    for (name, request) in clients() {
        let context = context_of(&request);
        for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Responses, Dialect::Converse] {
            let streamed = put_together(&relayed(&request, dialect, &said.stream(dialect), &context));
            let call = ("f".to_owned(), expected.to_owned());
            assert_eq!(calls_of(&streamed).first(), Some(&call), "{name} of {dialect:?}, streamed: {streamed}");
            let Some(body) = said.whole(dialect) else { continue };
            let whole = answered(&request, dialect, &body, &context);
            let message = [&whole["choices"][0]["message"], &whole["content"], &whole["output"]];
            let message = message.into_iter().find(|message| !message.is_null()).unwrap();
            assert_eq!(calls_of(message).first(), Some(&call), "{name} of {dialect:?}, whole: {whole}");
        }
    }
}

#[test]
fn empty_objects_null_and_repetitions_around_the_arguments_are_left_out() {
    for pieces in [
        &["{}", r#"{"city":"#, r#""Oslo"}"#][..],
        &["{}", CITY],
        &[r#"{}{"city":"Oslo"}"#],
        &["{", "}", CITY],
        &[r#"null{"city":"Oslo"}"#],
        &["null", CITY],
        &[r#"{"city":"Oslo"}{"city":"Oslo"}"#],
        &[CITY, CITY],
        &[r#"{"city":"#, r#""Oslo"}{"city""#, r#":"Oslo"}"#],
        &[CITY, "{}"],
        &[CITY],
    ] {
        check(&Said { calls: vec![pieces], ..Said::NOTHING }, CITY);
    }
}

#[test]
fn a_call_without_arguments_has_an_empty_object() {
    for pieces in [&["{}"][..], &["", "{}"]] {
        check(&Said { calls: vec![pieces], ..Said::NOTHING }, "{}");
    }
    // A whole answer of other dialects has an object anyway.
    let said = Said { calls: vec![&[]], ..Said::NOTHING };
    for (name, request) in clients() {
        let context = context_of(&request);
        let empty = json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}}]});
        let whole = answered(&request, Dialect::OpenAi, &empty.to_string(), &context);
        let message = [&whole["choices"][0]["message"], &whole["content"], &whole["output"]];
        let message = message.into_iter().find(|message| !message.is_null()).unwrap();
        assert_eq!(calls_of(message), [("f".to_owned(), "{}".to_owned())], "{name}, whole");
        for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Converse] {
            let streamed = put_together(&relayed(&request, dialect, &said.stream(dialect), &context));
            assert_eq!(calls_of(&streamed), [("f".to_owned(), "{}".to_owned())], "{name} of {dialect:?}");
        }
    }
}

#[test]
fn calls_that_come_side_by_side_get_each_its_own_arguments() {
    let chunk =
        |calls: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": null}]});
    let call = |index: u8, arguments: &str| json!({"index": index, "id": format!("c{index}"), "type": "function", "function": {"name": "f", "arguments": arguments}});
    let more = |index: u8, arguments: &str| json!({"index": index, "function": {"arguments": arguments}});
    let chunks = [
        chunk(json!([call(0, "{}"), call(1, "{}")])),
        chunk(json!([more(0, "{\"a\":1}")])),
        chunk(json!([more(1, "{\"b\"")])),
        chunk(json!([more(1, ":2}")])),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ];
    let stream: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    for (name, request) in clients().into_iter().filter(|(name, _)| *name != "functions") {
        let message = put_together(&relayed(&request, Dialect::OpenAi, stream.as_bytes(), &context()));
        let expected = [("f".to_owned(), "{\"a\":1}".to_owned()), ("f".to_owned(), "{\"b\":2}".to_owned())];
        assert_eq!(calls_of(&message), expected, "{name}");
    }
}

#[test]
fn a_second_object_that_differs_is_not_cut_silently() {
    let said = Said { calls: vec![&[r#"{"a":1}"#, r#"{"b":2}"#]], ..Said::NOTHING };
    for (name, request) in clients() {
        let streamed =
            put_together(&relayed(&request, Dialect::OpenAi, &said.stream(Dialect::OpenAi), &context_of(&request)));
        assert_eq!(calls_of(&streamed), [("f".to_owned(), r#"{"a":1}{"b":2}"#.to_owned())], "{name}");
        let whole = answered(&request, Dialect::OpenAi, &said.whole(Dialect::OpenAi).unwrap(), &context_of(&request));
        assert!(whole.to_string().contains(r#"{\"a\":1}{\"b\":2}"#), "{name}: {whole}");
    }
}

#[test]
fn ordinary_arguments_come_piece_by_piece() {
    let said = Said { calls: vec![&["{\"", "city\":", "\"Os", "lo\"}"]], ..Said::NOTHING };
    for (name, request) in clients() {
        let events = relayed(&request, Dialect::OpenAi, &said.stream(Dialect::OpenAi), &context_of(&request));
        let pieces = events.iter().filter(|event| {
            let event = event.to_string();
            event.contains("\"partial_json\"")
                || event.contains("arguments.delta")
                || event.contains("\"arguments\":\"")
        });
        assert!(pieces.count() >= 4, "{name}");
    }
}

#[test]
fn a_name_in_pieces_is_joined_for_clients_that_need_it_at_once() {
    let chunk = |call: Value, finish: Value| {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": finish}]})
        )
    };
    for (second, arguments) in [("weather", "{\"a\":1}"), ("weather", "")] {
        let stream = [
            chunk(
                json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "get_", "arguments": ""}}),
                Value::Null,
            ),
            chunk(json!({"index": 0, "function": {"name": second}}), Value::Null),
            chunk(json!({"index": 0, "function": {"arguments": arguments}}), json!("tool_calls")),
            "data: [DONE]\n\n".to_owned(),
        ]
        .concat();
        let expected = if arguments.is_empty() { "{}" } else { arguments };
        for (name, request) in clients() {
            let events = relayed(&request, Dialect::OpenAi, stream.as_bytes(), &context_of(&request));
            let calls = calls_of(&put_together(&events));
            assert_eq!(calls, [("get_weather".to_owned(), expected.to_owned())], "{name}: {events:?}");
        }
    }
}

#[test]
fn a_function_call_of_a_whole_answer_becomes_a_call_of_a_tool() {
    let body = json!({"choices": [{"index": 0, "finish_reason": "function_call",
        "message": {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": CITY}}}]});
    for (name, request) in clients() {
        let whole = answered(&request, Dialect::OpenAi, &body.to_string(), &context_of(&request));
        let message = [&whole["choices"][0]["message"], &whole["content"], &whole["output"]];
        let message = message.into_iter().find(|message| !message.is_null()).unwrap();
        assert_eq!(calls_of(message), [("f".to_owned(), CITY.to_owned())], "{name}: {whole}");
        let has_legacy = message.get("function_call").is_some();
        assert_eq!(has_legacy, name == "functions", "{whole}");
        if name == "chat" {
            let call = &message["tool_calls"][0];
            assert!(
                call["id"].as_str().is_some_and(|id| id.starts_with("call_")) && call["type"] == "function",
                "{whole}"
            );
            assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
        }
    }
}

#[test]
fn a_client_of_functions_is_told_function_call_as_the_reason_of_the_end() {
    let said = Said { calls: vec![&[CITY]], ..Said::NOTHING };
    let (_, request) = clients().into_iter().find(|(name, _)| *name == "functions").unwrap();
    for dialect in Dialect::ALL {
        let whole = answered(&request, dialect, &said.whole(dialect).unwrap(), &context_of(&request));
        assert_eq!(whole["choices"][0]["finish_reason"], "function_call", "{dialect:?}");
        let events = relayed(&request, dialect, &said.stream(dialect), &context_of(&request));
        let reasons: Vec<&Value> = events
            .iter()
            .map(|event| &event["choices"][0]["finish_reason"])
            .filter(|reason| !reason.is_null())
            .collect();
        assert_eq!(reasons, ["function_call"], "{dialect:?}");
        let said = Said { text: "Hi", ..Said::NOTHING };
        let whole = answered(&request, dialect, &said.whole(dialect).unwrap(), &context_of(&request));
        assert_eq!(whole["choices"][0]["finish_reason"], "stop", "{dialect:?}");
        let cut = Said { text: "Hi", end: End::Cut, ..Said::NOTHING };
        let whole = answered(&request, dialect, &cut.whole(dialect).unwrap(), &context_of(&request));
        assert_eq!(whole["choices"][0]["finish_reason"], "length", "{dialect:?}");
    }
}
