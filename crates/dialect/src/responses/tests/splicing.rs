use bytes::Bytes;
use pointsman_domain::{ReasoningFormat, Usage};
use serde_json::{Value, json};

use super::super::{
    inbound::ResponseEcho,
    provider_state::ProviderState,
    reasoning_state::ForeignReasoning,
    splice::{ResponseIdentity, next_number, splice_answer, splice_event, splice_request},
};
use crate::{
    body_edits::BodyEdits,
    json::object,
    neutral::{ReasoningKind, StateKey},
};

/// Members that Open Responses requires of every response.
const OF_RESPONSES: [&str; 31] = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
];

/// A client that gets `gen-1` of the model `openai/x`, at second 20.
pub(super) fn identity() -> ResponseIdentity {
    ResponseIdentity {
        id: "gen-1".to_owned(),
        model: "openai/x".into(),
        state: ProviderState::Refused,
        created: 17,
        clock: || 20,
        echo: ResponseEcho::default(),
    }
}

fn request(body: &str) -> String {
    String::from_utf8(splice_request(body, &BodyEdits::to("gpt-x"), ProviderState::Refused).unwrap().body.to_vec())
        .unwrap()
}

#[test]
fn the_model_is_replaced_nothing_is_stored_and_what_is_ours_is_cut() {
    let body = "{ \"objective\" : \"fastest\",\n \"model\": \"auto\" , \"store\" : true,\"include\":[ \"x\" ], \"new_member\" : {\"a\": 1.0},
        \"metadata\": {\"objective\":\"x\", \"tag\" : \"u\"},\"provider\":{},\"stream_options\":{\"include_obfuscation\":true},\"input\":[ ] , \"session_id\":\"s\" }\n";
    let expected = "{ \"model\": \"gpt-x\" , \"store\" : false,\"include\":[ \"x\" ,\"reasoning.encrypted_content\"], \"new_member\" : {\"a\": 1.0},
        \"metadata\": {\"tag\" : \"u\"},\"stream_options\":{\"include_obfuscation\":true},\"input\":[ ] }\n";
    assert_eq!(request(body), expected);
    let bare = r#"{"model":"gpt-x","store":false,"include":["reasoning.encrypted_content"],"input":"hi"}"#;
    assert_eq!(request(r#"{"input":"hi"}"#), bare);
    let exact = r#"{"model":"gpt-x","include":["reasoning.encrypted_content"],"store":false,"tools":[{"type":"namespace","x":1.0}]}"#;
    assert_eq!(request(exact), exact);
}

#[test]
fn with_the_operators_leave_the_provider_keeps_what_the_client_wants() {
    let body =
        r#"{"model":"gpt-x","store":true,"previous_response_id":"resp_1","input":[{"type":"reasoning","id":"rs_1"}]}"#;
    let spliced = splice_request(body, &BodyEdits::to("gpt-x"), ProviderState::Allowed).unwrap();
    assert_eq!((spliced.body.as_ref(), spliced.without_reasoning), (body.as_bytes(), false));
}

#[test]
fn reasoning_that_the_upstream_cannot_take_back_is_cut() {
    let foreign = ForeignReasoning {
        format: ReasoningFormat::Anthropic,
        kind: ReasoningKind::Text,
        id: String::new(),
        data: "EqQB".into(),
    };
    let sealed = foreign.seal(&StateKey::new([1; 32]), "x");
    let own = r#"{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}"#;
    let call = r#"{"type":"function_call","call_id":"c"}"#;
    let body = |items: &[&str]| {
        format!(
            r#"{{"model":"gpt-x","store":false,"include":["reasoning.encrypted_content"],"input":[{}]}}"#,
            items.join(" ,")
        )
    };
    let envelope = format!(r#"{{"type":"reasoning","encrypted_content":"{sealed}"}}"#);
    let bare = r#"{"type":"reasoning","id":"rs_1","encrypted_content":null}"#;
    let with = body(&[&envelope, own, bare, call, &envelope]);
    let spliced = splice_request(&with, &BodyEdits::to("gpt-x"), ProviderState::Refused).unwrap();
    assert_eq!((spliced.body.as_ref(), spliced.without_reasoning), (body(&[own, call]).as_bytes(), true));
    assert!(
        !splice_request(&body(&[own, call]), &BodyEdits::to("gpt-x"), ProviderState::Refused)
            .unwrap()
            .without_reasoning
    );
}

#[test]
fn of_an_answer_id_model_and_store_are_replaced_and_what_is_missing_is_added() {
    let body = "{\"id\": \"resp_1\",\"model\" :\"gpt-x-2026\",\"store\":true,\"output\":[{\"id\":\"msg_1\",\"model\":\"keep\"}],\"new\":1.0} ";
    let expected = body
        .replace("\"resp_1\"", "\"gen-1\"")
        .replace("\"gpt-x-2026\"", "\"openai/x\"")
        .replace("\"store\":true", "\"store\":false");
    let answer = splice_answer(body, &identity(), Usage::default).unwrap();
    let (_, own) = std::str::from_utf8(&answer).unwrap().split_once("\"usage\":null,").unwrap();
    assert_eq!(format!("{{{own}"), expected);
    for body in ["", "[]", "{", "{} x", "1"] {
        assert!(splice_answer(body, &identity(), Usage::default).is_err(), "{body}");
        assert!(splice_request(body, &BodyEdits::to("m"), ProviderState::Refused).is_err(), "{body}");
    }
}

#[test]
fn a_response_that_lacks_members_gets_those_of_the_request_and_functions_get_strict() {
    let body = r#"{"id":"resp_1","object":"response","created_at":3,"status":"completed","error":null,"model":"m","output":[],
        "tools":[{"type":"function","name":"f","parameters":{},"strict":true},{"type":"function","name":"g"},{"type":"web_search"}],
        "temperature":0.5,"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}"#;
    let whole = splice_answer(body, &identity(), Usage::default).unwrap();
    let whole: Value = serde_json::from_slice(&whole).unwrap();
    for name in OF_RESPONSES {
        assert!(whole.get(name).is_some(), "{name} in {whole}");
    }
    assert_eq!(
        (&whole["completed_at"], &whole["temperature"], &whole["created_at"]),
        (&json!(20), &json!(0.5), &json!(3))
    );
    assert_eq!(
        whole["tools"],
        json!([
            {"type": "function", "name": "f", "parameters": {}, "strict": true, "description": null},
            {"type": "function", "name": "g", "parameters": null, "strict": null, "description": null},
            {"type": "web_search"},
        ])
    );
    for (status, completed) in [("in_progress", Value::Null), ("failed", Value::Null), ("completed", json!(20))] {
        let event = json!({"type": "response.x", "response": {"id": "r", "status": status, "output": []}}).to_string();
        let event = splice_event(&event, &identity(), Usage::default).unwrap().unwrap();
        let event: Value = serde_json::from_slice(&event).unwrap();
        for name in OF_RESPONSES {
            assert!(event["response"].get(name).is_some(), "{name} in {event}");
        }
        assert_eq!((&event["response"]["completed_at"], &event["response"]["status"]), (&completed, &json!(status)));
    }
    let complete = serde_json::to_string(&whole).unwrap();
    let again = splice_answer(&complete, &identity(), Usage::default).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&again).unwrap(), whole, "nothing is missing any more");
    assert_eq!(again.len(), complete.len());
}

#[test]
fn members_that_are_null_where_null_is_no_value_get_those_of_the_request_and_others_stay_null() {
    let given: Value =
        serde_json::from_slice(&splice_answer(r#"{"status":"completed"}"#, &identity(), Usage::default).unwrap())
            .unwrap();
    let may_be_null = [
        "completed_at",
        "error",
        "incomplete_details",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "previous_response_id",
        "prompt_cache_key",
        "safety_identifier",
        "user",
    ];
    let members = given.as_object().unwrap();
    let nulls: serde_json::Map<String, Value> =
        members.iter().filter(|(name, _)| *name != "status").map(|(name, _)| (name.clone(), Value::Null)).collect();
    for status in ["completed", "in_progress"] {
        let mut body = Value::Object(nulls.clone());
        body["status"] = json!(status);
        let whole = splice_answer(&body.to_string(), &identity(), Usage::default).unwrap();
        let whole: Value = serde_json::from_slice(&whole).unwrap();
        let event = json!({"type": "response.x", "response": body}).to_string();
        let event = splice_event(&event, &identity(), Usage::default).unwrap().unwrap();
        let event: Value = serde_json::from_slice(&event).unwrap();
        for response in [&whole, &event["response"]] {
            assert_eq!(response.as_object().unwrap().len(), members.len(), "{response}");
            for (name, value) in members.iter().filter(|(name, _)| *name != "status") {
                let is_null = may_be_null.contains(&name.as_str()) || (name == "usage" && status != "completed");
                let expected = if is_null { &Value::Null } else { value };
                assert_eq!(response[name], *expected, "{name}, {status}: {response}");
            }
        }
    }
    assert_eq!((&given["tools"], &given["created_at"], &given["temperature"]), (&json!([]), &json!(17), &json!(1.0)));
}

#[test]
fn of_a_stream_only_events_with_a_response_are_rewritten() {
    let event = |data: &str| splice_event(data, &identity(), Usage::default).unwrap();
    for kind in ["created", "in_progress", "completed", "incomplete", "failed"] {
        let data = format!(
            r#"{{"type":"response.{kind}","sequence_number":3,"response":{{"id":"resp_1","model":"gpt-x","store":true,"usage":{{"input_tokens":1}}}},"id":"keep"}}"#
        );
        let expected = data
            .replace("\"resp_1\"", "\"gen-1\"")
            .replace("\"gpt-x\"", "\"openai/x\"")
            .replace("\"store\":true", "\"store\":false");
        let (before, own) = expected.split_once("\"id\":\"gen-1\"").unwrap();
        let is_expected =
            |sent: &Bytes, before: &str| sent.starts_with(before.as_bytes()) && sent.ends_with(own.as_bytes());
        assert!(is_expected(&event(&data).unwrap(), before));
        assert_eq!(next_number(object(&data).unwrap()), Some(4));
        let escaped = |text: &str| text.replace("\"response\":", r#""r\u0065sponse":"#);
        assert!(is_expected(&event(&escaped(&data)).unwrap(), &escaped(before)));
    }
    for other in [
        r#"{"type":"response.output_text.delta","delta":"\"response\":{\"id\":1}"}"#,
        r#"{"type":"response.output_item.done","item":{"id":"msg_1"}}"#,
        r#"{"type":"error","message":"\u00e9"}"#,
        "not even JSON",
    ] {
        assert_eq!(event(other), None, "{other}");
    }
    assert_eq!(next_number(object("{}").unwrap()), None);
}

#[test]
fn counts_that_an_ended_response_lacks_are_added() {
    let used = || Usage { prompt_tokens: 12, completion_tokens: 7, ..Usage::default() };
    for usage in ["", r#","usage":null"#, r#","usage":{"input_tokens":-3,"output_tokens":"ten","total_tokens":1}"#] {
        let body = format!(r#"{{"status":"completed","output":[{{"type":"new_item"}}]{usage}}}"#);
        let answer = splice_answer(&body, &identity(), used).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let counts = ["input_tokens", "output_tokens", "total_tokens"].map(|name| answer["usage"][name].as_u64());
        assert_eq!(counts, [Some(12), Some(7), Some(19)], "{usage}");
        assert_eq!(answer["output"][0]["type"], "new_item");
    }
    let created = r#"{"type":"response.created","response":{"status":"in_progress","usage":null}}"#;
    let event = splice_event(created, &identity(), used).unwrap().unwrap();
    let event: Value = serde_json::from_slice(&event).unwrap();
    assert_eq!(event["response"]["usage"], Value::Null, "it has not ended");
}

#[test]
fn a_lower_limit_and_defaults_change_nothing_else() {
    let defaults = [("temperature", 0.5), ("top_k", 40.0)];
    let call = BodyEdits { most_output: Some(100), defaults: &defaults, ..BodyEdits::to("m") };
    let sent = |body: &str| splice_request(body, &call, ProviderState::Allowed).unwrap().body;
    assert_eq!(
        sent(r#"{"model":"a","max_output_tokens":3000,"input":[{"type":"compaction","encrypted_content":"x"}]}"#),
        r#"{"temperature":0.5,"model":"m","max_output_tokens":100,"input":[{"type":"compaction","encrypted_content":"x"}]}"#
    );
    assert_eq!(
        sent(r#"{"model":"a","temperature":1,"tools":[{"type":"web_search"}]}"#),
        r#"{"max_output_tokens":100,"model":"m","temperature":1,"tools":[{"type":"web_search"}]}"#
    );
}

#[test]
fn defaults_are_left_out_while_the_model_reasons() {
    let defaults = [("temperature", 0.5)];
    for (model, reasoning, is_sent) in [
        ("gpt-4o", "{}", true),
        ("gpt-5.1", "null", true),
        ("gpt-5.1", r#"{"effort":"none"}"#, true),
        ("gpt-5.1", r#"{"effort":"low"}"#, false),
        ("gpt-5.5", r#"{"summary":"auto"}"#, false),
        ("gpt-5.5", r#"{"effort":"none"}"#, true),
        ("my-deployment", r#"{"effort":"high"}"#, true),
    ] {
        let call = BodyEdits { defaults: &defaults, ..BodyEdits::to(model) };
        let body = format!(r#"{{"model":"a","reasoning":{reasoning}}}"#);
        let sent = splice_request(&body, &call, ProviderState::Allowed).unwrap().body;
        let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap();
        assert_eq!(sent.get("temperature").is_some(), is_sent, "{model} {reasoning}");
    }
}

#[test]
fn a_lower_limit_is_one_that_the_api_takes() {
    let call = BodyEdits { most_output: Some(5), ..BodyEdits::to("m") };
    for (body, expected) in [
        (r#"{"model":"a"}"#, r#"{"max_output_tokens":16,"model":"m"}"#),
        (r#"{"model":"a","max_output_tokens":3000}"#, r#"{"model":"m","max_output_tokens":16}"#),
        (r#"{"model":"a","max_output_tokens":16}"#, r#"{"model":"m","max_output_tokens":16}"#),
    ] {
        assert_eq!(splice_request(body, &call, ProviderState::Allowed).unwrap().body, expected);
    }
}
