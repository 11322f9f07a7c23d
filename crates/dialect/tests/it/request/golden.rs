//! What an upstream is sent, byte for byte.

use expect_test::{Expect, expect};

use super::world::{body, catalog, endpoint_of, read, sent, shown, talk};

fn check(id: &str, text: &str, expected: &Expect) {
    expected.assert_eq(&shown(&sent(id, text)));
}

#[test]
fn with_nothing_to_change_only_the_model_changes() {
    check("acme/able", &body(""), &expect![[r#"{"model":"up-able","messages":[{"role":"user","content":"Hi"}]}"#]]);
    check(
        "acme/able",
        "{ \"messages\" : [ { \"content\" : \"Hi\", \"role\":\"user\" } ] ,\n \"model\" : \"acme/able\" , \"temperature\" : 0.50 }",
        &expect![[r#"
            {"messages" : [ { "content" : "Hi", "role":"user" } ] ,
             "model" : "up-able" , "temperature" : 0.50}"#]],
    );
}

#[test]
fn the_end_of_a_long_body_is_sent_as_it_came_and_not_copied() {
    // What stands in the small body, and whether the second part of the long one is the client's.
    let cases = [
        (body(""), true),
        (body(r#","seed":1 , "top_p":1"#), true),
        (body(r#","presence_penalty":1,"seed":1,"metadata":{"objective":"fastest"}"#), false),
        (body(r#","stream":true"#), false),
        (body(r#","extra_body":{"seed":1}"#), false),
        (r#"{"messages":[{"role":"user","content":"Hi"}],"model":"acme/able"}"#.to_owned(), false),
    ];
    for (small, is_shared) in cases {
        let long = |text: &str| text.replace("Hi", &"Hi ".repeat(10_000));
        let request = read(long(&small));
        let catalog = catalog();
        let outgoing = request.upstream_body(&catalog, endpoint_of(&catalog, "acme/able"));
        let [first, rest] = outgoing.bytes.parts();
        assert_eq!((first.len() < 100, rest.is_empty()), (is_shared, !is_shared), "{small}");
        let sent = String::from_utf8(sent("acme/able", &small).bytes.to_vec()).unwrap();
        assert_eq!(outgoing.bytes.whole(), long(&sent).as_bytes(), "{small}");
    }
}

#[test]
fn what_belongs_to_the_gateway_never_reaches_the_upstream() {
    let fields = r#","metadata":{"objective":"fastest","run":"1"},"extra_body":{"objective":"fastest","allowed_models":["*"]},
        "objective":"fastest","allowed_models":["*"],"blocked_models":["b/*"],"provider_policy":{},
        "max_cost_per_1k_tokens":1,"max_cost":1,"weights":{"latency":1},"top_n":3,"preferred_max_latency":1,
        "preferred_min_throughput":1,"provider":{"only":["acme"]},"models":["a/b"],"plugins":[],"route":"fallback",
        "transforms":[],"usage":{"include":true},"session_id":"s","trace":{},"debug":{},"route_seed":7,
        "why_not":"a/b","what_if":{},"stream_options":{"include_usage":true}"#;
    check("acme/able", &body(fields), &expect![[r#"{"model":"up-able","messages":[{"role":"user","content":"Hi"}]}"#]]);
}

#[test]
fn what_the_endpoint_does_not_list_is_dropped_and_named() {
    let fields = r#","temperature":0.5,"top_k":5,"reasoning":{"effort":"low"},"reasoning_effort":"low","n":2,
        "presence_penalty":1,"parallel_tool_calls":true,"min_p":0.1,"logit_bias":{},"user":"u","house_style":"x""#;
    check(
        "acme/able",
        &body(fields),
        &expect![[r#"
        {"model":"up-able","messages":[{"role":"user","content":"Hi"}],"temperature":0.5,"top_k":5,"reasoning":{"effort":"low"},"reasoning_effort":"low","n":2,"parallel_tool_calls":true,"min_p":0.1,"logit_bias":{},"user":"u","house_style":"x"}
        dropped: presence_penalty"#]],
    );
    check(
        "acme/plain",
        &body(fields),
        &expect![[r#"
        {"model":"up-plain","messages":[{"role":"user","content":"Hi"}],"temperature":0.5,"min_p":0.1,"logit_bias":{},"user":"u"}
        dropped: top_k, reasoning, reasoning_effort, n, presence_penalty, parallel_tool_calls, house_style"#]],
    );
}

#[test]
fn the_limit_on_output_goes_under_the_name_the_endpoint_wants() {
    for fields in [
        r#","max_tokens":9,"seed":1"#,
        r#","max_completion_tokens":9.0,"seed":1"#,
        r#","max_tokens":5,"max_completion_tokens":9,"seed":1"#,
    ] {
        for (id, name) in [("acme/able", "max_tokens"), ("acme/newer", "max_completion_tokens")] {
            let text = shown(&sent(id, &body(fields)));
            assert!(text.ends_with(&format!(r#"}}],"{name}":9,"seed":1}}"#)), "{id} {fields}\n{text}");
        }
    }
}

#[test]
fn a_stream_always_asks_for_its_usage() {
    for options in ["", r#","stream_options":{"include_usage":false}"#, r#","stream_options":null"#] {
        let text = shown(&sent("acme/able", &body(&format!(r#","stream":true{options}"#))));
        assert!(text.ends_with(r#"],"stream":true,"stream_options":{"include_usage":true}}"#), "{text}");
    }
    check(
        "acme/able",
        &body(r#","stream":false,"stream_options":{"include_usage":true}"#),
        &expect![[r#"{"model":"up-able","messages":[{"role":"user","content":"Hi"}],"stream":false}"#]],
    );
}

#[test]
fn messages_pass_byte_for_byte() {
    let messages = r#"{ "role":"user", "content":"caf\u00e9 \/ \ud83d\ude00  é" },
  {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1,, not json \\u0041"}}]},
  {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"42","cache_control":{"type":"ephemeral"}}],"x-house":1.0}"#;
    let outgoing = sent("acme/plain", &talk(messages));
    assert!(shown(&outgoing).contains(messages));
}

#[test]
fn what_is_not_understood_passes_byte_for_byte() {
    let messages = r#"{"role":"user","content":[{"type":"text","text":"x"},{ "type" : "hologram","hologram":{"text":1.0},"image_url":7 }]},
  {"role":"assistant","content":null,"tool_calls":[{"type":"web","web":{"q":"\u0041"}}]},{"role":"tool","tool_call_id":"w","content":"7"}"#;
    let tools = r#","tools":[{"type":"web","web":{"name":"f"}},{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"web"}"#;
    let format = r#","response_format":{"type":"regex" , "pattern":"a+"}"#;
    let text = format!(r#"{{"model":"acme/able","messages":[{messages}]{tools}{format}}}"#);
    assert_eq!(shown(&sent("acme/able", &text)), text.replace("acme/able", "up-able"));
    for choice in
        [r#"{"type":"any"}"#, r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"web"}]}}"#]
    {
        let fields = format!(r#","tools":[{{"type":"function","function":{{"name":"f"}}}}],"tool_choice":{choice}"#);
        assert!(
            shown(&sent("acme/able", &body(&fields))).ends_with(&format!("\"tool_choice\":{choice}}}")),
            "{choice}"
        );
    }
}

#[test]
fn a_developer_is_a_system_where_the_endpoint_knows_no_developers() {
    let text = talk(
        r#"{"role":"developer","content":"a"},{"content":"b","role" : "developer"},{"role":"user","content":"developer"}"#,
    );
    check(
        "acme/able",
        &text,
        &expect![[
            r#"{"model":"up-able","messages":[{"role":"developer","content":"a"},{"content":"b","role" : "developer"},{"role":"user","content":"developer"}]}"#
        ]],
    );
    check(
        "acme/plain",
        &text,
        &expect![[
            r#"{"model":"up-plain","messages":[{"role":"system","content":"a"},{"content":"b","role" : "system"},{"role":"user","content":"developer"}]}"#
        ]],
    );
}

#[test]
fn a_bare_address_of_an_image_becomes_the_object_upstreams_expect() {
    let text = talk(
        r#"{"role":"developer","content":"a"},{"role":"user","content":[{"image_url":"https:\/\/a\/b.png","type":"image_url"},
            {"type":"image_url","image_url":{"url":"https://c/d.png"}}]},{"content":[{"type":"image_url","image_url":"https://e"}],"role":"developer"}"#,
    );
    check(
        "acme/plain",
        &text,
        &expect![[r#"
        {"model":"up-plain","messages":[{"role":"system","content":"a"},{"role":"user","content":[{"image_url":{"url":"https:\/\/a\/b.png"},"type":"image_url"},
                    {"type":"image_url","image_url":{"url":"https://c/d.png"}}]},{"content":[{"type":"image_url","image_url":{"url":"https://e"}}],"role":"system"}]}"#]],
    );
}

#[test]
fn integers_written_with_a_point_go_without_it() {
    check(
        "acme/able",
        &body(r#","max_tokens":100.0,"seed":7e0,"top_k":40.0,"temperature":1.0"#),
        &expect![[
            r#"{"model":"up-able","messages":[{"role":"user","content":"Hi"}],"max_tokens":100,"seed":7,"top_k":40,"temperature":1.0}"#
        ]],
    );
}

#[test]
fn nulls_are_as_good_as_absent() {
    check(
        "acme/able",
        &body(r#","temperature":null,"stop":null,"tools":null,"house":null"#),
        &expect![[r#"{"model":"up-able","messages":[{"role":"user","content":"Hi"}],"house":null}"#]],
    );
}

#[test]
fn the_models_own_values_fill_in_what_was_left_open() {
    check(
        "acme/tuned",
        &body(""),
        &expect![[
            r#"{"model":"up-tuned","messages":[{"role":"user","content":"Hi"}],"temperature":0.7,"top_p":1,"repetition_penalty":1.05}"#
        ]],
    );
    check(
        "acme/tuned",
        &body(r#","temperature":0.1,"t\u006fp_p":0.5,"repetition_penalty":null"#),
        &expect![[
            r#"{"model":"up-tuned","messages":[{"role":"user","content":"Hi"}],"temperature":0.1,"t\u006fp_p":0.5,"repetition_penalty":1.05}"#
        ]],
    );
}

#[test]
fn members_of_extra_body_go_as_if_they_stood_in_the_body() {
    let fields = r#","temperature":0.1,"extra_body":{"temperature":0.9,"top_k":5.0,"house":{"a":[1]},"model":"x/y",
        "messages":[],"stream":true,"provider":{"only":["acme"]},"objective":"fastest","extra_body":{"deep":1}},"seed":1"#;
    check(
        "acme/able",
        &body(fields),
        &expect![[
            r#"{"model":"up-able","messages":[{"role":"user","content":"Hi"}],"temperature":0.1,"seed":1,"top_k":5,"house":{"a":[1]}}"#
        ]],
    );
    check(
        "acme/plain",
        &body(fields),
        &expect![[r#"
        {"model":"up-plain","messages":[{"role":"user","content":"Hi"}],"temperature":0.1,"seed":1}
        dropped: top_k, house"#]],
    );
}

#[test]
fn a_json_schema_goes_where_either_of_its_names_is_listed() {
    let fields = r#","response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}}"#;
    check(
        "acme/newer",
        &body(fields),
        &expect![[
            r#"{"model":"up-newer","messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}}}"#
        ]],
    );
    check(
        "acme/newer",
        &body(r#","response_format":{"type":"json_object"}"#),
        &expect![[r#"
        {"model":"up-newer","messages":[{"role":"user","content":"Hi"}]}
        dropped: response_format"#]],
    );
}

#[test]
fn tags_go_upstream_only_to_be_stored_there() {
    let tags = r#""metadata":{"objective":"fastest","run":"1","caf\u00e9":"x"}"#;
    check(
        "acme/able",
        &body(&format!(r#",{tags},"store":true"#)),
        &expect![[
            r#"{"model":"up-able","messages":[{"role":"user","content":"Hi"}],"store":true,"metadata":{"run":"1","caf\u00e9":"x"}}"#
        ]],
    );
    check(
        "acme/able",
        &body(&format!(r#",{tags},"store":false"#)),
        &expect![[r#"{"model":"up-able","messages":[{"role":"user","content":"Hi"}],"store":false}"#]],
    );
    check(
        "acme/able",
        &body(r#","metadata":{"run":{"nested":1}},"store":true"#),
        &expect![[r#"{"model":"up-able","messages":[{"role":"user","content":"Hi"}],"store":true}"#]],
    );
}

#[test]
fn without_a_model_of_its_own_a_body_is_given_one() {
    let text = r#"{"models":["a/b"],"messages":[{"role":"user","content":"x"}]}"#;
    check("acme/able", text, &expect![[r#"{"messages":[{"role":"user","content":"x"}],"model":"up-able"}"#]]);
}

#[test]
fn names_of_dropped_parameters_are_fit_for_a_header() {
    let outgoing = sent("acme/plain", &body(r#","a\r\nSet-Cookie: x":1,"é":2"#));
    assert_eq!(outgoing.dropped.iter().map(|name| &**name).collect::<Vec<_>>(), ["a??Set-Cookie??x", "?"]);
    let many: String = (0..100).map(|n| format!(",\"x{n}\":1")).collect();
    assert_eq!(sent("acme/plain", &body(&many)).dropped.len(), 64);
}

#[test]
fn the_object_reasoning_becomes_an_effort_where_only_that_is_listed() {
    for (fields, expected, emulated) in [
        (r#","reasoning":{"effort":"high","exclude":true}"#, r#","reasoning_effort":"high""#, &[][..]),
        (r#","reasoning":{"effort":"low"},"reasoning_effort":"low""#, r#","reasoning_effort":"low""#, &[]),
        (r#","reasoning_effort":"minimal""#, r#","reasoning_effort":"minimal""#, &[]),
        (r#","reasoning":{"max_tokens":2000}"#, r#","reasoning_effort":"low""#, &["reasoning"]),
        (r#","reasoning":{"enabled":true}"#, "", &[]),
        (r#","reasoning":{"enabled":false}"#, r#","reasoning_effort":"none""#, &[]),
        (r#","reasoning":{"exclude":true}"#, "", &[]),
        (r#","extra_body":{"reasoning":{"effort":"high"}}"#, r#","reasoning_effort":"high""#, &[]),
    ] {
        let outgoing = sent("acme/thinks", &body(fields));
        let expected = format!(r#"{{"model":"up-thinks","messages":[{{"role":"user","content":"Hi"}}]{expected}}}"#);
        assert_eq!(shown(&outgoing), expected, "{fields}");
        assert_eq!(outgoing.emulated.iter().map(|name| &**name).collect::<Vec<_>>(), emulated, "{fields}");
    }
    let object = shown(&sent("acme/able", &body(r#","reasoning":{"effort":"high"}"#)));
    assert!(object.contains(r#""reasoning":{"effort":"high"}"#) && !object.contains("reasoning_effort"), "{object}");
    for fields in [r#","reasoning":{"effort":"high"}"#, r#","reasoning_effort":"high""#] {
        let neither = shown(&sent("acme/plain", &body(fields)));
        assert!(neither.ends_with("dropped: reasoning") || neither.ends_with("dropped: reasoning_effort"), "{neither}");
    }
}

#[test]
fn requested_reasoning_becomes_an_effort_where_an_endpoint_knows_no_other_form() {
    let cases = [
        (r#"{"effort":"high"}"#, Some("high"), false),
        (r#"{"max_tokens":3000,"exclude":true}"#, Some("low"), true),
        (r#"{"effort":"low","max_tokens":30000}"#, Some("low"), true),
        (r#"{"enabled":false}"#, Some("none"), false),
        (r#"{"enabled":true}"#, None, false),
        (r#"{"exclude":true}"#, None, false),
        ("{}", None, false),
    ];
    for (reasoning, effort, is_emulated) in cases {
        let asked = body(&format!(r#","reasoning":{reasoning},"seed":1"#));
        let outgoing = sent("acme/effort", &asked);
        let effort = effort.map(|effort| format!(r#","reasoning_effort":"{effort}""#)).unwrap_or_default();
        let expected =
            format!(r#"{{"model":"up-effort","messages":[{{"role":"user","content":"Hi"}}]{effort},"seed":1}}"#);
        assert_eq!(shown(&outgoing), expected, "{reasoning}");
        assert_eq!(outgoing.emulated.iter().any(|name| &**name == "reasoning"), is_emulated, "{reasoning}");
    }
    let both = sent("acme/effort", &body(r#","reasoning_effort":"low","reasoning":{"effort":"low"}"#));
    assert_eq!(
        shown(&both),
        r#"{"model":"up-effort","messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"low"}"#
    );
}
