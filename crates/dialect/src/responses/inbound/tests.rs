use pointsman_domain::ReasoningFormat;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    ChatPurpose, ChatRequest, RequestLimits,
    neutral::{Content, ReasoningKind, Role},
    openai::request_writer::whole_chat,
    responses::reasoning_state::ForeignReasoning,
};

const KEY: StateKey = StateKey::new([1; 32]);

fn read_responses<'a>(body: &'a [u8], key: &StateKey) -> Result<InboundResponses<'a>, Invalid> {
    super::read_responses(body, key, || ProviderState::Refused, MAX_DEPTH)
}

#[track_caller]
fn read(body: &Value) -> InboundResponses<'static> {
    read_responses(body.to_string().leak().as_bytes(), &KEY).unwrap()
}

#[track_caller]
fn chat(body: &Value) -> Value {
    whole(&read(body))
}

/// The chat, as a server is sent it that takes everything.
fn whole(read: &InboundResponses<'_>) -> Value {
    whole_chat(&read.chat.conversation, false)
}

#[track_caller]
fn refusal(body: &Value) -> (String, &'static str) {
    let invalid = read_responses(body.to_string().as_bytes(), &KEY).unwrap_err();
    (invalid.param.unwrap_or_default(), invalid.reason.as_str())
}

fn asking(input: Value) -> Value {
    json!({"model": "m", "input": input})
}

fn with(name: &str, value: Value) -> Value {
    let mut body = asking(json!("hi"));
    body[name] = value;
    body
}

fn dropped<'i>(inbound: &'i InboundResponses<'_>) -> Vec<&'i str> {
    inbound.unsupported.dropped().iter().map(AsRef::as_ref).collect()
}

fn emulated<'i>(inbound: &'i InboundResponses<'_>) -> Vec<&'i str> {
    inbound.unsupported.emulated().iter().map(AsRef::as_ref).collect()
}

#[test]
fn a_whole_request_of_an_agent_becomes_the_chat_body_that_means_the_same() {
    let body = json!({
        "model": "m", "stream": true, "store": false, "instructions": "Be brief.", "max_output_tokens": 100,
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
            {"role": "user", "content": "hi"},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAA"},
            {"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "a", "annotations": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{\"x\": 1.0}"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin"},
            {"type": "function_call_output", "call_id": "c1", "output": "18"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "o"}, {"type": "input_text", "text": "k"}]},
            {"role": "user", "content": [{"type": "input_image", "image_url": "https://h/a.png", "detail": "low"}, {"type": "input_file", "file_url": "https://h/a.pdf", "filename": "a.pdf"}]}
        ],
        "tools": [
            {"type": "function", "name": "f", "description": "d", "strict": false, "parameters": {"type": "object"}, "defer_loading": true},
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
            {"type": "web_search"}
        ],
        "tool_choice": "auto", "parallel_tool_calls": false, "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "o", "strict": true, "schema": {"type": "object"}}},
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "client_metadata": {"a": "b"}, "metadata": {"objective": "fastest"},
        "provider": {"order": ["a"]}, "top_logprobs": 2, "stream_options": {"include_obfuscation": true}
    });
    let inbound = read(&body);
    assert_eq!(dropped(&inbound), ["tools[].defer_loading", "tools[].web_search"]);
    let others: Vec<_> = inbound.chat.members.iter().map(|(key, _)| key.text().unwrap()).collect();
    assert_eq!(others, ["client_metadata", "metadata", "model", "provider"]);
    assert_eq!((inbound.hosted_tool.as_deref(), inbound.native_feature.as_deref()), (Some("tools[2].type"), None));
    let format = "openai-responses-v1";
    let expected = json!({
        "model": "m", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 100,
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "developer", "content": [{"type": "text", "text": "d"}]},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "a"}],
             "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1.0}"}},
                {"id": "c2", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}}],
             "reasoning_details": [
                {"type": "reasoning.summary", "format": format, "summary": "hm"},
                {"type": "reasoning.encrypted", "format": format, "data": "gAAA", "id": "rs_1"}]},
            {"role": "tool", "tool_call_id": "c1", "content": "18"},
            {"role": "tool", "tool_call_id": "c2", "content": "ok"},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "https://h/a.png", "detail": "low"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "https://h/a.pdf"}}]}
        ],
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": false}},
            {"type": "custom", "custom": {"name": "apply_patch", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}}}}
        ],
        "tool_choice": "auto", "parallel_tool_calls": false, "reasoning": {"effort": "high"}, "verbosity": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "o", "strict": true, "schema": {"type": "object"}}},
        "prompt_cache_key": "k", "logprobs": true, "top_logprobs": 2
    });
    assert_eq!(whole(&inbound), expected);
}

#[test]
fn the_chat_body_is_one_that_the_gateway_takes() {
    let body = json!({
        "model": "m", "instructions": "i", "max_output_tokens": 7, "reasoning": {"effort": "low"}, "text": {"format": {"type": "json_object"}},
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBO"}]},
            {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
            {"type": "function_call", "call_id": "c", "name": "f", "namespace": "n", "arguments": ""},
            {"type": "function_call_output", "call_id": "c", "output": ""}
        ],
        "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", "parameters": null}]}],
        "tool_choice": {"type": "function", "name": "f", "namespace": "n"}, "top_logprobs": 1, "parallel_tool_calls": true
    });
    let inbound = read(&body);
    let (limits, mut unsupported) = (RequestLimits::default(), UnsupportedFields::default());
    let parsed =
        ChatRequest::of_client(&inbound.chat, Bytes::new(), ChatPurpose::Chat, &limits, field_name, &mut unsupported);
    assert!(parsed.is_ok(), "{:?}", parsed.err());
}

#[test]
fn what_continues_an_earlier_response_is_refused_and_what_wants_to_be_kept_is_answered() {
    let previous = "previous_response_not_supported";
    for name in ["previous_response_id", "conversation"] {
        assert_eq!(refusal(&with(name, json!("x"))), (name.to_owned(), previous));
        assert!(read_responses(with(name, Value::Null).to_string().as_bytes(), &KEY).is_ok());
    }
    assert_eq!(refusal(&with("background", json!(true))), ("background".into(), "unsupported_parameter"));
    assert_eq!(refusal(&with("prompt", json!({"id": "p"}))), ("prompt".into(), "unsupported_parameter"));
    let reference = asking(json!([{"type": "item_reference", "id": "msg_1"}]));
    assert_eq!(refusal(&reference), ("input[0].type".into(), "invalid_value"));
    let stored = read(&with("store", json!(true)));
    assert!(stored.unsupported.dropped().is_empty());
    assert!(String::from_utf8_lossy(stored.echo.members()).contains(r#","store":false"#));
    assert_eq!(dropped(&read(&with("truncation", json!("auto")))), ["truncation"]);
    assert!(read(&with("background", json!(false))).unsupported.dropped().is_empty());
}

#[test]
fn tools_of_a_namespace_get_flat_names_in_declarations_calls_and_choices() {
    let namespace = |name: &str| json!({"type": "namespace", "name": name, "description": "d", "tools": [{"type": "function", "name": "get", "parameters": {}}]});
    let body = json!({
        "model": "m",
        "tools": [namespace("a"), {"type": "function", "name": "a__get"}, namespace("mcp__b__")],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get", "namespace": "mcp__b__"}]},
        "input": [{"type": "function_call", "call_id": "c", "namespace": "a", "name": "get", "arguments": "{}"},
            {"type": "function_call", "call_id": "d", "namespace": "gone", "name": "get", "arguments": "{}"}]
    });
    let inbound = read(&body);
    let chat = whole(&inbound);
    let name = |index: usize| chat["tools"][index]["function"]["name"].as_str().unwrap().to_owned();
    assert_eq!((name(1), name(2)), ("a__get".to_owned(), "mcp__b__get".to_owned()));
    assert!(name(0).starts_with("a__get_"), "{}", name(0));
    let calls = &chat["messages"][0]["tool_calls"];
    assert_eq!(calls[0]["function"]["name"], name(0));
    assert_eq!(calls[1]["function"]["name"], "gone__get");
    assert_eq!(chat["tool_choice"]["allowed_tools"]["tools"][0]["function"]["name"], "mcp__b__get");
    assert_eq!(inbound.echo.namespaces().original(&name(0)), Some(("a", "get")));
    assert_eq!(inbound.echo.namespaces().original("a__get"), None);
    assert_eq!(emulated(&inbound), ["tools[].namespace"]);
}

#[test]
fn tools_that_are_added_in_the_input_are_declared() {
    let added = json!({"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "g"}]});
    let mut body = asking(json!([{"role": "user", "content": "a"}, added]));
    body["tools"] = json!([{"type": "function", "name": "f"}]);
    let chat = chat(&body);
    let names: Vec<&Value> = chat["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["f", "g"]);
}

#[test]
fn reasoning_of_any_provider_comes_back_from_our_envelope_and_a_changed_one_is_dropped_and_named() {
    let item = |sealed: &str, shown: &str| {
        asking(
            json!([{"type": "reasoning", "summary": [{"type": "summary_text", "text": shown}], "encrypted_content": sealed},
            {"role": "assistant", "content": "b"}]),
        )
    };
    let reasoning = |kind, id: &str, data: &str| ForeignReasoning {
        format: ReasoningFormat::Anthropic,
        kind,
        id: id.into(),
        data: data.into(),
    };
    let sealed = reasoning(ReasoningKind::Text, "", "EqQB").seal(&KEY, "Let \"me\"");
    let details = chat(&item(&sealed, "Let \"me\""))["messages"][0]["reasoning_details"].clone();
    let expected =
        json!([{"type": "reasoning.text", "format": "anthropic-claude-v1", "text": "Let \"me\"", "signature": "EqQB"}]);
    assert_eq!(details, expected);
    let sealed = reasoning(ReasoningKind::Encrypted, "c1", "data").seal(&KEY, "");
    let details = chat(&item(&sealed, ""))["messages"][0]["reasoning_details"].clone();
    let expected =
        json!([{"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "data": "data", "id": "c1"}]);
    assert_eq!(details, expected);
    let changed = read(&item(&reasoning(ReasoningKind::Text, "", "EqQB").seal(&KEY, "a"), "b"));
    let bare = read(&asking(
        json!([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]}, {"role": "user", "content": "b"}]),
    ));
    for (inbound, name) in [(changed, "input[].encrypted_content"), (bare, "input[].summary")] {
        assert_eq!(dropped(&inbound), [name]);
        assert!(!whole(&inbound).to_string().contains("reasoning_details"));
    }
}

#[test]
fn reasoning_after_a_text_begins_another_answer_and_calls_stay_together() {
    let reasoning = |data: &str| json!({"type": "reasoning", "summary": [], "encrypted_content": data});
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "1"});
    let text = json!({"role": "assistant", "content": "t"});
    let chat = chat(&asking(json!([
        reasoning("g1"),
        text,
        reasoning("g2"),
        call("a"),
        reasoning("g3"),
        call("b"),
        output("a"),
        output("b")
    ])));
    let messages = chat["messages"].as_array().unwrap();
    let shapes: Vec<(&str, usize, usize)> = messages
        .iter()
        .map(|message| {
            let count = |name: &str| message[name].as_array().map_or(0, Vec::len);
            (message["role"].as_str().unwrap(), count("reasoning_details"), count("tool_calls"))
        })
        .collect();
    assert_eq!(shapes, [("assistant", 1, 0), ("assistant", 2, 2), ("tool", 0, 0), ("tool", 0, 0)]);
}

#[test]
fn images_in_a_result_stay_there_for_the_dialects_that_take_them() {
    let output = |id: &str, output: Value| json!({"type": "function_call_output", "call_id": id, "output": output});
    let image = json!([{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:image/png;base64,iVBO"}]);
    let inbound =
        read(&asking(json!([output("a", image), output("b", json!("2")), {"role": "user", "content": "go"}])));
    let roles: Vec<Role> = inbound.chat.conversation.turns.iter().map(|turn| turn.role).collect();
    assert_eq!((roles, emulated(&inbound)), (vec![Role::Tool, Role::Tool, Role::User], vec![]));
    let Content::ToolResult { parts, .. } = &inbound.chat.conversation.turns[0].parts[0].content else {
        panic!("{:?}", inbound.chat.conversation.turns)
    };
    assert!(matches!(parts[1].content, Content::Image { .. }), "{parts:?}");
}

#[test]
fn items_that_only_this_api_has_need_an_endpoint_of_it_and_searches_of_the_past_are_dropped() {
    for kind in ["local_shell_call", "mcp_call", "compaction", "image_generation_call", "something_new"] {
        let body = asking(json!([{"role": "user", "content": "a"}, {"type": kind}]));
        assert_eq!(read(&body).native_feature.as_deref(), Some("input[1].type"), "{kind}");
    }
    let file = asking(json!([{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]));
    assert_eq!(read(&file).native_feature.as_deref(), Some("input[0].content[0].file_id"));
    for item in [json!({"type": "compaction", "encrypted_content": "x"}), json!({"type": "mcp_approval_response"})] {
        let inbound = read(&asking(json!([item])));
        assert_eq!(inbound.native_feature.as_deref(), Some("input[0].type"));
        assert_eq!(inbound.chat.conversation.turns.len(), 1, "what is routed has a message");
    }
    let inbound = read(&asking(json!([{"type": "web_search_call"}, {"role": "user", "content": "a"}])));
    assert_eq!((inbound.native_feature.as_deref(), dropped(&inbound)), (None, vec!["input[].web_search_call"]));
}

#[test]
fn a_choice_that_no_tool_is_left_for_is_dropped_and_named() {
    let mut body = asking(json!("a"));
    body["tools"] = json!([{"type": "web_search"}]);
    for choice in [json!("required"), json!({"type": "web_search"})] {
        body["tool_choice"] = choice;
        let inbound = read(&body);
        assert_eq!(dropped(&inbound), ["tool_choice", "tools[].web_search"]);
    }
}

#[test]
fn mistakes_name_the_field_in_the_clients_own_dialect() {
    let param = |body: &Value| refusal(body).0;
    assert_eq!(param(&json!({"model": "m"})), "input");
    assert_eq!(param(&json!({"input": "a"})), "model");
    assert_eq!(param(&asking(json!([]))), "input");
    assert_eq!(param(&asking(json!(1))), "input");
    assert_eq!(param(&asking(json!([1]))), "input[0]");
    assert_eq!(param(&asking(json!([{"role": "robot", "content": "a"}]))), "input[0].role");
    assert_eq!(param(&asking(json!([{"role": "user"}]))), "input[0].content");
    let part = |part: Value| asking(json!([{"role": "user", "content": [part]}]));
    assert_eq!(param(&part(json!({"type": "input_text"}))), "input[0].content[0].text");
    assert_eq!(param(&part(json!({"type": "input_image"}))), "input[0].content[0].image_url");
    assert_eq!(param(&part(json!({"type": "image_url"}))), "input[0].content[0].type");
    assert_eq!(param(&asking(json!([{"type": "function_call", "name": "f", "arguments": "{}"}]))), "input[0].call_id");
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": {}});
    assert_eq!(param(&asking(json!([call]))), "input[0].arguments");
    assert_eq!(param(&asking(json!([{"type": "function_call_output", "call_id": "c"}]))), "input[0].output");
    assert_eq!(param(&with("tools", json!([{"type": "function"}]))), "tools[0].name");
    let namespace = json!([{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]);
    assert_eq!(param(&with("tools", namespace)), "tools[0].tools[0].name");
    assert_eq!(param(&with("text", json!({"format": {"type": "xml"}}))), "text.format.type");
    assert_eq!(param(&with("text", json!({"format": {"type": "json_schema", "schema": {}}}))), "text.format.name");
    assert_eq!(param(&with("max_output_tokens", json!(0))), "max_output_tokens");
    assert_eq!(param(&with("truncation", json!("some"))), "truncation");
    assert_eq!(param(&with("include", json!("x"))), "include");
    assert_eq!(param(&with("stream_options", json!(5))), "stream_options");
    assert_eq!(param(&with("max_tool_calls", json!("x"))), "max_tool_calls");
    let tool = |name: &str, value: Value| with("tools", json!([{"type": "function", "name": "f", name: value}]));
    assert_eq!(param(&tool("description", json!(5))), "tools[0].description");
    assert_eq!(param(&tool("strict", json!("zzz"))), "tools[0].strict");
    let custom = json!([{"type": "custom", "name": "f", "description": 5}]);
    assert_eq!(param(&with("tools", custom)), "tools[0].description");
    let thought = |name: &str| asking(json!([{"type": "reasoning", name: 5}, {"role": "user", "content": "a"}]));
    assert_eq!(param(&thought("summary")), "input[0].summary");
    assert_eq!(param(&thought("encrypted_content")), "input[0].encrypted_content");
    assert_eq!(param(&with("store", json!("x"))), "store");
    let twice = br#"{"model":"m","input":"a","mod\u0065l":"n"}"#;
    assert_eq!(read_responses(twice, &KEY).unwrap_err().param.as_deref(), Some("model"));
}

#[test]
fn fields_of_the_chat_body_have_the_names_of_the_client() {
    assert_eq!(field_name("max_completion_tokens"), "max_output_tokens");
    assert_eq!(field_name("tools[].function.strict"), "tools[].strict");
    assert_eq!(field_name("temperature"), "temperature");
    assert_eq!(input_tokens_body(7), r#"{"object":"response.input_tokens","input_tokens":7}"#);
}

#[test]
fn what_an_answer_repeats_has_all_that_clients_expect_within_it() {
    let echo = |members: Value| {
        let mut body = json!({"model": "a/b", "input": "x"});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let inbound = read(&body);
        let echo = format!("{{\"x\":1{}}}", String::from_utf8_lossy(inbound.echo.members()));
        serde_json::from_str::<Value>(&echo).unwrap()
    };
    let schema = json!({"type": "object"});
    let format = |members: Value| json!({"format": members});
    let named = |members: Value| {
        let mut tool = json!({"name": "f"});
        tool.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        tool
    };
    let function = json!({"type": "function", "name": "f", "description": null, "parameters": schema, "strict": null});
    for (name, given, expected) in [
        ("reasoning", json!({"effort": "low"}), json!({"effort": "low", "summary": null})),
        ("reasoning", json!({"summary": "auto"}), json!({"effort": null, "summary": "auto"})),
        ("reasoning", json!({}), json!({"effort": null, "summary": null})),
        ("text", json!({"verbosity": "low"}), json!({"verbosity": "low", "format": {"type": "text"}})),
        ("text", format(Value::Null), format(json!({"type": "text"}))),
        (
            "text",
            format(json!({"type": "json_schema", "name": "n", "schema": schema})),
            format(json!({"type": "json_schema", "name": "n", "schema": schema, "strict": false, "description": null})),
        ),
        (
            "text",
            format(json!({"type": "json_schema", "name": "n", "schema": schema, "strict": null, "description": "d"})),
            format(json!({"type": "json_schema", "name": "n", "schema": schema, "strict": false, "description": "d"})),
        ),
        ("tools", json!([{"type": "function", "function": named(json!({"parameters": schema}))}]), json!([function])),
        ("tools", json!([{"type": "function", "name": "f", "input_schema": schema}]), json!([function])),
        (
            "tools",
            json!([{"type": "custom", "custom": named(json!({"format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}}))}]),
            json!([{"type": "custom", "name": "f", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}]),
        ),
    ] {
        assert_eq!(echo(json!({ name: given }))[name], expected, "{given}");
    }
    let tools = json!([function]);
    for (given, expected) in [
        (json!({"type": "function", "function": {"name": "f"}}), json!({"type": "function", "name": "f"})),
        (json!({"type": "function", "name": "f"}), json!({"type": "function", "name": "f"})),
        (
            json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}),
            json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}),
        ),
    ] {
        assert_eq!(echo(json!({"tools": tools, "tool_choice": given}))["tool_choice"], expected, "{given}");
    }
}

proptest! {
    #[test]
    fn no_body_causes_a_panic_and_every_accepted_one_is_a_chat_body(
        items in prop::collection::vec(prop::sample::select(vec![
            r#"{"role":"user","content":"\ud83d"}"#, r#"{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}"#,
            r#"{"type":"reasoning","summary":[{"text":"x"},{}],"encrypted_content":"g"}"#, r#"{"type":"reasoning","encrypted_content":"pm1.x"}"#,
            r#"{"type":"function_call","call_id":"c","name":"f","namespace":"n","arguments":"\""}"#, r#"{"type":"custom_tool_call","call_id":"c","name":"p","input":""}"#,
            r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"u"}]}"#, r#"{"type":"mcp_call"}"#, r#"{"type":1}"#,
            r#"{"role":"user","content":[{"type":"input_file","file_data":"data:,x"},{"type":"input_audio","input_audio":{"data":"x"}}]}"#, r#"{"role":"user","content":[]}"#,
            r#"{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]}"#, "[]",
        ]), 0..7),
        members in prop::collection::vec(prop::sample::select(vec![
            r#""tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark"}},{"type":"mcp"}]"#, r#""tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{}]}"#,
            r#""tool_choice":"none""#, r#""text":{"format":{"type":"json_schema","name":"n","schema":{}},"verbosity":"low"}"#, r#""reasoning":{"effort":"low","x":1}"#, r#""instructions":"""#,
            r#""include":["x"]"#, r#""metadata":{"a":"b"}"#, r#""stream":true"#, r#""unknown":{"a":[1.0]}"#, r#""top_logprobs":0"#,
        ]), 0..4),
    ) {
        let members: String = members.iter().map(|member| format!(",{member}")).collect();
        let body = format!(r#"{{"model":"m","input":[{}]{members}}}"#, items.join(","));
        if let Ok(inbound) = read_responses(body.as_bytes(), &KEY) {
            prop_assert!(whole(&inbound)["messages"].is_array());
            let echo = format!("{{\"x\":1{}}}", String::from_utf8_lossy(inbound.echo.members()));
            prop_assert!(crate::json::Raw::whole(&echo).is_ok(), "{echo}");
        }
    }
}

#[test]
fn what_the_model_said_gets_no_mark_of_the_cache() {
    let part = |kind: &str| json!({"type": kind, "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}});
    let said = |role: &str, kind: &str| json!({"role": role, "content": [part(kind)]});
    let body = json!({"model": "m", "input": [said("user", "input_text"), said("assistant", "output_text")]});
    let chat = whole(&read(&body));
    assert!(chat["messages"][0]["content"][0].get("cache_control").is_some(), "{chat}");
    assert_eq!(chat["messages"][1]["content"], json!([{"type": "text", "text": "a"}]));
}
