//! Mistakes of clients at every door: each is a 400 in the door's own shape that names a field of the client's API, never a
//! failure of the gateway, whatever the endpoint speaks.

use actix_web::http::Method;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    dialect_pairs::{PROVIDERS, whole},
    harness::{Reply, TestGateway},
    scripted::Upstream,
    world::{World, always},
};

struct Door {
    path: &'static str,
    good: Value,
    /// Members of the body, and places inside of them, which `@` marks.
    fields: &'static [&'static str],
    places: Vec<Value>,
    /// Names that only chat has.
    foreign: &'static [&'static str],
}

fn doors() -> [Door; 5] {
    let call = json!({"id": "c", "type": "function", "function": {"name": "@", "arguments": "@"}});
    [
        Door {
            path: "/v1/chat/completions",
            good: json!({"model": "acme/any", "messages": [{"role": "user", "content": "Hi"}]}),
            fields: &[
                "model",
                "messages",
                "max_tokens",
                "temperature",
                "stop",
                "stream",
                "tools",
                "tool_choice",
                "response_format",
                "reasoning",
                "reasoning_effort",
                "n",
                "metadata",
                "provider",
                "objective",
                "modalities",
                "functions",
                "input",
            ],
            places: vec![
                json!({"messages": [{"role": "@", "content": "@"}]}),
                json!({"messages": [{"role": "user", "content": ["@"]}]}),
                json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "@"}}]}]}),
                json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [call]}]}),
                json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_details": ["@"]}, {"role": "user", "content": "c"}]}),
                json!({"tools": [{"type": "function", "function": {"name": "@", "parameters": "@"}}]}),
                json!({"tools": [{"type": "@", "name": "f", "input_schema": "@"}]}),
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": true, "schema": "@"}}}),
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": true, "schema": {"type": "object", "properties": {"a": "@"}}}}}),
            ],
            foreign: &[],
        },
        Door {
            path: "/v1/messages",
            good: json!({"model": "acme/any", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}),
            fields: &[
                "model",
                "messages",
                "max_tokens",
                "system",
                "stop_sequences",
                "stream",
                "temperature",
                "tools",
                "tool_choice",
                "thinking",
                "metadata",
                "output_config",
                "container",
                "mcp_servers",
                "objective",
                "models",
                "thread",
            ],
            places: vec![
                json!({"messages": [{"role": "@", "content": "@"}]}),
                json!({"messages": [{"role": "user", "content": ["@"]}]}),
                json!({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "@", "data": "@"}}]}]}),
                json!({"messages": [{"role": "user", "content": [{"type": "document", "source": "@", "title": "@"}]}]}),
                json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "@", "name": "@", "input": "@"}]}]}),
                json!({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "@", "content": "@"}]}]}),
                json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "@", "signature": "@"}]}, {"role": "user", "content": "c"}]}),
                json!({"tools": [{"name": "@", "input_schema": "@"}]}),
                json!({"tools": [{"type": "@", "name": "f"}]}),
                json!({"thinking": {"type": "enabled", "budget_tokens": "@"}}),
                json!({"output_config": {"format": {"type": "json_schema", "schema": "@"}}}),
            ],
            foreign: &["tool_calls", "response_format", "reasoning", "image_url"],
        },
        Door {
            path: "/v1/responses",
            good: json!({"model": "acme/any", "input": "Hi"}),
            fields: &[
                "model",
                "input",
                "instructions",
                "tools",
                "tool_choice",
                "reasoning",
                "text",
                "max_output_tokens",
                "include",
                "truncation",
                "store",
                "background",
                "previous_response_id",
                "stream",
                "temperature",
                "metadata",
            ],
            places: vec![
                json!({"input": ["@"]}),
                json!({"input": [{"role": "@", "content": "@"}]}),
                json!({"input": [{"role": "user", "content": ["@"]}]}),
                json!({"input": [{"role": "user", "content": [{"type": "input_file", "file_data": "@", "filename": "@"}]}]}),
                json!({"input": [{"type": "function_call", "call_id": "@", "name": "@", "arguments": "@"}]}),
                json!({"input": [{"type": "function_call_output", "call_id": "@", "output": "@"}]}),
                json!({"input": [{"type": "reasoning", "id": "@", "summary": "@", "encrypted_content": "@"}, {"role": "user", "content": "a"}]}),
                json!({"input": [{"type": "@"}]}),
                json!({"tools": [{"type": "function", "name": "@", "parameters": "@"}]}),
                json!({"tools": [{"type": "namespace", "name": "@", "tools": "@"}]}),
                json!({"tool_choice": {"type": "allowed_tools", "mode": "@", "tools": "@"}}),
                json!({"text": {"format": {"type": "json_schema", "name": "@", "schema": "@", "strict": "@"}}}),
            ],
            foreign: &[
                "messages",
                "response_format",
                "reasoning_effort",
                "max_tokens",
                "max_completion_tokens",
                "file_data'",
            ],
        },
        Door {
            path: "/v1/embeddings",
            good: json!({"model": "acme/vectors", "input": "Hi"}),
            fields: &["model", "input", "dimensions", "encoding_format", "user", "models", "metadata"],
            places: vec![json!({"input": ["a", "@"]}), json!({"input": [1, "@"]}), json!({"input": [[1], "@"]})],
            foreign: &[],
        },
        Door {
            path: "/v1/completions",
            good: json!({"model": "acme/any", "prompt": "Hi"}),
            fields: &[
                "model",
                "prompt",
                "suffix",
                "echo",
                "best_of",
                "logprobs",
                "max_tokens",
                "n",
                "stop",
                "stream",
                "temperature",
                "messages",
            ],
            places: vec![json!({"prompt": ["a", "@"]}), json!({"prompt": [1, "@"]}), json!({"prompt": [[1], "@"]})],
            foreign: &["tool_calls"],
        },
    ]
}

/// Values that hardly any field takes.
fn odd_values() -> Vec<Value> {
    let list = json!([null, true, -1, 1.5, 1e300, "", " ", "x", "\u{0}", "\u{301}", [], [null], [[]], ["x"], {}, {"a": null},
                      {"type": "x"}, {"type": null}, [{}], [{"type": "text"}], [{"type": "text", "text": 1}], [{"type": []}]]);
    list.as_array().unwrap().clone()
}

/// `place` with the value wherever the mark is.
fn filled(place: &Value, value: &Value) -> Value {
    match place {
        Value::String(mark) if mark == "@" => value.clone(),
        Value::Array(items) => items.iter().map(|item| filled(item, value)).collect(),
        Value::Object(members) => members.iter().map(|(name, item)| (name.clone(), filled(item, value))).collect(),
        other => other.clone(),
    }
}

fn bodies(door: &Door) -> Vec<String> {
    let merged = |more: &Value| {
        let mut body = door.good.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let mut bodies: Vec<String> =
        ["", " ", "{", "[]", "null", "\"x\"", "{}x", "{\"a\":1,}", "NaN", "{\"model\":1,\"model\":2}"]
            .map(str::to_owned)
            .to_vec();
    bodies.push("[".repeat(100_000));
    bodies.push(format!("{{\"model\":\"acme/any\",\"input\":{}{}}}", "[".repeat(300), "]".repeat(300)));
    for value in &odd_values() {
        // Streams are asked for elsewhere.
        let fields = door.fields.iter().filter(|field| **field != "stream" || *value != json!(true));
        bodies.extend(fields.map(|field| merged(&json!({*field: value})).to_string()));
        bodies.extend(door.places.iter().map(|place| merged(&filled(place, value)).to_string()));
    }
    for field in door.fields {
        let mut body = door.good.clone();
        if body.as_object_mut().unwrap().remove(*field).is_some() {
            bodies.push(body.to_string());
        }
    }
    bodies
}

#[track_caller]
fn check(door: &Door, body: &str, reply: &Reply) {
    let context = || format!("{} {:.300}: {} {:.400}", door.path, body, reply.status, reply.text());
    // What is accepted as several inputs gets one vector, which is no answer.
    if door.path == "/v1/embeddings" && reply.status >= 500 {
        return;
    }
    assert!((400..500).contains(&reply.status) || reply.status == 200, "{}", context());
    if reply.status == 200 {
        return;
    }
    let answer = reply.json();
    let error = &answer["error"];
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{}", context());
    assert_eq!(answer["type"] == "error", door.path == "/v1/messages", "{}", context());
    let told = format!("{} '{}'", error["message"].as_str().unwrap(), error["param"].as_str().unwrap_or_default());
    // A message may repeat the client's own text, which is short here.
    let is_foreign = |name: &&&str| told.contains(&format!("'{name}")) && !body.contains(**name);
    assert_eq!(door.foreign.iter().find(is_foreign), None, "{}", context());
}

/// `acme/any` at `maker`, and `acme/vectors` at `vectors`.
async fn gateway(dialect: &str, maker: &Upstream, vectors: &Upstream) -> TestGateway {
    let endpoint = |provider: &str| {
        format!(
            "[{{ provider = \"{provider}\", upstream_model = \"m\", pricing = {{ prompt = \"0\", completion = \"0\" }} }}]"
        )
    };
    let models = format!(
        "[[models]]\nid = \"acme/any\"\ncontext_length = 100000\ninput_modalities = [\"text\", \"image\", \"file\"]\n\
         supported_parameters = [\"max_tokens\", \"tools\", \"tool_choice\", \"reasoning\", \"structured_outputs\", \"response_format\"]\n\
         endpoints = {}\n[[models]]\nid = \"acme/vectors\"\ncontext_length = 1000\noutput_modalities = [\"embeddings\"]\n\
         endpoints = {}\n",
        endpoint("maker"),
        endpoint("vectors")
    );
    let world = World::new().variable("POINTSMAN__SERVER__LEGACY_COMPLETIONS", "true");
    let keys = format!("dialect = \"{dialect}\"\nlegacy_completions = {}", dialect == "openai");
    let world = world.provider_with("maker", maker.address(), &keys);
    world.provider("vectors", vectors.address()).with(&models).start().await
}

#[actix_web::test]
async fn no_mistake_of_a_client_is_a_failure_of_the_gateway_and_each_is_told_in_the_doors_own_shape() {
    let json_type = [("content-type", "application/json")];
    let vector = json!({"data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 1, "total_tokens": 1}});
    for dialect in PROVIDERS {
        let (maker, vectors) = (always(200, &whole(dialect)), always(200, &vector));
        let gateway = gateway(dialect, &maker, &vectors).await;
        for door in doors() {
            let bodies = bodies(&door);
            for group in bodies.chunks(24) {
                join_all(group.iter().map(async |body| {
                    let reply = gateway.call(Method::POST, door.path, &json_type, Some(body.clone().into())).await;
                    check(&door, body, &reply);
                }))
                .await;
            }
        }
    }
}
