use super::*;

#[test]
fn max_tokens_are_at_most_those_of_the_endpoint() {
    let conversation = read_settled(r#"{"messages":[]}"#);
    let limited = endpoint(BUDGET, Some(5_000));
    let written = super::super::write_request(&conversation, &limited, &mut UnsupportedFields::default());
    assert!(written.body.starts_with(br#"{"model":"claude-sonnet-4-5","max_tokens":5000,"#));
}

#[test]
fn sampling_is_never_sent_in_the_newer_version() {
    for value in ["1.4", "1", "0.3"] {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],"temperature":{value},"top_k":5}}"#);
        let sent = send_as(SAMPLING, ApiVersion::V2026_10_21, &body);
        assert!(!sent.text.contains("temperature") && !sent.text.contains("top_k"), "{}", sent.text);
        assert_eq!(sent.dropped(), ["temperature", "top_k"]);
    }
}

#[test]
fn without_a_limit_an_answer_has_the_room_that_the_prompt_leaves() {
    let limit = |max_completion_tokens, asked: &str, prompt_tokens| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}]{asked}}}"#);
        let mut conversation = read_settled(&body);
        super::super::limit_to_context(&mut conversation, &endpoint("up", max_completion_tokens), prompt_tokens);
        conversation.max_tokens
    };
    assert_eq!(limit(None, "", 150_000), Some(35_000), "the prompt may be longer than its estimate");
    assert_eq!(limit(None, "", 1_000), None, "the limit of the model is below that");
    assert_eq!(limit(Some(4_000), "", 150_000), None, "so is that of the endpoint");
    assert_eq!(limit(None, r#","max_tokens":60000"#, 150_000), Some(60_000), "the client's is its own");
    assert_eq!(limit(None, "", 300_000), Some(1));
}

#[test]
fn what_needs_a_beta_header_says_so() {
    let betas =
        |model: &str, body: &str| super::super::betas::required_betas(&read_settled(body), &endpoint(model, None));
    let file = r#"{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}"#;
    assert_eq!(betas(SAMPLING, file), ["files-api-2025-04-14"]);
    let fast = r#"{"messages":[],"service_tier":"fast"}"#;
    assert_eq!(betas("claude-opus-4-6", fast), ["fast-mode-2026-02-01"]);
    assert!(send("claude-opus-4-6", fast).text.contains(r#""speed":"fast""#));
    assert!(betas(SAMPLING, fast).is_empty());
    assert_eq!(send(SAMPLING, fast).dropped(), ["service_tier"]);
}
