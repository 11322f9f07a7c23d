use bytes::BytesMut;
use pointsman_domain::FailureKind;

use super::*;
use crate::{
    answer::AnswerFault,
    frame::sse::SseSplitter,
    neutral::{AnswerEvent, AnswerSink},
    openai::{chunk_writer::ChunkWriter, completion_writer::CompletionWriter},
    responses::Decoder,
};

/// Chunks of chat.
#[derive(Default)]
struct Chunks {
    writer: ChunkWriter,
    chunks: Vec<Value>,
}

impl AnswerSink for Chunks {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        let mut out = BytesMut::new();
        self.writer.push(&event, &mut out);
        self.chunks.push(serde_json::from_slice(&out).unwrap());
        Ok(())
    }
}

/// Decodes a stream of these events into a sink.
pub(super) fn decode(events: &[String], names: ToolNames, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
    let mut decoder = Decoder::new(names);
    let mut splitter = SseSplitter::new(1_000_000);
    for event in events {
        splitter.push(format!("data: {event}\n\n").as_bytes(), |event| decoder.event(&event, sink))?;
    }
    assert_eq!(decoder.is_done(), decoder.end(sink).is_ok());
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

fn collected(events: &[Value]) -> Result<Value, AnswerFault> {
    collect(&events.iter().map(Value::to_string).collect::<Vec<_>>(), ToolNames::default())
}

fn created() -> Value {
    json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}})
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

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn empty_message() -> Value {
    json!({"type": "message", "id": "msg_1", "content": []})
}

fn call(arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": arguments})
}

fn reasoning(summary: &[&str], sealed: Option<&str>) -> Value {
    let summary: Vec<Value> = summary.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
    json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": sealed})
}

#[test]
fn a_stream_of_only_done_events_gives_the_whole_text_once() {
    let text_done = json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Hi"});
    let end = completed(json!([message("Hi"), call("{}")]));
    for events in [
        vec![
            created(),
            added(0, empty_message()),
            text_done.clone(),
            done(0, message("Hi")),
            done(1, call("{}")),
            end.clone(),
        ],
        vec![created(), text_done, end.clone()],
        vec![added(0, empty_message()), delta("output_text", 0, "H"), delta("output_text", 0, "i"), end.clone()],
        vec![delta("output_text", 0, "Hi"), done(0, message("Hi")), end.clone()],
        vec![end],
    ] {
        let answer = collected(&events).unwrap();
        let message = &answer["choices"][0]["message"];
        assert_eq!(message["content"], "Hi", "{events:?}");
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{}");
        assert_eq!(
            (message["tool_calls"].as_array().unwrap().len(), &message["tool_calls"][0]["id"]),
            (1, &json!("call_1"))
        );
    }
}

#[test]
fn the_call_id_and_not_the_item_id_is_the_id_of_a_call() {
    let answer = collected(&[completed(json!([call("{}")]))]).unwrap();
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["id"], "call_1");
    let mut odd = call("{}");
    odd["call_id"] = json!("a".repeat(60) + "/");
    let answer = collected(&[completed(json!([odd]))]).unwrap();
    let id = answer["choices"][0]["message"]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() <= 40 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{id}");
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
fn an_incomplete_response_has_its_reason_and_a_failed_one_is_a_failure_of_its_kind() {
    let ended = |status: &str, more: Value| {
        let mut response = json!({"id": "r", "status": status, "output": [message("Hi")], "usage": {"input_tokens": 1, "output_tokens": 2}});
        for (name, value) in more.as_object().unwrap() {
            response[name] = value.clone();
        }
        (json!({"type": format!("response.{status}"), "response": response}), response.to_string())
    };
    let finish = |reason: &str| {
        let (event, whole) = ended("incomplete", json!({"incomplete_details": {"reason": reason}}));
        let (streamed, whole) = (collected(&[event]).unwrap(), collect_whole(&whole, ToolNames::default()).unwrap());
        assert_eq!(streamed, whole);
        (streamed["choices"][0]["finish_reason"].clone(), streamed["choices"][0]["native_finish_reason"].clone())
    };
    assert_eq!(finish("max_output_tokens"), (json!("length"), json!("max_output_tokens")));
    assert_eq!(finish("content_filter"), (json!("content_filter"), json!("content_filter")));
    for (code, kind) in [
        ("server_error", FailureKind::Server),
        ("rate_limit_exceeded", FailureKind::RateLimited),
        ("context_length_exceeded", FailureKind::ContextLength),
        ("invalid_prompt", FailureKind::BadRequest),
    ] {
        let (event, whole) = ended("failed", json!({"error": {"code": code, "message": "no"}}));
        assert_eq!(collected(&[created(), event]).unwrap_err().kind, kind);
        assert_eq!(collect_whole(&whole, ToolNames::default()).unwrap_err().kind, kind);
        let error = json!({"type": "error", "code": code, "message": "no", "param": null, "sequence_number": 3});
        assert_eq!(collected(&[created(), error]).unwrap_err().kind, kind);
    }
}

#[test]
fn the_usage_of_a_failed_response_is_told_before_its_failure() {
    let mut chunks = Chunks::default();
    let response = json!({"status": "failed", "error": {"code": "server_error", "message": "no"}, "usage": {"input_tokens": 7, "output_tokens": 2}});
    let event = json!({"type": "response.failed", "response": response}).to_string();
    decode(&[event], ToolNames::default(), &mut chunks).unwrap_err();
    assert_eq!(chunks.chunks[0]["usage"]["prompt_tokens"], 7);
}

#[test]
fn a_stream_that_ends_early_is_truncated() {
    let events = [created(), added(0, empty_message()), delta("output_text", 0, "Hi"), done(0, message("Hi"))];
    for length in 0..=events.len() {
        assert_eq!(collected(&events[..length]).unwrap_err().kind, FailureKind::Truncated, "{length}");
    }
    let running = json!({"status": "in_progress", "output": []}).to_string();
    assert_eq!(collect_whole(&running, ToolNames::default()).unwrap_err().kind, FailureKind::Truncated);
}

#[test]
fn a_refusal_is_the_refusal_of_chat() {
    let refused = json!({"type": "message", "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "No."}]});
    let answer = collected(&[completed(json!([refused]))]).unwrap();
    let message = &answer["choices"][0]["message"];
    assert_eq!((&message["content"], &message["refusal"]), (&json!("a"), &json!("No.")));
    let events = [added(0, empty_message()), delta("refusal", 0, "N"), delta("refusal", 0, "o."), completed(json!([]))];
    assert_eq!(collected(&events).unwrap()["choices"][0]["message"]["refusal"], "No.");
}

#[test]
fn citations_point_into_the_whole_text_and_are_told_once() {
    let citation = json!({"type": "url_citation", "url": "https://h/", "title": "t", "start_index": 1, "end_index": 2});
    let cited =
        json!({"type": "message", "content": [{"type": "output_text", "text": "bé", "annotations": [citation]}]});
    let end = completed(json!([message("é😀"), cited]));
    let event = json!({"type": "response.output_text.annotation.added", "output_index": 1, "content_index": 0, "annotation": citation});
    let streamed = [
        added(0, empty_message()),
        delta("output_text", 0, "é😀"),
        added(1, empty_message()),
        delta("output_text", 1, "bé"),
        event,
        done(1, cited),
        end.clone(),
    ];
    let expected = json!([{"type": "url_citation", "url_citation": {"url": "https://h/", "title": "t", "start_index": 3, "end_index": 4}}]);
    for events in [&streamed[..], &[end]] {
        assert_eq!(collected(events).unwrap()["choices"][0]["message"]["annotations"], expected);
    }
}

#[test]
fn searches_are_counted_and_images_and_log_probabilities_are_handed_on() {
    let search = |kind: &str| json!({"type": "web_search_call", "status": "completed", "action": {"type": kind}});
    let image = json!({"type": "image_generation_call", "result": "iVBO", "output_format": "webp"});
    let probable = json!([{"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}]);
    let text = json!({"type": "message", "content": [{"type": "output_text", "text": "Hi", "logprobs": probable}]});
    let end = completed(json!([search("search"), search("open_page"), image, text]));
    let mut first = delta("output_text", 3, "Hi");
    first["logprobs"] = probable.clone();
    let streamed = [
        added(0, search("search")),
        done(0, search("search")),
        done(1, search("open_page")),
        added(3, empty_message()),
        first,
        end.clone(),
    ];
    for events in [&streamed[..], &[end]] {
        let answer = collected(events).unwrap();
        assert_eq!(answer["usage"]["server_tool_use"]["web_search_requests"], 1);
        assert_eq!(answer["choices"][0]["message"]["images"][0]["image_url"]["url"], "data:image/webp;base64,iVBO");
        assert_eq!(answer["choices"][0]["logprobs"], json!({"content": probable, "refusal": null}));
    }
}

#[test]
fn several_summaries_are_blocks_of_their_own() {
    let item = reasoning(&["a", "b"], Some("g"));
    let mut second = delta("reasoning_summary_text", 0, "b");
    second["summary_index"] = json!(1);
    let streamed = [
        added(0, reasoning(&[], None)),
        delta("reasoning_summary_text", 0, "a"),
        second,
        done(0, item.clone()),
        completed(json!([item])),
    ];
    let (streamed, whole) = (collected(&streamed).unwrap(), collected(&[completed(json!([item]))]).unwrap());
    assert_eq!(streamed, whole);
    let details = streamed["choices"][0]["message"]["reasoning_details"].as_array().unwrap().clone();
    let indices: Vec<&Value> = details.iter().map(|detail| &detail["index"]).collect();
    assert_eq!(indices, [0, 1, 2]);
    let thought = json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]});
    let answer = collected(&[completed(json!([thought]))]).unwrap();
    assert_eq!(answer["choices"][0]["message"]["reasoning"], "hm");
}

#[test]
fn a_surrogate_pair_split_between_events_is_joined() {
    let piece = |text: &str| format!(r#"{{"type":"response.output_text.delta","output_index":0,"delta":"{text}"}}"#);
    let events =
        [added(0, empty_message()).to_string(), piece(r"a\ud83d"), piece(r"\ude00b"), completed(json!([])).to_string()];
    assert_eq!(collect(&events, ToolNames::default()).unwrap()["choices"][0]["message"]["content"], "a😀b");
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
