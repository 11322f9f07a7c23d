use super::*;
use crate::neutral::MAX_SIGNATURE;

fn start() -> Value {
    json!({"messageStart": {"role": "assistant"}})
}

fn delta(index: u32, delta: Value) -> Value {
    json!({"contentBlockDelta": {"contentBlockIndex": index, "delta": delta, "p": "abcd"}})
}

fn stop(index: u32) -> Value {
    json!({"contentBlockStop": {"contentBlockIndex": index}})
}

fn message_stop(reason: &str) -> Value {
    json!({"messageStop": {"stopReason": reason}})
}

fn metadata() -> Value {
    json!({"metadata": {"usage": {"inputTokens": 10, "outputTokens": 3, "totalTokens": 13}, "metrics": {"latencyMs": 5}}})
}

/// Events of an answer with a thought, a text and a call.
fn events() -> Vec<Value> {
    vec![
        start(),
        delta(0, json!({"reasoningContent": {"text": "h"}})),
        delta(0, json!({"reasoningContent": {"text": "m"}})),
        delta(0, json!({"reasoningContent": {"signature": "S"}})),
        stop(0),
        delta(1, json!({"text": "Caf"})),
        delta(1, json!({"text": "é"})),
        stop(1),
        json!({"contentBlockStart": {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "f"}}}}),
        delta(2, json!({"toolUse": {"input": "{\"a\""}})),
        delta(2, json!({"toolUse": {"input": ":1.0}"}})),
        stop(2),
        message_stop("tool_use"),
        metadata(),
    ]
}

#[test]
fn a_surrogate_pair_split_between_events_is_joined() {
    let piece =
        |index: u32, delta: &str| format!(r#"{{"contentBlockDelta":{{"contentBlockIndex":{index},"delta":{delta}}}}}"#);
    let events = [
        start().to_string(),
        piece(0, r#"{"reasoningContent":{"text":"a\ud83d"}}"#),
        piece(0, r#"{"reasoningContent":{"text":"\ude00"}}"#),
        piece(1, r#"{"text":"b\ud83d"}"#),
        piece(1, r#"{"text":"\ude00c"}"#),
        message_stop("end_turn").to_string(),
    ];
    let (mut decoder, mut sink) = (Decoder::new(ToolNames::default(), CLAUDE), CompletionWriter::default());
    for event in &events {
        decoder.event(&StreamEvent { data: event.as_bytes().into(), is_error: false }, &mut sink).unwrap();
    }
    decoder.end(&mut sink).unwrap();
    let message = parsed(&sink.finish().unwrap())["choices"][0]["message"].clone();
    assert_eq!((&message["reasoning"], &message["content"]), (&json!("a😀"), &json!("b😀c")));
}

#[test]
fn the_usage_behind_the_stop_is_in_the_answer_and_without_it_the_answer_is_complete() {
    let complete = streamed(OTHER, &events(), ToolNames::default()).unwrap();
    assert_eq!(complete["usage"]["prompt_tokens"], 10);
    assert_eq!(complete["usage"]["completion_tokens"], 3);
    let mut cut = events();
    cut.pop();
    let without = streamed(OTHER, &cut, ToolNames::default()).unwrap();
    assert_eq!(without["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(without.get("usage"), None);
    cut.pop();
    assert_eq!(streamed(OTHER, &cut, ToolNames::default()).unwrap_err().kind, FailureKind::Truncated);
}

#[test]
fn usage_adds_what_was_read_from_and_written_to_caches_to_the_prompt() {
    let mut body = answer(json!([{"text": "a"}]), "end_turn");
    body["usage"] = json!({"inputTokens": 25, "outputTokens": 5, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 7,
        "cacheDetails": [{"ttl": "5m", "inputTokens": 3}, {"ttl": "1h", "inputTokens": 4}]});
    let usage = whole(CLAUDE, &body).unwrap()["usage"].clone();
    assert_eq!(usage["prompt_tokens"], 132);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 100);
    assert_eq!(usage["prompt_tokens_details"]["cache_write_tokens"], 7);
}

#[test]
fn a_200_whose_body_is_a_message_is_a_failure() {
    for body in [
        json!({"message": "Too many requests, please wait before trying again."}),
        json!({"Output": {"__type": "com.amazon.coral.service#UnknownOperationException"}, "Version": "1.0"}),
        json!({}),
        json!([]),
        json!({"output": {"message": {"role": "assistant"}}}),
    ] {
        assert!(whole(OTHER, &body).is_err(), "{body}");
    }
}

#[test]
fn names_and_ids_are_restored_in_calls() {
    let sent = with(OTHER, json!({"tools": [tool("1st tool!")]}));
    let name = sent.body["toolConfig"]["tools"][0]["toolSpec"]["name"].clone();
    assert_ne!(name, "1st tool!");
    let mut decoder = Decoder::new(sent.names, OTHER);
    let mut sink = CompletionWriter::default();
    let call = json!({"toolUse": {"toolUseId": "a".repeat(64), "name": name, "input": {}}});
    let body = answer(json!([call]), "tool_use").to_string();
    assert!(!decoder.is_done());
    decoder.event(&StreamEvent { data: b"{\"unknownEvent\":{}}"[..].into(), is_error: false }, &mut sink).unwrap();
    decoder.whole(&body, &mut sink).unwrap();
    let call = parsed(&sink.finish().unwrap())["choices"][0]["message"]["tool_calls"][0].clone();
    assert_eq!(call["function"], json!({"name": "1st tool!", "arguments": "{}"}));
    assert!(call["id"].as_str().unwrap().len() <= 40, "{call}");
}

#[test]
fn an_answer_that_the_model_failed_to_make_is_malformed() {
    for reason in ["malformed_model_output", "malformed_tool_use"] {
        let fault = whole(OTHER, &answer(json!([{"text": "a"}]), reason)).unwrap_err();
        assert_eq!(fault.kind, FailureKind::Malformed);
        let events = [start(), message_stop(reason)];
        assert_eq!(streamed(OTHER, &events, ToolNames::default()).unwrap_err().kind, FailureKind::Malformed);
    }
    let filtered = whole(OTHER, &answer(json!([{"text": "a"}]), "guardrail_intervened")).unwrap();
    assert_eq!(filtered["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(filtered["choices"][0]["native_finish_reason"], "guardrail_intervened");
}

#[test]
fn events_out_of_order_are_malformed() {
    let kind = |events: &[Value]| streamed(OTHER, events, ToolNames::default()).unwrap_err().kind;
    assert_eq!(kind(&[delta(0, json!({"text": "a"}))]), FailureKind::Malformed);
    assert_eq!(kind(&[start(), delta(0, json!({"toolUse": {"input": "{"}}))]), FailureKind::Malformed);
    assert_eq!(
        kind(&[start(), delta(0, json!({"text": "a"})), delta(0, json!({"reasoningContent": {"text": "h"}}))]),
        FailureKind::Malformed
    );
    let long = "s".repeat(MAX_SIGNATURE + 1);
    assert_eq!(kind(&[start(), delta(0, json!({"reasoningContent": {"signature": long}}))]), FailureKind::Malformed);
}

#[test]
fn a_hostile_upstream_ends_in_a_fault_within_the_limits() {
    let call = |index: u32| {
        let tool = json!({"toolUse": {"toolUseId": format!("t{index}"), "name": "f"}});
        json!({"contentBlockStart": {"contentBlockIndex": index, "start": tool}})
    };
    let calls = std::iter::once(start()).chain((0..2_000).flat_map(|index| [call(index), stop(index)]));
    let fault = streamed(OTHER, &calls.collect::<Vec<_>>(), ToolNames::default()).unwrap_err();
    assert_eq!(fault.kind, FailureKind::Malformed);
    let nested = format!("{{\"output\":{}", "[".repeat(10_000));
    let mut sink = CompletionWriter::default();
    let fault = Decoder::new(ToolNames::default(), OTHER).whole(&nested, &mut sink).unwrap_err();
    assert_eq!(fault.kind, FailureKind::Malformed);
}

#[test]
fn citations_of_pages_become_annotations_and_those_of_documents_stay_as_they_were() {
    let citation =
        json!({"title": "A \"page\"", "location": {"web": {"url": "https://a.example/b", "domain": "a.example"}}});
    let of_document = json!({"title": "D", "location": {"documentChar": {"documentIndex": 0, "start": 1, "end": 2}}});
    let cited = json!({"citationsContent": {"content": [{"text": "é said"}], "citations": [citation, of_document]}});
    let answer = whole(NOVA, &answer(json!([{"text": "So "}, cited]), "end_turn")).unwrap();
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["content"], "So é said");
    let annotation = json!({"start_index": 3, "end_index": 9, "title": "A \"page\"", "url": "https://a.example/b"});
    assert_eq!(message["annotations"][0]["url_citation"], annotation);
    assert_eq!(message["citations"], json!([of_document]));
}
