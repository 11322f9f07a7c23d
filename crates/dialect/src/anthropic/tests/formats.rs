use super::*;

const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1},"k":{"oneOf":[{"const":"x"},{"type":"null"}]}},"required":["n"]}"#;
const LOWERED: &str = r#"{"type":"object","properties":{"n":{"type":"integer","description":"minimum: 1."},"k":{"anyOf":[{"const":"x"},{"type":"null"}]}},"required":["n"],"additionalProperties":false}"#;

fn format(schema: &str, strict: bool) -> String {
    format!(
        r#""response_format":{{"type":"json_schema","json_schema":{{"name":"a","strict":{strict},"schema":{schema}}}}}"#
    )
}

#[test]
fn a_schema_is_lowered_and_sent_as_output_config() {
    let sent = send_members(SAMPLING, &format(SCHEMA, true));
    let expected = format!(r#""output_config":{{"format":{{"type":"json_schema","schema":{LOWERED}}}}}"#);
    assert!(sent.text.contains(&expected), "{}", sent.text);
    assert!(sent.dropped().is_empty() && sent.emulated().is_empty());
    let with_effort = send_members(SAMPLING, &format!(r#"{},"reasoning_effort":"low""#, format(SCHEMA, true)));
    let expected =
        format!(r#""output_config":{{"effort":"low","format":{{"type":"json_schema","schema":{LOWERED}}}}}"#);
    assert!(with_effort.text.contains(&expected), "{}", with_effort.text);
}

#[test]
fn a_schema_that_the_endpoint_cannot_follow_is_asked_for_in_words_and_never_claimed_to_be_strict() {
    let map = r#"{"type":"object","additionalProperties":{"type":"integer"}}"#;
    let sent = send_members(SAMPLING, &format(map, false));
    assert!(sent.body().get("output_config").is_none());
    assert!(sent.body()["system"][0]["text"].as_str().unwrap().ends_with(map));
    assert_eq!((sent.dropped(), sent.emulated()), (vec![], vec!["response_format"]));
    for (model, schema) in [(SAMPLING, map), ("claude-opus-4-20250514", SCHEMA)] {
        let sent = send_members(model, &format(schema, true));
        assert_eq!((sent.dropped(), sent.emulated()), (vec!["response_format"], vec![]), "{model}");
    }
}

#[test]
fn any_json_object_is_asked_for_behind_the_clients_instructions() {
    let sent = send(
        SAMPLING,
        r#"{"messages":[{"role":"system","content":"a"},{"role":"user","content":"hi"}],"response_format":{"type":"json_object"}}"#,
    );
    let system = sent.body()["system"].clone();
    assert_eq!((system[0]["text"].as_str(), system.as_array().unwrap().len()), (Some("a"), 2));
    assert_eq!(sent.emulated(), ["response_format"]);
}

#[test]
fn a_tools_schema_passes_byte_for_byte_and_a_missing_or_untyped_one_becomes_an_object() {
    let schema =
        r#"{"type": "object","properties":{"z":{"minimum":1.0,"maximum":12345678901234567890},"a":{}},"x":1e3}"#;
    let tool = |parameters: &str| {
        let sent = send_members(
            SAMPLING,
            &format!(r#""tools":[{{"type":"function","function":{{"name":"f","description":"d"{parameters}}}}}]"#),
        );
        let (_, tail) = sent.text.split_once(r#"{"name":"f","description":"d","input_schema":"#).unwrap();
        (tail.split_once("}],").unwrap().0.to_owned(), sent.emulated().join(","))
    };
    assert_eq!(tool(&format!(r#","parameters":{schema}"#)), (schema.into(), String::new()));
    assert_eq!(tool(""), (r#"{"type":"object","properties":{}}"#.into(), String::new()));
    let (untyped, emulated) = tool(r#","parameters":{"properties":{"a":{"const":1.0}}}"#);
    assert_eq!(untyped, r#"{"type":"object","properties":{"a":{"const":1.0}}}"#);
    assert_eq!(emulated, "tools[].function.parameters");
}

#[test]
fn a_strict_tool_is_strict_with_a_lowered_schema_or_not_strict_at_all() {
    let tool = |schema: &str| {
        format!(r#""tools":[{{"type":"function","function":{{"name":"f","strict":true,"parameters":{schema}}}}}]"#)
    };
    let sent = send_members(SAMPLING, &tool(SCHEMA));
    assert!(sent.text.contains(&format!(r#""input_schema":{LOWERED},"strict":true"#)), "{}", sent.text);
    let map = r#"{"type":"object","additionalProperties":{}}"#;
    for (model, schema) in [(SAMPLING, map), ("claude-opus-4-20250514", SCHEMA)] {
        let sent = send_members(model, &tool(schema));
        assert!(sent.text.contains(&format!(r#""input_schema":{schema}}}"#)), "{}", sent.text);
        assert_eq!(sent.dropped(), ["tools[].function.strict"]);
    }
}

#[test]
fn a_custom_tool_becomes_a_function_with_its_grammar_described() {
    let expected = r#"{"name":"apply_patch","description":"Patches.\nThe input must match this lark grammar:\nstart: x","input_schema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}"#;
    for format in [
        r#"{"type":"grammar","grammar":{"syntax":"lark","definition":"start: x"}}"#,
        r#"{"type":"grammar","syntax":"lark","definition":"start: x"}"#,
    ] {
        let sent = send(
            SAMPLING,
            &format!(
                r#"{{"tools":[{{"type":"custom","custom":{{"name":"apply_patch","description":"Patches.","format":{format}}}}}],"messages":[
                {{"role":"assistant","tool_calls":[{{"id":"a","type":"custom","custom":{{"name":"apply_patch","input":"*** \"x\"\n"}}}}]}},{{"role":"tool","tool_call_id":"a","content":"ok"}}]}}"#
            ),
        );
        assert!(sent.text.contains(expected), "{}", sent.text);
        assert!(sent.text.contains(r#""input":{"input":"*** \"x\"\n"}"#), "{}", sent.text);
        assert_eq!(sent.emulated(), ["messages[].tool_calls[].custom", "tools[].custom"]);
    }
}

#[test]
fn of_allowed_tools_only_those_are_declared() {
    let sent = send_members(
        SAMPLING,
        r#""tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}],
        "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}}"#,
    );
    let body = sent.body();
    assert_eq!((body["tools"].as_array().unwrap().len(), body["tools"][0]["name"].as_str()), (1, Some("g")));
    assert_eq!((body["tool_choice"]["type"].as_str(), sent.emulated()), (Some("any"), vec!["tool_choice"]));
}
