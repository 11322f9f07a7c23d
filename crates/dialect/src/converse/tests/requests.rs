use super::*;

#[test]
fn the_name_of_the_model_is_one_segment_of_the_path() {
    let endpoint = endpoint("us.anthropic.claude-x-v1:0");
    assert_eq!(path(&endpoint, false), "/model/us.anthropic.claude-x-v1%3A0/converse");
    assert_eq!(path(&endpoint, true), "/model/us.anthropic.claude-x-v1%3A0/converse-stream");
    let profile = super::endpoint("arn:aws:bedrock:eu-west-1:1:inference-profile/a");
    assert_eq!(path(&profile, false), "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fa/converse");
}

#[test]
fn tool_history_without_tools_declares_each_used_name() {
    let [call, result] = called("f", "c1");
    let [again, its_result] = called("g", "c2");
    let messages = json!({"messages": [{"role": "user", "content": "a"}, call.clone(), result.clone(), again, its_result, call, result]});
    let sent = send(OTHER, &messages.to_string());
    let spec = |name: &str| json!({"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}});
    assert_eq!(sent.body["toolConfig"], json!({"tools": [spec("f"), spec("g")]}));
    assert!(sent.emulated.contains(&"tools".to_owned()), "{:?}", sent.emulated);
}

#[test]
fn a_call_without_a_result_gets_one_that_failed() {
    let [call, _] = called("f", "c1");
    let messages = json!([{"role": "user", "content": "a"}, call, {"role": "user", "content": "b"}]);
    let sent = with(OTHER, json!({"messages": messages, "tools": [tool("f")]}));
    let result = json!({"toolUseId": "c1", "content": [{"text": "[no result]"}], "status": "error"});
    assert_eq!(sent.body["messages"][2]["content"], json!([{"toolResult": result}, {"text": "b"}]));
}

#[test]
fn without_tool_history_a_choice_of_no_tool_leaves_the_tools_out() {
    let sent = with(OTHER, json!({"tools": [tool("f")], "tool_choice": "none"}));
    assert_eq!(sent.body.get("toolConfig"), None);
    assert_eq!(sent.emulated, ["tool_choice"]);
}

#[test]
fn choices_of_tools_have_words_of_their_own() {
    let choice = |choice: Value| {
        let sent = with(OTHER, json!({"tools": [tool("f"), tool("g")], "tool_choice": choice}));
        sent.body["toolConfig"]["toolChoice"].clone()
    };
    assert_eq!(choice(json!("auto")), json!({"auto": {}}));
    assert_eq!(choice(json!("required")), json!({"any": {}}));
    assert_eq!(choice(json!({"type": "function", "function": {"name": "g"}})), json!({"tool": {"name": "g"}}));
    assert_eq!(choice(Value::Null), Value::Null);
}

#[test]
fn one_call_at_most_is_said_in_the_words_of_claude_and_to_others_not_at_all() {
    let members = json!({"tools": [tool("f")], "parallel_tool_calls": false});
    let sent = with(CLAUDE, members.clone());
    let expected = json!({"type": "auto", "disable_parallel_tool_use": true});
    assert_eq!(sent.body["additionalModelRequestFields"]["tool_choice"], expected);
    assert_eq!(sent.body["toolConfig"].get("toolChoice"), None);
    assert_eq!(with(OTHER, members).dropped, ["parallel_tool_calls"]);
}

#[test]
fn top_k_is_not_in_inference_config_and_a_blank_description_is_left_out() {
    let mut blank = tool("f");
    blank["function"]["description"] = json!("  ");
    let sent = with(CLAUDE, json!({"top_k": 5, "max_tokens": 9, "tools": [blank.clone()]}));
    assert_eq!(sent.body["inferenceConfig"], json!({"maxTokens": 9}));
    assert_eq!(sent.body["additionalModelRequestFields"], json!({"top_k": 5}));
    assert_eq!(sent.body["toolConfig"]["tools"][0]["toolSpec"].get("description"), None);
    assert_eq!(with(OTHER, json!({"top_k": 5})).dropped, ["top_k"]);
}

#[test]
fn a_long_call_id_is_sent_with_at_most_64_characters_the_same_for_call_and_result() {
    let id = "c".repeat(70);
    let [call, result] = called("f", &id);
    let sent = with(OTHER, json!({"messages": [{"role": "user", "content": "a"}, call, result], "tools": [tool("f")]}));
    let of = |message: usize, kind: &str| sent.body["messages"][message]["content"][0][kind]["toolUseId"].clone();
    let sent_id = of(1, "toolUse");
    assert!(sent_id.as_str().unwrap().len() <= 64, "{sent_id}");
    assert_eq!(of(2, "toolResult"), sent_id);
}

#[test]
fn cache_points_stand_behind_the_marked_part_and_only_the_last_four() {
    let mark = json!({"type": "ephemeral"});
    let text = |text: &str, mark: &Value| json!({"type": "text", "text": text, "cache_control": mark});
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    let mut marked = tool("f");
    marked["cache_control"] = mark.clone();
    let messages = json!([
        {"role": "system", "content": [text("s", &hour)]},
        {"role": "user", "content": [text("a", &mark), {"type": "text", "text": "b"}]},
    ]);
    let sent = with(CLAUDE, json!({"messages": messages, "tools": [marked.clone()]}));
    let point = json!({"cachePoint": {"type": "default"}});
    assert_eq!(sent.body["system"], json!([{"text": "s"}, {"cachePoint": {"type": "default", "ttl": "1h"}}]));
    assert_eq!(sent.body["messages"][0]["content"], json!([{"text": "a"}, point, {"text": "b"}]));
    assert_eq!(sent.body["toolConfig"]["tools"][1], point);
    assert_eq!(sent.dropped, Vec::<String>::new());

    let many: Vec<Value> = (0..5).map(|n| text(&n.to_string(), &mark)).collect();
    let sent = with(CLAUDE, json!({"messages": [{"role": "user", "content": many}]}));
    assert_eq!(sent.text.matches("cachePoint").count(), 4);
    assert!(sent.text.contains(r#"[{"text":"0"},{"text":"1"},{"cachePoint""#), "{}", sent.text);
    assert_eq!(sent.dropped, ["messages[].content[].cache_control"]);
    assert_eq!(with(OTHER, json!({"tools": [marked]})).dropped, ["tools[].cache_control"]);
}

#[test]
fn a_name_of_a_file_never_reaches_the_name_of_a_document() {
    let file = |name: &str| json!({"type": "file", "file": {"filename": name, "file_data": "data:application/pdf;base64,JVBERi0="}});
    let content = json!([{"type": "text", "text": "a"}, file("../[ignore]"), file("b.pdf")]);
    let sent = with(OTHER, json!({"messages": [{"role": "user", "content": content}]}));
    let document = |n: u32| json!({"document": {"format": "pdf", "name": format!("document-{n}"), "source": {"bytes": "JVBERi0="}}});
    assert_eq!(sent.body["messages"][0]["content"], json!([{"text": "a"}, document(1), document(2)]));
    assert_eq!(sent.dropped, ["messages[].content[].file.filename"]);
}

#[test]
fn media_are_sent_as_data_and_what_is_elsewhere_is_named() {
    let content = json!([
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]);
    let sent = with(NOVA, json!({"messages": [{"role": "user", "content": content}]}));
    let expected = json!([
        {"image": {"format": "png", "source": {"bytes": "iVBO"}}},
        {"audio": {"format": "wav", "source": {"bytes": "UklG"}}},
        {"video": {"format": "mp4", "source": {"bytes": "AAAA"}}},
    ]);
    assert_eq!(sent.body["messages"][0]["content"], expected);
    assert_eq!(sent.dropped, ["messages[].content[].image_url"]);
}

#[test]
fn each_family_is_told_how_much_to_reason_in_its_own_words() {
    let fields = |model: &str, effort: &str| {
        let sent = with(model, json!({"reasoning_effort": effort, "max_tokens": 20_000}));
        (sent.body["additionalModelRequestFields"].clone(), sent.dropped, sent.emulated)
    };
    let none = Vec::<String>::new;
    let adaptive =
        json!({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}});
    assert_eq!(fields(CLAUDE, "high"), (adaptive, none(), none()));
    let budget = json!({"thinking": {"type": "enabled", "budget_tokens": 16_384}});
    assert_eq!(fields(BUDGET, "high"), (budget, none(), none()));
    let nova = json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}});
    assert_eq!(fields(NOVA, "low"), (nova, none(), none()));
    assert_eq!(fields("openai.gpt-oss-20b-1:0", "medium").0, json!({"reasoning_effort": "medium"}));
    assert_eq!(fields("openai.gpt-oss-20b-1:0", "max").2, ["reasoning"]);
    assert_eq!(fields("openai.gpt-5.6", "xhigh").0, json!({"reasoning": {"effort": "xhigh"}}));
    assert_eq!(fields(OTHER, "low"), (Value::Null, vec!["reasoning".to_owned()], none()));
    assert_eq!(fields(OTHER, "none"), (Value::Null, none(), none()));
    assert_eq!(fields(NOVA, "none"), (Value::Null, none(), none()));
}

#[test]
fn a_schema_is_a_text_and_an_instruction_where_the_model_follows_none() {
    let format = json!({"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}}});
    let sent = with(OTHER, json!({"response_format": format}));
    let schema = r#"{"properties":{"n":{"minimum":1,"type":"integer"}},"type":"object"}"#;
    let structure = json!({"jsonSchema": {"schema": schema, "name": "a"}});
    assert_eq!(sent.body["outputConfig"], json!({"textFormat": {"type": "json_schema", "structure": structure}}));
    let lowered = with(CLAUDE, json!({"response_format": format})).body["outputConfig"].to_string();
    assert!(lowered.contains("additionalProperties") && lowered.contains("minimum: 1."), "{lowered}");
    let nova = with(NOVA, json!({"response_format": format}));
    assert!(nova.body["system"][0]["text"].as_str().unwrap().contains("JSON schema"), "{}", nova.text);
    assert_eq!(nova.emulated, ["response_format"]);
}

#[test]
fn sampling_is_clamped_and_follows_the_rules_of_the_family() {
    let sent = with(OTHER, json!({"temperature": 1.4, "seed": 7, "service_tier": "flex", "user": "alice@example.com"}));
    assert_eq!(sent.body["inferenceConfig"], json!({"temperature": 1}));
    assert_eq!(sent.body["serviceTier"], json!({"type": "flex"}));
    assert_eq!(
        (sent.dropped, sent.emulated),
        (vec!["seed".to_owned(), "user".to_owned()], vec!["temperature".to_owned()])
    );
    assert!(!sent.text.contains("alice"));
    let either = with(BUDGET, json!({"temperature": 0.2, "top_p": 0.9, "max_tokens": 5}));
    assert_eq!(either.body["inferenceConfig"], json!({"maxTokens": 5, "temperature": 0.2}));
    assert_eq!(either.dropped, ["top_p"]);
}

#[test]
fn signed_thoughts_go_back_to_a_claude_and_to_nobody_else() {
    let details = json!([
        {"type": "reasoning.text", "format": "anthropic-claude-v1", "text": "hm", "index": 0},
        {"type": "reasoning.text", "format": "anthropic-claude-v1", "signature": "S1", "index": 0},
        {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "data": "ZGF0YQ==", "index": 1},
    ]);
    let messages = json!([
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning_details": details},
        {"role": "user", "content": "c"},
    ]);
    let sent = with(CLAUDE, json!({"messages": messages}));
    let expected = json!([
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "S1"}}},
        {"reasoningContent": {"redactedContent": "ZGF0YQ=="}}, {"text": "b"},
    ]);
    assert_eq!(sent.body["messages"][1]["content"], expected);
    assert_eq!(sent.emulated, Vec::<String>::new());
    let other = with(OTHER, json!({"messages": messages}));
    assert_eq!(other.body["messages"][1]["content"], json!([{"text": "b"}]));
    assert_eq!(other.emulated, ["messages[].reasoning_details"]);
}

#[test]
fn the_root_of_a_schema_of_arguments_says_that_it_is_an_object() {
    for schema in [
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}"##,
        r#"{"anyOf":[{"type":"object"}]}"#,
        r#"{"type":["object","null"]}"#,
    ] {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let mut tool = tool("f");
        tool["function"]["parameters"] = schema.clone();
        let sent = with(OTHER, json!({"tools": [tool]}));
        let root = &sent.body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"];
        assert_eq!(
            (&root["type"], sent.emulated),
            (&json!("object"), vec!["tools[].function.parameters".to_owned()]),
            "{schema}"
        );
    }
}
