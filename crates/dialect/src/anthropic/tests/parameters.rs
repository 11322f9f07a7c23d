use super::*;

#[test]
fn max_tokens_is_always_sent_and_never_above_the_models_maximum() {
    let sent = send_members(BUDGET, r#""seed":null"#);
    assert_eq!(sent.body()["max_tokens"], 64_000);
    assert!(sent.emulated().is_empty());
    let sent = send_members(BUDGET, r#""max_tokens":100000"#);
    assert_eq!((sent.body()["max_tokens"].as_u64(), sent.emulated()), (Some(64_000), vec!["max_tokens"]));
    assert_eq!(send_members(BUDGET, r#""max_completion_tokens":7"#).body()["max_tokens"], 7);
    let conversation = read_conversation(r#"{"messages":[]}"#).unwrap();
    let limited = endpoint(BUDGET, Some(5_000));
    let written = super::super::write_request(&conversation, &limited, &mut UnsupportedFields::default());
    assert!(written.body.starts_with(br#"{"model":"claude-sonnet-4-5","max_tokens":5000,"#));
}

#[test]
fn a_temperature_above_one_is_clamped_or_dropped_and_never_sent_in_the_newer_version() {
    let members = r#""temperature":1.4"#;
    let sent = send_members(SAMPLING, members);
    assert_eq!((sent.body()["temperature"].as_u64(), sent.emulated()), (Some(1), vec!["temperature"]));
    let sent = send_members(NEWEST, members);
    assert_eq!((sent.body().get("temperature"), sent.dropped()), (None, vec!["temperature"]));
    for value in ["1.4", "1", "0.3"] {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}],"temperature":{value},"top_k":5}}"#);
        let sent = send_as(SAMPLING, ApiVersion::V2026_10_21, &body);
        assert!(!sent.text.contains("temperature") && !sent.text.contains("top_k"), "{}", sent.text);
        assert_eq!(sent.dropped(), ["temperature", "top_k"]);
    }
    let exact = send_members(SAMPLING, r#""temperature":0.30,"top_k":5"#);
    assert!(exact.text.contains(r#""temperature":0.30,"top_k":5"#), "{}", exact.text);
}

#[test]
fn without_a_limit_an_answer_has_the_room_that_the_prompt_leaves() {
    let limit = |max_completion_tokens, asked: &str, prompt_tokens| {
        let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}]{asked}}}"#);
        let mut conversation = read_conversation(&body).unwrap();
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
fn a_model_that_takes_temperature_or_top_p_gets_one_of_them() {
    let sent = send_members(BUDGET, r#""temperature":0.5,"top_p":0.9"#);
    assert_eq!((sent.body().get("top_p"), sent.dropped()), (None, vec!["top_p"]));
    let sent = send_members("claude-opus-4-20250514", r#""temperature":0.5,"top_p":0.9"#);
    assert_eq!((sent.body()["top_p"].as_f64(), sent.dropped()), (Some(0.9), vec![]));
}

#[test]
fn an_effort_is_adaptive_reasoning_or_a_budget_below_max_tokens() {
    let sent = send_members(SAMPLING, r#""reasoning_effort":"high""#);
    let body = sent.body();
    assert_eq!(body["thinking"], serde_json::json!({"type":"adaptive","display":"summarized"}));
    assert_eq!(body["output_config"]["effort"], "high");
    let thinking = |members: &str| send_members(BUDGET, members).body()["thinking"].clone();
    let budget = |tokens: u64| serde_json::json!({"type":"enabled","budget_tokens":tokens});
    assert_eq!(thinking(r#""reasoning_effort":"high""#), budget(16_384));
    assert_eq!(thinking(r#""reasoning_effort":"high","max_tokens":4000"#), budget(3_999));
    assert_eq!(thinking(r#""reasoning":{"max_tokens":100}"#), budget(1_024));
    assert!(send_members(BUDGET, r#""reasoning_effort":"high""#).emulated().is_empty());
    assert_eq!(send_members(BUDGET, r#""reasoning":{"max_tokens":100}"#).emulated(), ["reasoning"]);
    let sent = send_members(SAMPLING, r#""reasoning":{"max_tokens":5000,"exclude":true}"#);
    assert_eq!(sent.body()["thinking"]["display"], "omitted");
    assert_eq!((sent.body()["output_config"]["effort"].as_str(), sent.emulated()), (Some("medium"), vec!["reasoning"]));
}

#[test]
fn an_effort_of_none_never_disables_reasoning_where_that_is_refused() {
    let off = r#""reasoning_effort":"none""#;
    assert_eq!(send_members(SAMPLING, off).body()["thinking"]["type"], "disabled");
    let sent = send_members("claude-sonnet-5-5", off);
    assert_eq!((sent.body()["thinking"]["type"].as_str(), sent.emulated()), (Some("between_tools"), vec!["reasoning"]));
    for model in [NEWEST, "claude-fable-5", "claude-fable-5-1"] {
        let sent = send_members(model, off);
        assert_eq!((sent.body().get("thinking"), sent.emulated()), (None, vec!["reasoning"]), "{model}");
        assert_eq!(sent.body()["output_config"]["effort"], "low");
    }
}

#[test]
fn reasoning_that_does_not_fit_into_max_tokens_is_left_out_and_named() {
    let sent = send_members(BUDGET, r#""reasoning_effort":"low","max_tokens":800"#);
    assert_eq!((sent.body().get("thinking"), sent.dropped()), (None, vec!["reasoning"]));
}

#[test]
fn sampling_yields_to_reasoning() {
    let sent = send_members(SAMPLING, r#""reasoning_effort":"low","temperature":0.3,"top_k":5,"top_p":0.97"#);
    assert_eq!(sent.dropped(), ["temperature", "top_k"]);
    assert_eq!(sent.body()["top_p"], 0.97);
    assert_eq!(send_members(SAMPLING, r#""reasoning_effort":"low","temperature":1"#).body()["temperature"], 1);
}

#[test]
fn reasoning_with_a_budget_yields_to_a_forced_call() {
    let tools = r#""tools":[{"type":"function","function":{"name":"f"}}],"reasoning_effort":"high""#;
    let sent = send_members(BUDGET, &format!(r#"{tools},"tool_choice":"required""#));
    assert_eq!((sent.body().get("thinking"), sent.dropped()), (None, vec!["reasoning"]));
    assert_eq!(sent.body()["tool_choice"]["type"], "any");
    let sent = send_members(BUDGET, &format!(r#"{tools},"tool_choice":"auto""#));
    assert!(sent.body().get("thinking").is_some() && sent.dropped().is_empty());
}

#[test]
fn reasoning_with_a_budget_is_off_while_calls_of_another_provider_are_open() {
    let body = |details: &str, more: &str| {
        format!(
            r#"{{"reasoning_effort":"high","messages":[{{"role":"user","content":"hi"}},{{"role":"assistant"{details},"tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},
            {{"role":"tool","tool_call_id":"a","content":"x"}}{more}]}}"#
        )
    };
    let thinking = |text: &str| send(BUDGET, text).body()["thinking"]["type"].as_str().unwrap().to_owned();
    let foreign =
        body(r#","reasoning_details":[{"type":"reasoning.encrypted","data":"x","format":"google-gemini-v1"}]"#, "");
    assert_eq!(thinking(&foreign), "disabled");
    assert!(send(BUDGET, &foreign).emulated().contains(&"reasoning"));
    assert_eq!(
        thinking(&body(r#","reasoning_details":[{"type":"reasoning.text","text":"t","signature":"S"}]"#, "")),
        "enabled"
    );
    assert_eq!(
        thinking(&body("", r#",{"role":"assistant","content":"done"},{"role":"user","content":"more"}"#)),
        "enabled"
    );
    assert_eq!(send(SAMPLING, &foreign).body()["thinking"]["type"], "adaptive");
}

#[test]
fn one_call_at_a_time_is_said_in_the_tool_choice() {
    let choice = |members: &str| {
        let tools = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;
        let body = send_members(SAMPLING, &format!(r#"{tools},{members}"#)).body();
        serde_json::to_string(&body["tool_choice"]).unwrap()
    };
    let single = r#""parallel_tool_calls":false"#;
    assert_eq!(choice(single), r#"{"disable_parallel_tool_use":true,"type":"auto"}"#);
    assert_eq!(choice(&format!(r#"{single},"tool_choice":"none""#)), r#"{"type":"none"}"#);
    assert_eq!(
        choice(&format!(r#"{single},"tool_choice":"required""#)),
        r#"{"disable_parallel_tool_use":true,"type":"any"}"#
    );
    assert_eq!(choice(r#""parallel_tool_calls":true"#), "null");
}

#[test]
fn the_address_of_a_user_is_never_sent() {
    let sent = send_members(SAMPLING, r#""user":"alice@example.com""#);
    assert!(!sent.text.contains("alice") && !sent.text.contains("example.com"), "{}", sent.text);
    let id = sent.body()["metadata"]["user_id"].as_str().unwrap().to_owned();
    assert_eq!((id.len(), &*id.chars().take(8).collect::<String>()), (32, "ff8d9819"));
    assert_eq!(sent.emulated(), ["user"]);
}

#[test]
fn a_newer_model_gets_no_sampling_and_no_forced_call() {
    let tools = r#""temperature":0.2,"top_p":0.9,"tools":[{"type":"function","function":{"name":"f"}}]"#;
    let sent = send_members(NEWEST, &format!(r#"{tools},"tool_choice":"auto""#));
    assert_eq!(sent.dropped(), ["temperature", "top_p"]);
    assert!(!super::super::models::capabilities(NEWEST).forces_tools, "what the filter excludes it by");
    let sent = send_members(NEWEST, &format!(r#"{tools},"tool_choice":"required""#));
    assert_eq!(sent.dropped(), ["temperature", "tool_choice", "top_p"]);
    assert_eq!(sent.body()["tool_choice"]["type"], "auto");
}

#[test]
fn every_parameter_that_has_no_counterpart_is_named_and_nothing_else() {
    let unmapped = [
        ("min_p", "0.1"),
        ("top_a", "0.1"),
        ("repetition_penalty", "1.1"),
        ("frequency_penalty", "1"),
        ("presence_penalty", "1"),
        ("seed", "7"),
        ("logit_bias", "{\"1\":2}"),
        ("logprobs", "true"),
        ("top_logprobs", "2"),
        ("prediction", "{}"),
        ("verbosity", "\"low\""),
        ("store", "true"),
        ("audio", "{}"),
        ("n", "2"),
        ("prompt_cache_key", "\"k\""),
        ("prompt_cache_retention", "\"24h\""),
        ("web_search_options", "{}"),
        ("service_tier", "\"flex\""),
        ("modalities", "[\"text\",\"audio\"]"),
        ("never_heard_of", "[1]"),
    ];
    for (name, value) in unmapped {
        let sent = send_members(SAMPLING, &format!("\"{name}\":{value}"));
        assert_eq!((sent.dropped(), sent.emulated()), (vec![name], vec![]), "{name}");
        assert!(!sent.text.contains(&format!("\"{name}\"")), "{}", sent.text);
    }
    let mapped = r#""n":1,"logprobs":false,"store":false,"modalities":["text"],"stream":true,"stream_options":{"include_usage":true},"metadata":{"a":"b"},
        "service_tier":"default","cache_control":{"type":"ephemeral"},"stop":["x"]"#;
    let sent = send_members(SAMPLING, mapped);
    assert_eq!((sent.dropped(), sent.emulated()), (vec![], vec![]));
    let expected =
        r#""stream":true,"service_tier":"standard_only","cache_control":{"type":"ephemeral"},"stop_sequences":["x"],"#;
    assert!(sent.text.contains(expected), "{}", sent.text);
}

#[test]
fn a_stop_text_of_white_space_is_dropped_and_named() {
    let sent = send_members(SAMPLING, r#""stop":["\n\n","END"]"#);
    assert_eq!(sent.body()["stop_sequences"], serde_json::json!(["END"]));
    assert_eq!(sent.dropped(), ["stop[]"]);
}

#[test]
fn what_needs_a_beta_header_says_so() {
    let betas = |model: &str, body: &str| {
        super::super::required_betas(&read_conversation(body).unwrap(), &endpoint(model, None))
    };
    let file = r#"{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}"#;
    assert_eq!(betas(SAMPLING, file), ["files-api-2025-04-14"]);
    let fast = r#"{"messages":[],"service_tier":"fast"}"#;
    assert_eq!(betas("claude-opus-4-6", fast), ["fast-mode-2026-02-01"]);
    assert!(send("claude-opus-4-6", fast).text.contains(r#""speed":"fast""#));
    assert!(betas(SAMPLING, fast).is_empty());
    assert_eq!(send(SAMPLING, fast).dropped(), ["service_tier"]);
}
