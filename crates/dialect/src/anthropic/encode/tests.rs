use serde_json::{Value, json};

use super::{usage::push_usage, *};
use crate::{
    anthropic::{Decoder, inbound},
    frame::sse::SseSplitter,
    json::MAX_DEPTH,
    neutral::{MAX_STATE, ToolKind, ToolNames},
    openai::{
        chat_events::{read_chunk, read_completion},
        completion_writer::CompletionWriter,
    },
};

mod client;
mod properties;

use client::{Received, receive};

const KEY: StateKey = StateKey::new([3; 32]);
const LIMIT: usize = 10_000;

fn opening(form: AnswerForm) -> MessageOpening {
    MessageOpening {
        id: Arc::from("gen-1"),
        model: Arc::from("acme/small"),
        prompt_tokens: 12,
        form,
        omits_thinking: false,
        stop_sequences: Bytes::from_static(b"[\"END\",\"\\u00e9\"]"),
        max_held_bytes: LIMIT,
        state_key: KEY,
    }
}

fn streamed() -> MessagesEncoder {
    MessagesEncoder::new(opening(AnswerForm::Streamed))
}

/// The stream of these chunks of chat.
fn stream_of(chunks: &[Value]) -> Bytes {
    let mut encoder = streamed();
    for chunk in chunks {
        read_chunk(chunk.to_string().as_bytes(), &mut encoder).unwrap();
    }
    encoder.whole()
}

#[track_caller]
fn received(chunks: &[Value]) -> Received {
    let received = receive(&stream_of(chunks));
    assert!(received.is_complete && received.error.is_none());
    received
}

/// A chunk with this delta.
fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn call(index: u32, id: &str, arguments: &str) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": "f", "arguments": arguments}})
}

fn fragment(index: u32, arguments: &str) -> Value {
    delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
}

fn failure() -> StreamError {
    StreamError {
        reason: Some("provider_failed"),
        request_id: Some(Arc::from("req-1")),
        ..StreamError::broken_answer()
    }
}

/// The message of a whole answer with these members of the chat message.
fn whole_of(message: Value, finish: &str) -> Value {
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2}});
    let mut encoder = MessagesEncoder::new(opening(AnswerForm::Whole));
    read_completion(body.to_string().as_bytes(), &mut encoder).unwrap();
    serde_json::from_slice(&encoder.whole()).unwrap()
}

#[test]
fn the_counts_of_the_prompt_add_up_to_it_and_are_never_negative() {
    let usage = |tokens: ReportedTokens| -> Value {
        let mut out = BytesMut::new();
        push_usage(&tokens, &mut out);
        serde_json::from_slice(&out).unwrap()
    };
    let tokens = ReportedTokens {
        prompt: 132,
        cached: Some(100),
        cache_write: Some(7),
        cache_write_1h: Some(4),
        completion: 9,
        reasoning: Some(3),
        web_searches: Some(2),
        ..Default::default()
    };
    let expected = json!({"input_tokens": 25, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7,
        "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}, "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 3}, "server_tool_use": {"web_search_requests": 2}});
    assert_eq!(usage(tokens), expected);
    let odd = usage(ReportedTokens { prompt: 5, cached: Some(9), cache_write: Some(9), ..Default::default() });
    assert_eq!((&odd["input_tokens"], &odd["cache_read_input_tokens"]), (&json!(0), &json!(5)));
    let by_time = usage(ReportedTokens { prompt: 5, cache_write_5m: Some(2), ..Default::default() });
    assert_eq!((&by_time["input_tokens"], &by_time["cache_creation_input_tokens"]), (&json!(3), &json!(2)));
}

#[test]
fn a_call_begins_as_soon_as_the_one_before_it_is_complete() {
    let mut encoder = streamed();
    let mut push = |chunk: Value| {
        read_chunk(chunk.to_string().as_bytes(), &mut encoder).unwrap();
        String::from_utf8(encoder.take().to_vec()).unwrap()
    };
    push(delta(json!({"tool_calls": [call(0, "a", "{\"x\":[")]})));
    assert_eq!(push(delta(json!({"tool_calls": [call(1, "b", "{\"y\":1}")]}))), "", "the first is not complete");
    let both = push(fragment(0, "]}"));
    assert!(both.contains(r#""partial_json":"]}""#) && both.contains(r#""id":"b""#), "{both}");
    assert!(push(delta(json!({"content": "x"}))).contains(r#""text":"x""#));
}

#[test]
fn a_whole_answer_wraps_arguments_that_broke_off() {
    let message = json!({"content": "a", "tool_calls": [call(0, "a", "{\"x\":")]});
    let message = whole_of(message, "length");
    assert_eq!(message["content"][1]["input"], json!({"INVALID_JSON": "{\"x\":"}));
    assert_eq!(message["stop_reason"], "max_tokens");
}

#[test]
fn a_citation_belongs_to_the_text_before_it() {
    let annotation = json!([{"type": "url_citation", "url_citation": {"url": "https://h/", "title": "T\"", "start_index": 0, "end_index": 1}}, {"type": "file_citation"}]);
    let citation = json!({"type": "web_search_result_location", "cited_text": "", "encrypted_index": "", "title": "T\"", "url": "https://h/"});
    let streamed = received(&[
        delta(json!({"content": "a"})),
        delta(json!({"annotations": annotation})),
        delta(json!({"content": "b", "tool_calls": [call(0, "c", "{}")]})),
        finish("tool_calls"),
    ]);
    let content = &streamed.message["content"];
    assert_eq!(content[0], json!({"type": "text", "text": "a", "citations": [citation]}));
    assert_eq!(content[1], json!({"type": "text", "text": "b"}));
    let message = json!({"content": "a", "annotations": annotation, "tool_calls": [call(0, "c", "{}")]});
    assert_eq!(whole_of(message, "tool_calls")["content"][0], content[0]);
}

#[test]
fn silence_is_filled_with_an_empty_delta_in_a_block_and_a_ping_outside() {
    let mut encoder = streamed();
    let mut names = |chunk: Option<Value>| {
        if let Some(chunk) = chunk {
            read_chunk(chunk.to_string().as_bytes(), &mut encoder).unwrap();
        }
        encoder.take();
        encoder.keep_alive();
        String::from_utf8(encoder.take().to_vec()).unwrap()
    };
    let first = names(None);
    assert!(
        first.starts_with("event: message_start\n") && first.ends_with("event: ping\ndata: {\"type\":\"ping\"}\n\n")
    );
    assert_eq!(names(None), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    let thought = json!({"reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}]});
    assert!(names(Some(delta(thought))).contains(r#"{"type":"thinking_delta","thinking":""}"#));
    assert!(names(Some(delta(json!({"content": "a"})))).contains(r#"{"type":"text_delta","text":""}"#));
    let with_call = names(Some(delta(json!({"tool_calls": [call(0, "c", "")]}))));
    assert!(with_call.contains(r#"{"type":"input_json_delta","partial_json":""}"#));
    assert!(names(Some(finish("tool_calls"))).starts_with("event: ping\n"));
    encoder.finish();
    encoder.take();
    encoder.keep_alive();
    assert!(encoder.take().is_empty(), "nothing follows the end");
}

#[test]
fn a_failure_ends_a_stream_with_an_error_that_clients_take_for_an_overload() {
    let mut encoder = streamed();
    read_chunk(delta(json!({"content": "a"})).to_string().as_bytes(), &mut encoder).unwrap();
    encoder.fail(&failure());
    encoder.fail(&failure());
    encoder.finish();
    let received = receive(&encoder.take());
    let expected = json!({"type": "error", "request_id": "req-1", "error": {"type": "overloaded_error",
        "message": "The provider ended its answer with an error.", "details": {"error_code": "provider_failed"}}});
    assert_eq!(received.error, Some(expected));
    assert!(!received.is_complete);
    assert_eq!(received.message["content"][0]["text"], "a");
}

#[test]
fn an_answer_that_its_provider_calls_failed_has_no_end() {
    let mut encoder = streamed();
    read_chunk(delta(json!({"content": "a"})).to_string().as_bytes(), &mut encoder).unwrap();
    read_chunk(finish("error").to_string().as_bytes(), &mut encoder).unwrap();
    let received = receive(&encoder.whole());
    assert!(received.error.is_some() && !received.is_complete);
}

#[test]
fn a_failure_of_a_whole_answer_is_the_body() {
    let mut encoder = MessagesEncoder::new(opening(AnswerForm::Whole));
    read_chunk(delta(json!({"content": "a"})).to_string().as_bytes(), &mut encoder).unwrap();
    encoder.keep_alive();
    encoder.fail(&failure());
    let body: Value = serde_json::from_slice(&encoder.take()).unwrap();
    assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!("api_error")));
}

/// The `reasoning_details` of the next turn, after a client has sent the content of this answer back.
fn echoed(content: &Value) -> Value {
    let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": content}]);
    let body = json!({"model": "m", "max_tokens": 9, "messages": messages});
    let body = body.to_string();
    let inbound = inbound::read(body.as_bytes(), inbound::Purpose::Answer, &KEY, MAX_DEPTH).unwrap();
    assert!(inbound.unsupported.dropped().is_empty());
    let chat = crate::openai::request_writer::whole_chat(&inbound.chat.conversation, true);
    chat["messages"][1]["reasoning_details"].clone()
}

#[test]
fn reasoning_of_every_provider_comes_back_as_it_was() {
    let cases = [
        json!([{"type": "reasoning.text", "text": "hm", "signature": "EqQB", "format": "anthropic-claude-v1"}]),
        json!([{"type": "reasoning.text", "signature": "EqQB", "format": "anthropic-claude-v1"}]),
        json!([{"type": "reasoning.encrypted", "data": "R3d=", "format": "anthropic-claude-v1"}]),
        json!([{"type": "reasoning.encrypted", "data": "AbC=", "id": "call_1", "format": "google-gemini-v1"}]),
        json!([{"type": "reasoning.text", "text": "hm", "format": "google-gemini-v1"},
            {"type": "reasoning.encrypted", "data": "AbC=", "id": "call_1", "format": "google-gemini-v1"}]),
        json!([{"type": "reasoning.summary", "summary": "hm", "format": "openai-responses-v1"},
            {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "format": "openai-responses-v1"}]),
        json!([{"type": "reasoning.text", "text": "hm", "format": "unknown"}]),
    ];
    for details in cases {
        let indexed: Vec<Value> = details
            .as_array()
            .unwrap()
            .iter()
            .map(|detail| {
                let mut detail = detail.clone();
                detail["index"] = json!(0);
                detail
            })
            .collect();
        let mut chunks: Vec<Value> =
            indexed.iter().map(|detail| delta(json!({"reasoning_details": [detail]}))).collect();
        chunks.extend([delta(json!({"tool_calls": [call(0, "call_1", "{}")]})), finish("tool_calls")]);
        let streamed = received(&chunks).message;
        let message = json!({"content": null, "reasoning_details": indexed, "tool_calls": [call(0, "call_1", "{}")]});
        assert_eq!(whole_of(message, "tool_calls")["content"], streamed["content"]);
        assert_eq!(echoed(&streamed["content"]), details);
    }
}

#[test]
fn signatures_without_their_text_are_sent_to_a_client_that_wants_no_more() {
    let mut opening = opening(AnswerForm::Streamed);
    opening.omits_thinking = true;
    let mut encoder = MessagesEncoder::new(opening);
    let details = json!([{"type": "reasoning.text", "text": "hm", "signature": "EqQB", "format": "anthropic-claude-v1", "index": 0}]);
    read_chunk(delta(json!({"reasoning_details": details})).to_string().as_bytes(), &mut encoder).unwrap();
    let message = receive(&encoder.whole()).message;
    assert_eq!(message["content"], json!([{"type": "thinking", "thinking": "", "signature": "EqQB"}]));
}

#[test]
fn a_thought_of_a_chat_provider_that_was_not_shown_comes_back_with_its_text() {
    let answers = [
        vec![
            json!({"reasoning_content": "I need "}),
            json!({"reasoning_content": "the \"tool\"\n"}),
            json!({"reasoning_content": "😀"}),
        ],
        vec![json!({"reasoning": "I need the \"tool\"\n😀"})],
        vec![
            json!({"reasoning_details": [{"type": "reasoning.text", "text": "I need the \"tool\"\n😀", "format": "unknown", "index": 0}]}),
        ],
    ];
    for pieces in answers {
        for form in [AnswerForm::Streamed, AnswerForm::Whole] {
            let mut opening = opening(form);
            opening.omits_thinking = true;
            let mut encoder = MessagesEncoder::new(opening);
            let more = [delta(json!({"tool_calls": [call(0, "call_1", "{}")]})), finish("tool_calls")];
            for chunk in pieces.iter().cloned().map(delta).chain(more) {
                read_chunk(chunk.to_string().as_bytes(), &mut encoder).unwrap();
            }
            let written = encoder.whole();
            let content = match form {
                AnswerForm::Streamed => receive(&written).message["content"].clone(),
                AnswerForm::Whole => serde_json::from_slice::<Value>(&written).unwrap()["content"].clone(),
            };
            assert_eq!(content[0]["thinking"], "", "{content}");
            let details = echoed(&content);
            let expected = json!([{"type": "reasoning.text", "format": "unknown", "text": "I need the \"tool\"\n😀"}]);
            assert_eq!(details, expected, "{content}");
        }
    }
}

#[test]
fn a_thought_that_is_too_long_to_come_back_whole_does_not_come_back_in_part() {
    for (character, count) in [("\n", MAX_STATE / 2), ("a", MAX_STATE - 1)] {
        let piece = |text: String| delta(json!({"reasoning_content": text}));
        for more in ["", "b"] {
            let mut opening = opening(AnswerForm::Streamed);
            opening.omits_thinking = true;
            let mut encoder = MessagesEncoder::new(opening);
            for chunk in [piece(character.repeat(count)), piece(more.into()), piece(more.into()), finish("stop")] {
                read_chunk(chunk.to_string().as_bytes(), &mut encoder).unwrap();
            }
            let details = echoed(&receive(&encoder.whole()).message["content"]);
            let text = details[0]["text"].as_str();
            assert_eq!(text.map(str::len), more.is_empty().then_some(count), "{character:?}");
        }
    }
}

#[test]
fn what_waits_is_bounded() {
    let begun = || {
        let mut encoder = streamed();
        read_chunk(
            delta(json!({"tool_calls": [call(0, "a", "{"), call(1, "b", "")]})).to_string().as_bytes(),
            &mut encoder,
        )
        .unwrap();
        encoder
    };
    let floods: [fn(u32) -> Value; 5] = [
        |_| fragment(1, "xxxxxxxxxxxxxxxxxxxx"),
        |_| delta(json!({"content": "xxxxxxxxxxxxxxxxxxxx"})),
        |turn| delta(json!({"tool_calls": [call(turn + 2, "x", "")]})),
        |_| delta(json!({"reasoning_details": [{"type": "reasoning.text", "text": "x"}]})),
        |_| delta(json!({"refusal": "xxxxxxxxxxxxxxxxxxxx"})),
    ];
    for flood in floods {
        let mut encoder = begun();
        let fault =
            (0..LIMIT as u32).find_map(|turn| read_chunk(flood(turn).to_string().as_bytes(), &mut encoder).err());
        assert!(fault.is_some());
        encoder.fail(&failure());
        assert!(receive(&encoder.take()).error.is_some());
    }
    let mut encoder = streamed();
    read_chunk(delta(json!({"tool_calls": [call(0, "a", "")]})).to_string().as_bytes(), &mut encoder).unwrap();
    let blanks = (0..LIMIT).find_map(|_| read_chunk(fragment(0, "   ").to_string().as_bytes(), &mut encoder).err());
    assert!(blanks.is_some());
    assert!(read_chunk(fragment(7, "x").to_string().as_bytes(), &mut streamed()).is_err());
    assert!(
        read_chunk(delta(json!({"tool_calls": [call(3, "a", "")]})).to_string().as_bytes(), &mut streamed()).is_err()
    );
}

#[test]
fn the_state_of_a_stream_is_small() {
    assert!(size_of::<MessagesEncoder>() <= 1_024, "{}", size_of::<MessagesEncoder>());
}
