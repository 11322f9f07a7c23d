use pointsman_domain::FailureKind;

use super::*;
use crate::{
    answer::AnswerResult,
    frame::sse::SseSplitter,
    neutral::ReportedTokens,
    neutral::{AnswerEvent, AnswerSink},
    openai::completion_writer::CompletionWriter,
    responses::Decoder,
};

/// The tokens that are reported.
#[derive(Default)]
struct Reported(Vec<ReportedTokens>);

impl AnswerSink for Reported {
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
        if let AnswerEvent::Usage(tokens) = event {
            self.0.push(tokens);
        }
        Ok(())
    }
}

/// Decodes a stream of these events into a sink.
pub(super) fn decode(events: &[String], names: ToolNames, sink: &mut impl AnswerSink) -> AnswerResult {
    let mut decoder = Decoder::new(names);
    let mut splitter = SseSplitter::new(1_000_000);
    for event in events {
        splitter.push(format!("data: {event}\n\n").as_bytes(), |event| decoder.event(&event, sink))?;
    }
    assert_eq!(decoder.is_done(), decoder.end().is_ok());
    decoder.end()
}

pub(super) fn collect(events: &[String], names: ToolNames) -> AnswerResult<Value> {
    let mut writer = CompletionWriter::default();
    decode(events, names, &mut writer)?;
    Ok(serde_json::from_slice(&writer.finish()?).unwrap())
}

pub(super) fn collect_whole(body: &str, names: ToolNames) -> AnswerResult<Value> {
    let mut writer = CompletionWriter::default();
    Decoder::new(names).whole(body, &mut writer)?;
    Ok(serde_json::from_slice(&writer.finish()?).unwrap())
}

fn collected(events: &[Value]) -> AnswerResult<Value> {
    collect(&events.iter().map(Value::to_string).collect::<Vec<_>>(), ToolNames::default())
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "error": null, "output": output,
        "usage": {"input_tokens": 75, "input_tokens_details": {"cached_tokens": 32}, "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 8}}}})
}

fn added(place: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": place, "item": item})
}

fn done(place: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": place, "item": item})
}

fn delta(kind: &str, place: u64, delta: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "output_index": place, "content_index": 0, "summary_index": 0, "delta": delta})
}

fn empty_message() -> Value {
    json!({"type": "message", "id": "msg_1", "content": []})
}

fn call(arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": arguments})
}

#[test]
fn calls_of_custom_tools_keep_their_free_text_and_names_come_back() {
    let names = send(PLAIN, r#"{"messages":[],"tools":[{"type":"function","function":{"name":"a.b"}}]}"#).names;
    let sent = send(PLAIN, r#"{"messages":[],"tools":[{"type":"function","function":{"name":"a.b"}}]}"#).body()["tools"][0]["name"].clone();
    let custom = json!({"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": ""});
    let named = json!({"type": "function_call", "call_id": "d", "name": sent, "arguments": "{}"});
    let events = [
        added(0, custom),
        delta("custom_tool_call_input", 0, "*** \"Begin"),
        delta("custom_tool_call_input", 0, "\"\n"),
        done(1, named),
        completed(json!([])),
    ];
    let answer = collect(&events.iter().map(Value::to_string).collect::<Vec<_>>(), names).unwrap();
    let calls = &answer["choices"][0]["message"]["tool_calls"];
    assert_eq!(calls[0], json!({"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** \"Begin\"\n"}}));
    assert_eq!(calls[1]["function"]["name"], "a.b");
}

#[test]
fn the_usage_of_a_failed_response_is_told_before_its_failure() {
    let mut reported = Reported::default();
    let response = json!({"status": "failed", "error": {"code": "server_error", "message": "no"}, "usage": {"input_tokens": 7, "output_tokens": 2}});
    let event = json!({"type": "response.failed", "response": response}).to_string();
    decode(&[event], ToolNames::default(), &mut reported).unwrap_err();
    assert_eq!(reported.0[0].prompt, 7);
}

#[test]
fn a_hostile_upstream_ends_in_a_fault_within_the_limits() {
    let fault = |events: &[Value]| collected(events).unwrap_err().kind;
    let calls: Vec<Value> = (0..1_000).map(|place| added(place, call(""))).collect();
    assert_eq!(fault(&calls), FailureKind::Malformed);
    let items: Vec<Value> = (0..10_000).map(|place| added(place, empty_message())).collect();
    assert_eq!(fault(&items), FailureKind::Malformed);
    let parts: Vec<Value> = (0..10_000)
        .map(|index| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": index, "delta": "x"}))
        .collect();
    assert_eq!(fault(&parts), FailureKind::Malformed);
    let nested = format!(r#"{{"type":"x","y":{}}}"#, "[".repeat(10_000));
    assert_eq!(collect(&[nested], ToolNames::default()).unwrap_err().kind, FailureKind::Malformed);
    for stray in [
        json!({"x": 1}),
        json!([]),
        delta("function_call_arguments", 0, "x"),
        json!({"type": "response.completed"}),
        added(0, json!({"type": "function_call"})),
    ] {
        assert_eq!(fault(std::slice::from_ref(&stray)), FailureKind::Malformed, "{stray}");
    }
    assert_eq!(fault(&[added(0, call("")), delta("output_text", 0, "x")]), FailureKind::Malformed);
}

#[test]
fn the_state_of_a_stream_is_small() {
    assert!(size_of::<Decoder>() <= 1_024, "{}", size_of::<Decoder>());
}
