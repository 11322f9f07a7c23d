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

#[test]
fn with_the_operators_leave_the_provider_keeps_what_the_client_wants() {
    let body =
        r#"{"model":"gpt-x","store":true,"previous_response_id":"resp_1","input":[{"type":"reasoning","id":"rs_1"}]}"#;
    let spliced = splice_request(body, &BodyEdits::to("gpt-x"), ProviderState::Allowed).unwrap();
    assert_eq!((spliced.body.as_ref(), spliced.without_reasoning), (body.as_bytes(), false));
}

#[test]
fn what_rates_the_answer_before_stays_in_the_gateway_and_tags_of_the_client_do_not() {
    let body = |tags: &str| format!(r#"{{"model":"gpt-x","metadata":{{{tags}}}}}"#);
    for (given, sent) in [
        (r#""topic":"x","previous_generation_id":"gen-1","rejected":true"#, r#""topic":"x""#),
        (r#""rejected":"false","topic":"x""#, r#""topic":"x""#),
        (r#""rejected":"by the reader""#, r#""rejected":"by the reader""#),
    ] {
        let spliced = splice_request(&body(given), &BodyEdits::to("gpt-x"), ProviderState::Allowed).unwrap();
        assert_eq!(spliced.body.as_ref(), body(sent).as_bytes(), "{given}");
    }
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
fn what_is_no_object_is_refused_and_an_event_without_a_number_has_no_next() {
    for body in ["", "[]", "{", "{} x", "1"] {
        assert!(splice_answer(body, &identity(), Usage::default).is_err(), "{body}");
        assert!(splice_request(body, &BodyEdits::to("m"), ProviderState::Refused).is_err(), "{body}");
    }
    assert_eq!(splice_event("not even JSON", &identity(), Usage::default).unwrap(), None);
    assert_eq!(next_number(object(r#"{"sequence_number":3}"#).unwrap()), Some(4));
    assert_eq!(next_number(object("{}").unwrap()), None);
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
