use bytes::BytesMut;
use pointsman_domain::FailureKind;

use super::*;
use crate::{
    answer::AnswerFault,
    anthropic::Decoder,
    frame::sse::SseSplitter,
    neutral::{AnswerEvent, AnswerSink, MAX_SIGNATURE},
    openai::{chunk_writer::ChunkWriter, completion_writer::CompletionWriter},
};

/// Chunks of chat, one a line.
#[derive(Default)]
struct Chunks {
    writer: ChunkWriter,
    lines: Vec<String>,
}

impl AnswerSink for Chunks {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        let mut out = BytesMut::new();
        self.writer.push(&event, &mut out);
        self.lines.push(String::from_utf8(out.to_vec()).unwrap());
        Ok(())
    }
}

/// Decodes a stream of these events into a sink.
pub(super) fn decode(events: &[String], names: ToolNames, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
    let mut decoder = Decoder::new(names);
    let mut splitter = SseSplitter::new(1_000_000);
    for event in events {
        let kind: Option<Value> = serde_json::from_str(event).ok();
        let name = kind.as_ref().and_then(|kind| kind["type"].as_str()).unwrap_or("message").to_owned();
        splitter.push(format!("event: {name}\ndata: {event}\n\n").as_bytes(), |event| decoder.event(&event, sink))?;
    }
    decoder.end(sink)
}

pub(super) fn collect(events: &[String], names: ToolNames) -> Result<Value, AnswerFault> {
    let mut writer = CompletionWriter::default();
    decode(events, names, &mut writer)?;
    Ok(serde_json::from_slice(&writer.finish()?).unwrap())
}

pub(super) fn collect_whole(body: &str, names: ToolNames) -> Result<Value, AnswerFault> {
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

fn answer(blocks: &[Vec<String>], reason: &str) -> Value {
    collect(&stream(blocks, reason), ToolNames::default()).unwrap()
}

#[test]
fn fragments_join_to_the_exact_arguments_and_a_call_without_any_gets_one_empty_object() {
    let arguments = |input: &str, fragments: &[&str]| {
        let answer = answer(&[call(0, "toolu_1", input, fragments)], "tool_use");
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned()
    };
    assert_eq!(arguments("{}", &["", "{\"a\": 1.0", "0,\"b\":\"\\u00e9\\n\"}"]), "{\"a\": 1.00,\"b\":\"\\u00e9\\n\"}");
    assert_eq!(arguments("{}", &[""]), "{}");
    assert_eq!(arguments("{}", &[]), "{}");
    assert_eq!(arguments("null", &[]), "{}");
    assert_eq!(arguments(r#"{"a": 1.0}"#, &[]), r#"{"a": 1.0}"#);
    assert_eq!(arguments(r#"{"a": 1.0}"#, &["{\"a\"", ": 1.0}"]), r#"{"a": 1.0}"#);
}

#[test]
fn calls_count_from_zero_whatever_their_blocks_are_numbered() {
    let blocks = [
        text(0, "hi"),
        call(3, "toolu_1", "{}", &["{}"]),
        text(4, "!"),
        call(9, "toolu_2", "{}", &[]),
        call(10, "bad id!", "{}", &[]),
    ];
    let answer = answer(&blocks, "tool_use");
    let calls = answer["choices"][0]["message"]["tool_calls"].as_array().unwrap();
    let ids: Vec<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(ids[..2], ["toolu_1", "toolu_2"]);
    assert!(ids[2].starts_with("bad_id_") && ids[2].len() <= 40, "{ids:?}");
    assert_eq!(answer["choices"][0]["message"]["content"], "hi!");
}

#[test]
fn unknown_blocks_events_and_deltas_are_passed_over_without_a_gap() {
    let unknown = vec![
        block_start(1, r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#),
        delta(1, r#"{"type":"input_json_delta","partial_json":"{}"}"#),
        block_stop(1),
        r#"{"type":"ping"}"#.to_owned(),
        r#"{"type":"brand_new_event","x":1}"#.to_owned(),
        block_start(2, r#"{"type":"web_search_tool_result","content":[]}"#),
        block_stop(2),
    ];
    let mut last = text(3, "b");
    last.insert(1, delta(3, r#"{"type":"brand_new_delta"}"#));
    let answer = answer(&[text(0, "a"), unknown, last], "end_turn");
    assert_eq!(answer["choices"][0]["message"]["content"], "ab");
    assert!(answer["choices"][0]["message"].get("tool_calls").is_none());
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
}

#[test]
fn a_stream_cut_after_its_stop_reason_is_complete_and_cut_earlier_it_is_truncated() {
    let whole = stream(&[text(0, "hi")], "max_tokens");
    for length in 0..whole.len() {
        let result = collect(&whole[..length], ToolNames::default());
        if length + 1 == whole.len() {
            let answer = result.unwrap();
            assert_eq!(answer["choices"][0]["finish_reason"], "length");
            assert_eq!(answer["usage"]["completion_tokens"], 89);
        } else {
            assert_eq!(result.unwrap_err().kind, FailureKind::Truncated, "{length}");
        }
    }
}

#[test]
fn an_error_event_is_a_failure_of_its_kind_before_and_after_content() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#.to_owned();
    let begun = [vec![START.to_owned()], text(0, "hi")].concat();
    for before in [vec![], vec![START.to_owned()], begun] {
        let mut chunks = Chunks::default();
        let fault =
            decode(&[before.clone(), vec![error.clone()]].concat(), ToolNames::default(), &mut chunks).unwrap_err();
        assert_eq!(fault.kind, FailureKind::Overloaded);
        let has_content = chunks.lines.iter().any(|line| line.contains("hi"));
        assert_eq!(has_content, before.len() > 1, "what came before the error was handed on");
    }
    let fault = collect_whole(&error, ToolNames::default()).unwrap_err();
    assert_eq!(fault.kind, FailureKind::Overloaded);
}

#[test]
fn a_second_start_of_the_same_message_is_ignored_and_of_another_one_refused() {
    let events = [vec![START.to_owned()], stream(&[text(0, "hi")], "end_turn")].concat();
    assert_eq!(collect(&events, ToolNames::default()).unwrap()["choices"][0]["message"]["content"], "hi");
    let other = [vec![START.replace("msg_01", "msg_02")], stream(&[text(0, "hi")], "end_turn")].concat();
    assert_eq!(collect(&other, ToolNames::default()).unwrap_err().kind, FailureKind::Malformed);
}

#[test]
fn calls_that_a_program_made_are_in_the_first_event() {
    let start = START
        .replace(r#""content":[]"#, r#""content":[{"type":"tool_use","id":"toolu_9","name":"f","input":{"a":1}}]"#);
    let answer = collect(&[vec![start], end("tool_use")].concat(), ToolNames::default()).unwrap();
    let call = &answer["choices"][0]["message"]["tool_calls"][0];
    assert_eq!((call["id"].as_str(), call["function"]["arguments"].as_str()), (Some("toolu_9"), Some(r#"{"a":1}"#)));
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
fn a_web_citation_points_at_its_block_in_characters_and_one_of_a_document_stays_as_it_was() {
    let cited = vec![
        block_start(1, r#"{"type":"text","text":"","citations":[]}"#),
        delta(
            1,
            r#"{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://h/","title":null}}"#,
        ),
        delta(1, r#"{"type":"text_delta","text":"b\u00e9"}"#),
        delta(1, r#"{"type":"citations_delta","citation":{"type":"char_location","document_title":"d"}}"#),
        block_stop(1),
    ];
    let answer = answer(&[text(0, "é😀"), cited], "end_turn");
    let expected = serde_json::json!([{"type":"url_citation","url_citation":{"start_index":2,"end_index":4,"title":"https://h/","url":"https://h/"}}]);
    assert_eq!(answer["choices"][0]["message"]["annotations"], expected);
    let of_document = serde_json::json!([{"type":"char_location","document_title":"d"}]);
    assert_eq!(answer["choices"][0]["message"]["citations"], of_document);
}

#[test]
fn a_surrogate_pair_split_between_events_is_joined() {
    let mut split = text(0, r"a\ud83d");
    split.insert(2, delta(0, r#"{"type":"text_delta","text":"\ude00b"}"#));
    assert_eq!(answer(&[split], "end_turn")["choices"][0]["message"]["content"], "a😀b");
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
