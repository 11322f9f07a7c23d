//! What is wrong with a whole answer: the same for every dialect of a provider and every API of a client, and nothing where it
//! cannot be proved.

use bytes::Bytes;
use pointsman_dialect::{ChatRequest, broken_answer, rewrite_whole};
use pointsman_domain::{CascadeSignal, Dialect};
use serde_json::{Value, json};

use crate::{
    upstream::{End, Said},
    world::{catalog, context, of_chat, of_completion, of_messages, of_responses, sent_of},
};

/// The recorded cause of what is wrong with this answer of a provider.
fn cause(request: &ChatRequest, dialect: Dialect, body: &str, on: &[CascadeSignal]) -> Option<String> {
    let (outgoing, body) = (sent_of(&catalog(), dialect, request), Bytes::copy_from_slice(body.as_bytes()));
    let answer = rewrite_whole(&body, &outgoing, request.client.as_deref(), &context()).expect("an answer");
    broken_answer((&body, &outgoing), request, on, (&context(), &answer.outcome)).map(|broken| broken.cause())
}

/// The members of a chat with one user message.
fn chat(more: Value) -> Value {
    let mut chat = json!({"model": "acme/m", "messages": [{"role": "user", "content": "Hi"}]});
    chat.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    chat
}

fn completion(message: Value, finish: &str, completion_tokens: u64) -> String {
    json!({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 9, "completion_tokens": completion_tokens, "total_tokens": 9 + completion_tokens}})
    .to_string()
}

/// What the safe signals say of this answer of a chat server to a chat.
#[track_caller]
fn check(asked: Value, answer: &str, expected: Option<&str>) {
    let found = cause(&of_chat(&chat(asked.clone()).to_string()), Dialect::OpenAi, answer, &CascadeSignal::SAFE);
    assert_eq!(found.as_deref(), expected, "{asked} {answer}");
}

fn says(text: &str) -> String {
    completion(json!({"role": "assistant", "content": text}), "stop", 5)
}

fn calls(name: &str, arguments: &str) -> String {
    let call = json!({"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}});
    completion(json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls", 5)
}

fn schema(schema: Value) -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}})
}

fn tools() -> Value {
    json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]})
}

#[test]
fn an_answer_of_every_dialect_is_broken_for_every_client_alike() {
    let function = json!({"name": "f", "parameters": {"type": "object"}});
    let user = json!([{"role": "user", "content": "Hi"}]);
    let tool = json!({"name": "f", "input_schema": {"type": "object"}});
    let messages = json!({"model": "acme/m", "max_tokens": 900, "messages": user, "tools": [tool]});
    let responses = json!({"model": "acme/m", "input": "Hi", "max_output_tokens": 900,
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]});
    let clients = [
        of_chat(&chat(json!({"max_tokens": 900, "tools": [{"type": "function", "function": function}]})).to_string()),
        of_chat(&chat(json!({"max_tokens": 900, "functions": [function]})).to_string()),
        of_messages(&messages),
        of_responses(&responses),
    ];
    let empty = Said { thought: "Hm.", ..Said::NOTHING };
    let cut = Said { text: "Left and then", end: End::Cut, ..Said::NOTHING };
    let blocked = Said { text: "No", end: End::Blocked, ..Said::NOTHING };
    let whole = Said { text: "Left.", ..Said::NOTHING };
    let called = Said { calls: vec![&[r#"{"city":"Oslo"}"#]], ..Said::NOTHING };
    for request in &clients {
        for dialect in Dialect::ALL {
            let found = |said: &Said| cause(request, dialect, &said.whole(dialect).unwrap(), &CascadeSignal::ALL);
            let place = format!("{dialect:?} for {:?}", request.client.as_ref().map(|client| client.dialect()));
            assert_eq!(found(&empty).as_deref(), Some("empty"), "{place}");
            assert_eq!(found(&blocked).as_deref(), Some("refusal"), "{place}");
            assert_eq!((found(&whole), found(&called)), (None, None), "{place}");
            // These providers report no tokens here, so that how many are missing is not known.
            let expected = (!matches!(dialect, Dialect::OpenAi | Dialect::Gemini)).then_some("length");
            assert_eq!(found(&cut).as_deref(), expected, "{place}");
            assert_eq!(
                cause(request, dialect, &blocked.whole(dialect).unwrap(), &CascadeSignal::SAFE),
                None,
                "{place}"
            );
        }
    }
}

#[test]
fn no_content_and_no_call_is_an_empty_answer_unless_something_of_the_request_explains_it() {
    for nothing in [json!(null), json!(""), json!(" \n"), json!([])] {
        check(json!({}), &completion(json!({"role": "assistant", "content": nothing}), "stop", 1), Some("empty"));
    }
    check(json!({}), &says("."), None);
    check(tools(), &calls("f", "{}"), None);
    check(json!({"stop": ["END"]}), &says(""), None);
    check(json!({"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "wav"}}), &says(""), None);
    let prefilled = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]);
    check(json!({"messages": prefilled}), &says(""), None);
}

#[test]
fn an_answer_that_was_cut_off_is_broken_only_below_the_limit_of_the_caller() {
    let cut = |tokens| completion(json!({"role": "assistant", "content": "Left and"}), "length", tokens);
    check(json!({}), &cut(4_096), Some("length"));
    check(json!({"max_tokens": 8_192}), &cut(4_096), Some("length"));
    check(json!({"max_tokens": 4_096}), &cut(4_096), None);
    check(json!({"max_tokens": 4_096}), &cut(4_000), None);
    check(json!({"max_tokens": 20}), &cut(5), None);
    check(json!({"max_completion_tokens": 100}), &cut(70), Some("length"));
    check(json!({"max_cost": 0.01}), &cut(4_096), None);
    // What the caller's limit has cut is not held to a format.
    let asked = json!({"max_tokens": 10, "response_format": {"type": "json_object"}});
    check(asked, &completion(json!({"role": "assistant", "content": "{\"a\":"}), "length", 10), None);
}

#[test]
fn a_text_that_is_no_json_is_broken_only_where_json_was_asked_for() {
    let asked = json!({"response_format": {"type": "json_object"}});
    for (text, expected) in [
        ("{\"a\": 1}", None),
        (" {\"a\": 1}\n", None),
        ("{\"a\": 1", Some("invalid_json")),
        ("```json\n{\"a\": 1}\n```", Some("invalid_json")),
        ("Sure: {\"a\": 1}", Some("invalid_json")),
        ("{\"a\": 1} {}", Some("invalid_json")),
        ("{\"a\": 1e999}", None),
        ("", Some("empty")),
    ] {
        check(asked.clone(), &says(text), expected);
        check(schema(json!({"type": "object"})), &says(text), expected);
    }
    let deep = "[".repeat(4_000) + &"]".repeat(4_000);
    check(asked.clone(), &says(&deep), None);
    check(json!({}), &says("Sure."), None);
    check(json!({"response_format": {"type": "text"}}), &says("Sure."), None);
    let prefilled = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "{\"a\":"}]);
    check(json!({"messages": prefilled, "response_format": {"type": "json_object"}}), &says(" 1}"), None);
    let mut called = tools();
    called["response_format"] = asked["response_format"].clone();
    check(called, &calls("f", "{}"), None);
}

#[test]
fn an_answer_that_breaks_its_schema_is_broken_where_it_does() {
    let prices = json!({"type": "object", "properties": {"items": {"type": "array", "items": {
        "type": "object", "properties": {"price": {"type": "number"}}}}}});
    let cheap = says(r#"{"items": [{"price": 1}, {"price": "2"}]}"#);
    check(schema(prices.clone()), &cheap, Some("schema /items/1/price (number expected)"));
    check(schema(prices.clone()), &says(r#"{"items": [{"price": 1}]}"#), None);
    check(schema(json!({"type": "object", "patternProperties": {}})), &says("[]"), None);
    let responses = json!({"model": "acme/m", "input": "Hi",
        "text": {"format": {"type": "json_schema", "name": "s", "schema": prices, "strict": false}}});
    let found = cause(&of_responses(&responses), Dialect::OpenAi, &cheap, &CascadeSignal::SAFE);
    assert_eq!(found.as_deref(), Some("schema /items/1/price (number expected)"));
    let messages = json!({"model": "acme/m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}],
        "output_config": {"format": {"type": "json_schema", "schema": prices}}});
    let found = cause(&of_messages(&messages), Dialect::OpenAi, &cheap, &CascadeSignal::SAFE);
    assert_eq!(found.as_deref(), Some("schema /items/1/price (number expected)"));
}

#[test]
fn a_call_is_broken_if_its_tool_was_not_declared_or_its_arguments_are_no_json() {
    check(tools(), &calls("f", r#"{"a": [1, {}]}"#), None);
    check(tools(), &calls("f", ""), None);
    check(tools(), &calls("g", "{}"), Some("tool_arguments"));
    check(json!({}), &calls("f", "{}"), Some("tool_arguments"));
    check(tools(), &calls("f", r#"{"a": "#), Some("tool_arguments"));
    check(tools(), &calls("f", "Oslo"), Some("tool_arguments"));
    let custom = json!({"tools": [{"type": "custom", "custom": {"name": "f"}}]});
    let call = json!({"id": "c1", "type": "custom", "custom": {"name": "f", "input": "Oslo"}});
    check(
        custom,
        &completion(json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls", 5),
        None,
    );
    // Tools of a provider's own are not declared to the gateway in a form that it knows.
    let unknown = json!({"tools": [{"type": "telepathy"}]});
    check(unknown, &calls("telepathy", "{}"), None);
}

#[test]
fn arguments_that_break_the_schema_of_their_tool_are_broken_where_they_do() {
    let of = |parameters: Value| json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}]});
    let booking = json!({"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string"}, "nights": {"type": "array", "items": {"type": "integer", "minimum": 1}}}});
    let asked = of(booking.clone());
    check(asked.clone(), &calls("f", r#"{"city": "Oslo", "nights": [1, 2], "more": null}"#), None);
    check(asked.clone(), &calls("f", r#"{"city": 7}"#), Some("tool_arguments /city (string expected)"));
    let nights = r#"{"city": "Oslo", "nights": [1, 0]}"#;
    check(asked.clone(), &calls("f", nights), Some("tool_arguments /nights/1 (at least 1 expected)"));
    check(asked.clone(), &calls("f", "[]"), Some("tool_arguments / (object expected)"));
    check(asked.clone(), &calls("f", "{}"), Some("tool_arguments / (city expected)"));
    check(asked, &calls("f", ""), Some("tool_arguments / (city expected)"));
    // What is not known of a schema, or has no schema, is not judged.
    for unknown in [json!({"type": "object", "patternProperties": {"a": {"type": "null"}}}), json!({"pattern": "a"})] {
        check(of(unknown), &calls("f", r#"{"city": 7}"#), None);
    }
    check(json!({"tools": [{"type": "function", "function": {"name": "f"}}]}), &calls("f", "[7]"), None);
    // Each call of an answer is judged, by every door and at every provider.
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
    let two = json!({"role": "assistant", "content": null, "tool_calls": [call("a", r#"{"city": "Oslo"}"#), call("b", r#"{"city": []}"#)]});
    check(of(booking.clone()), &completion(two, "tool_calls", 5), Some("tool_arguments /city (string expected)"));
    let user = json!([{"role": "user", "content": "Hi"}]);
    let messages = json!({"model": "acme/m", "max_tokens": 900, "messages": user, "tools": [{"name": "f", "input_schema": booking}]});
    let responses =
        json!({"model": "acme/m", "input": "Hi", "tools": [{"type": "function", "name": "f", "parameters": booking}]});
    let said = Said { calls: vec![&[r#"{"city":7}"#]], ..Said::NOTHING };
    for request in [of_messages(&messages), of_responses(&responses)] {
        for dialect in Dialect::ALL {
            let found = cause(&request, dialect, &said.whole(dialect).unwrap(), &CascadeSignal::SAFE);
            assert_eq!(found.as_deref(), Some("tool_arguments /city (string expected)"), "{dialect:?}");
        }
    }
}

#[test]
fn of_several_answers_one_that_is_whole_is_enough() {
    let answers = |texts: [&str; 2]| {
        let choices = texts.iter().enumerate().map(|(index, text)| {
            json!({"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"})
        });
        json!({"id": "c", "choices": choices.collect::<Vec<_>>()}).to_string()
    };
    check(json!({"n": 2}), &answers(["", "Left."]), None);
    check(json!({"n": 2}), &answers(["Left.", ""]), None);
    check(json!({"n": 2}), &answers(["", ""]), Some("empty"));
    // The steps of a check are those of all answers together.
    let names: serde_json::Map<_, _> = (0..10_000).map(|n| (format!("p{n}"), json!({"type": "null"}))).collect();
    let mut wide = schema(json!({"items": {"properties": names}}));
    wide["n"] = json!(2);
    let wrong = format!("[{} {{\"p1\": 1}}]", "{},".repeat(29));
    check(wide.clone(), &says(&wrong), Some("schema /29/p1 (null expected)"));
    check(wide, &answers([&wrong, &wrong]), None);
}

#[test]
fn a_signal_that_is_not_asked_for_is_none() {
    let request = of_chat(&chat(schema(json!({"type": "object"}))).to_string());
    let found = |text: &str, on: &[CascadeSignal]| cause(&request, Dialect::OpenAi, &says(text), on);
    assert_eq!(found("", &[CascadeSignal::Length]), None);
    assert_eq!(found("", &[CascadeSignal::InvalidJson]).as_deref(), Some("invalid_json"));
    assert_eq!(found("[]", &[CascadeSignal::InvalidJson]), None);
    assert_eq!(found("[", &[CascadeSignal::Schema]), None);
}

#[test]
fn a_completion_of_a_text_is_empty_or_cut_like_every_other_answer() {
    let request = of_completion(&json!({"model": "acme/m", "prompt": "def f(", "max_tokens": 400}));
    let answer = |text: &str, finish: &str| {
        json!({"id": "c", "object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": finish}],
            "usage": {"prompt_tokens": 4, "completion_tokens": 9, "total_tokens": 13}})
        .to_string()
    };
    let found = |text, finish| cause(&request, Dialect::OpenAi, &answer(text, finish), &CascadeSignal::SAFE);
    assert_eq!(found("x): ...", "stop"), None);
    assert_eq!(found("", "stop").as_deref(), Some("empty"));
    assert_eq!(found("x", "length").as_deref(), Some("length"));
}
