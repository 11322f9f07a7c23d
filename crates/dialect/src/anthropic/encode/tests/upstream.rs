//! The whole way of an answer: what an upstream sends, rewritten as the gateway's own chat, and written for this API.

use pointsman_domain::GenerationId;

use super::*;
use crate::{AnswerContext, ChatStream, StreamOptions};

fn context() -> AnswerContext {
    AnswerContext {
        generation: GenerationId::new(1_763_629_500, [1, 2, 3]),
        created: 1_763_629_500,
        model: Arc::from("acme/small"),
        provider_name: Arc::from("Acme"),
        fingerprint: Arc::from("fp"),
        pricing: None,
        prompt_tokens: 12,
        images: 0,
        exclude_reasoning: false,
        legacy_functions: false,
        service: Default::default(),
        told: Default::default(),
        clock: || 1_763_629_503,
    }
}

/// What a client of this API receives when an upstream sends these bytes.
fn relayed(upstream: &str) -> Received {
    let mut chat = ChatStream::new(context(), StreamOptions::default());
    let mut out = BytesMut::new();
    chat.push(&Bytes::copy_from_slice(upstream.as_bytes()), &mut out).unwrap();
    chat.end(&mut out).unwrap();
    let mut encoder = streamed();
    SseSplitter::new(1_000_000)
        .push(&out, |event| {
            if &*event.data == b"[DONE]" {
                encoder.finish();
                return Ok(());
            }
            read_chunk(&event.data, &mut encoder)
        })
        .unwrap();
    receive(&encoder.take())
}

fn sent(chunks: &[Value]) -> String {
    let events = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    events.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

#[test]
fn a_stream_of_an_upstream_of_chat_arrives_with_reasoning_calls_and_counts() {
    let chunk = |delta: Value| json!({"id": "c", "object": "chat.completion.chunk", "model": "up", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let upstream = sent(&[
        chunk(json!({"role": "assistant", "content": "", "reasoning_content": "Let"})),
        chunk(json!({"reasoning_content": " me"})),
        chunk(json!({"content": "Hi"})),
        chunk(
            json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
        ),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\":"}}]})),
        chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]})),
        chunk(
            json!({"tool_calls": [{"index": 1, "id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]}),
        ),
        json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        json!({"id": "c", "choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 9, "total_tokens": 59,
            "prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens_details": {"reasoning_tokens": 4}}}),
    ]);
    let received = relayed(&upstream);
    assert!(received.is_complete);
    let message = received.message;
    assert_eq!(message["content"][0]["thinking"], "Let me");
    let expected = json!([{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "c2", "name": "g", "input": {}}]);
    assert_eq!(message["content"].as_array().unwrap()[1..], expected.as_array().unwrap()[..]);
    assert_eq!(message["stop_reason"], "tool_use");
    let usage = &message["usage"];
    assert_eq!((&usage["input_tokens"], &usage["cache_read_input_tokens"]), (&json!(10), &json!(40)));
    assert_eq!((&usage["output_tokens"], &usage["output_tokens_details"]["thinking_tokens"]), (&json!(9), &json!(4)));
    assert_eq!(usage.get("cost"), None, "strict clients know no such member");
    assert_eq!(received.start["usage"]["input_tokens"], 12);
}

#[test]
fn an_answer_of_this_api_is_the_same_after_the_way_through_chat() {
    struct Upstream(ChunkWriter, String);
    impl AnswerSink for Upstream {
        fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
            let mut chunk = BytesMut::new();
            self.0.push(&event, &mut chunk);
            self.1.push_str(&format!("data: {}\n\n", String::from_utf8_lossy(&chunk)));
            Ok(())
        }
    }
    let content = json!([
        {"type": "thinking", "thinking": "Let me", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "R3d="},
        {"type": "text", "text": "Hi \"you\" 😀"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"location": "Paris"}},
        {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
    ]);
    let usage = json!({"input_tokens": 25, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "output_tokens": 89,
        "cache_creation": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 0}});
    let message =
        json!({"id": "msg_1", "type": "message", "content": content, "stop_reason": "tool_use", "usage": usage});
    let mut upstream = Upstream(ChunkWriter::default(), String::new());
    Decoder::new(ToolNames::default()).whole(&message.to_string(), &mut upstream).unwrap();
    let received = relayed(&format!("{}data: [DONE]\n\n", upstream.1));
    assert!(received.is_complete);
    assert_eq!(received.message["content"], content);
    assert_eq!(received.message["stop_reason"], "tool_use");
    assert_eq!((&received.message["id"], &received.message["model"]), (&json!("gen-1"), &json!("acme/small")));
    for (name, count) in usage.as_object().unwrap() {
        assert_eq!(&received.message["usage"][name], count, "{name}");
    }
}
