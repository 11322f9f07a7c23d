use super::*;

#[test]
fn results_name_the_function_of_their_call_and_an_unsigned_step_of_another_provider_gets_one_stand_in() {
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{\"x\": 1.0}"}});
    let messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [call("c1", "f"), call("c2", "1st-tool!")],
         "reasoning_details": [{"type": "reasoning.text", "text": "t", "signature": "s", "format": "anthropic-claude-v1", "index": 0}]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
    ]);
    let tools = json!([{"type": "function", "function": {"name": "1st-tool!", "strict": true, "parameters": {"type": "object"}}}]);
    let (body, names, dropped, emulated) = send(NEWEST, &json!({"messages": messages, "tools": tools}));
    let sent = body["tools"][0]["functionDeclarations"][0]["name"].as_str().unwrap().to_owned();
    assert_ne!(sent, "1st-tool!");
    let parts = &body["contents"][1]["parts"];
    assert_eq!(
        parts[0],
        json!({"functionCall": {"name": "f", "args": {"x": 1.0}}, "thoughtSignature": "skip_thought_signature_validator"})
    );
    assert_eq!(parts[1], json!({"functionCall": {"name": sent, "args": {"x": 1.0}}}));
    let results = json!([
        {"functionResponse": {"name": "f", "response": {"output": "one"}}},
        {"functionResponse": {"name": sent, "response": {"output": "two"}}},
    ]);
    assert_eq!(body["contents"][2], json!({"role": "user", "parts": results}));
    assert_eq!(body["toolConfig"]["functionCallingConfig"]["mode"], "VALIDATED");
    assert!(dropped.is_empty(), "{dropped:?}");
    assert_eq!(emulated, ["messages[].reasoning_details"]);
    let answer = streamed(&[chunk(json!([{"functionCall": {"name": sent}}]), Some("STOP"))], names).unwrap();
    assert_eq!(
        answer["choices"][0]["message"]["tool_calls"][0]["function"],
        json!({"name": "1st-tool!", "arguments": "{}"})
    );
}

#[test]
fn a_signature_comes_back_on_the_part_that_it_came_with() {
    let call = |name: &str, signature: Value| json!({"functionCall": {"id": name, "name": name, "args": {}}, "thoughtSignature": signature});
    let mut second = call("g", Value::Null);
    second.as_object_mut().unwrap().remove("thoughtSignature");
    let chunks = [
        chunk(json!([{"text": "hm", "thought": true}, {"text": "Calling."}]), None),
        chunk(json!([call("f", json!("AbC=")), second]), None),
        chunk(json!([{"text": "", "thoughtSignature": "ZZZ="}]), Some("STOP")),
    ];
    let answer = streamed(&chunks, ToolNames::default()).unwrap();
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["reasoning"], "hm");
    assert_eq!(message["tool_calls"][0]["extra_content"]["google"]["thought_signature"], "AbC=");
    let turn = json!({"messages": [{"role": "user", "content": "a"}, message,
        {"role": "tool", "tool_call_id": "f", "content": "1"}, {"role": "tool", "tool_call_id": "g", "content": "2"}]});
    let (body, _, dropped, _) = send(NEWEST, &turn);
    let expected = json!([
        {"text": "Calling.", "thoughtSignature": "ZZZ="},
        {"functionCall": {"id": "f", "name": "f", "args": {}}, "thoughtSignature": "AbC="},
        {"functionCall": {"id": "g", "name": "g", "args": {}}},
    ]);
    assert_eq!(body["contents"][1]["parts"], expected);
    assert!(dropped.is_empty(), "{dropped:?}");
}

const CALLS: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"g","arguments":""}}]}"#;
const SKIP: &str = r#""thoughtSignature":"skip_thought_signature_validator""#;

#[test]
fn a_foreign_history_gets_one_stand_in_per_unsigned_step_and_none_for_earlier_models() {
    let result = r#"{"role":"tool","tool_call_id":"b","content":"2"},{"role":"tool","tool_call_id":"a","content":"1"}"#;
    let messages = format!("{CALLS},{result},{CALLS},{result}");
    let step = format!(
        r#"{{"role":"model","parts":[{{"functionCall":{{"name":"f","args":{{}}}},{SKIP}}},{{"functionCall":{{"name":"g","args":{{}}}}}}]}},{{"role":"user","parts":[{{"functionResponse":{{"name":"f","response":{{"output":"1"}}}}}},{{"functionResponse":{{"name":"g","response":{{"output":"2"}}}}}}]}}"#
    );
    let (contents_of_newest, dropped, emulated) = contents(NEWEST, Signatures::Returned, &messages);
    assert_eq!(contents_of_newest, format!("[{step},{step}]"), "results stand in the order of their calls");
    assert!(dropped.is_empty(), "{dropped:?}");
    assert_eq!(emulated, ["messages[].reasoning_details"]);
    let (earlier, _, emulated) = contents(BUDGET, Signatures::Returned, &messages);
    assert!(!earlier.contains("thoughtSignature") && emulated.is_empty(), "{earlier}");
}

#[test]
fn the_answer_of_a_signed_call_goes_back_with_its_signature_and_without_the_made_id() {
    let first = r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"get_current_weather","args":{"location":"Paris"}},"thoughtSignature":"AbC="}]}}],"usageMetadata":{"trafficType":"ON_DEMAND"}}"#;
    let last = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":107,"candidatesTokenCount":31,"thoughtsTokenCount":148,"totalTokenCount":286}}"#;
    let chunks: Vec<Value> = [first, last].iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect();
    let answer = streamed(&chunks, ToolNames::default()).unwrap();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["native_finish_reason"], "STOP");
    let message = &choice["message"];
    let id = message["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.starts_with("call_") && id.len() == 27, "{id}");
    assert_eq!(
        message["tool_calls"][0]["function"],
        json!({"name": "get_current_weather", "arguments": "{\"location\":\"Paris\"}"})
    );
    assert_eq!(message["tool_calls"][0]["extra_content"]["google"]["thought_signature"], "AbC=");
    let detail =
        json!([{"type": "reasoning.encrypted", "data": "AbC=", "id": id, "format": "google-gemini-v1", "index": 0}]);
    assert_eq!(message["reasoning_details"], detail);
    let result = json!({"role": "tool", "tool_call_id": id, "content": "18 °C"});
    let expected = r#"[{"role":"model","parts":[{"functionCall":{"name":"get_current_weather","args":{"location":"Paris"}},"thoughtSignature":"AbC="}]},{"role":"user","parts":[{"functionResponse":{"name":"get_current_weather","response":{"output":"18 °C"}}}]}]"#;
    assert_eq!(contents(NEWEST, Signatures::Returned, &format!("{message},{result}")).0, expected);
    // A client of the other convention, which keeps the signature on the call only.
    let mut compatible = message.clone();
    compatible.as_object_mut().unwrap().remove("reasoning_details");
    assert_eq!(contents(NEWEST, Signatures::Returned, &format!("{compatible},{result}")).0, expected);
}

#[test]
fn a_signature_of_another_provider_is_never_sent_and_a_refused_one_is_replaced() {
    let state = |format: &str| {
        CALLS.replace(
            r#""content":null"#,
            &format!(r#""content":"x","reasoning_details":[{{"type":"reasoning.encrypted","data":"SECRET","id":"a","format":"{format}"}},{{"type":"reasoning.text","text":"why","format":"{format}"}}]"#),
        )
    };
    for format in ["anthropic-claude-v1", "openai-responses-v1", "unknown"] {
        let (sent, dropped, emulated) = contents(NEWEST, Signatures::Returned, &state(format));
        assert!(!sent.contains("SECRET") && !sent.contains("why") && sent.contains(SKIP), "{sent}");
        assert_eq!((dropped, emulated.contains(&"messages[].reasoning_details".to_owned())), (vec![], true));
    }
    let own = state("google-gemini-v1");
    let (sent, _, emulated) = contents(NEWEST, Signatures::Returned, &own);
    assert!(sent.contains(r#""thoughtSignature":"SECRET""#) && !sent.contains(SKIP) && !sent.contains("why"), "{sent}");
    assert_eq!(emulated, ["messages[].tool_calls[].id"], "only the missing results");
    let (sent, _, emulated) = contents(NEWEST, Signatures::StandIns, &own);
    assert!(!sent.contains("SECRET") && sent.matches(SKIP).count() == 1, "{sent}");
    assert!(emulated.contains(&"messages[].reasoning_details".to_owned()));
}

#[test]
fn a_signature_of_an_empty_part_is_kept_and_goes_back() {
    let chunks =
        [chunk(json!([{"text": "Hi"}]), None), chunk(json!([{"text": "", "thoughtSignature": "S+/="}]), Some("STOP"))];
    let message = streamed(&chunks, ToolNames::default()).unwrap()["choices"][0]["message"].clone();
    let (sent, ..) = contents(NEWEST, Signatures::Returned, &message.to_string());
    assert_eq!(sent, r#"[{"role":"model","parts":[{"text":"Hi","thoughtSignature":"S+/="}]}]"#);
    let only = r#"{"role":"assistant","content":"","reasoning_details":[{"type":"reasoning.encrypted","data":"S","format":"google-gemini-v1"}]}"#;
    let (sent, ..) = contents(NEWEST, Signatures::Returned, only);
    assert_eq!(sent, r#"[{"role":"model","parts":[{"text":"","thoughtSignature":"S"}]}]"#);
}

#[test]
fn ids_that_this_provider_gave_go_back_and_ids_of_others_do_not() {
    let chunks = [chunk(
        json!([{"functionCall": {"id": "x1", "name": "f", "args": {}}, "thoughtSignature": "S"}]),
        Some("STOP"),
    )];
    let message = streamed(&chunks, ToolNames::default()).unwrap()["choices"][0]["message"].clone();
    let result = r#"{"role":"tool","tool_call_id":"x1","content":"1"}"#;
    let (sent, ..) = contents(NEWEST, Signatures::Returned, &format!("{message},{result}"));
    let expected = r#"[{"role":"model","parts":[{"functionCall":{"id":"x1","name":"f","args":{}},"thoughtSignature":"S"}]},{"role":"user","parts":[{"functionResponse":{"id":"x1","name":"f","response":{"output":"1"}}}]}]"#;
    assert_eq!(sent, expected);
    let (sent, ..) = contents(NEWEST, Signatures::Returned, CALLS);
    assert!(!sent.contains(r#""id""#), "{sent}");
}

#[test]
fn parts_of_a_result_stay_apart_and_media_stand_where_the_model_takes_them() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/jpg;base64,AAAA"}}"#;
    let messages = format!(
        r#"{CALLS},{{"role":"tool","tool_call_id":"a","content":[{{"type":"text","text":"1"}},{{"type":"text","text":"\u00e9"}},{image}]}},{{"role":"tool","tool_call_id":"b","content":"","is_error":true}},{{"role":"user","content":"so?"}}"#
    );
    let user = |model: &str| {
        contents(model, Signatures::Returned, &messages).0.split_once(r#"{"role":"user""#).unwrap().1.to_owned()
    };
    let expected = r#","parts":[{"functionResponse":{"name":"f","response":{"output":["1","\u00e9"]},"parts":[{"inlineData":{"mimeType":"image/jpeg","data":"AAAA"}}]}},{"functionResponse":{"name":"g","response":{"error":""}}},{"text":"so?"}]}]"#;
    assert_eq!(user(NEWEST), expected);
    let expected = r#","parts":[{"functionResponse":{"name":"f","response":{"output":["1","\u00e9"]}}},{"functionResponse":{"name":"g","response":{"error":""}}},{"inlineData":{"mimeType":"image/jpeg","data":"AAAA"}},{"text":"so?"}]}]"#;
    assert_eq!(user(BUDGET), expected);
}

#[test]
fn arguments_become_an_object_and_a_valid_object_keeps_its_bytes() {
    for (arguments, expected, is_emulated) in [
        (r#"{\"z\": 1.0, \"a\":12345678901234567890}"#, r#"{"z": 1.0, "a":12345678901234567890}"#, false),
        ("", "{}", false),
        ("[1]", r#"{"value":[1]}"#, true),
        ("{bad", r#"{"INVALID_JSON":"{bad"}"#, true),
    ] {
        let call = CALLS.replacen(r#""arguments":"{}""#, &format!(r#""arguments":"{arguments}""#), 1);
        let (sent, _, emulated) = contents(NEWEST, Signatures::Returned, &call);
        assert!(sent.contains(&format!(r#"{{"name":"f","args":{expected}}}"#)), "{sent}");
        assert_eq!(emulated.contains(&"messages[].tool_calls[].function.arguments".to_owned()), is_emulated);
    }
}

#[test]
fn a_later_system_message_and_a_broken_history_are_repaired_and_named() {
    let (sent, _, emulated) = contents(
        NEWEST,
        Signatures::Returned,
        &format!(
            r#"{{"role":"user","content":"a"}},{{"role":"system","content":"b"}},{CALLS},{{"role":"tool","tool_call_id":"zz","content":"late"}}"#
        ),
    );
    assert!(sent.starts_with(r#"[{"role":"user","parts":[{"text":"a"},{"text":"<system>b</system>"}]},"#), "{sent}");
    let repaired = r#"{"functionResponse":{"name":"g","response":{"error":"[no result]"}}},{"text":"[tool result zz]"},{"text":"late"}]}]"#;
    assert!(sent.ends_with(repaired), "{sent}");
    let named =
        ["messages[].reasoning_details", "messages[].role", "messages[].tool_call_id", "messages[].tool_calls[].id"];
    assert_eq!(emulated, named);
    let (sent, _, emulated) = contents(NEWEST, Signatures::Returned, r#"{"role":"system","content":"a"}"#);
    assert_eq!((&*sent, emulated), (r#"[{"role":"user","parts":[{"text":"(empty)"}]}]"#, vec!["messages".to_owned()]));
}

#[test]
fn media_become_parts_and_what_has_no_place_is_named() {
    let message = r#"{"role":"user","name":"ann","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"},"cache_control":{"type":"ephemeral"}},
        {"type":"image_url","image_url":{"url":"https://h/a.webp?x=1","detail":"auto"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0x","filename":"a.pdf"}},
        {"type":"file","file":{"file_data":"JVBERi0y"}},{"type":"video_url","video_url":{"url":"https://www.youtube.com/watch?v=x"}},{"type":"brand_new","x":1},{"type":"input_audio","input_audio":{"format":"mp3","data":"AA"}}]}"#;
    let (sent, dropped, _) = contents(NEWEST, Signatures::Returned, message);
    let expected = concat!(
        r#"[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"},"mediaResolution":{"level":"MEDIA_RESOLUTION_LOW"}},"#,
        r#"{"fileData":{"mimeType":"image/webp","fileUri":"https://h/a.webp?x=1"}},{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0x"}},"#,
        r#"{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0y"}},{"fileData":{"mimeType":"video/mp4","fileUri":"https://www.youtube.com/watch?v=x"}},"#,
        r#"{"inlineData":{"mimeType":"audio/mp3","data":"AA"}}]}]"#,
    );
    assert_eq!(sent, expected);
    let named = [
        "messages[].content[]",
        "messages[].content[].cache_control",
        "messages[].content[].file.filename",
        "messages[].name",
    ];
    assert_eq!(dropped, named);
    let (_, dropped, _) = contents(BUDGET, Signatures::Returned, message);
    assert!(dropped.contains(&"messages[].content[].image_url.detail".to_owned()), "{dropped:?}");
}

#[test]
fn a_step_with_a_signature_on_a_later_call_gets_no_stand_in() {
    let state = r#""content":null,"reasoning_details":[{"type":"reasoning.encrypted","data":"S","id":"b","format":"google-gemini-v1"}]"#;
    let (sent, _, emulated) = contents(NEWEST, Signatures::Returned, &CALLS.replace(r#""content":null"#, state));
    assert!(!sent.contains(SKIP) && sent.matches(r#""thoughtSignature":"S""#).count() == 1, "{sent}");
    assert_eq!(emulated, ["messages[].tool_calls[].id"], "only the missing results");
    // An id that the client changed still belongs to the step.
    let (sent, ..) = contents(
        NEWEST,
        Signatures::Returned,
        &CALLS.replace(r#""content":null"#, &state.replace(r#""b""#, r#""changed""#)),
    );
    assert!(sent.contains(r#""name":"f","args":{}},"thoughtSignature":"S""#) && !sent.contains(SKIP), "{sent}");
}
