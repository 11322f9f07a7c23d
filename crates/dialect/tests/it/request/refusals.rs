//! Every way a chat body can be wrong, with the field that is blamed and the machine name of the mistake.

use pointsman_domain::Invalid;

use super::world::{body, parse, talk};

/// One body, and what is said of it: `param` (`-` for the body as a whole) and `reason`.
type Case<'a> = (&'a str, &'a str, &'a str);

fn refuse(body: &str) -> Invalid {
    match parse(body) {
        Err(invalid) => invalid,
        Ok(_) => panic!("accepted: {body}"),
    }
}

fn check(error_type: &str, body: &str, param: &str, reason: &str) {
    let invalid = refuse(body);
    let said = (invalid.param.as_deref().unwrap_or("-"), invalid.reason.as_str(), invalid.reason.error_type());
    assert_eq!(said, (param, reason, error_type), "{body}\n{}", invalid.message);
    assert!(!invalid.message.is_empty() && !invalid.message.chars().any(char::is_control), "{}", invalid.message);
}

/// Whole bodies.
fn check_bodies(cases: &[Case<'_>]) {
    cases.iter().for_each(|(text, param, reason)| check("invalid_request", text, param, reason));
}

/// Fields beside a good model and a good message.
fn check_fields(cases: &[Case<'_>]) {
    cases.iter().for_each(|(fields, param, reason)| {
        check("invalid_request", &body(&format!(",{fields}")), param, reason);
    });
}

/// Messages, of which the blamed one is the last.
fn check_messages(cases: &[Case<'_>]) {
    cases.iter().for_each(|(messages, param, reason)| check("invalid_prompt", &talk(messages), param, reason));
}

#[test]
fn a_message_says_only_what_is_true_of_the_value() {
    let digits = "9".repeat(5_000);
    for number in [digits.as_str(), "1e400"] {
        let message = refuse(&body(&format!(r#","seed":{number}"#))).message;
        assert!(message.starts_with("'seed' must be between "), "{message}");
    }
    assert_eq!(refuse(&body(r#","seed":1.5"#)).message, "'seed' must be an integer, got a fraction.");
    let model = refuse(r#"{"model":"a/b\n","messages":[{"role":"user","content":"Hi"}]}"#).message;
    assert_eq!(model, "Field 'model' must not contain control characters.");
}

#[test]
fn a_body_that_is_not_json_is_told_where() {
    check_bodies(&[
        ("", "-", "invalid_json"),
        (" \n ", "-", "invalid_json"),
        ("{", "-", "invalid_json"),
        ("nonsense", "-", "invalid_json"),
        (r#"{"model":"a/b","messages":[],"#, "-", "invalid_json"),
        (r#"{"model":"a/b","messages":[],}"#, "-", "invalid_json"),
        (r#"{"model":"a/b" "messages":[]}"#, "-", "invalid_json"),
        (r#"{"temperature":NaN}"#, "-", "invalid_json"),
        (r#"{"temperature":Infinity}"#, "-", "invalid_json"),
        (r#"{"temperature":01}"#, "-", "invalid_json"),
        (r#"{'model':'a/b'}"#, "-", "invalid_json"),
        (r#"{model:"a/b"}"#, "-", "invalid_json"),
        (r#"{1:2}"#, "-", "invalid_json"),
        ("[1,2", "-", "invalid_json"),
        ("\u{feff}{}", "-", "invalid_json"),
        ("{\"x\":\"a\tb\"}", "-", "invalid_json"),
        (r#"{"x":"\q"}"#, "-", "invalid_json"),
        (&format!("{{}}{}", "x"), "-", "invalid_json"),
        (&format!("{} {{}}", body("")), "-", "invalid_json"),
        (&format!("{}1{}", "{\"x\":".repeat(65), "}".repeat(65)), "-", "invalid_json"),
        (&"[".repeat(100_000), "-", "invalid_json"),
    ]);
    let message = refuse("{\n  \"model\": nope\n}").message;
    assert_eq!(message, "Request body is not valid JSON: expected ident at line 2 column 13.");
}

#[test]
fn broken_json_is_said_before_any_wrong_field() {
    check_bodies(&[
        (r#"{"model":1,"messages":[],"x":}"#, "-", "invalid_json"),
        (r#"{"messages":[{"role":"robot"}],"x":tru}"#, "-", "invalid_json"),
        (r#"{"tools":1}]"#, "-", "invalid_json"),
        ("[1,2]}", "-", "invalid_json"),
    ]);
}

#[test]
fn bytes_that_are_not_utf8_are_refused() {
    let invalid = parse(b"{\"model\":\"a/\xff\"}").unwrap_err();
    assert_eq!((invalid.param, invalid.reason.as_str()), (None, "invalid_json"));
    assert_eq!(invalid.message, "Request body is not valid JSON: invalid UTF-8 at line 1 column 13.");
}

#[test]
fn a_body_must_be_an_object() {
    check_bodies(&[
        ("[]", "-", "invalid_type"),
        ("null", "-", "invalid_type"),
        ("\"text\"", "-", "invalid_type"),
        (" 1 ", "-", "invalid_type"),
        ("true", "-", "invalid_type"),
    ]);
}

#[test]
fn a_name_given_twice_is_refused_wherever_the_gateway_reads() {
    check_bodies(&[
        (r#"{"model":"a/b","model":"a/b"}"#, "model", "invalid_value"),
        (r#"{"model":"a/b","messages":[{"role":"user","content":"x"}],"y":1,"y":2}"#, "y", "invalid_value"),
        (r#"{"model":"a/b","mod\u0065l":"a/b"}"#, "model", "invalid_value"),
    ]);
    check_fields(&[
        (r#""extra_body":{"objective":"fastest","objective":"fastest"}"#, "extra_body.objective", "invalid_value"),
        (r#""metadata":{"a":1,"a":2}"#, "metadata.a", "invalid_value"),
        (r#""provider":{"only":["a"],"only":["b"]}"#, "provider.only", "invalid_value"),
        (r#""response_format":{"type":"text","type":"text"}"#, "response_format.type", "invalid_value"),
        (r#""tools":[{"type":"function","type":"function"}]"#, "tools[0].type", "invalid_value"),
        (
            r#""tools":[{"type":"function","function":{"name":"f","name":"g"}}]"#,
            "tools[0].function.name",
            "invalid_value",
        ),
    ]);
    check_messages(&[
        (r#"{"role":"user","role":"user","content":"x"}"#, "messages[0].role", "invalid_value"),
        (r#"{"role":"user","content":"x","content":"y"}"#, "messages[0].content", "invalid_value"),
        (
            r#"{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}"#,
            "messages[0].content[0].text",
            "invalid_value",
        ),
        (r#"{"role":"assistant","tool_calls":[{"id":"1","id":"2"}]}"#, "messages[0].tool_calls[0].id", "invalid_value"),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"a","name":"b","arguments":""}}]}"#,
            "messages[0].tool_calls[0].function.name",
            "invalid_value",
        ),
    ]);
}

#[test]
fn a_missing_model_without_models_is_blamed_on_model() {
    let long = "m".repeat(257);
    let messages = r#""messages":[{"role":"user","content":"Hi"}]"#;
    check_bodies(&[
        ("{}", "model", "missing_field"),
        (&format!("{{{messages}}}"), "model", "missing_field"),
        (&format!("{{{messages},\"model\":null}}"), "model", "missing_field"),
        (&format!("{{{messages},\"models\":[]}}"), "model", "missing_field"),
        (&format!("{{{messages},\"model\":1}}"), "model", "invalid_type"),
        (&format!("{{{messages},\"model\":\"\"}}"), "model", "invalid_value"),
        (&format!("{{{messages},\"model\":\"a\\u0000b\"}}"), "model", "invalid_value"),
        (&format!("{{{messages},\"model\":\"{long}\"}}"), "model", "invalid_value"),
        (&format!("{{{messages},\"models\":\"a/b\"}}"), "models", "invalid_type"),
        (&format!("{{{messages},\"models\":[\"a/b\",7]}}"), "models[1]", "invalid_type"),
        (&format!("{{{messages},\"models\":[\"\"]}}"), "models[0]", "invalid_value"),
        (&format!("{{{messages},\"models\":[{}\"a/b\"]}}", "\"a/b\",".repeat(32)), "models", "invalid_value"),
    ]);
}

#[test]
fn missing_or_empty_messages_are_blamed_on_messages() {
    check_bodies(&[
        (r#"{"model":"a/b"}"#, "messages", "missing_field"),
        (r#"{"model":"a/b","messages":null}"#, "messages", "missing_field"),
        (r#"{"model":"a/b","messages":[]}"#, "messages", "invalid_value"),
        (r#"{"model":"a/b","messages":"Hi"}"#, "messages", "invalid_type"),
        (r#"{"model":"a/b","messages":{"role":"user"}}"#, "messages", "invalid_type"),
        (r#"{"model":"a/b","messages":7}"#, "messages", "invalid_type"),
        (&talk(&[r#"{"role":"user","content":"x"}"#; 10_001].join(",")), "messages", "invalid_value"),
    ]);
}

#[test]
fn an_unknown_role_is_blamed_on_its_message() {
    let good = r#"{"role":"user","content":"Hi"}"#;
    check_messages(&[
        (r#""Hi""#, "messages[0]", "invalid_type"),
        ("null", "messages[0]", "invalid_type"),
        (r#"["user","Hi"]"#, "messages[0]", "invalid_type"),
        (r#"{"content":"Hi"}"#, "messages[0].role", "missing_field"),
        (r#"{"role":null,"content":"Hi"}"#, "messages[0].role", "missing_field"),
        (r#"{"role":"robot","content":"Hi"}"#, "messages[0].role", "invalid_value"),
        (r#"{"role":"User","content":"Hi"}"#, "messages[0].role", "invalid_value"),
        (r#"{"role":1,"content":"Hi"}"#, "messages[0].role", "invalid_type"),
        (&format!("{good},{good},{{\"role\":\"robot\",\"content\":\"Hi\"}}"), "messages[2].role", "invalid_value"),
    ]);
    let invalid = refuse(&talk(r#"{"role":"robot\n","content":"Hi"}"#));
    assert_eq!(invalid.message, "Unknown role 'robot\u{fffd}'. Allowed: system, developer, user, assistant, tool.");
    assert_eq!(invalid.allowed_values, ["system", "developer", "user", "assistant", "tool"]);
}

#[test]
fn content_may_be_missing_only_from_an_assistant_and_a_function() {
    check_messages(&[
        (r#"{"role":"user"}"#, "messages[0].content", "missing_field"),
        (r#"{"role":"user","content":null}"#, "messages[0].content", "missing_field"),
        (r#"{"role":"system","content":null}"#, "messages[0].content", "missing_field"),
        (r#"{"role":"developer"}"#, "messages[0].content", "missing_field"),
        (r#"{"role":"tool","tool_call_id":"c"}"#, "messages[0].content", "missing_field"),
        (r#"{"role":"user","content":null,"refusal":"no"}"#, "messages[0].content", "missing_field"),
        (r#"{"role":"user","content":7}"#, "messages[0].content", "invalid_type"),
        (r#"{"role":"user","content":{"type":"text"}}"#, "messages[0].content", "invalid_type"),
        (r#"{"role":"user","content":true}"#, "messages[0].content", "invalid_type"),
        (r#"{"role":"user","content":[]}"#, "messages[0].content", "invalid_value"),
        (r#"{"role":"user","content":"x","name":7}"#, "messages[0].name", "invalid_type"),
    ]);
    let message = refuse(&talk(r#"{"role":"user","content":"x"},{"role":"system"}"#)).message;
    assert_eq!(message, "Message 1 (system) needs 'content'.");
}

#[test]
fn a_tool_message_needs_its_call() {
    check_messages(&[
        (r#"{"role":"tool","content":"42"}"#, "messages[0].tool_call_id", "missing_field"),
        (r#"{"role":"tool","content":"42","tool_call_id":null}"#, "messages[0].tool_call_id", "missing_field"),
        (r#"{"role":"tool","content":"42","tool_call_id":""}"#, "messages[0].tool_call_id", "invalid_value"),
        (r#"{"role":"tool","content":"42","tool_call_id":7}"#, "messages[0].tool_call_id", "invalid_type"),
    ]);
}

#[test]
fn a_tool_call_needs_id_name_and_arguments_in_a_string() {
    let call = |call: &str| format!(r#"{{"role":"assistant","tool_calls":[{call}]}}"#);
    let at = |rest: &str| format!("messages[0].tool_calls[0]{rest}");
    for (text, rest, reason) in [
        (r#"7"#, "", "invalid_type"),
        (r#"{}"#, ".id", "missing_field"),
        (r#"{"id":7}"#, ".id", "invalid_type"),
        (r#"{"id":"c","type":"custom"}"#, ".custom", "missing_field"),
        (r#"{"id":"c","type":"custom","custom":{"name":"f"}}"#, ".custom.input", "missing_field"),
        (r#"{"id":"c","type":7}"#, ".type", "invalid_value"),
        (r#"{"id":"c","type":"function"}"#, ".function", "missing_field"),
        (r#"{"id":"c","function":"f"}"#, ".function", "invalid_type"),
        (r#"{"id":"c","function":{"arguments":"{}"}}"#, ".function.name", "missing_field"),
        (r#"{"id":"c","function":{"name":7,"arguments":"{}"}}"#, ".function.name", "invalid_type"),
        (r#"{"id":"c","function":{"name":"f"}}"#, ".function.arguments", "missing_field"),
        (r#"{"id":"c","function":{"name":"f","arguments":null}}"#, ".function.arguments", "missing_field"),
        (r#"{"id":"c","function":{"name":"f","arguments":{}}}"#, ".function.arguments", "invalid_type"),
    ] {
        check_messages(&[(&call(text), &at(rest), reason)]);
    }
    check_messages(&[
        (r#"{"role":"assistant","tool_calls":{}}"#, "messages[0].tool_calls", "invalid_type"),
        (
            r#"{"role":"user","content":"x","tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]}"#,
            "messages[0].tool_calls",
            "invalid_value",
        ),
    ]);
}

#[test]
fn a_part_needs_a_type_and_what_the_type_asks_for() {
    let good = r#"{"type":"text","text":"x"}"#;
    for (part, rest, reason) in [
        (r#"{"type":7}"#, ".type", "invalid_type"),
        (r#"{"text":"x"}"#, ".type", "missing_field"),
        (r#""text""#, "", "invalid_type"),
        (r#"{"type":"text"}"#, ".text", "missing_field"),
        (r#"{"type":"text","text":null}"#, ".text", "missing_field"),
        (r#"{"type":"text","text":7}"#, ".text", "invalid_type"),
        (r#"{"type":"refusal","refusal":"no"}"#, ".type", "invalid_value"),
        (r#"{"type":"image_url"}"#, ".image_url.url", "missing_field"),
        (r#"{"type":"image_url","image_url":null}"#, ".image_url.url", "missing_field"),
        (r#"{"type":"image_url","image_url":{}}"#, ".image_url.url", "missing_field"),
        (r#"{"type":"image_url","image_url":7}"#, ".image_url", "invalid_type"),
        (r#"{"type":"image_url","image_url":{"url":7}}"#, ".image_url.url", "invalid_type"),
        (r#"{"type":"image_url","image_url":{"url":"ftp://a/b.png"}}"#, ".image_url.url", "invalid_value"),
        (r#"{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}"#, ".image_url.url", "invalid_value"),
        (r#"{"type":"image_url","image_url":{"url":""}}"#, ".image_url.url", "invalid_value"),
        (r#"{"type":"image_url","image_url":{"url":"data:text/html;base64,AA"}}"#, ".image_url.url", "invalid_value"),
        (r#"{"type":"image_url","image_url":{"url":"data:image/png,AA"}}"#, ".image_url.url", "invalid_value"),
        (r#"{"type":"image_url","image_url":"gopher://a"}"#, ".image_url", "invalid_value"),
        (
            r#"{"type":"image_url","image_url":{"url":"https://a/b.png","detail":"huge"}}"#,
            ".image_url.detail",
            "invalid_value",
        ),
        (r#"{"type":"input_audio"}"#, ".input_audio", "missing_field"),
        (r#"{"type":"input_audio","input_audio":{"format":"wav"}}"#, ".input_audio.data", "missing_field"),
        (r#"{"type":"input_audio","input_audio":{"data":"AA"}}"#, ".input_audio.format", "missing_field"),
        (r#"{"type":"input_audio","input_audio":{"data":1,"format":"wav"}}"#, ".input_audio.data", "invalid_type"),
        (r#"{"type":"file"}"#, ".file", "missing_field"),
        (r#"{"type":"file","file":{}}"#, ".file.file_data", "missing_field"),
        (r#"{"type":"file","file":{"file_id":7}}"#, ".file.file_id", "invalid_type"),
        (r#"{"type":"file","file":{"file_id":"f","filename":7}}"#, ".file.filename", "invalid_type"),
        (r#"{"type":"video_url"}"#, ".video_url.url", "missing_field"),
        (r#"{"type":"video_url","video_url":{"url":"rtsp://a"}}"#, ".video_url.url", "invalid_value"),
    ] {
        let message = format!(r#"{{"role":"user","content":[{good},{part}]}}"#);
        check_messages(&[(&message, &format!("messages[0].content[1]{rest}"), reason)]);
    }
}

#[test]
fn tools_need_a_known_type_and_a_unique_name() {
    let long = format!(r#""tools":[{{"type":"function","function":{{"name":"{}"}}}}]"#, "f".repeat(129));
    let many = vec![r#"{"type":"function","function":{"name":"f"}}"#; 513].join(",");
    check_fields(&[
        (r#""tools":{}"#, "tools", "invalid_type"),
        (r#""tools":["f"]"#, "tools[0]", "invalid_type"),
        (r#""tools":[{"function":{"name":"f"}}]"#, "tools[0].type", "missing_field"),
        (r#""tools":[{"type":"custom"}]"#, "tools[0].custom", "missing_field"),
        (r#""tools":[{"type":"custom","custom":{}}]"#, "tools[0].custom.name", "missing_field"),
        (r#""tools":[{"type":"function"}]"#, "tools[0].function", "missing_field"),
        (r#""tools":[{"type":"function","function":"f"}]"#, "tools[0].function", "invalid_type"),
        (r#""tools":[{"type":"function","function":{}}]"#, "tools[0].function.name", "missing_field"),
        (r#""tools":[{"type":"function","function":{"name":""}}]"#, "tools[0].function.name", "invalid_value"),
        (r#""tools":[{"type":"function","function":{"name":7}}]"#, "tools[0].function.name", "invalid_type"),
        (&long, "tools[0].function.name", "invalid_value"),
        (
            r#""tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]"#,
            "tools[1].function.name",
            "invalid_value",
        ),
        (
            r#""tools":[{"type":"web"},{"type":"function","function":{"name":"f"}},{"type":"web"},{"type":"function","function":{"name":"f"}}]"#,
            "tools[3].function.name",
            "invalid_value",
        ),
        (
            r#""tools":[{"type":"function","function":{"name":"f","parameters":[]}}]"#,
            "tools[0].function.parameters",
            "invalid_type",
        ),
        (&format!("\"tools\":[{many}]"), "tools", "invalid_value"),
    ]);
}

#[test]
fn a_choice_must_be_among_the_tools() {
    let tools = r#""tools":[{"type":"function","function":{"name":"f"}}]"#;
    check_fields(&[
        (r#""tool_choice":"required""#, "tool_choice", "invalid_value"),
        (r#""tool_choice":{"type":"function","function":{"name":"f"}}"#, "tool_choice", "invalid_value"),
        (
            &format!(r#""tool_choice":{{"type":"function","function":{{"name":"g"}}}},{tools}"#),
            "tool_choice",
            "invalid_value",
        ),
        (&format!(r#"{tools},"tool_choice":"sometimes""#), "tool_choice", "invalid_value"),
        (&format!(r#"{tools},"tool_choice":7"#), "tool_choice", "invalid_type"),
        (&format!(r#"{tools},"tool_choice":{{"type":"function"}}"#), "tool_choice.function", "missing_field"),
        (&format!(r#"{tools},"tool_choice":{{"type":7}}"#), "tool_choice.type", "invalid_type"),
    ]);
    let choice = r#","tool_choice":{"type":"function","function":{"name":"g"}}"#;
    assert_eq!(refuse(&body(choice)).message, "'tool_choice' refers to 'g', which is not in 'tools'.");
}

#[test]
fn numbers_outside_their_range_are_refused() {
    for (name, bad) in [
        ("temperature", &["2.1", "-0.1", "1e999"][..]),
        ("top_p", &["1.01", "-1"]),
        ("min_p", &["2"]),
        ("top_a", &["-0.5"]),
        ("top_k", &["-1"]),
        ("frequency_penalty", &["2.5", "-2.5"]),
        ("presence_penalty", &["3"]),
        ("repetition_penalty", &["0", "2.1", "-1"]),
        ("max_tokens", &["0", "-5", "1e300"]),
        ("max_completion_tokens", &["0"]),
        ("top_logprobs", &["21", "-1"]),
        ("n", &["0", "9"]),
        ("seed", &["9223372036854775808", "1e40"]),
    ] {
        for value in bad {
            check_fields(&[(&format!("\"{name}\":{value}"), name, "invalid_value")]);
        }
    }
    assert_eq!(refuse(&body(r#","temperature":5"#)).message, "'temperature' must be between 0 and 2.");
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    for (name, bad) in [
        ("temperature", "\"1\""),
        ("top_k", "1.5"),
        ("seed", "\"7\""),
        ("max_tokens", "10.5"),
        ("n", "true"),
        ("stream", "\"yes\""),
        ("stream", "1"),
        ("stream_options", "[]"),
        ("stop", "7"),
        ("logit_bias", "[]"),
        ("logprobs", "1"),
        ("parallel_tool_calls", "\"true\""),
        ("functions", "{}"),
        ("function_call", "7"),
        ("response_format", "\"json\""),
        ("reasoning", "\"high\""),
        ("reasoning_effort", "7"),
        ("include_reasoning", "1"),
        ("verbosity", "7"),
        ("modalities", "\"text\""),
        ("audio", "\"wav\""),
        ("image_config", "7"),
        ("prediction", "\"x\""),
        ("web_search_options", "true"),
        ("service_tier", "7"),
        ("prompt_cache_key", "{}"),
        ("prompt_cache_options", "\"x\""),
        ("cache_control", "\"x\""),
        ("safety_identifier", "7"),
        ("moderation", "7"),
        ("store", "\"yes\""),
        ("user", "7"),
        ("session_id", "7"),
        ("trace", "\"x\""),
        ("provider", "\"acme\""),
        ("route", "7"),
        ("transforms", "\"middle-out\""),
        ("plugins", "{}"),
        ("usage", "true"),
        ("debug", "true"),
        ("metadata", "[]"),
        ("metadata", "\"x\""),
        ("extra_body", "[]"),
        ("extra_body", "\"x\""),
    ] {
        check_fields(&[(&format!("\"{name}\":{bad}"), name, "invalid_type")]);
    }
    let message = refuse(&body(r#","temperature":"hot""#)).message;
    assert_eq!(message, "'temperature' must be a number, got a string.");
}

#[test]
fn values_inside_fields_are_blamed_by_their_path() {
    let stops = format!("\"stop\":[{}\"x\"]", "\"x\",".repeat(16));
    let long = "u".repeat(257);
    check_fields(&[
        (r#""stop":"""#, "stop", "invalid_value"),
        (r#""stop":["x",""]"#, "stop[1]", "invalid_value"),
        (r#""stop":["x",7]"#, "stop[1]", "invalid_type"),
        (&stops, "stop", "invalid_value"),
        (r#""logit_bias":{"50256":101}"#, "logit_bias", "invalid_value"),
        (r#""logit_bias":{"50256":"x"}"#, "logit_bias", "invalid_type"),
        (r#""stream_options":{"include_usage":"yes"}"#, "stream_options.include_usage", "invalid_type"),
        (r#""usage":{"include":1}"#, "usage.include", "invalid_type"),
        (r#""reasoning":{"effort":"extreme"}"#, "reasoning.effort", "invalid_value"),
        (r#""reasoning":{"max_tokens":-1}"#, "reasoning.max_tokens", "invalid_value"),
        (r#""reasoning":{"exclude":"yes"}"#, "reasoning.exclude", "invalid_type"),
        (r#""reasoning":{"effort":"high"},"reasoning_effort":"low""#, "reasoning_effort", "invalid_value"),
        (r#""modalities":["text","smell"]"#, "modalities[1]", "invalid_value"),
        (r#""response_format":{}"#, "response_format.type", "missing_field"),
        (r#""response_format":{"type":7}"#, "response_format.type", "invalid_type"),
        (r#""response_format":{"type":"json_schema"}"#, "response_format.json_schema", "missing_field"),
        (
            r#""response_format":{"type":"json_schema","json_schema":{"name":"","schema":{}}}"#,
            "response_format.json_schema.name",
            "invalid_value",
        ),
        (
            r#""response_format":{"type":"json_schema","json_schema":{"name":"x"}}"#,
            "response_format.json_schema.schema",
            "missing_field",
        ),
        (
            r#""response_format":{"type":"json_schema","json_schema":{"name":"x","schema":"y"}}"#,
            "response_format.json_schema.schema",
            "invalid_type",
        ),
        (&format!("\"user\":\"{long}\""), "user", "invalid_value"),
        (&format!("\"session_id\":\"{long}\""), "session_id", "invalid_value"),
        (&format!("\"trace\":{{\"x\":\"{}\"}}", "x".repeat(16_384)), "trace", "invalid_value"),
        (r#""route":"sort""#, "route", "invalid_value"),
        (r#""extra_body":{"temperature":9}"#, "extra_body.temperature", "invalid_value"),
    ]);
}

#[test]
fn objects_have_a_bounded_number_of_members() {
    let members = |count: usize| (0..count).map(|n| format!("\"{n}\":0")).collect::<Vec<_>>().join(",");
    check_bodies(&[(&format!("{{{}}}", members(4097)), "-", "invalid_value")]);
    check_fields(&[
        (&format!("\"extra_body\":{{{}}}", members(4096)), "-", "invalid_value"),
        (&format!("\"logit_bias\":{{{}}}", members(4097)), "logit_bias", "invalid_value"),
    ]);
}

#[test]
fn the_first_offending_field_is_blamed_and_required_ones_come_last() {
    check_bodies(&[
        (r#"{"temperature":9,"top_p":9}"#, "temperature", "invalid_value"),
        (r#"{"top_p":9,"temperature":9}"#, "top_p", "invalid_value"),
        (r#"{"messages":[],"model":7}"#, "messages", "invalid_value"),
    ]);
}

#[test]
fn a_refusal_never_shows_the_prompt() {
    let secret = "the launch code is 0000";
    for fields in [r#","temperature":9"#, r#","tools":7"#, r#","x":tru"#] {
        let text = body(fields).replace("Hi", secret);
        assert!(!format!("{:?}", refuse(&text)).contains("launch"), "{text}");
    }
    for message in [
        format!(r#"{{"role":"user","content":{{"text":"{secret}"}}}}"#),
        format!(r#"{{"role":"user","content":[{{"type":"text","text":["{secret}"]}}]}}"#),
        format!(r#"{{"role":"tool","content":"{secret}"}}"#),
    ] {
        assert!(!format!("{:?}", refuse(&talk(&message))).contains("launch"), "{message}");
    }
}
