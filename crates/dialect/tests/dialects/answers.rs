//! What answers have in common, whichever provider they come from.

use bytes::{Bytes, BytesMut};
use pointsman_dialect::{
    AnswerContext, ChatRequest, ChatStream, OutgoingBody, StreamOptions, rewrite_whole, usage_of_failure,
};
use pointsman_domain::{Dialect, FailureKind};
use serde_json::{Value, json};

use crate::{
    upstream::{End, Said, answered, put_together, relayed},
    world::{catalog, clients, context, of_chat, of_completion, of_messages, of_responses, sent_of},
};

fn chat() -> Box<ChatRequest> {
    of_chat(r#"{"model":"acme/m","messages":[{"role":"user","content":"Hi"}]}"#)
}

#[test]
fn an_answer_that_says_nothing_has_an_empty_text() {
    for dialect in Dialect::ALL {
        for said in [
            Said::NOTHING,
            Said { end: End::Cut, ..Said::NOTHING },
            Said { end: End::Blocked, ..Said::NOTHING },
            Said { thought: "hm", end: End::Cut, ..Said::NOTHING },
        ] {
            let whole = answered(&chat(), dialect, &said.whole(dialect).unwrap(), &context());
            assert_eq!(whole["choices"][0]["message"]["content"], "", "{dialect:?} {said:?}: {whole}");
            let events = relayed(&chat(), dialect, &said.stream(dialect), &context());
            assert_eq!(put_together(&events)["content"], "", "{dialect:?} {said:?}: {events:?}");
        }
        let called = Said { calls: vec![&["{\"a\":1}"]], ..Said::NOTHING };
        let whole = answered(&chat(), dialect, &called.whole(dialect).unwrap(), &context());
        assert_eq!(whole["choices"][0]["message"]["content"], Value::Null, "{dialect:?}");
        let streamed = put_together(&relayed(&chat(), dialect, &called.stream(dialect), &context()));
        assert_eq!(
            streamed.get("content"),
            Some(&Value::Null).filter(|_| streamed.get("content").is_some()),
            "{dialect:?}"
        );
    }
    for (message, content) in [
        (json!({"content": null, "refusal": "No."}), Value::Null),
        (json!({"content": null, "audio": {"id": "a"}}), Value::Null),
        (json!({"refusal": null}), json!("")),
        (json!({"content": null, "images": [{"type": "image_url"}]}), json!("")),
    ] {
        let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).to_string();
        let whole = answered(&chat(), Dialect::OpenAi, &body, &context());
        assert_eq!(whole["choices"][0]["message"]["content"], content, "{whole}");
    }
}

#[test]
fn thoughts_of_a_chat_provider_stand_where_those_of_other_providers_stand() {
    let details = json!([{"type": "reasoning.text", "text": "hm", "format": "unknown", "index": 0}]);
    let own = json!([{"type": "reasoning.text", "text": "hm", "signature": "x", "index": 0}]);
    for (given, expected) in [
        (
            json!({"reasoning_content": "hm"}),
            json!({"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": details}),
        ),
        (json!({"reasoning": "hm"}), json!({"reasoning": "hm", "reasoning_details": details})),
        (
            json!({"reasoning": "hm", "reasoning_content": "hm"}),
            json!({"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": details}),
        ),
        (
            json!({"reasoning": null, "reasoning_details": [], "reasoning_content": "hm"}),
            json!({"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": details}),
        ),
        (json!({"thinking": "hm"}), json!({"reasoning": "hm", "thinking": "hm", "reasoning_details": details})),
        (json!({"reasoning": "hm", "reasoning_details": own}), json!({"reasoning": "hm", "reasoning_details": own})),
        (
            json!({"content": [{"type": "thinking", "thinking": "hm"}]}),
            json!({"reasoning": "hm", "reasoning_details": details}),
        ),
        (json!({"reasoning_content": ""}), json!({"reasoning_content": ""})),
    ] {
        let body =
            |member: &str| json!({"choices": [{"index": 0, member: given, "finish_reason": "stop"}]}).to_string();
        let whole = answered(&chat(), Dialect::OpenAi, &body("message"), &context());
        let stream = format!("data: {}\n\ndata: [DONE]\n\n", body("delta"));
        let streamed = put_together(&relayed(&chat(), Dialect::OpenAi, stream.as_bytes(), &context()));
        for message in [whole["choices"][0]["message"].clone(), streamed] {
            let shown: serde_json::Map<String, Value> = message
                .as_object()
                .unwrap()
                .iter()
                .filter(|(name, _)| name.contains("reason") || *name == "thinking")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            assert_eq!(Value::Object(shown), expected, "{given}");
        }
        let hidden = AnswerContext { exclude_reasoning: true, ..context() };
        let whole = answered(&chat(), Dialect::OpenAi, &body("message"), &hidden).to_string();
        assert!(!whole.contains("hm"), "{whole}");
    }
}

#[test]
fn what_an_answer_came_to_is_the_same_for_every_client() {
    let messages = json!({"model": "acme/m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let responses = json!({"model": "acme/m", "input": "Hi"});
    let clients = [chat(), of_messages(&messages), of_responses(&responses)];
    let said = Said {
        thought: "hm\n\"é\"",
        text: "\\Hi \u{1}😀\n",
        calls: vec![&["{\"a\":", "1}"], &["{}"]],
        ..Said::NOTHING
    };
    for dialect in Dialect::ALL {
        let stream = Bytes::from(said.stream(dialect));
        let came_to = clients.each_ref().map(|request| {
            let outgoing = sent_of(&catalog(), dialect, request);
            let (client, options) = (request.client.as_deref(), StreamOptions::default());
            let mut chat = ChatStream::between(Some(&outgoing), client, context(), options);
            let mut out = BytesMut::new();
            let progress = chat.push(&stream, &mut out).unwrap();
            chat.end(&mut out).unwrap();
            (progress, chat.has_content(), chat.produced_tokens(), chat.spent(), chat.outcome())
        });
        assert!(came_to[0].2 > 0 && came_to.iter().all(|one| *one == came_to[0]), "{dialect:?}: {came_to:#?}");
    }
}

#[test]
fn a_stop_sequence_is_told_to_clients_of_messages() {
    let request = |stops: Value| {
        of_messages(
            &json!({"model": "acme/m", "max_tokens": 9, "stop_sequences": stops, "messages": [{"role": "user", "content": "Hi"}]}),
        )
    };
    let chat = |members: Value| {
        let mut choice =
            json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}});
        choice.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let whole = json!({ "choices": [choice] }).to_string();
        choice["delta"] = json!({});
        (Dialect::OpenAi, whole, format!("data: {}\n\ndata: [DONE]\n\n", json!({ "choices": [choice] })).into_bytes())
    };
    let converse = || {
        let said = Said { text: "Hi", ..Said::NOTHING };
        let whole = said.whole(Dialect::Converse).unwrap().replace("end_turn", "stop_sequence");
        let end = ("messageStop", json!({"stopReason": "stop_sequence"}));
        let events = [
            ("messageStart", json!({"role": "assistant"})),
            ("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"text": "Hi"}})),
            end,
        ];
        (Dialect::Converse, whole, crate::upstream::framed(&events))
    };
    let (told, plain) = (("stop_sequence", json!("END")), ("end_turn", Value::Null));
    for (stops, (dialect, whole, stream), expected) in [
        (json!(["END"]), chat(json!({"stop_reason": "END"})), &told),
        (json!(["A", "END"]), chat(json!({"matched_stop": "END"})), &told),
        (json!(["END"]), chat(json!({"finish_reason": "stop_sequence"})), &told),
        (json!(["END"]), chat(json!({"stop_reason": 128_009})), &plain),
        (json!(["END"]), chat(json!({"matched_stop": 2})), &plain),
        (json!(["END"]), chat(json!({"stop_reason": null})), &plain),
        (json!(["END"]), chat(json!({"stop_reason": "end_turn"})), &plain),
        (json!(["END"]), chat(json!({"stop_reason": "END", "finish_reason": "length"})), &("max_tokens", Value::Null)),
        (json!(["END"]), converse(), &told),
        (json!(["A", "END"]), converse(), &("stop_sequence", Value::Null)),
    ] {
        let request = request(stops);
        let answer = answered(&request, dialect, &whole, &context());
        assert_eq!(
            (answer["stop_reason"].as_str().unwrap(), &answer["stop_sequence"]),
            (expected.0, &expected.1),
            "{whole}"
        );
        let events = relayed(&request, dialect, &stream, &context());
        let delta = events.iter().find(|event| event["type"] == "message_delta").unwrap();
        assert_eq!(
            (delta["delta"]["stop_reason"].as_str().unwrap(), &delta["delta"]["stop_sequence"]),
            (expected.0, &expected.1),
            "{whole}"
        );
    }
}

/// The text that a client of each API reads of deltas with these escaped texts, and of the whole answer. Every event is read by a
/// strict reader.
#[track_caller]
fn check_halves(pieces: &[&str], expected: &str) {
    for (name, client) in clients() {
        let chunks: Vec<String> = pieces
            .iter()
            .map(|piece| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{piece}}}]}}\n\n"))
            .chain(["data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
                .to_owned()])
            .collect();
        let outgoing = OutgoingBody::default();
        let mut stream = ChatStream::between(Some(&outgoing), client.as_ref(), context(), StreamOptions::default());
        let mut out = BytesMut::new();
        for chunk in chunks {
            stream.push(&Bytes::from(chunk), &mut out).unwrap();
        }
        stream.end(&mut out).unwrap();
        let text = String::from_utf8(out.to_vec()).unwrap();
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{name}: {error} in {data}")))
            .collect();
        let message = put_together(&events);
        assert!(message.to_string().contains(expected), "{name} {pieces:?}: {message}");
    }
}

#[test]
fn half_a_character_at_the_end_of_a_delta_waits_for_the_other_half() {
    check_halves(&[r#"{"content":"a\ud83d"}"#, r#"{"content":"\ude00b"}"#], "a😀b");
    check_halves(&[r#"{"content":"\uD83D"}"#, r#"{"content":""}"#, r#"{"content":"\uDE00"}"#], "\"😀\"");
    check_halves(
        &[r#"{"reasoning_content":"a\ud83d"}"#, r#"{"reasoning_content":"\ude00b"}"#, r#"{"content":"x"}"#],
        "a😀b",
    );
    check_halves(
        &[
            r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":\"\ud83d"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"\ude00\"}"}}]}"#,
        ],
        "😀",
    );
    check_halves(&[r#"{"content":"a\\ud83d"}"#, r#"{"content":"b"}"#], r"a\\ud83db");
}

#[test]
fn half_a_character_that_stays_alone_is_replaced() {
    check_halves(&[r#"{"content":"a\ud83d"}"#, r#"{"content":"b"}"#], "a\u{fffd}b");
    check_halves(&[r#"{"content":"a\ud83d"}"#], "a\u{fffd}");
    check_halves(&[r#"{"content":"a\ude00b"}"#], "a\u{fffd}b");
    check_halves(&[r#"{"reasoning":"a\ud83d"}"#, r#"{"content":"b"}"#], "a\u{fffd}");
    check_halves(
        &[
            r#"{"content":"a\ud83d"}"#,
            r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}"#,
        ],
        "a\u{fffd}",
    );
    let body = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"a\ud83d","x":"\ude00"},"finish_reason":"stop"}]}"#;
    for (name, client) in clients() {
        let answer = rewrite_whole(&Bytes::from(body), &OutgoingBody::default(), client.as_ref(), &context());
        let answer: Value = serde_json::from_slice(&answer.unwrap().body).unwrap();
        assert!(answer.to_string().contains("a\u{fffd}"), "{name}: {answer}");
    }
}

#[test]
fn json_in_several_lines_becomes_events_of_one() {
    let annotation = "{\"type\":\"url_citation\",\n\"url_citation\":{\"url\":\"https://a.example\",\n\"title\":\"A\",\"start_index\":0,\"end_index\":1}}";
    let content = format!("{{\"content\":\"a\",\n\"annotations\":[\n{annotation}]}}");
    let logprobs = "{\"content\":[\n{\"token\":\"a\",\n\"logprob\":-1}]}";
    let choice = |holder: &str| {
        format!(
            "{{\"choices\":[\n{{\"index\":0,\"{holder}\":{content},\n\"logprobs\":{logprobs},\"finish_reason\":\"stop\"}}]}}"
        )
    };
    let event = format!("data: {}\n\n", choice("delta").replace('\n', "\ndata: "));
    for (name, client) in clients() {
        for body in [event.clone(), choice("message"), choice("message").replace('\n', "\r\n")] {
            let mut stream = ChatStream::between(None, client.as_ref(), context(), StreamOptions::default());
            let mut out = BytesMut::new();
            stream.push(&Bytes::from(body), &mut out).unwrap();
            stream.end(&mut out).unwrap();
            let text = String::from_utf8(out.to_vec()).unwrap();
            let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("event: "));
            for data in lines.map(|line| line.strip_prefix("data: ").unwrap_or_else(|| panic!("{name}: {line}"))) {
                assert!(data == "[DONE]" || serde_json::from_str::<Value>(data).is_ok(), "{name}: {data}");
            }
        }
    }
}

#[test]
fn reasoning_beside_shorter_details_is_counted() {
    let thought = "a".repeat(400);
    for (name, details) in [
        ("reasoning_content", json!([{"type": "reasoning.encrypted", "data": "AbC="}])),
        ("reasoning", json!([{"type": "reasoning.summary", "summary": "In short"}])),
        ("reasoning", json!([{"type": "reasoning.text", "text": thought}])),
    ] {
        let given = json!({"content": "four", name: thought, "reasoning_details": details});
        let body =
            |holder: &str| json!({"choices": [{"index": 0, holder: given, "finish_reason": "stop"}]}).to_string();
        for (client_name, client) in clients() {
            let (whole, outgoing) = (Bytes::from(body("message")), OutgoingBody::default());
            let whole = rewrite_whole(&whole, &outgoing, client.as_ref(), &context()).unwrap().outcome.usage;
            let mut stream = ChatStream::between(None, client.as_ref(), context(), StreamOptions::default());
            stream.push(&Bytes::from(format!("data: {}\n\n", body("delta"))), &mut BytesMut::new()).unwrap();
            for usage in [whole, stream.outcome().usage] {
                let counted = (usage.completion_tokens, usage.reasoning_tokens);
                assert_eq!(counted, (101, 100), "{client_name}: {given}");
            }
        }
    }
}

#[test]
fn usage_beside_a_choice_that_cannot_be_read_is_billed() {
    let usage = json!({"prompt_tokens": 1_100, "completion_tokens": 700});
    let text = json!({"choices": [{"index": 0, "text": 5, "finish_reason": "stop"}], "usage": usage}).to_string();
    let good = json!({"message": {"content": "a"}, "finish_reason": "stop"});
    let message = json!({"choices": [good, {"finish_reason": "stop"}], "usage": usage}).to_string();
    let completion = of_completion(&json!({"model": "acme/m", "prompt": "Hi"}));
    let messages =
        of_messages(&json!({"model": "acme/m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}));
    for (request, body) in
        [(&completion, format!("data: {text}\n\n")), (&completion, text.clone()), (&messages, message.clone())]
    {
        let outgoing = sent_of(&catalog(), Dialect::OpenAi, request);
        let mut stream =
            ChatStream::between(Some(&outgoing), request.client.as_deref(), context(), StreamOptions::default());
        let mut out = BytesMut::new();
        let read = stream.push(&Bytes::from(body.clone()), &mut out).and_then(|_| stream.end(&mut out));
        assert_eq!(read.unwrap_err().kind, FailureKind::Malformed, "{body}");
        let usage = stream.spent().unwrap();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (1_100, 700), "{body}");
    }
    let translation = sent_of(&catalog(), Dialect::OpenAi, &completion).translation;
    let usage = usage_of_failure(&Bytes::from(text), translation.as_ref(), &context()).unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (1_100, 700));
}

#[test]
fn a_whole_answer_without_a_finish_in_the_place_of_a_stream_is_truncated() {
    for (name, client) in clients() {
        let mut stream = ChatStream::between(None, client.as_ref(), context(), StreamOptions::default());
        let mut out = BytesMut::new();
        stream.push(&Bytes::from(r#"{"choices":[{"message":{"content":"hello"}}]}"#), &mut out).unwrap();
        assert_eq!(stream.end(&mut out).unwrap_err().kind, FailureKind::Truncated, "{name}");
    }
}
