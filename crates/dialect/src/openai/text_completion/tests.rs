use std::borrow::Cow;

use pointsman_domain::{FailureKind, FinishReason, GenerationId, InvalidReason};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    AnswerContext,
    body_edits::BodyEdits,
    frame::StreamEvent,
    neutral::{AnswerEvent, AnswerSink, ClientChat, Content, EscapedText},
    openai::{Decoder, UsageChunk, completion_writer::CompletionWriter},
    stream_error::StreamError,
};

fn context() -> AnswerContext {
    AnswerContext {
        generation: GenerationId::new(7, [1, 2, 3]),
        created: 7,
        model: "acme/small".into(),
        provider_name: "Acme".into(),
        fingerprint: "fp_1".into(),
        pricing: None,
        prompt_tokens: 1,
        images: 0,
        exclude_reasoning: false,
        legacy_functions: false,
        service: Default::default(),
        told: Default::default(),
        clock: || 7,
    }
}

/// What is measured, and the names of what is judged as the parameters of a chat.
fn read(body: &Value) -> (Vec<String>, Vec<String>) {
    let body = body.to_string();
    let ClientChat { conversation, members, .. } = read_completion_request(body.as_bytes(), 64).unwrap();
    let texts = conversation.turns.iter().map(|turn| match &turn.parts[0].content {
        Content::Text(text) => text.unescaped().into_owned(),
        other => panic!("{other:?}"),
    });
    (texts.collect(), members.iter().map(|(key, _)| key.text().unwrap().into_owned()).collect())
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn a_prompt_is_measured_as_the_message_of_a_user_and_all_that_chat_knows_stays() {
    let body = json!({"model": "acme/small", "prompt": "def f(", "max_tokens": 9, "temperature": 0.5, "stop": ["\n"],
                      "stream": true, "metadata": {"objective": "fastest"}, "suffix": null, "echo": false, "best_of": 1});
    let names = ["max_tokens", "metadata", "model", "stop", "stream", "temperature"].map(str::to_owned);
    assert_eq!(read(&body), (vec!["def f(".to_owned()], names.to_vec()));
    let more = json!({"prompt": "a", "suffix": "end", "echo": true, "best_of": 2, "logprobs": 3, "tools": [], "top_logprobs": 2});
    assert_eq!(read(&more), (vec!["a".to_owned(), "end".to_owned()], Vec::new()), "nothing else is measured");
    for (prompt, measured) in [(json!(["a", "b"]), 2), (json!([1, 2]), 1), (json!([[1, 2], [3]]), 1)] {
        assert_eq!(read(&json!({"prompt": prompt})).0.len(), measured, "{prompt}");
    }
}

#[test]
fn mistakes_name_the_field() {
    for (body, param, reason) in [
        (json!({}), "prompt", InvalidReason::MissingField),
        (json!({"prompt": null}), "prompt", InvalidReason::MissingField),
        (json!({"prompt": []}), "prompt", InvalidReason::InvalidType),
        (json!({"prompt": {}}), "prompt", InvalidReason::InvalidType),
        (json!({"prompt": 7}), "prompt", InvalidReason::InvalidType),
        (json!({"prompt": ["a", 1]}), "prompt[1]", InvalidReason::InvalidType),
        (json!({"prompt": [1, "a"]}), "prompt[1]", InvalidReason::InvalidType),
        (json!({"prompt": [1, -1]}), "prompt[1]", InvalidReason::InvalidType),
        (json!({"prompt": [[1], []]}), "prompt[1]", InvalidReason::InvalidType),
        (json!({"prompt": [[1], 2]}), "prompt[1]", InvalidReason::InvalidType),
        (json!({"prompt": vec!["a"; 2_049]}), "prompt", InvalidReason::InvalidValue),
        (json!({"prompt": "a", "suffix": 1}), "suffix", InvalidReason::InvalidType),
        (json!({"prompt": "a", "echo": "yes"}), "echo", InvalidReason::InvalidType),
        (json!({"prompt": "a", "best_of": 0}), "best_of", InvalidReason::InvalidType),
        (json!({"prompt": "a", "logprobs": true}), "logprobs", InvalidReason::InvalidType),
        (json!({"prompt": "a", "messages": []}), "messages", InvalidReason::UnsupportedParameter),
    ] {
        let invalid = read_completion_request(body.to_string().as_bytes(), 64).unwrap_err();
        assert_eq!((invalid.param.as_deref(), invalid.reason), (Some(param), reason), "{body}");
    }
    for body in ["", "[]", "{\"prompt\":\"a\"", "{\"prompt\":\"a\",\"prompt\":\"b\"}", "\u{0}"] {
        assert!(read_completion_request(body.as_bytes(), 64).is_err(), "{body}");
    }
}

#[test]
fn for_an_endpoint_with_this_api_only_the_model_changes_and_what_is_ours_is_cut() {
    let body = r#"{"model":"acme/small", "prompt":"\u00e9","suffix":" )","objective":"fastest","stream_options":{"include_usage":false},"metadata":{"objective":"fastest","mine":"x"},"n_predict":1.50}"#;
    let sent = splice::splice_request(body, &BodyEdits::to("m")).unwrap();
    let expected = r#"{"model":"m", "prompt":"\u00e9","suffix":" )","metadata":{"mine":"x"},"n_predict":1.50}"#;
    assert_eq!(sent, expected);
    let limited = |body: &str| {
        json(&splice::splice_request(body, &BodyEdits { most_output: Some(5), ..BodyEdits::to("m") }).unwrap())["max_tokens"].clone()
    };
    assert_eq!(limited(r#"{"prompt":"a","max_tokens":9}"#), 5);
    assert_eq!(limited(r#"{"prompt":"a","max_tokens":3}"#), 3);
    assert_eq!(limited(r#"{"prompt":"a"}"#), 5);
    let streamed = json(&splice::splice_request(r#"{"stream":true,"prompt":"a"}"#, &BodyEdits::to("m")).unwrap());
    assert_eq!(streamed["stream_options"]["include_usage"], true, "what is paid must be known");
}

#[test]
fn a_stream_ends_once_also_when_it_fails() {
    let mut encoder = TextEncoder::new(&context(), UsageChunk::Omitted);
    let (choice, finish, native) = (0, FinishReason::Length, EscapedText::plain(""));
    encoder.event(AnswerEvent::Finished { choice, finish, native }).unwrap();
    let error = StreamError {
        code: 502,
        message: "It broke.".into(),
        kind: "server_error",
        error_type: "provider_unavailable",
        reason: None,
        provider_name: None,
        request_id: None,
        previous_errors: None,
        is_final: false,
    };
    encoder.fail(&error);
    encoder.fail(&error);
    let text = String::from_utf8(encoder.written().to_vec()).unwrap();
    let events: Vec<&str> = text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap()).collect();
    assert_eq!((events.len(), events[2]), (3, "[DONE]"), "{text}");
    let ended = json!([{"text": "", "index": 0, "logprobs": null, "finish_reason": "length"}]);
    assert_eq!(json(events[0].as_bytes())["choices"], ended);
    let failed = json(events[1].as_bytes());
    assert_eq!((&failed["error"]["code"], &failed["choices"][0]["finish_reason"]), (&json!(502), &json!("error")));
}

/// The chat answer that a whole body means, and the one that the same answer in chunks means.
fn both(texts: &[String]) -> [Value; 2] {
    let chunk = |text: &str, finish: Value| json!({"id": "cmpl-1", "object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": finish}]});
    let mut whole = chunk(&texts.concat(), json!("stop"));
    whole["usage"] = json!({"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3});
    let (mut of_whole, mut of_stream) = (CompletionWriter::default(), CompletionWriter::default());
    Decoder::default().whole(&whole.to_string(), &mut of_whole).unwrap();
    let mut decoder = Decoder::default();
    let last = [chunk("", json!("stop")), json!({"choices": [], "usage": whole["usage"]})];
    for data in texts.iter().map(|text| chunk(text, Value::Null)).chain(last) {
        let event = StreamEvent { data: Cow::Owned(data.to_string().into_bytes()), is_error: false };
        decoder.event(&event, &mut of_stream).unwrap();
    }
    let done = StreamEvent { data: Cow::Borrowed(b"[DONE]"), is_error: false };
    decoder.event(&done, &mut of_stream).unwrap();
    assert!(decoder.is_done());
    [of_whole, of_stream].map(|writer| json(&writer.finish().unwrap()))
}

#[test]
fn errors_and_odd_texts_of_an_upstream_are_failures() {
    for (body, kind) in [
        (r#"{"error":{"code":429,"message":"slow"}}"#, FailureKind::RateLimited),
        (r#"{"choices":[{"index":0,"text":7,"finish_reason":"stop"}]}"#, FailureKind::Malformed),
        ("<html>", FailureKind::Malformed),
    ] {
        let fault = Decoder::default().whole(body, &mut CompletionWriter::default()).unwrap_err();
        assert_eq!(fault.kind, kind, "{body}");
    }
    let mut nothing = CompletionWriter::default();
    assert!(Decoder::default().whole("{}", &mut nothing).is_err(), "an answer without a choice is none");
}

proptest! {
    #[test]
    fn a_whole_answer_and_its_stream_give_the_same(texts in prop::collection::vec(any::<String>(), 0..6)) {
        let [whole, stream] = both(&texts);
        let without_empty = |mut value: Value| {
            if value["choices"][0]["message"]["content"] == "" { value["choices"][0]["message"]["content"] = Value::Null; }
            value
        };
        prop_assert_eq!(without_empty(whole), without_empty(stream));
    }

    #[test]
    fn no_bytes_cause_a_panic_and_what_is_accepted_is_json(body in prop::collection::vec(any::<u8>(), 0..200), text in ".{0,60}") {
        for body in [body, format!("{{\"prompt\":{text}}}").into_bytes(), format!("{{\"prompt\":\"{text}\",\"suffix\":{text}}}").into_bytes()] {
            if let Ok(read) = read_completion_request(&body, 64) {
                prop_assert!(!read.conversation.turns.is_empty());
            }
            let event = StreamEvent { data: Cow::Borrowed(&body), is_error: false };
            let _ = Decoder::default().event(&event, &mut CompletionWriter::default());
        }
    }
}
