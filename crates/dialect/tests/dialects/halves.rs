//! Halves of characters: escapes of surrogate pairs that stand in two events, or alone.

use bytes::{Bytes, BytesMut};
use pointsman_dialect::{ChatRequest, ChatStream, OutgoingBody, StreamError, StreamOptions, rewrite_whole};
use pointsman_domain::Dialect;
use serde_json::{Value, json};

use crate::{
    upstream::{Said, put_together},
    world::{catalog, clients, context, of_chat, of_completion, of_messages, of_responses, sent_of},
};

const LOST: &str = "\u{fffd}";

/// A client of an API whose events pass as they came.
fn passing() -> [(Box<ChatRequest>, Dialect); 3] {
    [
        (
            of_messages(&json!({"model": "acme/m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]})),
            Dialect::Anthropic,
        ),
        (of_responses(&json!({"model": "acme/m", "input": "Hi"})), Dialect::Responses),
        (of_completion(&json!({"model": "acme/m", "prompt": "Hi", "n": 2})), Dialect::OpenAi),
    ]
}

fn error() -> StreamError {
    StreamError {
        code: 502,
        message: "broken".into(),
        kind: "provider_error",
        error_type: "provider_unavailable",
        reason: None,
        provider_name: None,
        request_id: None,
        previous_errors: None,
        is_final: false,
    }
}

/// The events that a client gets of these, each read by a strict reader; `is_broken`: the provider's stream ends with them.
fn events(request: &ChatRequest, dialect: Dialect, sent: &[String], is_broken: bool) -> Vec<Value> {
    let outgoing = sent_of(&catalog(), dialect, request);
    relayed(&outgoing, request.client.as_deref(), sent, is_broken)
}

fn relayed(
    outgoing: &OutgoingBody,
    client: Option<&pointsman_dialect::ClientRequest>,
    sent: &[String],
    is_broken: bool,
) -> Vec<Value> {
    let mut stream = ChatStream::between(Some(outgoing), client, context(), StreamOptions::default());
    let mut out = BytesMut::new();
    for data in sent {
        stream.push(&Bytes::from(format!("data: {data}\n\n")), &mut out).unwrap();
    }
    if is_broken {
        stream.fail(&error(), &mut out);
    } else {
        stream.end(&mut out).unwrap();
    }
    let text = String::from_utf8(out.to_vec()).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|fault| panic!("{fault} in {data}"))).collect()
}

/// Pieces of escaped text in the events of a dialect that its clients get as they come, each of a text with a number.
fn stream_of(dialect: Dialect, pieces: &[(u64, &str)], is_broken: bool) -> Vec<String> {
    let texts: std::collections::BTreeSet<u64> = pieces.iter().map(|(text, _)| *text).collect();
    let (mut out, mut number) = (Vec::new(), 0);
    let mut push = |event: &str| {
        let numbered = format!("{{\"sequence_number\":{number},{}", event.strip_prefix('{').unwrap());
        number += 1;
        out.push(if dialect == Dialect::Responses { numbered } else { event.to_owned() });
    };
    let end = |push: &mut dyn FnMut(&str), text: u64| match dialect {
        Dialect::Anthropic => push(&json!({"type": "content_block_stop", "index": text}).to_string()),
        Dialect::Responses => push(
            &json!({"type": "response.output_text.done", "item_id": "i", "output_index": text, "content_index": 0,
                "text": "whole"})
            .to_string(),
        ),
        _ => push(&json!({"choices": [{"index": text, "text": "", "finish_reason": "stop"}]}).to_string()),
    };
    match dialect {
        Dialect::Anthropic => push(
            r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1,"output_tokens":1},"content":[]}}"#,
        ),
        Dialect::Responses => push(r#"{"type":"response.created","response":{"id":"r","output":[]}}"#),
        _ => {}
    }
    let mut open = None;
    for (text, piece) in pieces {
        match dialect {
            Dialect::Anthropic => {
                if open != Some(*text) {
                    open.into_iter().for_each(|text| end(&mut push, text));
                    push(&format!(
                        r#"{{"type":"content_block_start","index":{text},"content_block":{{"type":"text","text":""}}}}"#
                    ));
                    open = Some(*text);
                }
                push(&format!(
                    r#"{{"type":"content_block_delta","index":{text},"delta":{{"type":"text_delta","text":"{piece}"}}}}"#
                ));
                push(r#"{"type":"ping"}"#);
            }
            Dialect::Responses => push(&format!(
                r#"{{"type":"response.output_text.delta","item_id":"i","output_index":{text},"content_index":0,"delta":"{piece}","logprobs":[]}}"#
            )),
            _ => push(&format!(
                r#"{{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{{"index":{text},"text":"{piece}","finish_reason":null}}]}}"#
            )),
        }
    }
    if is_broken {
        return out;
    }
    match dialect {
        Dialect::Anthropic => {
            open.into_iter().for_each(|text| end(&mut push, text));
            push(r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#);
            push(r#"{"type":"message_stop"}"#);
        }
        Dialect::Responses => {
            texts.iter().for_each(|text| end(&mut push, *text));
            push(r#"{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}"#);
        }
        _ => {
            texts.iter().for_each(|text| end(&mut push, *text));
            out.push("[DONE]".to_owned());
        }
    }
    out
}

/// The texts that a client joins.
fn joined(events: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = vec![String::new(); 2];
    for event in events {
        let choices = event["choices"].as_array().cloned().unwrap_or_default();
        let of_choices = choices.iter().map(|choice| (&choice["index"], &choice["text"]));
        let others = [(&event["index"], &event["delta"]["text"]), (&event["output_index"], &event["delta"])];
        for (at, text) in of_choices.chain(others) {
            if let (Some(at), Some(text)) = (at.as_u64(), text.as_str()) {
                texts[usize::try_from(at).unwrap()].push_str(text);
            }
        }
    }
    texts
}

#[track_caller]
fn check(pieces: &[(u64, &str)], expected: [&str; 2]) {
    for (request, dialect) in passing() {
        for is_broken in [false, true] {
            let got = events(&request, dialect, &stream_of(dialect, pieces, is_broken), is_broken);
            assert_eq!(joined(&got), expected, "{dialect:?} {is_broken} {pieces:?}: {got:#?}");
            let numbers: Vec<u64> = got.iter().filter_map(|event| event["sequence_number"].as_u64()).collect();
            assert!(numbers.is_sorted_by(|one, next| one + 1 == *next), "{numbers:?}");
        }
    }
}

#[test]
fn a_half_in_an_event_that_passes_waits_for_the_other_half() {
    check(&[(0, r"a\ud83d"), (0, r"\ude00b")], ["a😀b", ""]);
    check(&[(0, r"\uD83D"), (0, ""), (0, r"\uDE00")], ["😀", ""]);
    check(&[(0, r"a\\ud83d"), (0, "b")], [r"a\ud83db", ""]);
    check(&[(0, r"\ud83d\ude00\ud83d"), (0, r"\ude01\ud83d"), (0, r"\ude02")], ["😀😁😂", ""]);
}

#[test]
fn a_half_in_an_event_that_passes_is_replaced_if_it_stays_alone() {
    check(&[(0, r"a\ud83d"), (0, "b")], ["a\u{fffd}b", ""]);
    check(&[(0, r"a\ud83d")], ["a\u{fffd}", ""]);
    check(&[(0, r"a\ude00b\ud83dc")], ["a\u{fffd}b\u{fffd}c", ""]);
    check(&[(0, r"a\ud83d"), (1, r"\ude00b")], ["a\u{fffd}", "\u{fffd}b"]);
}

#[test]
fn halves_of_texts_that_alternate_find_each_other() {
    for (request, dialect) in passing().into_iter().filter(|(_, dialect)| *dialect != Dialect::Anthropic) {
        let pieces = [(0, r"a\ud83d"), (1, r"x\ud83d"), (0, r"\ude00"), (1, r"\ude01")];
        let got = events(&request, dialect, &stream_of(dialect, &pieces, false), false);
        assert_eq!(joined(&got), ["a😀", "x😁"], "{dialect:?}");
    }
}

#[test]
fn a_half_in_arguments_that_pass_is_joined_or_replaced() {
    let [(messages, _), (responses, _), _] = passing();
    for (second, expected) in [(r#"\ude00\"}"#, "{\"a\":\"😀\"}"), (r#"\"}"#, "{\"a\":\"\u{fffd}\"}")] {
        let sent = [
            r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1,"output_tokens":1},"content":[]}}"#
                .to_owned(),
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#.to_owned(),
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\"\ud83d"}}"#.to_owned(),
            format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":"{second}"}}}}"#),
            r#"{"type":"content_block_stop","index":0}"#.to_owned(),
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}"#.to_owned(),
            r#"{"type":"message_stop"}"#.to_owned(),
        ];
        let got = events(&messages, Dialect::Anthropic, &sent, false);
        let pieces: String = got.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
        assert_eq!(pieces, expected);

        let delta = |piece: &str| {
            format!(
                r#"{{"type":"response.function_call_arguments.delta","item_id":"i","output_index":0,"delta":"{piece}"}}"#
            )
        };
        let sent = [
            r#"{"type":"response.created","response":{"id":"r","output":[]}}"#.to_owned(),
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"i","call_id":"c","name":"f","arguments":""}}"#.to_owned(),
            delta(r#"{\"a\":\"\ud83d"#),
            delta(second),
            format!(r#"{{"type":"response.function_call_arguments.done","item_id":"i","output_index":0,"arguments":"{{\"a\":\"\ud83d{second}"}}"#),
            r#"{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}"#.to_owned(),
        ];
        let got = events(&responses, Dialect::Responses, &sent, false);
        let pieces: String = got.iter().filter_map(|event| event["delta"].as_str()).collect();
        assert_eq!(pieces, expected);
        assert_eq!(got.iter().find_map(|event| event["arguments"].as_str()), Some(expected));
    }
}

#[test]
fn a_half_that_a_broken_stream_ends_with_is_replaced_wherever_it_stands() {
    for (delta, path) in [
        (json!({"content": "a#"}), "/content"),
        (json!({"reasoning": "a#"}), "/reasoning"),
        (
            json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "a#"}]}),
            "/reasoning_details/0/text",
        ),
        (
            json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\":\"a#"}}]}),
            "/tool_calls/0/function/arguments",
        ),
    ] {
        let sent = [json!({"choices": [{"index": 0, "delta": delta}]}).to_string().replace('#', r"\ud83d")];
        for (name, client) in clients() {
            let got = relayed(&OutgoingBody::default(), client.as_ref(), &sent, true);
            let text = Value::from(got.clone()).to_string();
            assert!(text.contains(LOST), "{name} {path}: {text}");
            if client.is_none() {
                let message = put_together(&got);
                assert!(message.pointer(path).unwrap().as_str().unwrap().contains("a\u{fffd}"), "{message}");
            }
        }
    }
}

#[test]
fn a_half_that_a_translated_stream_breaks_off_with_is_replaced() {
    let [(messages, _), (responses, _), _] = passing();
    let chat = || of_chat(r#"{"model":"acme/m","messages":[{"role":"user","content":"Hi"}]}"#);
    let gemini = r#"{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"a\ud83d"}]}}]}"#.to_owned();
    for (request, dialects) in [
        (chat(), &[Dialect::Anthropic, Dialect::Responses, Dialect::Gemini][..]),
        (messages, &[Dialect::Responses, Dialect::Gemini]),
        (responses, &[Dialect::Anthropic, Dialect::Gemini]),
    ] {
        for dialect in dialects {
            let sent = match dialect {
                Dialect::Gemini => vec![gemini.clone()],
                dialect => stream_of(*dialect, &[(0, r"a\ud83d")], true),
            };
            let got = Value::from(events(&request, *dialect, &sent, true)).to_string();
            assert!(got.contains(LOST), "{dialect:?}: {got}");
        }
    }
}

#[test]
fn whole_answers_that_pass_or_are_translated_have_whole_characters() {
    let said = Said { text: "a#b", thought: "t#", calls: vec![&["{\"a\":\"#\"}"]], ..Said::NOTHING };
    let chat = of_chat(r#"{"model":"acme/m","messages":[{"role":"user","content":"Hi"}]}"#);
    let [(messages, _), (responses, _), (completion, _)] = passing();
    for request in [chat, messages, responses] {
        for dialect in Dialect::ALL {
            let body = said.whole(dialect).unwrap().replace('#', r"\ud83d");
            let outgoing = sent_of(&catalog(), dialect, &request);
            let answer = rewrite_whole(&body.into(), &outgoing, request.client.as_deref(), &context()).unwrap();
            let answer: Value = serde_json::from_slice(&answer.body).unwrap();
            assert!(answer.to_string().contains("a\u{fffd}b"), "{dialect:?}: {answer}");
        }
    }
    let outgoing = sent_of(&catalog(), Dialect::OpenAi, &completion);
    let body = r#"{"id":"c","choices":[{"index":0,"text":"a\ud83db","finish_reason":"stop"}]}"#;
    let answer = rewrite_whole(&body.into(), &outgoing, completion.client.as_deref(), &context()).unwrap();
    assert!(String::from_utf8_lossy(&answer.body).contains("a\u{fffd}b"));
}

#[test]
fn requests_with_half_a_character_are_sent_with_a_replacement() {
    let messages = json!([{"role": "user", "content": "a#b"}]);
    for request in [
        of_chat(&json!({"model": "acme/m", "messages": messages}).to_string().replace('#', r"\ud83d")),
        of_messages(
            &json!({"model": "acme/m", "max_tokens": 9, "messages": messages}).to_string().replace('#', r"\ud83d"),
        ),
        of_responses(&json!({"model": "acme/m", "input": "a#b"}).to_string().replace('#', r"\ude00")),
        of_completion(&json!({"model": "acme/m", "prompt": "a#b"}).to_string().replace('#', r"\ude00")),
    ] {
        for dialect in Dialect::ALL {
            let sent = sent_of(&catalog(), dialect, &request);
            let body: Value = serde_json::from_slice(&sent.bytes).unwrap();
            assert!(body.to_string().contains("a\u{fffd}b"), "{dialect:?}: {body}");
        }
    }
}
