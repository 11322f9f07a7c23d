//! What an upstream is sent, byte for byte.

use std::{fs, path::Path};

use expect_test::{Expect, expect, expect_file};

use super::world::{body, catalog, endpoint_of, read, sent, shown, talk};

fn check(id: &str, text: &str, expected: &Expect) {
    expected.assert_eq(&shown(&sent(id, text)));
}

/// `tests/golden/endpoints.txt`: below each case, which is members of a body, what the endpoint is sent. `UPDATE_EXPECT=1`
/// writes it.
#[test]
fn an_endpoint_is_sent_what_the_golden_file_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/endpoints.txt");
    let mut written = String::new();
    for line in fs::read_to_string(&path).unwrap().lines().filter(|line| !line.starts_with("  ")) {
        written += &format!("{line}\n");
        let Some((id, members)) = line.strip_prefix("? ").and_then(|case| case.split_once(' ')) else { continue };
        let inner = members.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap();
        let whole = match inner {
            "" => body(""),
            own if own.contains("\"messages\":[{") => format!(r#"{{"model":"acme/able",{own}}}"#),
            fields => body(&format!(",{fields}")),
        };
        let outgoing = sent(id, &whole);
        written += &shown(&outgoing).lines().map(|line| format!("  {line}\n")).collect::<String>();
        if !outgoing.emulated.is_empty() {
            written += &format!("  emulated: {}\n", outgoing.emulated.join(", "));
        }
    }
    expect_file![path].assert_eq(&written);
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
fn without_a_model_of_its_own_a_body_is_given_one() {
    let text = r#"{"models":["a/b"],"messages":[{"role":"user","content":"x"}]}"#;
    check("acme/able", text, &expect![[r#"{"messages":[{"role":"user","content":"x"}],"model":"up-able"}"#]]);
}

#[test]
fn names_of_dropped_parameters_are_fit_for_a_header() {
    let outgoing = sent("acme/plain", &body(r#","a\r\nSet-Cookie: x":1,"é":2"#));
    assert_eq!(outgoing.dropped.iter().map(|name| &**name).collect::<Vec<_>>(), ["?", "a??Set-Cookie??x"]);
    let many: String = (0..100).map(|n| format!(",\"x{n}\":1")).collect();
    assert_eq!(sent("acme/plain", &body(&many)).dropped.len(), 64);
}
