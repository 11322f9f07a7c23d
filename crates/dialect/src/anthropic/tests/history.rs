use super::*;

const CALL: &str = r#"{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
const USER: &str = r#"{"role":"user","content":"hi"}"#;

#[test]
fn a_call_without_a_result_and_a_result_without_a_call_are_repaired_and_named() {
    let sent =
        send_messages(&format!(r#"{USER},{CALL},{USER},{{"role":"tool","tool_call_id":"zz","content":"late"}}"#));
    let expected = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"[no result]","is_error":true},{"type":"text","text":"hi"},{"type":"text","text":"[tool result zz]"},{"type":"text","text":"late"}]}"#;
    assert!(sent.messages().contains(expected), "{}", sent.messages());
    assert_eq!(sent.emulated(), ["messages[].tool_call_id", "messages[].tool_calls[].id"]);
}

#[test]
fn arguments_become_an_object_and_a_valid_object_keeps_its_bytes() {
    let input = |arguments: &str| {
        let quoted = serde_json::to_string(arguments).unwrap();
        let call = format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":{quoted}}}}}]}}"#
        );
        let sent = send_messages(&call);
        let (_, input) = sent.messages().split_once(r#""input":"#).unwrap();
        (
            input.split_once("}]},").unwrap().0.to_owned(),
            sent.emulated().contains(&"messages[].tool_calls[].function.arguments"),
        )
    };
    assert_eq!(input(""), ("{}".into(), false));
    assert_eq!(input("[1]"), (r#"{"value":[1]}"#.into(), true));
    assert_eq!(input("{bad"), (r#"{"INVALID_JSON":"{bad"}"#.into(), true));
    let exact = r#"{"z": 1.0, "a":12345678901234567890,"e":1e3}"#;
    assert_eq!(input(exact), (exact.into(), false));
}

#[test]
fn call_ids_fit_the_alphabet_are_the_same_in_call_and_result_and_stay_different() {
    let call = |id: &str| {
        format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"{id}","content":"x"}}"#
        )
    };
    let sent = send_messages(&[call("call:a.b/c"), call("call.a:b/c"), call(""), call("")].join(","));
    let body = sent.body();
    let ids: Vec<(&str, &str)> = (0..4)
        .map(|turn| {
            let call = &body["messages"][2 * turn]["content"][0]["id"];
            let result = &body["messages"][2 * turn + 1]["content"][0];
            assert_eq!(result["content"], "x", "it is the client's result, no repair");
            let result = &result["tool_use_id"];
            (call.as_str().unwrap(), result.as_str().unwrap())
        })
        .collect();
    for (place, (call, result)) in ids.iter().enumerate() {
        assert_eq!(call, result);
        assert!(call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') && !call.is_empty(), "{call}");
        assert!(ids.iter().skip(place + 1).all(|(other, _)| other != call), "{ids:?}");
    }
}

#[test]
fn blank_texts_are_never_sent() {
    let sent = send_messages(&format!(
        r#"{{"role":"user","content":" \n"}},{CALL},{{"role":"tool","tool_call_id":"a","content":" "}},{{"role":"assistant","content":"  "}},{{"role":"user","content":[{{"type":"text","text":""}},{{"type":"text","text":"x"}}]}}"#
    ));
    let expected = concat!(
        r#"[{"role":"user","content":[{"type":"text","text":"(empty)"}]},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"text","text":"x"}]}]"#,
    );
    assert_eq!(sent.messages(), expected);
    assert!(sent.emulated().contains(&"messages"), "the filler is named: {:?}", sent.emulated());
}

#[test]
fn reasoning_of_this_provider_comes_first_byte_for_byte_and_that_of_others_is_absent() {
    let sent = send_messages(&format!(
        r#"{USER},{{"role":"assistant","content":"x","reasoning_details":[
        {{"type":"reasoning.text","text":"Let \u00e9 me","signature":"Eq\/QB","format":"anthropic-claude-v1","index":0}},
        {{"type":"reasoning.encrypted","data":"Zm9v","format":"anthropic-claude-v1","index":1}},
        {{"type":"reasoning.encrypted","data":"foreign","format":"google-gemini-v1"}},
        {{"type":"reasoning.text","text":"unsigned","format":"unknown"}}]}},{USER}"#
    ));
    let expected = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Let \u00e9 me","signature":"Eq\/QB"},{"type":"redacted_thinking","data":"Zm9v"},{"type":"text","text":"x"}]}"#;
    assert!(sent.messages().contains(expected), "{}", sent.messages());
    assert!(!sent.text.contains("foreign") && !sent.text.contains("unsigned"));
    assert_eq!(sent.emulated(), ["messages[].reasoning_details"]);
}

#[test]
fn pieces_of_a_thought_that_a_client_kept_apart_become_one_block() {
    let sent = send_messages(&format!(
        r#"{USER},{{"role":"assistant","content":"x","reasoning_details":[
        {{"type":"reasoning.text","text":"Let ","format":"anthropic-claude-v1","index":0}},{{"type":"reasoning.text","text":"me","format":"anthropic-claude-v1","index":0}},
        {{"type":"reasoning.text","signature":"S1","format":"anthropic-claude-v1","index":0}},{{"type":"reasoning.text","text":"never signed","format":"anthropic-claude-v1","index":1}}]}},{USER}"#
    ));
    let expected = r#"[{"type":"thinking","thinking":"Let me","signature":"S1"},{"type":"text","text":"x"}]"#;
    assert!(sent.messages().contains(expected), "{}", sent.messages());
    assert_eq!(sent.emulated(), ["messages[].reasoning_details"]);
}

#[test]
fn cache_control_stands_on_the_block_that_was_marked_and_on_no_thought() {
    let mark = r#""cache_control":{"type":"ephemeral"}"#;
    let sent = send(
        SAMPLING,
        &format!(
            r#"{{"tools":[{{"type":"function","function":{{"name":"f"}},{mark}}}],"messages":[{{"role":"system","content":[{{"type":"text","text":"s",{mark}}}]}},
            {{"role":"user","content":[{{"type":"text","text":"u",{mark}}}]}},
            {{"role":"assistant","reasoning_details":[{{"type":"reasoning.text","text":"t","signature":"S"}}],"tool_calls":[{{"id":"a","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},
            {{"role":"tool","tool_call_id":"a","content":"r",{mark}}},{{"role":"assistant","reasoning_details":[{{"type":"reasoning.text","text":"t","signature":"S"}}],{mark}}},{USER}]}}"#
        ),
    );
    let body = sent.body();
    for place in ["/tools/0", "/system/0", "/messages/0/content/0", "/messages/2/content/0"] {
        assert_eq!(body.pointer(place).unwrap()["cache_control"]["type"], "ephemeral", "{place}");
    }
    assert_eq!(body.pointer("/messages/2/content/0/type").unwrap(), "tool_result");
    assert_eq!(sent.text.matches("cache_control").count(), 4, "{}", sent.text);
}

#[test]
fn the_last_four_breakpoints_are_kept_and_the_others_named() {
    let part = r#"{"type":"text","text":"u","cache_control":{"type":"ephemeral","ttl":"1h"}}"#;
    let sent = send_messages(&format!(r#"{{"role":"user","content":[{}]}}"#, [part; 6].join(",")));
    let body = sent.body();
    let parts = body["messages"][0]["content"].as_array().unwrap();
    let marked: Vec<bool> = parts.iter().map(|part| part.get("cache_control").is_some()).collect();
    assert_eq!(marked, [false, false, true, true, true, true]);
    assert_eq!(sent.dropped(), ["messages[].content[].cache_control"]);
}

#[test]
fn a_breakpoint_of_another_convention_gets_the_nearest_time() {
    let sent = send_messages(
        r#"{"role":"user","content":[{"type":"text","text":"u","prompt_cache_breakpoint":{"mode":"explicit","ttl":"30m"}}]}"#,
    );
    assert!(sent.text.contains(r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#), "{}", sent.text);
    assert_eq!(sent.emulated(), ["messages[].content[].prompt_cache_breakpoint"]);
}

#[test]
fn media_become_blocks_and_what_has_no_block_is_named() {
    let sent = send_messages(
        r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,AAAA","detail":"low"}},{"type":"image_url","image_url":{"url":"https://h/a.png"}},
        {"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0x","filename":"a.pdf"}},{"type":"file","file":{"file_data":"data:text/plain;base64,aMOpCg=="}},
        {"type":"file","file":{"file_id":"file_1"}},{"type":"image_url","image_url":{"url":"http://h/a.png"}},{"type":"input_audio","input_audio":{"format":"wav","data":"AA"}}]}"#,
    );
    let expected = concat!(
        r#"{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"https://h/a.png"}},"#,
        r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x"},"title":"a.pdf"},"#,
        r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hé\n"}},{"type":"document","source":{"type":"file","file_id":"file_1"}}]}"#,
    );
    assert!(sent.messages().contains(expected), "{}", sent.messages());
    let named =
        ["messages[].content[].image_url", "messages[].content[].image_url.detail", "messages[].content[].input_audio"];
    assert_eq!(sent.dropped(), named);
}

#[test]
fn an_answer_to_continue_has_no_white_space_at_its_end_and_names_of_authors_are_dropped() {
    let sent = send_messages(r#"{"role":"user","name":"ann","content":"hi"},{"role":"assistant","content":"So \n"}"#);
    assert!(
        sent.messages().ends_with(r#"{"role":"assistant","content":[{"type":"text","text":"So"}]}]"#),
        "{}",
        sent.text
    );
    assert_eq!(sent.dropped(), ["messages[].name"]);
}

#[test]
fn a_conversation_of_nothing_but_instructions_still_has_a_message() {
    let sent = send_messages(r#"{"role":"system","content":"a"}"#);
    assert_eq!(sent.messages(), r#"[{"role":"user","content":[{"type":"text","text":"(empty)"}]}]"#);
    assert_eq!(sent.emulated(), ["messages"]);
}

#[test]
fn a_tool_name_that_does_not_fit_is_replaced_everywhere_and_restored() {
    let sent = send(
        SAMPLING,
        r#"{"tools":[{"type":"function","function":{"name":"a.b"}}],"tool_choice":{"type":"function","function":{"name":"a.b"}},
        "messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"a.b","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}]}"#,
    );
    let body = sent.body();
    let name = body["tools"][0]["name"].as_str().unwrap();
    assert!(super::super::models::NAMES.fits(name), "{name}");
    assert_eq!(body["tool_choice"]["name"], name);
    assert_eq!(body["messages"][0]["content"][0]["name"], name);
    assert_eq!(sent.names.original(&crate::neutral::EscapedText::escaping(name)).unescaped(), "a.b");
}

/// What a conversation becomes for a model that takes instructions between other turns.
fn instructed(messages: &str) -> Sent {
    let mut unsupported = UnsupportedFields::default();
    let body = format!(r#"{{"messages":[{messages}]}}"#);
    let endpoint = Endpoint { takes_instructions: true, ..endpoint(SAMPLING, None) };
    let conversation = read_conversation(&body).unwrap();
    let written = write_request_for(&conversation, &endpoint, ApiVersion::default(), &mut unsupported);
    Sent { text: String::from_utf8(written.body.to_vec()).unwrap(), names: written.names, unsupported }
}

#[test]
fn a_system_message_behind_a_user_is_sent_as_it_is_where_the_model_takes_it() {
    let sent = instructed(
        r#"{"role":"system","content":"first"},{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"developer","content":"c"},{"role":"assistant","content":"d"},{"role":"user","content":"e"},{"role":"system","content":"f"}"#,
    );
    let expected = serde_json::json!([
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "system", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "d"}]},
        {"role": "user", "content": [{"type": "text", "text": "e"}]},
        {"role": "system", "content": [{"type": "text", "text": "f"}]},
    ]);
    assert_eq!(sent.body()["messages"], expected);
    assert_eq!(sent.emulated(), <[&str; 0]>::default());
}

#[test]
fn a_system_message_elsewhere_becomes_a_text_of_the_user_also_where_the_model_takes_some() {
    for messages in [
        r#"{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"system","content":"c"},{"role":"user","content":"d"}"#,
        r#"{"role":"user","content":"a"},{"role":"system","content":"c"},{"role":"user","content":"d"}"#,
        r#"{"role":"user","content":"a"},{"role":"system","content":"c"},{"role":"assistant","content":""},{"role":"user","content":"d"}"#,
    ] {
        let sent = instructed(messages);
        assert!(sent.text.contains("<system>c</system>") && !sent.text.contains(r#""role":"system""#), "{}", sent.text);
        assert_eq!(sent.emulated(), ["messages[].role"]);
    }
}
