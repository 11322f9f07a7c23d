use serde_json::Value;

use super::super::splice::{splice_answer, splice_request};
use crate::{Outcome, body_edits::BodyEdits};

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
