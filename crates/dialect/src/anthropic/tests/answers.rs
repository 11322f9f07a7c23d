use pointsman_domain::FailureKind;

use super::*;
use crate::{
    answer::AnswerResult,
    anthropic::Decoder,
    frame::sse::SseSplitter,
    neutral::{AnswerSink, MAX_SIGNATURE},
    openai::completion_writer::CompletionWriter,
};

/// Decodes a stream of these events into a sink.
pub(super) fn decode(events: &[String], names: ToolNames, sink: &mut impl AnswerSink) -> AnswerResult {
    let mut decoder = Decoder::new(names);
    let mut splitter = SseSplitter::new(1_000_000);
    for event in events {
        let kind: Option<Value> = serde_json::from_str(event).ok();
        let name = kind.as_ref().and_then(|kind| kind["type"].as_str()).unwrap_or("message").to_owned();
        splitter.push(format!("event: {name}\ndata: {event}\n\n").as_bytes(), |event| decoder.event(&event, sink))?;
    }
    decoder.end(sink)
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

fn events(events: &[&str]) -> Vec<String> {
    events.iter().map(|event| (*event).to_owned()).collect()
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_read_input_tokens":100,"cache_creation_input_tokens":0,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn block_start(index: u64, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn delta(index: u64, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn block_stop(index: u64) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

fn text(index: u64, text: &str) -> Vec<String> {
    let delta = delta(index, &format!(r#"{{"type":"text_delta","text":"{text}"}}"#));
    vec![block_start(index, r#"{"type":"text","text":""}"#), delta, block_stop(index)]
}

fn call(index: u64, id: &str, input: &str, fragments: &[&str]) -> Vec<String> {
    let block = format!(r#"{{"type":"tool_use","id":"{id}","name":"f","input":{input}}}"#);
    let mut events = vec![block_start(index, &block)];
    events.extend(fragments.iter().map(|fragment| {
        let quoted = serde_json::to_string(fragment).unwrap();
        delta(index, &format!(r#"{{"type":"input_json_delta","partial_json":{quoted}}}"#))
    }));
    events.push(block_stop(index));
    events
}

fn end(reason: &str) -> Vec<String> {
    vec![
        format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":89}}}}"#
        ),
        STOP.to_owned(),
    ]
}

fn stream(blocks: &[Vec<String>], reason: &str) -> Vec<String> {
    [vec![START.to_owned()], blocks.concat(), end(reason)].concat()
}

#[test]
fn a_call_of_a_custom_tool_has_its_free_text_back() {
    let body = r#"{"messages":[],"tools":[{"type":"custom","custom":{"name":"f"}}]}"#;
    let names = || send(SAMPLING, body).names;
    let fragments = ["{\"inp", "ut\":\"*** \\\"Begin\\", "\" \\ud83d", "\\ude00\\n\"}"];
    let events = stream(&[call(0, "toolu_1", "{}", &fragments)], "tool_use");
    let answer = collect(&events, names()).unwrap();
    let shown = &answer["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(
        (shown["type"].as_str(), shown["custom"]["input"].as_str()),
        (Some("custom"), Some("*** \"Begin\" 😀\n"))
    );
    let cut = stream(&[call(0, "toolu_1", "{}", &["{\"input\":\"abc"])], "max_tokens");
    let answer = collect(&cut, names()).unwrap();
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["custom"]["input"], "{\"input\":\"abc");
}

#[test]
fn a_hostile_upstream_ends_in_a_fault_within_the_limits() {
    let fault = |events: Vec<String>| collect(&events, ToolNames::default()).unwrap_err().kind;
    let calls: Vec<Vec<String>> = (0..1_000).map(|index| call(index, &format!("t{index}"), "{}", &[])).collect();
    assert_eq!(fault(stream(&calls, "tool_use")), FailureKind::Malformed);
    let piece = format!(r#"{{"type":"signature_delta","signature":"{}"}}"#, "x".repeat(MAX_SIGNATURE / 8));
    let mut thought = vec![block_start(0, r#"{"type":"thinking","thinking":""}"#)];
    thought.extend((0..10).map(|_| delta(0, &piece)));
    assert_eq!(fault(stream(&[thought], "end_turn")), FailureKind::Malformed);
    let nested = format!(r#"{{"type":"ping","x":{}}}"#, "[".repeat(10_000));
    assert_eq!(fault(vec![START.into(), nested]), FailureKind::Malformed);
    for stray in [delta(0, "{}"), block_start(0, "1"), r#"{"x":1}"#.into(), "[]".into()] {
        assert_eq!(fault(vec![START.into(), stray.clone()]), FailureKind::Malformed, "{stray}");
    }
    assert_eq!(fault(text(0, "hi")), FailureKind::Malformed, "no message_start");
    assert_eq!(fault(events(&[r#"{"type":"message_start"}"#])), FailureKind::Malformed);
    let wrong = [
        vec![START.to_owned()],
        vec![block_start(0, r#"{"type":"text","text":""}"#), delta(0, r#"{"type":"thinking_delta","thinking":"x"}"#)],
    ]
    .concat();
    assert_eq!(fault(wrong), FailureKind::Malformed);
}

#[test]
fn the_state_of_a_stream_is_small() {
    assert!(size_of::<Decoder>() <= 1_024, "{}", size_of::<Decoder>());
}
