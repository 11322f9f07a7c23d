//! However reads split the stream of a provider, a client gets the same bytes: also within characters, escapes, line endings
//! and frames.

use bytes::{Bytes, BytesMut};
use pointsman_dialect::{ChatStream, ClientRequest, OutgoingBody, StreamOptions};
use pointsman_domain::Dialect;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    upstream::framed,
    world::{catalog, clients, context, sent},
};

const BODY: &str = r#"{"model":"acme/m","messages":[{"role":"user","content":"Hi"}]}"#;

/// A stream with a thought, a text with characters of several bytes, whole and escaped, a call and the usage.
fn stream(dialect: Dialect) -> Vec<u8> {
    let data = |value: Value, end: &str| format!("data: {}{end}", value.to_string().replace('☃', "\\u2603"));
    let named = |kind: &str, more: Value| {
        let mut value = more;
        value["type"] = json!(kind);
        format!("event: {kind}\n{}", data(value, "\n\n"))
    };
    let text = match dialect {
        Dialect::OpenAi => {
            let chunk = |delta: Value, finish: Value, end: &str| {
                data(json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}), end)
            };
            [
                chunk(json!({"role": "assistant", "content": "", "reasoning_content": "hm é"}), Value::Null, "\r\n\r\n"),
                chunk(json!({"content": "a😀☃ "}), Value::Null, "\n\n"),
                ": a comment\n\n".to_owned(),
                chunk(json!({"content": "line\nend"}), Value::Null, "\r\r"),
                chunk(json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"é\":"}}]}), Value::Null, "\n\n"),
                chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"\\n\"}"}}]}), Value::Null, "\n\n"),
                chunk(json!({}), json!("tool_calls"), "\n\n"),
                data(json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}}), "\n\n"),
                "data: [DONE]\n\n".to_owned(),
            ]
            .concat()
        }
        Dialect::Anthropic => {
            let delta = |index: u8, delta: Value| named("content_block_delta", json!({"index": index, "delta": delta}));
            let start =
                |index: u8, block: Value| named("content_block_start", json!({"index": index, "content_block": block}));
            let stop = |index: u8| named("content_block_stop", json!({"index": index}));
            [
                named("message_start", json!({"message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
                    "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 1}}})),
                start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
                delta(0, json!({"type": "thinking_delta", "thinking": "hm é"})),
                delta(0, json!({"type": "signature_delta", "signature": "EqQB"})),
                stop(0),
                named("ping", json!({})),
                start(1, json!({"type": "text", "text": ""})),
                delta(1, json!({"type": "text_delta", "text": "a😀☃ "})),
                delta(1, json!({"type": "text_delta", "text": "line\nend"})),
                stop(1),
                start(2, json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}})),
                delta(2, json!({"type": "input_json_delta", "partial_json": "{\"é\":"})),
                delta(2, json!({"type": "input_json_delta", "partial_json": "\"\\n\"}"})),
                stop(2),
                named("message_delta", json!({"delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 5}})),
                named("message_stop", json!({})),
            ]
            .concat()
        }
        Dialect::Gemini => {
            let part = |part: Value, end: &str| {
                data(
                    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}], "responseId": "r"}),
                    end,
                )
            };
            [
                part(json!({"text": "hm é", "thought": true}), "\r\n\r\n"),
                part(json!({"text": "a😀☃ "}), "\n\n"),
                part(json!({"text": "line\nend"}), "\n\n"),
                part(json!({"functionCall": {"name": "f", "args": {"é": "\n"}}, "thoughtSignature": "AbC="}), "\n\n"),
                data(
                    json!({"candidates": [{"index": 0, "content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}],
                    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14}}),
                    "\n\n",
                ),
            ]
            .concat()
        }
        Dialect::Responses => {
            let call = |status: &str, arguments: &str| json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": arguments, "status": status});
            let spoken = |status: &str, content: Value| json!({"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content});
            let text = json!([{"type": "output_text", "text": "a😀☃ line\nend", "annotations": []}]);
            let whole = json!({"id": "resp_1", "object": "response", "status": "completed", "model": "m",
                "output": [spoken("completed", text.clone()), call("completed", "{\"é\":\"\\n\"}")],
                "usage": {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}});
            let at = |more: Value| {
                let mut value = json!({"item_id": "msg_1", "output_index": 0, "content_index": 0});
                value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                value
            };
            [
                named(
                    "response.created",
                    json!({"response": {"id": "resp_1", "model": "m", "status": "in_progress", "output": []}}),
                ),
                named(
                    "response.output_item.added",
                    json!({"output_index": 0, "item": spoken("in_progress", json!([]))}),
                ),
                named("response.output_text.delta", at(json!({"delta": "a😀☃ "}))),
                named("response.output_text.delta", at(json!({"delta": "line\nend"}))),
                named("response.output_item.done", json!({"output_index": 0, "item": spoken("completed", text)})),
                named("response.output_item.added", json!({"output_index": 1, "item": call("in_progress", "")})),
                named(
                    "response.function_call_arguments.delta",
                    json!({"item_id": "fc_1", "output_index": 1, "delta": "{\"é\":"}),
                ),
                named(
                    "response.function_call_arguments.delta",
                    json!({"item_id": "fc_1", "output_index": 1, "delta": "\"\\n\"}"}),
                ),
                named(
                    "response.output_item.done",
                    json!({"output_index": 1, "item": call("completed", "{\"é\":\"\\n\"}")}),
                ),
                named("response.completed", json!({"response": whole})),
            ]
            .concat()
        }
        Dialect::Converse => return frames(),
    };
    text.into_bytes()
}

fn frames() -> Vec<u8> {
    let delta = |index: u8, delta: Value| ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}));
    let events = [
        ("messageStart", json!({"role": "assistant"})),
        delta(0, json!({"reasoningContent": {"text": "hm é"}})),
        delta(0, json!({"reasoningContent": {"signature": "EqQB"}})),
        ("contentBlockStop", json!({"contentBlockIndex": 0})),
        delta(1, json!({"text": "a😀☃ "})),
        delta(1, json!({"text": "line\nend"})),
        ("contentBlockStop", json!({"contentBlockIndex": 1})),
        ("contentBlockStart", json!({"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "f"}}})),
        delta(2, json!({"toolUse": {"input": "{\"é\":"}})),
        delta(2, json!({"toolUse": {"input": "\"\\n\"}"}})),
        ("contentBlockStop", json!({"contentBlockIndex": 2})),
        ("messageStop", json!({"stopReason": "tool_use"})),
        ("metadata", json!({"usage": {"inputTokens": 9, "outputTokens": 5, "totalTokens": 14}})),
    ];
    framed(&events)
}

/// What the client gets when the stream comes in these reads.
fn relayed<'r>(
    outgoing: &OutgoingBody,
    client: Option<&ClientRequest>,
    reads: impl IntoIterator<Item = &'r [u8]>,
) -> String {
    let mut stream = ChatStream::between(Some(outgoing), client, context(), StreamOptions::default());
    let mut out = BytesMut::new();
    for read in reads {
        stream.push(&Bytes::copy_from_slice(read), &mut out).unwrap();
    }
    stream.end(&mut out).unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn a_split_at_any_byte_changes_nothing() {
    let (catalog, clients) = (catalog(), clients());
    for dialect in Dialect::ALL {
        let (outgoing, stream) = (sent(&catalog, dialect, BODY), stream(dialect));
        let relay = |client: &Option<ClientRequest>, reads: &[&[u8]]| {
            relayed(&outgoing, client.as_ref(), reads.iter().copied())
        };
        let whole = clients.each_ref().map(|(_, client)| relay(client, &[&stream]));
        for ((name, client), whole) in clients.iter().zip(&whole) {
            assert!(whole.contains("\\u2603") || whole.contains('☃'), "{name} at {dialect:?}: {whole}");
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            assert_eq!(relay(client, &bytes), *whole, "{name} at {dialect:?}, byte by byte");
        }
        // The clients take turns: what a split does happens before they are told apart.
        for place in 1..stream.len() {
            let turn = place % clients.len();
            let ((name, client), (before, after)) = (&clients[turn], stream.split_at(place));
            assert_eq!(relay(client, &[before, after]), whole[turn], "{name} at {dialect:?}, split at {place}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]
    #[test]
    fn any_reads_give_the_same_bytes(mut places in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let catalog = catalog();
        for dialect in Dialect::ALL {
            let (outgoing, stream) = (sent(&catalog, dialect, BODY), stream(dialect));
            let mut cuts: Vec<usize> = places.iter_mut().map(|place| place.index(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            for (name, client) in clients() {
                let reads = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]);
                let whole = relayed(&outgoing, client.as_ref(), [&*stream]);
                prop_assert_eq!(relayed(&outgoing, client.as_ref(), reads), whole, "{} at {:?}", name, dialect);
            }
        }
    }
}
