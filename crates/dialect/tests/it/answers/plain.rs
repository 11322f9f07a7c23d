//! Whole answers.

use bytes::{Bytes, BytesMut};
use expect_test::expect_file;
use pointsman_dialect::{ChatStream, StreamOptions, rewrite_answer, usage_of_failed_answer};
use pointsman_domain::{FailureKind, FinishReason};
use serde_json::Value;

use super::common::{account, context, corpus};

/// `stop_after_tool_calls`.
#[test]
fn plain_answers_become_what_their_golden_files_say() {
    for (path, body) in corpus("answers", "json") {
        let mut context = context();
        context.exclude_reasoning = path.to_string_lossy().contains("exclude_reasoning");
        let account = match rewrite_answer(&Bytes::from(body), &context) {
            Ok(answer) => {
                let text = format!("{}\n", String::from_utf8_lossy(&answer.body));
                account(&text, None, Some(&answer.outcome))
            }
            Err(fault) => account("", Some(&fault), None),
        };
        expect_file![path.with_extension("out")].assert_eq(&account);
    }
}

#[test]
fn what_comes_out_is_json_with_every_promised_member() {
    for (path, body) in corpus("answers", "json") {
        let Ok(answer) = rewrite_answer(&Bytes::from(body), &context()) else { continue };
        let json: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        let usage = json.get("usage").expect("usage");
        let count = |name: &str| usage.get(name).and_then(serde_json::Value::as_u64).expect("a count");
        assert_eq!(count("total_tokens"), count("prompt_tokens") + count("completion_tokens"), "{}", path.display());
        assert!(usage.get("cost").is_some_and(serde_json::Value::is_number), "{}", path.display());
        for pointer in ["/system_fingerprint", "/choices/0/finish_reason", "/provider"] {
            let text = json.pointer(pointer).and_then(serde_json::Value::as_str);
            assert!(text.is_some_and(|text| !text.is_empty()), "{pointer} in {}", path.display());
        }
        let message = json.pointer("/choices/0/message").expect("a message");
        assert!(message.get("tool_calls").is_none_or(serde_json::Value::is_array), "{}", path.display());
    }
}

#[test]
fn an_answer_cut_anywhere_is_truncated() {
    let body = br#"{"id":"x","choices":[{"message":{"content":"h\u00e9 \u4f60","a":[1,2.5]},"finish_reason":"stop"}]}"#;
    let whole = rewrite_answer(&Bytes::from_static(body), &context()).expect("an answer");
    assert_eq!(whole.outcome.finish, Some(FinishReason::Stop));
    for end in 0..body.len() {
        let fault = rewrite_answer(&Bytes::copy_from_slice(&body[..end]), &context()).expect_err("a cut answer");
        assert_eq!(fault.kind, FailureKind::Truncated, "cut at {end}");
    }
}

#[test]
fn a_body_that_is_no_answer_may_say_what_it_took() {
    let took = |body: &'static str| {
        let usage = usage_of_failed_answer(&Bytes::from_static(body.as_bytes()), &context());
        usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens))
    };
    assert_eq!(took(r#"{"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":7}}"#), Some((40, 7)));
    assert_eq!(took(r#"{"usage":{"prompt_tokens":40,"completion_tokens":7},"choices":[{"mess"#), Some((40, 7)));
    assert_eq!(took(r#"{"choices":[],"usage":{"completion_tokens":7}}"#), Some((12, 7)), "the prompt is estimated");
    for nothing in [
        "",
        "no",
        "[]",
        "{}",
        r#"{"choices":[]}"#,
        r#"{"usage":null}"#,
        r#"{"usage":{}}"#,
        r#"{"usage":{"prompt_tokens":0,"completion_tokens":0}}"#,
        r#"{"usage":{"prompt_tokens":-3,"completion_tokens":"many"}}"#,
        r#"{"choices":[{"message":{"usage":{"prompt_tokens":40}}}]}"#,
        r#"{"choices":[{"mess"#,
    ] {
        assert_eq!(took(nothing), None, "{nothing}");
    }
}

/// Whole and in a stream.
#[test]
fn thinking_in_the_content_is_shown_unless_a_filled_member_brings_it() {
    let parts = r#""content":[{"type":"thinking","thinking":"Hmm"},{"type":"text","text":"A"}]"#;
    for (member, expected) in [
        (r#""x":1"#, "\"Hmm\""),
        (r#""reasoning":null"#, "\"Hmm\""),
        (r#""reasoning":"""#, "\"Hmm\""),
        (r#""reasoning_content":null"#, "\"Hmm\""),
        (r#""reasoning":"Other""#, "\"Other\""),
        (r#""reasoning_content":"Other""#, "\"Other\""),
    ] {
        for message in [format!("{{{parts},{member}}}"), format!("{{{member},{parts}}}")] {
            let body = format!(r#"{{"choices":[{{"message":{message},"finish_reason":"stop"}}]}}"#);
            let whole = rewrite_answer(&Bytes::from(body), &context()).expect("an answer");
            let (mut stream, mut out) = (ChatStream::new(context(), StreamOptions::default()), BytesMut::new());
            let event = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{message}}}]}}\n\n");
            stream.push(&Bytes::from(event), &mut out).expect("a stream");
            let chunk = out.strip_prefix(b"data: ").unwrap_or_default();
            for (written, place) in [(&*whole.body, "message"), (chunk, "delta")] {
                let json: Value = serde_json::from_slice(written).expect("JSON");
                let message = &json["choices"][0][place];
                assert_eq!(message["reasoning"].to_string(), expected, "{message} for {member}");
                let times = String::from_utf8_lossy(written).matches(r#""reasoning":"#).count();
                assert_eq!(times, usize::from(expected != "null"), "once at most: {message}");
            }
        }
    }
}
