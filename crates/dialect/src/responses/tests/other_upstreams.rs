//! Clients of this API on endpoints of another one: the whole way there and back.

use bytes::BytesMut;

use super::*;
use crate::{
    StateKey,
    answer::AnswerFault,
    anthropic,
    frame::sse::SseSplitter,
    neutral::{AnswerEvent, AnswerForm, AnswerSink},
    openai::{answer_reader::read_chunk, chunk_writer::ChunkWriter},
    responses::{
        encode::{ResponseOpening, ResponsesEncoder},
        inbound::read_responses,
    },
};

const KEY: StateKey = StateKey::new([9; 32]);

/// What Claude gets for a body, and the response to what Claude answers.
struct Exchange {
    sent: Value,
    response: Value,
}

/// Writes the events of the upstream as chat chunks and encodes those.
struct ThroughChat {
    chunks: ChunkWriter,
    encoder: ResponsesEncoder,
}

impl AnswerSink for ThroughChat {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        let mut out = BytesMut::new();
        self.chunks.push(&event, &mut out);
        read_chunk(&out, &mut self.encoder)
    }
}

#[track_caller]
fn exchange(body: &Value, events: &[Value]) -> Exchange {
    let inbound = read_responses(body.to_string().as_bytes(), &KEY).unwrap();
    let conversation = read_conversation(std::str::from_utf8(&inbound.chat).unwrap()).unwrap();
    let mut fates = inbound.fates.clone();
    let request = anthropic::write_request(&conversation, &endpoint("claude-sonnet-4-6"), &mut fates);
    let opening = ResponseOpening {
        id: "gen-1".into(),
        model: "anthropic/x".into(),
        created: 1,
        clock: || 2,
        form: AnswerForm::Whole,
        echo: inbound.echo,
        max_answer_bytes: 10_000,
        state_key: KEY,
    };
    let mut sink = ThroughChat { chunks: ChunkWriter::default(), encoder: ResponsesEncoder::new(opening) };
    let mut decoder = anthropic::Decoder::new(request.names);
    let mut splitter = SseSplitter::new(100_000);
    for event in events {
        splitter.push(format!("data: {event}\n\n").as_bytes(), |event| decoder.event(&event, &mut sink)).unwrap();
    }
    decoder.end(&mut sink).unwrap();
    let response = serde_json::from_slice(&sink.encoder.whole()).unwrap();
    Exchange { sent: serde_json::from_slice(&request.body).unwrap(), response }
}

/// A message of Claude with these blocks: how they start, and their deltas.
fn message(blocks: &[(Value, &[Value])]) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}}),
    ];
    for (index, (start, deltas)) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events
            .extend(deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}));
    events.push(json!({"type": "message_stop"}));
    events
}

#[test]
fn a_grammar_tool_works_on_claude_and_its_call_comes_back_with_the_raw_text() {
    let format = json!({"type": "grammar", "syntax": "lark", "definition": "start: x"});
    let tool = json!({"type": "custom", "name": "apply_patch", "description": "Patches.", "format": format});
    let body = json!({"model": "m", "input": "go", "tools": [tool]});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "apply_patch", "input": {}});
    let deltas = [json!({"type": "input_json_delta", "partial_json": "{\"input\":\"*** Begin \\\"Patch\\\"\\n\"}"})];
    let exchange = exchange(&body, &message(&[(call, &deltas)]));
    let schema = json!({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]});
    let description = "Patches.\nThe input must match this lark grammar:\nstart: x";
    let expected = json!([{"name": "apply_patch", "description": description, "input_schema": schema}]);
    assert_eq!(exchange.sent["tools"], expected);
    let expected = json!([{"type": "custom_tool_call", "id": "ctc_gen1_0", "status": "completed", "call_id": "toolu_1",
        "name": "apply_patch", "input": "*** Begin \"Patch\"\n"}]);
    assert_eq!(exchange.response["output"], expected);
}

#[test]
fn thoughts_of_claude_return_through_encrypted_content_and_a_namespace_is_kept() {
    let tool = json!({"type": "namespace", "name": "fs", "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}]});
    let body = |input: Value| json!({"model": "m", "input": input, "tools": [tool]});
    let user = json!({"role": "user", "content": "go"});
    let thought = (
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[
            json!({"type": "thinking_delta", "thinking": "Let me \"see\""}),
            json!({"type": "signature_delta", "signature": "EqQB"}),
        ][..],
    );
    let call = (json!({"type": "tool_use", "id": "toolu_1", "name": "fs__read", "input": {"a": 1}}), &[][..]);
    let first = exchange(&body(json!([user])), &message(&[thought, call]));
    assert_eq!(first.sent["tools"][0]["name"], "fs__read");
    let output = first.response["output"].as_array().unwrap();
    assert_eq!((&output[1]["namespace"], &output[1]["name"]), (&json!("fs"), &json!("read")));
    let result = json!({"type": "function_call_output", "call_id": "toolu_1", "output": "18"});
    let input = [vec![user], output.clone(), vec![result]].concat();
    let second = exchange(&body(Value::Array(input)), &message(&[]));
    let expected = json!([
        {"type": "thinking", "thinking": "Let me \"see\"", "signature": "EqQB"},
        {"type": "tool_use", "id": "toolu_1", "name": "fs__read", "input": {"a": 1}}
    ]);
    assert_eq!(second.sent["messages"][1]["content"], expected);
    assert_eq!(second.sent["messages"][2]["content"][0]["tool_use_id"], "toolu_1");
}
