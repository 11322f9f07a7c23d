use pointsman_domain::{FinishReason, Usage};
use serde_json::{Value, json};

use super::super::splice::{splice_answer, splice_event, splice_request};
use crate::{Outcome, body_edits::BodyEdits};

fn request(body: &str) -> String {
    String::from_utf8(splice_request(body, &BodyEdits::to("claude-x")).unwrap().body.to_vec()).unwrap()
}

#[test]
fn only_the_model_is_replaced_and_what_is_ours_is_cut() {
    let body = "{ \"objective\" : \"fastest\",\n \"model\": \"auto\" , \"system\":[{\"type\":\"text\",\"text\":\"x\\u0041\"}],\"max_tokens\":1e2, \"new_member\" : {\"a\": 1.0},
        \"metadata\": {\"objective\":\"x\", \"user_id\" : \"u\",\"weights\":{}},\"provider\":{\"order\":[]},\"messages\":[ ] , \"session_id\":\"s\", \"trace\":{} }\n";
    let expected = "{ \"model\": \"claude-x\" , \"system\":[{\"type\":\"text\",\"text\":\"x\\u0041\"}],\"max_tokens\":1e2, \"new_member\" : {\"a\": 1.0},
        \"metadata\": {\"user_id\" : \"u\"},\"messages\":[ ] }\n";
    assert_eq!(request(body), expected);
}

#[test]
fn every_routing_member_is_cut_wherever_it_stands() {
    let names = [
        "objective",
        "weights",
        "allowed_models",
        "blocked_models",
        "max_cost_per_1k_tokens",
        "max_cost",
        "preferred_max_latency",
        "preferred_min_throughput",
        "provider_policy",
        "top_n",
        "provider",
        "models",
        "route",
        "session_id",
        "trace",
        "usage",
        "debug",
        "route_seed",
        "why_not",
        "what_if",
        "plugins",
        "transforms",
        "extra_body",
    ];
    for name in names {
        for (body, expected) in [
            (format!(r#"{{"{name}":[1],"model":"m"}}"#), r#"{"model":"claude-x"}"#),
            (format!(r#"{{"model":"m" , "{name}":[1]}}"#), r#"{"model":"claude-x"}"#),
            (format!(r#"{{"model":"m","{name}":[1],"{name}":2,"x":3}}"#), r#"{"model":"claude-x","x":3}"#),
            (format!(r#"{{"{name}":1}}"#), r#"{"model":"claude-x"}"#),
        ] {
            assert_eq!(request(&body), expected, "{body}");
        }
    }
    assert_eq!(request(r#"{"m\u006fdel":"m","tra\u0063e":1}"#), r#"{"m\u006fdel":"claude-x"}"#);
}

#[test]
fn tools_thinking_betas_and_unknown_members_survive_byte_for_byte() {
    let body = r#"{"model":"claude-x","tools":[{"name":"weights","input_schema":{"objective":1.0}}],"thinking":{"type":"enabled","budget_tokens":1024},"betas":["a"],"stream_options":{},"metadata":{"user_id":"u","tag":1},"context_management":{"edits":[]}}"#;
    assert_eq!(request(body), body);
}

#[test]
fn a_body_that_is_no_object_is_refused() {
    for body in ["", "[]", "{", "{} x", "1"] {
        assert!(
            splice_request(body, &BodyEdits::to("m")).is_err()
                && splice_answer(body, "i", "m", &Outcome::default()).is_err(),
            "{body}"
        );
    }
}

#[test]
fn of_an_answer_only_id_and_model_are_replaced() {
    let body = "{\"id\": \"msg_1\",\"type\":\"message\", \"model\" :\"claude-x-2026\",\"content\":[{\"type\":\"text\",\"text\":\"\\u00e9\",\"id\":\"keep\",\"model\":\"keep\"}],\"new\":1.0,\"stop_reason\":\"x\",\"usage\":{\"input_tokens\":1,\"output_tokens\":2}} ";
    let expected = body.replace("\"msg_1\"", "\"gen-1\"").replace("\"claude-x-2026\"", "\"anthropic/x\"");
    assert_eq!(splice_answer(body, "gen-1", "anthropic/x", &Outcome::default()).unwrap(), expected.as_bytes());
}

fn kind_of(event: &str) -> String {
    let event: Value = serde_json::from_str(event).unwrap();
    event["type"].as_str().unwrap().to_owned()
}

#[test]
fn of_a_stream_only_message_start_is_rewritten() {
    let event = |data: &str| splice_event(&kind_of(data), data, "gen-1", "anthropic/x", Usage::default).unwrap();
    let start = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","model":"claude-x","usage":{"input_tokens":25,"output_tokens":1}},"id":"keep"}"#;
    let expected = start.replace("\"msg_1\"", "\"gen-1\"").replace("\"claude-x\"", "\"anthropic/x\"");
    assert_eq!(event(start).unwrap(), expected.as_bytes());
    assert_eq!(
        event(&start.replace("message_start", r"message\u005fstart")).unwrap(),
        expected.replace("message_start", r"message\u005fstart").as_bytes()
    );
    for other in [
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"message_start"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":0}}"#,
        r#"{"type":"message_stop"}"#,
    ] {
        assert_eq!(event(other), None, "{other}");
    }
}

fn used() -> Usage {
    Usage { prompt_tokens: 12, completion_tokens: 7, cached_tokens: 2, ..Usage::default() }
}

#[test]
fn counts_and_a_reason_that_an_answer_lacks_are_added_and_the_rest_stays() {
    let outcome = Outcome { usage: used(), finish: Some(FinishReason::Length), ..Outcome::default() };
    for irregular in [
        r#""#,
        r#","usage":null,"stop_reason":null"#,
        r#","usage":{"input_tokens":-3,"output_tokens":9999999999999999999999}"#,
        r#","stop_reason":3,"usage":{"input_tokens":"ten","output_tokens":7}"#,
    ] {
        let body = format!(r#"{{"content":[{{"type":"new_block"}}]{irregular}}}"#);
        let answer: Value = serde_json::from_slice(&splice_answer(&body, "i", "m", &outcome).unwrap()).unwrap();
        assert_eq!(answer["content"], json!([{"type": "new_block"}]), "{body}");
        assert_eq!(answer["stop_reason"], "max_tokens", "{body}");
        let usage = &answer["usage"];
        assert_eq!(
            (&usage["input_tokens"], &usage["cache_read_input_tokens"], &usage["output_tokens"]),
            (&json!(10), &json!(2), &json!(7)),
            "{body}"
        );
    }
}

#[test]
fn counts_that_the_events_of_a_stream_lack_are_added() {
    let event = |data: &str| -> Value {
        serde_json::from_slice(&splice_event(&kind_of(data), data, "i", "m", used).unwrap().unwrap()).unwrap()
    };
    for usage in ["", r#","usage":{}"#, r#","usage":{"input_tokens":-1,"output_tokens":1}"#, r#","usage":7"#] {
        let start = event(&format!(r#"{{"type":"message_start","message":{{"id":"x"{usage}}}}}"#));
        assert_eq!(start["message"]["id"], "i");
        assert_eq!(start["message"]["usage"]["input_tokens"], 12, "{usage}");
        assert_eq!(start["message"]["usage"]["output_tokens"], 1, "{usage}");
    }
    let counted = r#""input_tokens":900,"cache_creation_input_tokens":20,"cache_read_input_tokens":100"#;
    let start = event(&format!(r#"{{"type":"message_start","message":{{"usage":{{{counted}}}}}}}"#));
    let (expected, usage) = (format!(r#"{{"output_tokens":1,{counted}}}"#), start["message"]["usage"].to_string());
    assert_eq!(usage, serde_json::from_str::<Value>(&expected).unwrap().to_string(), "what is there stays");
    let start = event(r#"{"type":"message_start","message":{"usage":{"cache_read_input_tokens":5}}}"#);
    let expected = json!({"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 5});
    assert_eq!(start["message"]["usage"], expected, "what was cached is no other input");
    let delta = event(r#"{"type":"message_delta","delta":{},"usage":{"output_tokens":null,"input_tokens":900}}"#);
    assert_eq!(delta["usage"], json!({"input_tokens": 900, "output_tokens": 7}));
    for usage in ["", r#","usage":null"#, r#","usage":{"output_tokens":"many"}"#] {
        let delta = event(&format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}}{usage}}}"#));
        assert_eq!(delta["usage"], json!({"output_tokens": 7}), "{usage}");
        assert_eq!(delta["delta"]["stop_reason"], "end_turn");
    }
}

#[test]
fn a_lower_limit_and_defaults_change_nothing_else() {
    let defaults = [("temperature", 0.5), ("top_k", 40.0), ("repetition_penalty", 1.1)];
    let call = BodyEdits { most_output: Some(2000), defaults: &defaults, ..BodyEdits::to("m") };
    for (body, expected, limits_thinking) in [
        (
            r#"{"model":"a","max_tokens":3000,"tools":[{"type":"web_search_20250305"}],"top_k":1,"new":[{"x":1}]}"#,
            r#"{"temperature":0.5,"model":"m","max_tokens":2000,"tools":[{"type":"web_search_20250305"}],"top_k":1,"new":[{"x":1}]}"#,
            false,
        ),
        (
            r#"{"model":"a","max_tokens":5,"temperature":1,"top_k":1}"#,
            r#"{"model":"m","max_tokens":5,"temperature":1,"top_k":1}"#,
            false,
        ),
        (
            r#"{"model":"a","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":8000}}"#,
            r#"{"model":"m","max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1999}}"#,
            true,
        ),
        (
            r#"{"model":"a","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":1500}}"#,
            r#"{"model":"m","max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1500}}"#,
            false,
        ),
    ] {
        let spliced = splice_request(body, &call).unwrap();
        assert_eq!((str::from_utf8(&spliced.body).unwrap(), spliced.limits_thinking), (expected, limits_thinking));
    }
    let tight = BodyEdits { most_output: Some(1000), ..BodyEdits::to("m") };
    let body = r#"{"model":"a","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":8000}}"#;
    let expected = r#"{"model":"m","max_tokens":1000,"thinking":{"type":"disabled"}}"#;
    assert_eq!(splice_request(body, &tight).unwrap().body, expected.as_bytes(), "the least budget is 1024");
}

#[test]
fn defaults_are_left_out_where_the_model_refuses_them() {
    let defaults = [("temperature", 1.3), ("top_p", 0.9), ("top_k", 40.0)];
    for (model, body, expected) in [
        ("my-alias", r#"{"model":"a"}"#, r#"{"model":"my-alias","temperature":1,"top_p":0.9,"top_k":40}"#),
        ("claude-opus-5", r#"{"model":"a"}"#, r#"{"model":"claude-opus-5"}"#),
        ("claude-haiku-4-5", r#"{"model":"a"}"#, r#"{"model":"claude-haiku-4-5","temperature":1,"top_k":40}"#),
        ("claude-haiku-4-5", r#"{"model":"a","top_p":0.5}"#, r#"{"model":"claude-haiku-4-5","top_p":0.5,"top_k":40}"#),
        (
            "claude-haiku-4-5",
            r#"{"model":"a","temperature":0.2}"#,
            r#"{"model":"claude-haiku-4-5","temperature":0.2,"top_k":40}"#,
        ),
        (
            "my-alias",
            r#"{"model":"a","thinking":{"type":"adaptive"}}"#,
            r#"{"model":"my-alias","thinking":{"type":"adaptive"}}"#,
        ),
        (
            "my-alias",
            r#"{"model":"a","thinking":{"type":"disabled"}}"#,
            r#"{"model":"my-alias","thinking":{"type":"disabled"},"temperature":1,"top_p":0.9,"top_k":40}"#,
        ),
        (
            "my-alias",
            r#"{"model":"a","thinking":null}"#,
            r#"{"model":"my-alias","thinking":null,"temperature":1,"top_p":0.9,"top_k":40}"#,
        ),
    ] {
        let call = BodyEdits { defaults: &defaults, ..BodyEdits::to(model) };
        let sent: Value = serde_json::from_slice(&splice_request(body, &call).unwrap().body).unwrap();
        assert_eq!(sent, serde_json::from_str::<Value>(expected).unwrap(), "{body}");
    }
}
