use super::*;

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

/// What a conversation becomes for a model that takes instructions between other turns.
fn instructed(messages: &str) -> Sent {
    let mut unsupported = UnsupportedFields::default();
    let body = format!(r#"{{"messages":[{messages}]}}"#);
    let endpoint = Endpoint { takes_instructions: true, ..endpoint(SAMPLING, None) };
    let conversation = read_settled(&body);
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
