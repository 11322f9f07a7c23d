//! Providers that are at work without anything to show: their streams are not cut as if they hung.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    hostile::{CHUNKED, chunk},
    scripted::{Script, Upstream},
    world::{Model, World, and, ask},
};

/// Much less than the providers here are at work, and much more than their pauses.
const SHORT: &str = "[timeouts]\nfirst_content = \"3s\"\n[stream]\nidle_timeout = \"3s\"\n";

/// An event of the Messages or the Responses API.
fn event(value: &Value) -> String {
    chunk(&format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap()))
}

/// What a client of chat reads of a stream with these steps from an endpoint of the dialect.
async fn streamed(dialect: &str, steps: Script) -> crate::harness::Reply {
    let upstream = Upstream::start([Script::new().request().send(CHUNKED).then(&steps).send("0\r\n\r\n")]);
    let world = World::new()
        .provider_with("maker", upstream.address(), &format!("dialect = \"{dialect}\""))
        .model(&Model::new("acme/able").at("maker", "0.000001", "0.000001"))
        .with(SHORT);
    world.start().await.chat(&and(ask("acme/able"), json!({"stream": true}))).await
}

fn message_start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 20, "output_tokens": 1}}})
}

/// Pings over a time that is longer than any time-out of the gateway.
fn pings() -> Script {
    let ping = event(&json!({"type": "ping"}));
    (0..5).fold(Script::new(), |script, _| script.pause(Duration::from_secs(1)).send(ping.clone()))
}

fn end(index: u64, stop_reason: &str) -> String {
    [
        event(&json!({"type": "content_block_stop", "index": index})),
        event(&json!({"type": "message_delta", "delta": {"stop_reason": stop_reason, "stop_sequence": null}, "usage": {"output_tokens": 7}})),
        event(&json!({"type": "message_stop"})),
    ]
    .concat()
}

#[actix_web::test]
async fn an_anthropic_server_that_pings_while_it_collects_an_argument_is_waited_for() {
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}});
    let piece = |text: &str| {
        event(
            &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}}),
        )
    };
    let begun = [event(&message_start()), event(&block), piece("{\"path\":\"/a\"")].concat();
    let rest = [piece(",\"text\":\"long\"}"), end(0, "tool_use")].concat();
    let reply = streamed("anthropic", Script::new().send(begun).then(&pings()).send(rest)).await;
    let arguments: String = reply
        .events()
        .iter()
        .filter_map(|chunk| {
            Some(chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str()?.to_owned())
        })
        .collect();
    assert_eq!(arguments, r#"{"path":"/a","text":"long"}"#, "{}", reply.text());
}

#[actix_web::test]
async fn an_anthropic_server_that_pings_while_it_thinks_unseen_is_waited_for() {
    let thinking = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}});
    let text = [
        event(&json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "QUJD"}})),
        event(&json!({"type": "content_block_stop", "index": 0})),
        event(&json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}})),
        event(&json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Done."}})),
        end(1, "end_turn"),
    ]
    .concat();
    let begun = [event(&message_start()), event(&thinking)].concat();
    let reply = streamed("anthropic", Script::new().send(begun).then(&pings()).send(text)).await;
    assert_eq!((reply.status, &*reply.content()), (200, "Done."), "{}", reply.text());
}

#[actix_web::test]
async fn pings_without_a_block_do_not_keep_a_stream_alive() {
    let reply = streamed("anthropic", Script::new().send(event(&message_start())).then(&pings())).await;
    assert_eq!(reply.status, 504, "{}", reply.text());
}

#[actix_web::test]
async fn reasoning_of_the_responses_api_may_be_silent_until_it_is_done() {
    let created =
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}});
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let added = json!({"type": "response.output_item.added", "output_index": 0, "item": reasoning});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": reasoning});
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Done.", "annotations": []}]});
    let said = json!({"type": "response.output_item.done", "output_index": 1, "item": message});
    let completed = json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed",
        "output": [reasoning, message], "usage": {"input_tokens": 3, "output_tokens": 9, "total_tokens": 12}}});
    let begun = [event(&created), event(&added)].concat();
    let rest = [event(&done), event(&said), event(&completed)].concat();
    let steps = Script::new().send(begun).pause(Duration::from_secs(5)).send(rest);
    let reply = streamed("openai-responses", steps).await;
    assert_eq!((reply.status, &*reply.content()), (200, "Done."), "{}", reply.text());
}
