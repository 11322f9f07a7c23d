//! A client gets the arguments of a call as one object, whatever its provider sends before or behind them, and the whole name
//! of the tool.

use bytes::BytesMut;
use pointsman_dialect::{AnswerContext, ChatRequest, ChatStream, StreamOptions};
use pointsman_domain::Dialect;
use serde_json::{Value, json};

use crate::{
    upstream::{End, Said, answered, calls_of, put_together, relayed},
    world::{catalog, context, of_chat, of_messages, of_responses, sent_of},
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

/// The message, the content or the output of a whole answer.
fn message_of(whole: &Value) -> &Value {
    let message = [&whole["choices"][0]["message"], &whole["content"], &whole["output"]];
    message.into_iter().find(|message| !message.is_null()).unwrap()
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
            assert_eq!(calls_of(message_of(&whole)).first(), Some(&call), "{name} of {dialect:?}, whole: {whole}");
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
        &[r#"{"city":"Oslo"}{ "city": "Oslo" }"#],
        &[CITY, "{\n\"city\"", " : \"Oslo\"\n", "}"],
        &[CITY],
    ] {
        check(&Said { calls: vec![pieces], ..Said::NOTHING }, CITY);
    }
}

#[test]
fn white_space_around_the_arguments_passes_as_it_came() {
    let pieces = &["\n ", CITY, "\n"];
    let said = Said { calls: vec![pieces], ..Said::NOTHING };
    let expected = [("f".to_owned(), pieces.concat())];
    for dialect in [Dialect::OpenAi, Dialect::Responses] {
        let client = if dialect == Dialect::OpenAi { "chat" } else { "responses" };
        let (_, request) = clients().into_iter().find(|(name, _)| *name == client).unwrap();
        let context = context_of(&request);
        let streamed = put_together(&relayed(&request, dialect, &said.stream(dialect), &context));
        assert_eq!(calls_of(&streamed), expected, "{dialect:?}, streamed");
        let whole = answered(&request, dialect, &said.whole(dialect).unwrap(), &context);
        assert_eq!(calls_of(message_of(&whole)), expected, "{dialect:?}, whole");
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
        for dialect in [Dialect::OpenAi, Dialect::Responses] {
            let whole = answered(&request, dialect, &said.whole(dialect).unwrap(), &context);
            assert_eq!(
                calls_of(message_of(&whole)),
                [("f".to_owned(), "{}".to_owned())],
                "{name} of {dialect:?}, whole"
            );
        }
        for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::Gemini) {
            let streamed = put_together(&relayed(&request, dialect, &said.stream(dialect), &context));
            assert_eq!(calls_of(&streamed), [("f".to_owned(), "{}".to_owned())], "{name} of {dialect:?}");
        }
    }
}

#[test]
fn arguments_that_are_null_in_a_whole_answer_are_an_empty_object() {
    for (name, request) in clients() {
        let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": null, "status": "completed"});
        let body = json!({"id": "resp_1", "model": "m", "status": "completed", "output": [call]}).to_string();
        let whole = answered(&request, Dialect::Responses, &body, &context_of(&request));
        assert_eq!(calls_of(message_of(&whole)), [("f".to_owned(), "{}".to_owned())], "{name}: {whole}");
    }
}

#[test]
fn a_call_that_was_cut_off_before_its_arguments_gets_none_made_up() {
    let (_, request) = clients().into_iter().find(|(name, _)| *name == "responses").unwrap();
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "", "status": "incomplete"});
    let body = json!({"id": "resp_1", "model": "m", "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"}, "output": [call]});
    let whole = answered(&request, Dialect::Responses, &body.to_string(), &context());
    assert_eq!(whole["output"][0], body["output"][0], "{whole}");
}

/// `put_together` compares the joined pieces with the ends.
#[test]
fn the_pieces_of_the_arguments_joined_are_what_the_events_at_their_end_say() {
    for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::Gemini) {
        for pieces in [
            &["{}"][..],
            &[],
            &[""],
            &[r#"{"a":1}"#, r#"{"b":"#],
            &[r#"{"a":1}"#, r#"{"b":"#, "2}"],
            &["{", "}"],
            &["nul", "l"],
            &["{"],
            &["\n", CITY, "\n"],
            &[CITY, CITY],
        ] {
            for calls in [vec![pieces], vec![pieces, &[CITY]], vec![&[CITY], pieces, pieces]] {
                let said = Said { text: "Hi", calls, ..Said::NOTHING };
                for (name, request) in clients() {
                    let context = context_of(&request);
                    let streamed = put_together(&relayed(&request, dialect, &said.stream(dialect), &context));
                    let calls = calls_of(&streamed);
                    let count = if name == "functions" { 1 } else { said.calls.len() };
                    assert_eq!(calls.len(), count, "{name} of {dialect:?}: {streamed}");
                }
            }
        }
    }
}

#[test]
fn pieces_that_a_responses_provider_leaves_out_or_does_not_end_are_made_up_for() {
    let (_, request) = clients().into_iter().find(|(name, _)| *name == "responses").unwrap();
    let said = Said { calls: vec![&["{}"], &[CITY]], ..Said::NOTHING };
    let stream = String::from_utf8(said.stream(Dialect::Responses)).unwrap();
    for kind in [".delta", "arguments.done"] {
        let events = stream.split_inclusive("\n\n");
        let (mut kept, mut number) = (String::new(), 0);
        for event in events.filter(|event| !event.lines().next().unwrap().ends_with(kind)) {
            let (head, data) = event.split_once("\ndata: ").unwrap();
            let mut data: Value = serde_json::from_str(data).unwrap();
            data["sequence_number"] = json!(number);
            number += 1;
            kept += &format!("{head}\ndata: {data}\n\n");
        }
        let streamed = put_together(&relayed(&request, Dialect::Responses, kept.as_bytes(), &context()));
        let expected = [("f".to_owned(), "{}".to_owned()), ("f".to_owned(), CITY.to_owned())];
        assert_eq!(calls_of(&streamed), expected, "without {kind}");
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
    const BOTH: &str = r#"{"a":1}{"b":2}"#;
    for pieces in [&[r#"{"a":1}"#, r#"{"b":2}"#][..], &[r#"{"a":1}{"#, r#""b":2}"#], &[BOTH]] {
        let said = Said { calls: vec![pieces], ..Said::NOTHING };
        for (name, request) in clients() {
            let context = context_of(&request);
            for dialect in [Dialect::OpenAi, Dialect::Anthropic, Dialect::Responses, Dialect::Converse] {
                let streamed = put_together(&relayed(&request, dialect, &said.stream(dialect), &context));
                assert_eq!(calls_of(&streamed), [("f".to_owned(), BOTH.to_owned())], "{name} of {dialect:?}");
                // The others have no form for two objects in a whole answer.
                let Some(body) = said.whole(dialect) else { continue };
                let whole = answered(&request, dialect, &body, &context);
                assert!(whole.to_string().contains(r#"{\"a\":1}{\"b\":2}"#), "{name} of {dialect:?}: {whole}");
            }
        }
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
fn names_of_calls_that_grow_side_by_side_are_joined_each_with_its_own_rest() {
    let call = |index: u8, name: &str| json!({"index": index, "id": format!("c{index}"), "type": "function", "function": {"name": name, "arguments": ""}});
    let name = |index: u8, name: &str| json!({"index": index, "function": {"name": name}});
    let more = |index: u8, arguments: &str| json!({"index": index, "function": {"arguments": arguments}});
    let both = [("get_weather", "{\"a\":1}"), ("get_time", "{\"b\":2}")];
    let begun = [call(0, "get_"), call(1, "get_")];
    for (rest, expected) in [
        (vec![name(0, "weather"), name(1, "time")], [("get_weather", "{}"), ("get_time", "{}")]),
        (vec![name(1, "time"), name(0, "weather"), more(0, "{\"a\":1}"), more(1, "{\"b\":2}")], both),
        (vec![name(0, "weather"), name(1, "time"), more(1, "{\"b\":"), more(0, "{\"a\":1}"), more(1, "2}")], both),
        (vec![name(1, "time"), more(1, "{\"b\":2}"), name(0, "weather"), more(0, "{\"a\":1}")], both),
        (vec![name(0, "weather"), more(0, "{\"a\":1}"), name(1, "time"), more(1, "{\"b\":2}")], both),
        (vec![name(1, "time"), more(1, "{\"b\":2}"), name(0, "weather")], [("get_weather", "{}"), both[1]]),
    ] {
        let mut stream = String::new();
        for (at, call) in begun.iter().chain(&rest).enumerate() {
            let finish = if at + 1 == begun.len() + rest.len() { json!("tool_calls") } else { Value::Null };
            let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": finish}]});
            stream += &format!("data: {chunk}\n\n");
        }
        stream += "data: [DONE]\n\n";
        let expected = expected.map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
        for (client, request) in clients() {
            let events = relayed(&request, Dialect::OpenAi, stream.as_bytes(), &context_of(&request));
            let calls = calls_of(&put_together(&events));
            let expected = if client == "functions" { &expected[..1] } else { &expected[..] };
            assert_eq!(calls, expected, "{client}, {rest:?}: {events:?}");
        }
    }
}

#[test]
fn a_call_that_never_gets_arguments_does_not_hold_back_another_for_ever() {
    let (long, piece) = (200, "x".repeat(1_000));
    let call = |index: u8, name: &str| json!({"index": index, "id": format!("c{index}"), "type": "function", "function": {"name": name, "arguments": ""}});
    let chunk =
        |call: Value| json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]});
    let mut chunks = vec![chunk(call(0, "f")), chunk(call(1, "g"))];
    chunks.push(chunk(json!({"index": 1, "function": {"arguments": "{\"text\":\""}})));
    chunks.extend((0..long).map(|_| chunk(json!({"index": 1, "function": {"arguments": piece}}))));
    chunks.push(
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "function": {"arguments": "\"}"}}]},
        "finish_reason": "tool_calls"}]}),
    );
    for (name, request) in clients().into_iter().filter(|(name, _)| *name != "functions") {
        let outgoing = sent_of(&catalog(), Dialect::OpenAi, &request);
        let options = StreamOptions::default();
        let mut stream = ChatStream::between(Some(&outgoing), request.client.as_deref(), context(), options);
        let (mut out, mut at_once) = (BytesMut::new(), 0);
        for chunk in &chunks {
            let before = out.len();
            stream.push(&format!("data: {chunk}\n\n").into(), &mut out).unwrap();
            at_once += usize::from(out.len() > before + piece.len());
        }
        // A block of Messages ends before the next begins.
        assert!(name == "messages" || at_once > 100, "{name}: most pieces pass as they come: {at_once}");
        stream.push(&"data: [DONE]\n\n".into(), &mut out).unwrap();
        let text = String::from_utf8(out.to_vec()).unwrap();
        let events = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        let events: Vec<Value> = events.map(|data| serde_json::from_str(data).unwrap()).collect();
        let whole = format!("{{\"text\":\"{}\"}}", piece.repeat(long));
        assert_eq!(
            calls_of(&put_together(&events)),
            [("f".to_owned(), "{}".to_owned()), ("g".to_owned(), whole)],
            "{name}"
        );
    }
}

#[test]
fn a_function_call_of_a_whole_answer_becomes_a_call_of_a_tool() {
    let body = json!({"choices": [{"index": 0, "finish_reason": "function_call",
        "message": {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": CITY}}}]});
    for (name, request) in clients() {
        let whole = answered(&request, Dialect::OpenAi, &body.to_string(), &context_of(&request));
        let message = message_of(&whole);
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
fn a_function_call_of_a_stream_becomes_a_call_of_a_tool_at_every_door() {
    let chunk = |delta: Value, finish: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let (first, rest) = CITY.split_at(5);
    let stream = [
        chunk(
            json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": ""}}),
            Value::Null,
        ),
        chunk(json!({"function_call": {"arguments": first}}), Value::Null),
        chunk(json!({"function_call": {"arguments": rest}}), Value::Null),
        chunk(json!({}), json!("function_call")),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    for (name, request) in clients() {
        let events = relayed(&request, Dialect::OpenAi, stream.as_bytes(), &context_of(&request));
        assert_eq!(calls_of(&put_together(&events)), [("f".to_owned(), CITY.to_owned())], "{name}: {events:?}");
        let told = serde_json::to_string(&events).unwrap();
        let reason = match name {
            "chat" => "\"finish_reason\":\"tool_calls\"",
            "functions" => "\"finish_reason\":\"function_call\"",
            "messages" => "\"stop_reason\":\"tool_use\"",
            _ => "\"type\":\"function_call\"",
        };
        assert!(told.contains(reason), "{name}: {told}");
        assert_eq!(told.contains("\"function_call\":{"), name == "functions", "{name}: {told}");
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
