//! What the gateway takes from a good body.

use pointsman_domain::{Modalities, Modality, ParameterNames, ReasoningFormat};

use super::world::{body, parse, read, talk};

#[test]
fn integers_may_have_a_point_and_nulls_are_absent() {
    let request = read(body(r#","max_tokens":100.0,"n":2.0,"temperature":null,"tools":null,"user":null,"stop":null"#));
    assert_eq!((request.max_tokens, request.n, &request.user), (Some(100), 2, &None));
    assert!(request.needs(&ParameterNames::published()).parameters.is_empty());
}

#[test]
fn of_two_limits_on_output_the_newer_name_wins() {
    assert_eq!(read(body(r#","max_tokens":5,"max_completion_tokens":7"#)).max_tokens, Some(7));
    assert_eq!(read(body(r#","max_tokens":5"#)).max_tokens, Some(5));
    assert_eq!(read(body(r#","max_tokens":99999999999"#)).max_tokens, Some(u32::MAX));
    assert_eq!(read(body("")).max_tokens, None);
}

#[test]
fn every_good_message_is_accepted() {
    let call = r#"[{"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]"#;
    for messages in [
        r#"{"role":"system","content":"x"},{"role":"developer","content":"y"},{"role":"user","content":""}"#.to_owned(),
        format!(r#"{{"role":"assistant","content":null,"tool_calls":{call}}}"#),
        format!(r#"{{"tool_calls":{call},"role":"assistant"}}"#),
        r#"{"role":"assistant"}"#.to_owned(),
        r#"{"role":"assistant","content":null,"refusal":null,"tool_calls":null}"#.to_owned(),
        r#"{"role":"assistant","content":[],"tool_calls":[]}"#.to_owned(),
        r#"{"role":"assistant","refusal":"no"}"#.to_owned(),
        r#"{"role":"assistant","audio":{"id":"a"}}"#.to_owned(),
        r#"{"role":"assistant","reasoning":"because"}"#.to_owned(),
        r#"{"role":"assistant","reasoning_details":[{}]}"#.to_owned(),
        r#"{"role":"assistant","function_call":{"name":"f","arguments":""}}"#.to_owned(),
        r#"{"role":"assistant","images":[{}]}"#.to_owned(),
        r#"{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}"#.to_owned(),
        r#"{"content":[{"refusal":"no","type":"refusal"}],"role":"assistant"}"#.to_owned(),
        r#"{"role":"tool","tool_call_id":"c","content":"42"}"#.to_owned(),
        r#"{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"42"}]}"#.to_owned(),
        r#"{"role":"function","name":"f","content":null}"#.to_owned(),
        r#"{"role":"user","content":"x","name":null,"tool_calls":null}"#.to_owned(),
        r#"{"role":"user","content":"x","cache_control":{"type":"ephemeral"},"unknown":[1]}"#.to_owned(),
        r#"{"r\u006fle":"us\u0065r","content":"x"}"#.to_owned(),
    ] {
        parse(talk(&messages)).unwrap_or_else(|invalid| panic!("{messages}: {invalid:?}"));
    }
}

#[test]
fn what_is_not_understood_counts_with_all_its_bytes() {
    let long = "x".repeat(40_000);
    let tokens = |text: String| parse(text).unwrap().prompt_tokens;
    let part = |part: String| tokens(talk(&format!(r#"{{"role":"user","content":[{part}]}}"#)));
    let known = part(format!(r#"{{"type":"text","text":"{long}"}}"#));
    assert!(part(format!(r#"{{"type":"thinking","thinking":[{{"type":"text","text":"{long}"}}]}}"#)) >= known);
    assert!(part(format!(r#"{{"image_url":"{long}","type":"input_image"}}"#)) >= known);
    let calls = format!(r#"{{"role":"assistant","tool_calls":[{{"id":"c","type":"x","x":"{long}"}}]}}"#);
    assert!(tokens(talk(&calls)) >= known);
    assert!(tokens(body(&format!(r#","tools":[{{"type":"mcp","description":"{long}"}}]"#))) >= known);
}

#[test]
fn every_good_part_is_accepted_and_says_what_the_model_must_take() {
    let data = format!("data:image/png;base64,{}", "A".repeat(1000));
    for (part, modality) in [
        (r#"{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}"#.to_owned(), None),
        (r#"{"type":"image_url","image_url":{"url":"https://a/b.png"}}"#.to_owned(), Some(Modality::Image)),
        (
            r#"{"image_url":{"detail":"low","url":"HTTP://a/b.png"},"type":"image_url"}"#.to_owned(),
            Some(Modality::Image),
        ),
        (
            format!(r#"{{"type":"image_url","image_url":{{"url":"{data}","detail":"original"}}}}"#),
            Some(Modality::Image),
        ),
        (r#"{"type":"image_url","image_url":"https:\/\/a\/b.png"}"#.to_owned(), Some(Modality::Image)),
        (r#"{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}}"#.to_owned(), Some(Modality::Audio)),
        (r#"{"type":"file","file":{"file_id":"f1"}}"#.to_owned(), Some(Modality::File)),
        (
            r#"{"type":"file","file":{"file_data":"data:application/pdf;base64,AA","filename":"a.pdf"}}"#.to_owned(),
            Some(Modality::File),
        ),
        (r#"{"type":"video_url","video_url":{"url":"https://a/b.mp4"}}"#.to_owned(), Some(Modality::Video)),
    ] {
        let request = read(talk(&format!(r#"{{"role":"user","content":[{part}]}}"#)));
        let input: Modalities = modality.into_iter().collect();
        assert_eq!(request.needs(&ParameterNames::published()).input, input, "{part}");
        assert_eq!(request.images, u32::from(modality == Some(Modality::Image)), "{part}");
    }
}

#[test]
fn the_estimate_counts_text_names_schemas_frames_and_images() {
    let tokens = |text: String| read(text).prompt_tokens;
    assert_eq!(tokens(talk(r#"{"role":"user","content":"12345678"}"#)), 2 + 4);
    assert_eq!(tokens(talk(r#"{"role":"user","content":"123456789"}"#)), 3 + 4);
    assert_eq!(tokens(talk(r#"{"role":"user","content":"\n\t\"\u00e9\ud83d\ude00"}"#)), 3 + 4, "escapes as they read");
    assert_eq!(tokens(talk(r#"{"role":"user","content":"é中"}"#)), 2 + 4, "UTF-8 bytes");
    assert_eq!(tokens(talk(r#"{"role":"user","content":"1234","name":"5678"}"#)), 2 + 4);
    assert_eq!(
        tokens(talk(
            r#"{"role":"user","content":[{"type":"text","text":"1234"},
            {"type":"image_url","image_url":{"url":"https://a/b.png"}}]},{"role":"assistant","content":"5678"}"#
        )),
        2 + 8 + 1000
    );
    let tools =
        r#","tools":[{"type":"function","function":{"name":"abcd","description":"efgh","parameters":{"a":1}}}]"#;
    assert_eq!(tokens(body(tools)), 5 + 4, "2 bytes of prompt, 15 of declaration");
    let call = r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"abcd","arguments":"efgh"}}]}"#;
    assert_eq!(tokens(talk(call)), 2 + 4);
}

#[test]
fn needs_say_what_is_hard_and_leave_out_what_is_soft() {
    let names = ParameterNames::published();
    let gate = |name: &str| names.gate(name).unwrap();
    let tools = r#","tools":[{"type":"function","function":{"name":"f"}}]"#;
    let needs = |fields: &str| read(body(fields)).needs(&names);

    assert!(needs(r#","temperature":1,"max_tokens":5,"stop":"x","reasoning":{"effort":"low"}"#).parameters.is_empty());
    assert_eq!(needs(tools).parameters, gate("tools"));
    assert!(needs(r#","tools":[]"#).parameters.is_empty());
    assert_eq!(needs(&format!(r#"{tools},"tool_choice":"auto""#)).parameters, gate("tools"));
    assert_eq!(
        needs(&format!(r#"{tools},"tool_choice":"required""#)).parameters,
        gate("tools").union(gate("tool_choice"))
    );
    let forced = format!(r#","tool_choice":{{"type":"function","function":{{"name":"f"}}}}{tools}"#);
    assert_eq!(needs(&forced).parameters, gate("tools").union(gate("tool_choice")));
    assert_eq!(needs(r#","response_format":{"type":"json_object"}"#).parameters, gate("response_format"));
    let schema = needs(r#","response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}}"#);
    assert!(schema.parameters.is_empty());
    assert_eq!(schema.any_parameter, gate("structured_outputs").union(gate("response_format")));
    assert_eq!(needs("").output, Modalities::TEXT);
    assert_eq!(needs(r#","modalities":["image","text"]"#).output, Modalities::TEXT.with(Modality::Image));
}

#[test]
fn require_parameters_makes_everything_given_hard() {
    let names = ParameterNames::published();
    let gate = |name: &str| names.gate(name).unwrap();
    let fields = r#","provider":{"require_parameters":true},"temperature":1,"max_completion_tokens":5,"stop":null,
        "reasoning_effort":"low","logit_bias":{},"unknown":1"#;
    let wanted = gate("temperature").union(gate("max_tokens")).union(gate("reasoning"));
    assert_eq!(read(body(fields)).needs(&names).parameters, wanted);
}

#[test]
fn small_switches_are_found_wherever_they_stand() {
    let request = read(body(
        r#","stream":true,"stream_options":{"include_usage":false,"other":1},"usage":{"include":true},
           "reasoning":{"effort":"high","exclude":true},"reasoning_effort":"high","user":"u1",
           "debug":{"echo_upstream_body":true},"transforms":["middle-out"],"route":"fallback",
           "models":["a/b","auto"],"trace":{"id": "t"},"extra_body":{"session_id":"s1","model":"x/y","stream":false}"#,
    ));
    assert!(request.stream && request.usage_include && request.exclude_reasoning);
    assert_eq!(request.include_usage, Some(false));
    assert_eq!(request.model.as_deref(), Some("acme/able"));
    assert_eq!(request.models, ["a/b", "auto"]);
    assert_eq!((request.user.as_deref(), request.session_id.as_deref()), (Some("u1"), Some("s1")));
    assert_eq!(request.trace.as_deref(), Some(r#"{"id": "t"}"#));
    assert_eq!(
        read(body(r#","stream_options":{"include_usage":true}"#)).include_usage,
        None,
        "no stream, no usage chunk"
    );
}

#[test]
fn what_the_body_says_itself_is_stronger_than_extra_body() {
    let request = read(body(r#","max_tokens":5,"user":null,"extra_body":{"max_tokens":7,"user":"u","n":3}"#));
    assert_eq!((request.max_tokens, request.user.as_deref(), request.n), (Some(5), Some("u"), 3));
}

#[test]
fn a_model_may_be_missing_where_models_names_some() {
    let request = read(r#"{"models":["a/b"],"messages":[{"role":"user","content":"x"}]}"#);
    assert_eq!((request.model, request.models), (None, vec!["a/b".to_owned()]));
}

/// The reasoning before a call may stand before an earlier step of the turn only.
#[test]
fn calls_are_open_until_the_model_answers_their_results() {
    let call = r#""tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]"#;
    let thinks = |format: &str| {
        format!(r#"{{"role":"assistant",{call},"reasoning_details":[{{"type":"x"}},{{"format":"{format}"}}]}}"#)
    };
    let (claude, gemini) = (thinks("anthropic-claude-v1"), thinks("google-gemini-v1"));
    let calls = format!(r#"{{"role":"assistant",{call}}}"#);
    let result = r#"{"role":"tool","tool_call_id":"c","content":"1"}"#;
    let (user, answer) = (r#"{"role":"user","content":"x"}"#, r#"{"role":"assistant","content":"y"}"#);
    for (messages, expected) in [
        (vec![user, &claude], ReasoningFormat::Unknown),
        (vec![user, &claude, result], ReasoningFormat::Anthropic),
        (vec![user, &claude, result, user], ReasoningFormat::Anthropic),
        (vec![user, &claude, result, &calls, result], ReasoningFormat::Anthropic),
        (vec![user, &claude, result, &calls, result, &calls, result], ReasoningFormat::Anthropic),
        (vec![user, &claude, result, &gemini, result], ReasoningFormat::Gemini),
        (vec![user, &claude, result, answer], ReasoningFormat::Unknown),
        (vec![user, &claude, result, answer, user, &calls, result], ReasoningFormat::Unknown),
        (vec![user, &claude, result, user, &calls, result], ReasoningFormat::Unknown),
        (vec![user, &thinks("other"), result], ReasoningFormat::Unknown),
        (vec![user, &calls, result], ReasoningFormat::Unknown),
    ] {
        assert_eq!(read(talk(&messages.join(","))).open_state, expected, "{messages:?}");
    }
}
