use proptest::prelude::*;

use super::*;

#[test]
fn nothing_is_stored_and_encrypted_reasoning_is_always_wanted() {
    for model in [REASONING, IDLE, PLAIN, "unknown"] {
        let sent = send_members(model, r#""store":false"#);
        assert_eq!(sent.body()["store"], false);
        assert_eq!(sent.body()["include"], json!(["reasoning.encrypted_content"]));
        assert!(sent.dropped().is_empty() && sent.emulated().is_empty());
    }
    assert_eq!(send_members(PLAIN, r#""store":true"#).body()["store"], true, "the client said so");
}

#[test]
fn one_leading_text_is_the_instructions_and_anything_else_are_developer_messages() {
    let user = json!({"role": "user", "content": "hi"});
    let item = |role: &str, texts: &[&str]| {
        let parts: Vec<Value> = texts.iter().map(|text| json!({"type": "input_text", "text": text})).collect();
        json!({"type": "message", "role": role, "content": parts})
    };
    let sent = send_messages(
        json!([{"role": "system", "content": "Be brief."}, user, {"role": "developer", "content": "Now."}]),
    );
    assert_eq!(sent.body()["instructions"], "Be brief.");
    assert_eq!(sent.input(), json!([item("user", &["hi"]), item("developer", &["Now."])]));
    let sent = send_messages(json!([{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, user]));
    assert_eq!(sent.body().get("instructions"), None);
    assert_eq!(sent.input(), json!([item("developer", &["a", "b"]), item("user", &["hi"])]));
}

#[test]
fn parts_of_a_user_message_keep_their_order_and_their_meaning() {
    let sent = send_messages(json!([{"role": "user", "content": [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://h/a.png"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE"}},
        {"type": "file", "file": {"file_data": "data:text/plain,x", "filename": "x.txt"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "file", "file": {"file_data": "https://h/a.pdf", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]}]));
    let expected = json!([
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "low"},
        {"type": "input_image", "image_url": "https://h/a.png", "detail": "auto"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,JVBE", "filename": "document.pdf"},
        {"type": "input_file", "file_data": "data:text/plain;base64,eA==", "filename": "x.txt"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://h/a.pdf"},
    ]);
    assert_eq!(sent.input()[0]["content"], expected);
    assert_eq!(sent.dropped(), ["messages[].content[]"]);
}

#[test]
fn a_reasoning_item_with_encrypted_content_comes_back_before_its_call_and_without_it_none_is_sent() {
    let message = |details: Value| {
        json!([{"role": "assistant", "reasoning_details": details, "content": null,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "1"}])
    };
    let format = "openai-responses-v1";
    let sent = send_messages(message(json!([
        {"type": "reasoning.summary", "summary": "**Plan", "format": format, "index": 0},
        {"type": "reasoning.summary", "summary": "ning**", "format": format, "index": 0},
        {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "format": format, "index": 1},
        {"type": "reasoning.encrypted", "data": "gBBB", "id": "other", "format": "azure-openai-responses-v1", "index": 2},
    ])));
    let input = sent.input();
    let summary = json!([{"type": "summary_text", "text": "**Planning**"}]);
    assert_eq!(input[0], json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA"}));
    assert_eq!(input[1], json!({"type": "reasoning", "summary": [], "encrypted_content": "gBBB"}));
    assert_eq!(input[2]["type"], "function_call");
    assert!(sent.emulated().is_empty());
    for lost in [
        json!([{"type": "reasoning.summary", "summary": "x", "format": format}]),
        json!([{"type": "reasoning.text", "text": "x", "signature": "s", "format": "anthropic-claude-v1"}]),
    ] {
        let sent = send_messages(message(lost));
        assert_eq!(sent.input()[0]["type"], "function_call");
        assert_eq!(sent.emulated(), ["messages[].reasoning_details"]);
    }
}

#[test]
fn tools_are_flat_and_strict_only_if_the_client_said_so() {
    let sent = send_members(
        PLAIN,
        r#""tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","x":1.0},"strict":true}},
        {"type":"function","function":{"name":"a.b"}},
        {"type":"custom","custom":{"name":"patch","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: x"}}}}],
        "parallel_tool_calls":false,"tool_choice":{"type":"custom","custom":{"name":"patch"}}"#,
    );
    let body = sent.body();
    assert!(sent.text.contains(r#""parameters":{"type":"object","x":1.0},"strict":true"#));
    assert_eq!(body["tools"][1]["strict"], false);
    let name = body["tools"][1]["name"].as_str().unwrap();
    assert!(name.starts_with("a_b_"), "{name}");
    let format = json!({"type": "grammar", "syntax": "lark", "definition": "start: x"});
    assert_eq!(body["tools"][2], json!({"type": "custom", "name": "patch", "format": format}));
    assert_eq!(body["tool_choice"], json!({"type": "custom", "name": "patch"}));
    assert_eq!(body["parallel_tool_calls"], false);
    let allowed = send_members(
        PLAIN,
        r#""tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}],
        "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}}"#,
    );
    let choice = json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]});
    assert_eq!(allowed.body()["tool_choice"], choice);
    assert_eq!(send_members(PLAIN, r#""tool_choice":"required""#).dropped(), ["tool_choice"]);
}

#[test]
fn the_format_of_the_answer_is_flat_and_carries_the_verbosity() {
    let sent = send_members(
        PLAIN,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"a b","strict":true,"schema":{"type":"object","n":1.0}}},"verbosity":"low""#,
    );
    let format = sent.body()["text"]["format"].clone();
    assert_eq!((format["type"].as_str(), format["strict"].as_bool()), (Some("json_schema"), Some(true)));
    assert!(format["name"].as_str().unwrap().starts_with("a_b_") && sent.text.contains(r#""n":1.0"#));
    assert_eq!(sent.body()["text"]["verbosity"], "low");
    let sent = send_members(PLAIN, r#""response_format":{"type":"json_object"}"#);
    assert_eq!(sent.body()["text"], json!({"format": {"type": "json_object"}}));
    assert_eq!(send_members(PLAIN, r#""seed":null"#).body().get("text"), None);
}

#[test]
fn efforts_and_budgets_are_efforts_and_a_missing_level_is_named() {
    let asked = |model: &str, members: &str| {
        let sent = send_members(model, members);
        let emulated: Vec<String> = sent.emulated().iter().map(|name| (*name).to_owned()).collect();
        (sent.body().get("reasoning").cloned().unwrap_or_default(), emulated)
    };
    let exact = |value: Value| (value, Vec::<String>::new());
    let near = |value: Value| (value, vec!["reasoning".to_owned()]);
    assert_eq!(asked(IDLE, r#""reasoning_effort":"high""#), exact(json!({"effort": "high", "summary": "auto"})));
    let hidden = r#""reasoning":{"effort":"low","exclude":true}"#;
    assert_eq!(asked(IDLE, hidden), exact(json!({"effort": "low"})));
    assert_eq!(asked(REASONING, r#""reasoning_effort":"minimal""#), near(json!({"effort": "none", "summary": "auto"})));
    assert_eq!(asked(IDLE, r#""reasoning":{"max_tokens":5000}"#), near(json!({"effort": "medium", "summary": "auto"})));
    assert_eq!(asked(REASONING, r#""reasoning":{"enabled":false}"#), exact(json!({"effort": "none"})));
    assert_eq!(asked("gpt-5", r#""reasoning":{"enabled":false}"#), near(json!({"effort": "minimal"})));
    assert_eq!(asked(REASONING, r#""reasoning":{"enabled":true}"#), exact(json!({"summary": "auto"})));
    assert_eq!(asked(IDLE, r#""reasoning":{"enabled":true}"#), exact(json!({"effort": "medium", "summary": "auto"})));
    assert_eq!(asked(REASONING, r#""seed":null"#), exact(Value::Null));
    let sent = send_members(PLAIN, r#""reasoning_effort":"high""#);
    assert_eq!((sent.body().get("reasoning"), sent.dropped()), (None, vec!["reasoning"]));
}

#[test]
fn sampling_is_sent_only_while_the_model_does_not_reason() {
    let sampling = r#""temperature":0.30,"top_p":0.9,"logprobs":true,"top_logprobs":2"#;
    let sent = send_members(IDLE, sampling);
    assert!(sent.text.contains(r#""temperature":0.30,"top_p":0.9"#), "{}", sent.text);
    assert_eq!(sent.body()["top_logprobs"], 2);
    assert_eq!(sent.body()["include"][1], "message.output_text.logprobs");
    let effort = format!(r#"{sampling},"reasoning_effort":"low""#);
    for (model, members) in [(IDLE, &*effort), (REASONING, sampling), ("gpt-5", sampling)] {
        let sent = send_members(model, members);
        assert_eq!(sent.dropped(), ["logprobs", "temperature", "top_logprobs", "top_p"], "{model}");
        assert_eq!(sent.body().get("temperature"), None);
    }
    let sent = send_members(REASONING, r#""temperature":1.0,"top_p":1"#);
    assert_eq!((sent.body().get("temperature"), sent.dropped()), (None, vec![]), "the default");
    let sent = send_members(REASONING, r#""temperature":0.5,"reasoning_effort":"none""#);
    assert_eq!(sent.body()["temperature"], 0.5);
}

#[test]
fn what_the_api_has_under_the_same_name_is_copied_and_what_it_lacks_is_dropped_and_named() {
    let sent = send_members(
        PLAIN,
        r#""service_tier":"flex","prompt_cache_key":"k","prompt_cache_retention":"24h","safety_identifier":"s","user":"u","n":1,"modalities":["text"],
        "stop":["x"],"seed":1,"logit_bias":{},"frequency_penalty":1,"presence_penalty":1,"prediction":{},"audio":{},"top_k":3,"brand_new":1"#,
    );
    let body = sent.body();
    for (name, value) in
        [("service_tier", "flex"), ("prompt_cache_key", "k"), ("prompt_cache_retention", "24h"), ("user", "u")]
    {
        assert_eq!(body[name], value);
    }
    let dropped = [
        "audio",
        "brand_new",
        "frequency_penalty",
        "logit_bias",
        "prediction",
        "presence_penalty",
        "seed",
        "stop",
        "top_k",
    ];
    assert_eq!(sent.dropped(), dropped);
    for name in dropped {
        assert_eq!(body.get(name), None, "{name}");
    }
    assert_eq!(send_members(PLAIN, r#""n":2"#).dropped(), ["n"]);
}

#[test]
fn a_limit_below_the_least_is_raised_and_named() {
    let sent = send_members(PLAIN, r#""max_tokens":1,"stream":true"#);
    assert_eq!((sent.body()["max_output_tokens"].as_u64(), sent.emulated()), (Some(16), vec!["max_tokens"]));
    assert_eq!(sent.body()["stream"], true);
    let sent = send_members(PLAIN, r#""max_completion_tokens":100"#);
    assert_eq!((sent.body()["max_output_tokens"].as_u64(), sent.emulated()), (Some(100), vec![]));
}

/// A message of a chat history.
fn message() -> impl Strategy<Value = Vec<Value>> {
    prop_oneof![
        any::<String>().prop_map(|text| vec![json!({"role": "user", "content": text})]),
        any::<String>().prop_map(|text| vec![json!({"role": "system", "content": text})]),
        any::<String>().prop_map(|text| vec![json!({"role": "assistant", "content": text})]),
        ("[a-z./]{0,3}", any::<String>(), any::<bool>()).prop_map(|(id, text, custom)| {
            let call = if custom {
                json!({"id": id, "type": "custom", "custom": {"name": "a.b", "input": text}})
            } else {
                json!({"id": id, "type": "function", "function": {"name": "a.b", "arguments": text}})
            };
            let details = json!([{"type": "reasoning.encrypted", "data": "g", "format": "openai-responses-v1"}]);
            vec![
                json!({"role": "assistant", "content": text, "tool_calls": [call], "reasoning_details": details}),
                json!({"role": "tool", "tool_call_id": id, "content": text}),
            ]
        }),
    ]
}

proptest! {
    #[test]
    fn the_body_of_a_conversation_is_a_prefix_of_the_body_with_one_more_turn(
        turns in prop::collection::vec(message(), 1..7),
        model in prop::sample::select(vec![REASONING, IDLE, PLAIN]),
    ) {
        let body = |turns: &[Vec<Value>]| {
            let opening = vec![json!({"role": "system", "content": "s"}), json!({"role": "user", "content": "u"})];
            let messages = [opening, turns.concat()].concat();
            let tools = json!([{"type": "function", "function": {"name": "a.b"}}]);
            send(model, &json!({"messages": messages, "tools": tools}).to_string()).text
        };
        let (before, last) = turns.split_at(turns.len() - 1);
        let (shorter, longer) = (body(before), body(&[before, last].concat()));
        prop_assert!(serde_json::from_str::<Value>(&longer).is_ok(), "{longer}");
        let open = shorter.strip_suffix("]}").unwrap();
        prop_assert!(longer.starts_with(open), "{shorter}\n{longer}");
    }
}

/// Two reasoning items in a row are refused by the API: each must be followed by what it led to.
#[test]
fn of_several_reasoning_items_the_last_stands_before_the_calls_and_the_others_before_the_text() {
    let sealed = |data: &str| json!({"type": "reasoning.encrypted", "data": data, "format": "openai-responses-v1"});
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let kinds = |content: Value, calls: Value| -> Vec<String> {
        let answer = json!({"role": "assistant", "reasoning_details": [sealed("gA"), sealed("gB")], "content": content, "tool_calls": calls});
        let input = send_messages(json!([{"role": "user", "content": "a"}, answer])).input();
        let kind = |item: &Value| {
            format!("{}{}", item["type"].as_str().unwrap(), item["encrypted_content"].as_str().unwrap_or(""))
        };
        let said = input.as_array().unwrap().iter().skip(1).filter(|item| item["type"] != "function_call_output");
        said.map(kind).collect()
    };
    assert_eq!(kinds(json!("b"), json!([call])), ["reasoninggA", "message", "reasoninggB", "function_call"]);
    assert_eq!(kinds(Value::Null, json!([call])), ["reasoninggA", "reasoninggB", "function_call"]);
    assert_eq!(kinds(json!("b"), Value::Null), ["reasoninggA", "reasoninggB", "message"]);
}

#[test]
fn marks_of_the_prompt_cache_reach_the_models_that_know_them() {
    let marked = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
    let own = json!({"type": "text", "text": "b", "prompt_cache_breakpoint": {"mode": "explicit"}});
    let body =
        json!({"messages": [{"role": "system", "content": [marked]}, {"role": "user", "content": [own]}]}).to_string();
    let sent = send("gpt-5.6", &body);
    let breakpoint = json!({"mode": "explicit"});
    for place in [0, 1] {
        assert_eq!(sent.input()[place]["content"][0]["prompt_cache_breakpoint"], breakpoint, "{}", sent.text);
    }
    assert!(sent.dropped().is_empty());
    assert_eq!(send("gpt-5.2", &body).dropped(), ["messages[].content[].cache_control"]);
}

#[test]
fn an_image_is_made_by_the_tool_and_forced_only_if_nothing_else_is_wanted() {
    let sent =
        send_members(PLAIN, r#""modalities":["image"],"image_config":{"aspect_ratio":"16:9","image_size":"2K"}"#);
    assert_eq!(sent.body()["tools"], json!([{"type": "image_generation", "size": "1536x1024"}]));
    assert_eq!(sent.body()["tool_choice"], json!({"type": "image_generation"}));
    assert_eq!(sent.emulated(), ["image_config.aspect_ratio"]);
    assert_eq!(sent.dropped(), ["image_config.image_size"]);

    let sent = send_members(PLAIN, r#""modalities":["image","text"],"image_config":{"aspect_ratio":null}"#);
    assert_eq!(sent.body()["tools"], json!([{"type": "image_generation"}]));
    assert_eq!(sent.body()["tool_choice"], Value::Null, "the model decides");
    assert_eq!((sent.dropped().len(), sent.emulated().len()), (0, 0));

    let sent = send_members(PLAIN, r#""image_config":{"aspect_ratio":"1:1"}"#);
    assert_eq!(sent.body()["tools"], Value::Null);
    assert_eq!(sent.dropped(), ["image_config"], "nobody asked for an image");
}
