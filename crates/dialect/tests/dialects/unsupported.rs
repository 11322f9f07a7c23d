//! No member of a chat is lost in silence: at every dialect it is sent, mapped, or named as dropped or emulated.

use std::collections::BTreeSet;

use pointsman_dialect::OutgoingBody;
use pointsman_domain::Dialect;
use serde_json::{Value, json};

use crate::world::{catalog, sent};

/// Members that are for the gateway alone, whatever they say.
const CONSUMED: [&str; 2] = ["metadata", "stream_options"];

/// A value for each member that differs from what its absence means, and members that it needs beside it.
fn samples() -> Vec<(&'static str, Value, Value)> {
    let function = json!({"name": "f", "parameters": {"type": "object", "properties": {}}});
    let tools = json!({"tools": [{"type": "function", "function": function}]});
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    vec![
        ("audio", json!({"voice": "alloy", "format": "mp3"}), json!({})),
        ("frequency_penalty", json!(0.5), json!({})),
        ("function_call", json!({"name": "f"}), json!({"functions": [function]})),
        ("functions", json!([function]), json!({})),
        ("logit_bias", json!({"7": 1}), json!({})),
        ("logprobs", json!(true), json!({})),
        ("max_completion_tokens", json!(77), json!({})),
        ("max_tokens", json!(77), json!({})),
        ("messages", json!([{"role": "user", "content": "Ho"}]), json!({})),
        ("metadata", json!({"team": "a"}), json!({})),
        ("modalities", json!(["text", "audio"]), json!({})),
        ("model", json!("acme/m"), json!({})),
        ("moderation", json!({"model": "omni"}), json!({})),
        ("n", json!(2), json!({})),
        ("parallel_tool_calls", json!(false), tools.clone()),
        ("prediction", json!({"type": "content", "content": "x"}), json!({})),
        ("presence_penalty", json!(0.5), json!({})),
        ("prompt_cache_key", json!("k"), json!({})),
        ("prompt_cache_options", json!({"mode": "explicit"}), json!({})),
        ("prompt_cache_retention", json!("24h"), json!({})),
        ("reasoning_effort", json!("high"), json!({"max_tokens": 9000})),
        ("response_format", json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}), json!({})),
        ("safety_identifier", json!("s"), json!({})),
        ("seed", json!(7), json!({})),
        ("service_tier", json!("flex"), json!({})),
        ("stop", json!(["END"]), json!({})),
        ("store", json!(true), json!({})),
        ("stream", json!(true), json!({})),
        ("stream_options", json!({"include_usage": false}), json!({"stream": true})),
        ("temperature", json!(0.5), json!({})),
        ("tool_choice", json!("required"), tools.clone()),
        ("tools", tools["tools"].clone(), json!({})),
        ("top_logprobs", json!(3), json!({"logprobs": true})),
        ("top_p", json!(0.5), json!({})),
        ("user", json!("alice@example.com"), json!({})),
        ("verbosity", json!("low"), json!({})),
        ("web_search_options", json!({"search_context_size": "low"}), json!({})),
    ]
}

fn body(members: [&Value; 2]) -> String {
    let mut body = json!({"model": "acme/m", "messages": [{"role": "user", "content": "Hi"}]});
    for more in members {
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
    body.to_string()
}

/// Whether the member, or a part of it, is named.
fn is_named(list: &[std::sync::Arc<str>], name: &str) -> bool {
    list.iter()
        .any(|listed| listed.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '['])))
}

#[test]
fn every_member_of_the_published_type_has_a_fate_in_every_dialect() {
    let published = include_str!("chat_members.txt").lines().filter(|line| !line.starts_with('#'));
    let published: BTreeSet<&str> = published.collect();
    let samples = samples();
    assert_eq!(samples.iter().map(|(name, ..)| *name).collect::<BTreeSet<_>>(), published, "one sample of each member");
    let catalog = catalog();
    let mut lost = Vec::new();
    for dialect in Dialect::ALL {
        for (name, value, beside) in &samples {
            let with = sent(&catalog, dialect, &body([beside, &json!({*name: value})]));
            let without = sent(&catalog, dialect, &body([beside, &json!({})]));
            let OutgoingBody { bytes, dropped, emulated, .. } = &with;
            let is_reported = is_named(dropped, name) || is_named(emulated, name);
            // The path of a Gemini call says whether it is a stream, and Responses and Anthropic always name the model.
            let is_elsewhere = CONSUMED.contains(name) || *name == "model" || *name == "stream";
            if !is_reported && !is_elsewhere && **bytes == *without.bytes {
                lost.push(format!("{dialect:?}: {name}"));
            }
            if is_named(dropped, name) && is_named(emulated, name) {
                lost.push(format!("{dialect:?}: {name} is dropped and emulated"));
            }
            assert!(!String::from_utf8_lossy(bytes).contains("alice@") || dialect != Dialect::Anthropic, "{dialect:?}");
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
}
