//! Files, sound and pictures, and schemas with references, at endpoints of each dialect.

use pointsman_dialect::{ChatRequest, capability_gaps};
use pointsman_domain::{CapabilitySet, Dialect};
use serde_json::{Value, json};

use crate::world::{catalog, of_chat, of_messages, of_responses, sent_of};

fn chat(parts: Value) -> Box<ChatRequest> {
    of_chat(&json!({"model": "acme/m", "messages": [{"role": "user", "content": parts}]}).to_string())
}

fn body(dialect: Dialect, chat: &ChatRequest) -> Value {
    serde_json::from_slice(&sent_of(&catalog(), dialect, chat).bytes).unwrap()
}

fn file(data: &str, name: &str) -> Value {
    json!({"type": "file", "file": {"file_data": data, "filename": name}})
}

/// What an endpoint of the dialect misses for this request.
fn missing(dialect: Dialect, chat: &ChatRequest) -> Vec<&'static str> {
    let gaps = capability_gaps(dialect, "m");
    let needed = chat.needs(&catalog().parameters).capabilities;
    CapabilitySet::names()
        .filter(|name| CapabilitySet::named(name).is_some_and(|one| !needed.common(gaps).common(one).is_empty()))
        .collect()
}

#[test]
fn an_endpoint_is_excluded_for_media_that_its_api_has_no_form_for() {
    let office = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
    let data = |kind: &str| format!("data:{kind};base64,UEsDBA==");
    let sound = |format: &str| json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": format}});
    let url = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    // Whether endpoints of Messages, Gemini, Responses and Converse take it.
    for (part, takes) in [
        (file(&data("application/octet-stream"), "a.bin"), [false, false, true, false]),
        (file(&data("application/zip"), "a.zip"), [false, false, true, false]),
        (file(&data(office), "a.docx"), [false, false, true, true]),
        (file(&data("application/json"), "a.json"), [true; 4]),
        (file(&data("application/xml"), "a.xml"), [true; 4]),
        (file(&data("text/x-python"), "a.py"), [true; 4]),
        (file(&data("application/octet-stream"), "a.py"), [true; 4]),
        (file(&data("application/x-pdf"), "a.pdf"), [true; 4]),
        (file("JVBERi0xLjQ=", "a.pdf"), [true; 4]),
        (sound("mp3"), [false, true, false, true]),
        (sound("pcm16"), [false, true, false, false]),
        (url("http://a.example/b.png"), [false, true, true, false]),
        (url("https://a.example/b.png"), [true, true, true, false]),
    ] {
        let chat = chat(json!([part]));
        let dialects = [Dialect::Anthropic, Dialect::Gemini, Dialect::Responses, Dialect::Converse];
        for (dialect, takes) in dialects.into_iter().zip(takes) {
            let missing = missing(dialect, &chat);
            assert_eq!(missing.is_empty(), takes, "{dialect:?} {part}: {missing:?}");
            if takes {
                let sent = sent_of(&catalog(), dialect, &chat);
                let dropped: Vec<&str> = sent.dropped.iter().map(|name| &**name).collect();
                assert!(
                    !dropped.iter().any(|name| name.ends_with("file") || name.ends_with("[]")),
                    "{dialect:?} {part}: {dropped:?}"
                );
            }
        }
        assert_eq!(missing(Dialect::OpenAi, &chat), Vec::<&str>::new(), "a chat server judges by itself");
    }
}

#[test]
fn an_endpoint_is_excluded_for_such_media_in_results_of_tools_too() {
    let zip = "data:application/zip;base64,UEsDBA==";
    let call = json!({"id": "t", "type": "function", "function": {"name": "read", "arguments": "{}"}});
    let of_chat_client = of_chat(
        &json!({"model": "acme/m", "messages": [
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "t", "content": [{"type": "text", "text": "read"}, file(zip, "a.zip")]},
        ]})
        .to_string(),
    );
    let output = json!([{"type": "input_file", "file_data": zip, "filename": "a.zip"}]);
    let of_responses_client = of_responses(&json!({"model": "acme/m", "input": [
        {"role": "user", "content": "Hi"}, {"type": "function_call", "call_id": "t", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t", "output": output},
    ]}));
    for chat in [of_chat_client, of_responses_client] {
        for dialect in [Dialect::Anthropic, Dialect::Gemini, Dialect::Converse] {
            assert!(!missing(dialect, &chat).is_empty(), "{dialect:?}");
        }
        assert_eq!(missing(Dialect::OpenAi, &chat), Vec::<&str>::new());
    }
}

/// The user's media in a body of this dialect: all parts of messages of the user that are no text.
fn media_of_user(dialect: Dialect, body: &Value) -> Vec<Value> {
    let list = match dialect {
        Dialect::Gemini => &body["contents"],
        Dialect::Responses => &body["input"],
        Dialect::OpenAi | Dialect::Anthropic | Dialect::Converse => &body["messages"],
    };
    let of_user = list.as_array().unwrap().iter().filter(|message| message["role"] == "user");
    let parts =
        of_user.flat_map(|message| [&message["content"], &message["parts"]]).filter_map(Value::as_array).flatten();
    parts.filter(|part| part.get("text").is_none()).cloned().collect()
}

#[test]
fn media_of_instructions_go_to_the_user_at_every_dialect_and_are_named_as_emulated() {
    let pdf = "data:application/pdf;base64,JVBERi0=";
    let picture = "data:image/png;base64,iVBORw0=";
    let says = |role: &str, content: Value| json!({"role": role, "content": content});
    let text = |kind: &str, text: &str| json!({"type": kind, "text": text});
    let image = json!({"type": "image_url", "image_url": {"url": picture}});
    let of_chat_client = |messages: Value| of_chat(&json!({"model": "acme/m", "messages": messages}).to_string());
    let of_responses_client = |input: Value| of_responses(&json!({"model": "acme/m", "input": input}));
    let (hi, go) = (says("user", json!("Hi")), says("user", json!("Go")));
    let rules = |role: &str| says(role, json!([text("text", "rule"), file(pdf, "a.pdf"), image]));
    let input_file = json!({"type": "input_file", "file_data": pdf, "filename": "a.pdf"});
    let input_image = json!({"type": "input_image", "image_url": picture});
    let items = |role: &str| says(role, json!([text("input_text", "rule"), input_file, input_image]));
    for (is_chat, chat) in [
        (true, of_chat_client(json!([rules("system"), hi]))),
        (true, of_chat_client(json!([rules("developer"), says("system", json!("Be brief.")), hi]))),
        (true, of_chat_client(json!([hi, rules("system"), go]))),
        (true, of_chat_client(json!([hi, rules("system")]))),
        (true, of_chat_client(json!([hi, rules("system"), says("assistant", json!("so")), go]))),
        (true, of_chat_client(json!([says("system", json!([file(pdf, "a.pdf"), image]))]))),
        (false, of_responses_client(json!([hi, items("developer"), go]))),
        (false, of_responses_client(json!([items("system"), hi]))),
        (false, of_responses_client(json!([hi, items("developer")]))),
    ] {
        let own = if is_chat { Dialect::OpenAi } else { Dialect::Responses };
        for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != own) {
            let sent = sent_of(&catalog(), dialect, &chat);
            let body: Value = serde_json::from_slice(&sent.bytes).unwrap();
            let found = media_of_user(dialect, &body);
            assert_eq!(found.len(), 2, "{dialect:?}: {body}");
            assert!(found[0].to_string().contains("JVBERi0=") && found[1].to_string().contains("iVBORw0="), "{body}");
            let lost = sent
                .dropped
                .iter()
                .any(|name| name.ends_with("[]") || name.ends_with("file") || name.contains("image"));
            assert!(!lost, "{dialect:?}: {:?}", sent.dropped);
            let names: &[&str] = match (is_chat, dialect) {
                (_, Dialect::OpenAi) => &["input[].content[]"],
                (true, _) => &["messages[].content[].file", "messages[].content[].image_url"],
                (false, _) => &["input[].content[].image_url", "input[].content[].input_file"],
            };
            for name in names {
                assert!(
                    sent.emulated.iter().any(|emulated| &**emulated == *name),
                    "{dialect:?} {name}: {:?}",
                    sent.emulated
                );
            }
        }
    }
}

/// Claude takes system messages behind those of the user in their own role.
#[test]
fn media_of_an_instruction_within_the_conversation_are_not_lost_where_its_role_is_kept() {
    let mut catalog = catalog();
    let claude = catalog.endpoints.iter().position(|endpoint| endpoint.dialect == Dialect::Anthropic).unwrap();
    catalog.endpoints[claude].upstream_model = "claude-opus-5-5".into();
    let messages = json!([
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": [{"type": "text", "text": "rule"}, file("data:application/pdf;base64,JVBERi0=", "a.pdf")]},
    ]);
    let chat = of_chat(&json!({"model": "acme/m", "messages": messages}).to_string());
    let sent: Value = serde_json::from_slice(&sent_of(&catalog, Dialect::Anthropic, &chat).bytes).unwrap();
    assert_eq!(media_of_user(Dialect::Anthropic, &sent).len(), 1, "{sent}");
    assert!(sent.to_string().contains("rule"), "{sent}");
}

/// Prompt caches live on it.
#[test]
fn a_history_with_media_in_instructions_is_a_prefix_of_the_next_turn() {
    let says = |role: &str, content: Value| json!({"role": role, "content": content});
    let rules = says(
        "system",
        json!([{"type": "text", "text": "rule"}, file("data:application/pdf;base64,JVBERi0=", "a.pdf")]),
    );
    let first = vec![says("user", json!("Hi")), rules];
    let later = [&first[..], &[says("assistant", json!("so")), says("user", json!("Go"))]].concat();
    for dialect in [Dialect::Anthropic, Dialect::Gemini, Dialect::Responses, Dialect::Converse] {
        let list = |messages: &[Value]| {
            let chat = of_chat(&json!({"model": "acme/m", "messages": messages}).to_string());
            let sent = String::from_utf8(sent_of(&catalog(), dialect, &chat).bytes.to_vec()).unwrap();
            let start = ["\"messages\":[", "\"contents\":[", "\"input\":["].iter().find_map(|name| sent.find(name));
            sent.split_at(start.unwrap()).1.to_owned()
        };
        let (first, later) = (list(&first), list(&later));
        let (told, _) = first.split_at(first.find("JVBERi0=").unwrap());
        assert!(later.starts_with(told), "{dialect:?}: {first}\n{later}");
    }
}

#[test]
fn a_named_picture_in_a_file_has_no_title_at_claude_and_a_document_has_one() {
    for (data, title, dropped) in [
        ("data:image/png;base64,iVBORw0=", Value::Null, true),
        ("data:application/pdf;base64,JVBERi0=", json!("a.x"), false),
        ("data:text/plain;base64,SGk=", json!("a.x"), false),
    ] {
        let sent = sent_of(&catalog(), Dialect::Anthropic, &chat(json!([file(data, "a.x")])));
        let body: Value = serde_json::from_slice(&sent.bytes).unwrap();
        assert_eq!(body["messages"][0]["content"][0]["title"], title, "{body}");
        let is_named = sent.dropped.iter().any(|name| &**name == "messages[].content[].file.filename");
        assert_eq!(is_named, dropped, "{:?}", sent.dropped);
    }
}

#[test]
fn texts_of_any_type_go_as_documents_of_text() {
    let chat = chat(json!([{"type": "text", "text": "Read"}, file("data:application/json;base64,e30=", "a.json")]));
    let converse = body(Dialect::Converse, &chat);
    assert_eq!(converse["messages"][0]["content"][1]["document"]["format"], "txt", "{converse}");
    let claude = body(Dialect::Anthropic, &chat);
    assert_eq!(claude["messages"][0]["content"][1]["source"]["data"], "{}", "{claude}");
    let gemini = body(Dialect::Gemini, &chat);
    assert_eq!(gemini["contents"][0]["parts"][1]["inlineData"]["mimeType"], "text/plain", "{gemini}");
    // Text that is no UTF-8 is not left out.
    let latin = self::chat(json!([file("data:text/plain;base64,6Q==", "a.txt")]));
    let claude = body(Dialect::Anthropic, &latin);
    assert_eq!(claude["messages"][0]["content"][0]["source"]["data"], "\u{fffd}", "{claude}");
}

#[test]
fn a_message_of_documents_has_a_text_at_converse() {
    let pdf = "data:application/pdf;base64,JVBERi0=";
    let block = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}, "cache_control": {"type": "ephemeral"}});
    let messages = |content: Value| {
        let history = json!([
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read", "input": {}}]},
            {"role": "user", "content": content},
        ]);
        of_messages(&json!({"model": "acme/m", "max_tokens": 9, "messages": history}))
    };
    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": "read"});
    let response = json!({"type": "input_file", "file_data": pdf, "filename": "a.pdf"});
    for (chat, kinds) in [
        (chat(json!([file(pdf, "a.pdf")])), vec!["text", "document"]),
        (messages(json!([result, block])), vec!["toolResult", "text", "document"]),
        (
            of_responses(&json!({"model": "acme/m", "input": [{"role": "user", "content": [response]}]})),
            vec!["text", "document"],
        ),
        (chat(json!([file(pdf, "a.pdf"), {"type": "text", "text": "Read"}])), vec!["document", "text"]),
    ] {
        let sent = sent_of(&catalog(), Dialect::Converse, &chat);
        let body: Value = serde_json::from_slice(&sent.bytes).unwrap();
        let last = body["messages"].as_array().unwrap().last().unwrap();
        let found =
            last["content"].as_array().unwrap().iter().map(|block| block.as_object().unwrap().keys().next().unwrap());
        assert_eq!(found.filter(|kind| *kind != "cachePoint").collect::<Vec<_>>(), kinds, "{body}");
        let is_named =
            sent.emulated.iter().any(|name| name.starts_with("messages[].content") || name.starts_with("input"));
        assert_eq!(is_named, kinds[kinds.len() - 2] == "text", "{:?}", sent.emulated);
    }
}

#[test]
fn the_text_beside_a_document_stands_before_a_cache_point_at_converse() {
    let block = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}, "cache_control": {"type": "ephemeral"}});
    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": "read"});
    let history = json!([
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read", "input": {}}]},
        {"role": "user", "content": [result, block]},
    ]);
    let chat = of_messages(&json!({"model": "acme/m", "max_tokens": 9, "messages": history}));
    let mut catalog = catalog();
    let converse = catalog.endpoints.iter().position(|endpoint| endpoint.dialect == Dialect::Converse).unwrap();
    catalog.endpoints[converse].upstream_model = "anthropic.claude-sonnet-4-5-20250929-v1:0".into();
    let body: Value = serde_json::from_slice(&sent_of(&catalog, Dialect::Converse, &chat).bytes).unwrap();
    let blocks = body["messages"][2]["content"].as_array().unwrap();
    let kinds: Vec<&str> = blocks.iter().map(|block| &**block.as_object().unwrap().keys().next().unwrap()).collect();
    assert_eq!(kinds, ["toolResult", "text", "document", "cachePoint"], "{body}");
}

#[test]
fn bare_base64_is_data_at_every_door_and_goes_to_every_dialect_as_such() {
    let bare = "JVBERi0xLjQ=";
    let url = format!("data:application/pdf;base64,{bare}");
    let response = json!({"type": "input_file", "file_data": bare, "filename": "a.pdf"});
    let source = json!({"type": "base64", "media_type": "application/pdf", "data": url});
    let block = json!({"type": "document", "title": "a.pdf", "source": source});
    for (door, request) in [
        ("chat", chat(json!([file(bare, "a.pdf")]))),
        ("responses", of_responses(&json!({"model": "acme/m", "input": [{"role": "user", "content": [response]}]}))),
        (
            "messages",
            of_messages(
                &json!({"model": "acme/m", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]}),
            ),
        ),
    ] {
        for (dialect, data) in [
            (Dialect::OpenAi, url.as_str()),
            (Dialect::Responses, &url),
            (Dialect::Anthropic, bare),
            (Dialect::Gemini, bare),
            (Dialect::Converse, bare),
        ] {
            // A client's own bytes pass as they are.
            let is_own = matches!(
                (door, dialect),
                ("chat", Dialect::OpenAi) | ("responses", Dialect::Responses) | ("messages", Dialect::Anthropic)
            );
            let text = body(dialect, &request).to_string();
            assert!(is_own || text.contains(&format!("\"{data}\"")), "{door} {dialect:?}: {text}");
            assert!(is_own || !text.contains("file_url") && !text.contains("fileUri"), "{door} {dialect:?}: {text}");
            assert!(is_own || dialect != Dialect::Responses || text.contains("a.pdf"), "{door}: {text}");
        }
    }
    let sound = json!({"type": "input_audio", "input_audio": {"data": "data:audio/wav;base64,AAAA", "format": "wav"}});
    let heard = body(Dialect::Gemini, &chat(json!([sound])));
    assert_eq!(heard["contents"][0]["parts"][0]["inlineData"]["data"], "AAAA", "{heard}");
    let heard = of_responses(&json!({"model": "acme/m", "input": [{"role": "user", "content": [sound]}]}));
    assert_eq!(body(Dialect::OpenAi, &heard)["messages"][0]["content"][0]["input_audio"]["data"], "AAAA");
}

#[test]
fn nothing_stands_beside_a_reference_where_an_api_refuses_that() {
    let described = json!({"$ref": "#/$defs/Opt", "description": "special"});
    let schema = json!({"type": "object", "$defs": {"Opt": {"type": "string", "enum": ["a", "b"]}}, "properties": {"a": described}});
    let expected = json!({"type": "string", "enum": ["a", "b"], "description": "special"});
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": schema, "strict": true}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}});
    let asked = json!({"model": "acme/m", "messages": [{"role": "user", "content": "Hi"}], "tools": [tool], "response_format": format});
    let chat = of_chat(&asked.to_string());
    let mut catalog = catalog();
    let gemini = catalog.endpoints.iter().position(|endpoint| endpoint.dialect == Dialect::Gemini).unwrap();
    catalog.endpoints[gemini].upstream_model = "gemini-3-pro".into();
    let sent: Value = serde_json::from_slice(&sent_of(&catalog, Dialect::Gemini, &chat).bytes).unwrap();
    let declared = &sent["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"];
    assert_eq!(declared["properties"]["a"], expected, "{sent}");
    assert_eq!(sent["generationConfig"]["responseJsonSchema"]["properties"]["a"], expected, "{sent}");
    let sent = body(Dialect::Responses, &chat);
    assert_eq!(sent["tools"][0]["parameters"]["properties"]["a"], expected, "{sent}");
    assert_eq!(sent["text"]["format"]["schema"]["properties"]["a"], expected, "{sent}");
    let messages = of_messages(&json!({
        "model": "acme/m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "f", "input_schema": schema, "strict": true}],
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    }));
    let sent = body(Dialect::OpenAi, &messages);
    assert_eq!(sent["tools"][0]["function"]["parameters"]["properties"]["a"], expected, "{sent}");
    assert_eq!(sent["response_format"]["json_schema"]["schema"]["properties"]["a"], expected, "{sent}");
}

#[test]
fn a_member_beside_a_reference_that_is_lost_has_the_name_that_the_client_gave_it() {
    let node = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/Node", "description": "second"}}});
    let schema = json!({"type": "object", "$defs": {"Node": node}, "properties": {"a": {"$ref": "#/$defs/Node", "description": "first"}}});
    let user = json!([{"role": "user", "content": "Hi"}]);
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": schema}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}});
    let flat = json!({"type": "function", "name": "f", "parameters": schema});
    let text = json!({"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": true}});
    let own = json!({"name": "f", "input_schema": schema});
    let config = json!({"format": {"type": "json_schema", "schema": schema}});
    for (client, chat, names) in [
        (
            Dialect::OpenAi,
            of_chat(
                &json!({"model": "acme/m", "messages": user, "tools": [tool], "response_format": format}).to_string(),
            ),
            ["response_format.json_schema.schema.description", "tools[].function.parameters.description"],
        ),
        (
            Dialect::Anthropic,
            of_messages(
                &json!({"model": "acme/m", "max_tokens": 9, "messages": user, "tools": [own], "output_config": config}),
            ),
            ["output_config.format.schema.description", "tools[].input_schema.description"],
        ),
        (
            Dialect::Responses,
            of_responses(&json!({"model": "acme/m", "input": "Hi", "tools": [flat], "text": text})),
            ["text.format.schema.description", "tools[].parameters.description"],
        ),
    ] {
        let mut catalog = catalog();
        let gemini = catalog.endpoints.iter().position(|endpoint| endpoint.dialect == Dialect::Gemini).unwrap();
        catalog.endpoints[gemini].upstream_model = "gemini-3-pro".into();
        let sent = sent_of(&catalog, Dialect::Gemini, &chat);
        let lost: Vec<&str> =
            sent.dropped.iter().map(|name| &**name).filter(|name| name.contains("description")).collect();
        assert_eq!(lost, names, "{client:?}");
    }
}

/// The root of a schema of arguments is an object.
#[test]
fn a_function_with_an_empty_schema_has_no_arguments() {
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
    let asked = json!({"model": "acme/m", "messages": [{"role": "user", "content": "Hi"}], "tools": [tool]});
    let chat = of_chat(&asked.to_string());
    let gemini = body(Dialect::Gemini, &chat);
    assert_eq!(gemini["tools"][0]["functionDeclarations"][0], json!({"name": "f"}));
    assert_eq!(body(Dialect::Responses, &chat)["tools"][0]["parameters"]["type"], "object");
}

#[test]
fn base64_in_any_form_reaches_every_dialect_as_providers_want_it() {
    let odd = "JVBERi0x\nLjQK-_8";
    let plain = "JVBERi0xLjQK+/8=";
    let url = |kind: &str| format!("data:{kind};base64,{odd}");
    let says = |content: Value| json!([{"role": "user", "content": content}]);
    let of_messages_client = |kind: &str, media_type: &str| {
        let source = json!({"type": "base64", "media_type": media_type, "data": odd});
        of_messages(
            &json!({"model": "acme/m", "max_tokens": 9, "messages": says(json!([{"type": kind, "source": source}]))}),
        )
    };
    let of_responses_client = |part: Value| of_responses(&json!({"model": "acme/m", "input": says(json!([part]))}));
    for request in [
        chat(json!([{"type": "image_url", "image_url": {"url": url("image/png")}}])),
        chat(json!([{"type": "image_url", "image_url": url("image/png")}])),
        chat(json!([file(&url("application/pdf"), "a.pdf")])),
        chat(json!([file(odd, "a.pdf")])),
        of_messages_client("image", "image/png"),
        of_messages_client("document", "application/pdf"),
        of_responses_client(json!({"type": "input_image", "image_url": url("image/png")})),
        of_responses_client(json!({"type": "input_file", "file_data": url("application/pdf"), "filename": "a.pdf"})),
        of_responses_client(json!({"type": "input_file", "file_data": odd, "filename": "a.pdf"})),
    ] {
        for dialect in Dialect::ALL {
            let sent = body(dialect, &request).to_string();
            assert!(sent.contains(&format!("{plain}\"")), "{dialect:?}: {sent}");
        }
    }
    let sound = json!({"type": "input_audio", "input_audio": {"data": odd, "format": "wav"}});
    for dialect in [Dialect::OpenAi, Dialect::Gemini, Dialect::Converse] {
        for request in [chat(json!([sound])), of_responses_client(sound.clone())] {
            assert!(body(dialect, &request).to_string().contains(&format!("{plain}\"")), "{dialect:?}");
        }
    }
}

#[test]
fn a_file_of_a_client_of_responses_needs_what_the_same_file_of_a_client_of_chat_needs() {
    for (data, name) in [
        ("data:application/zip,PK", "a.zip"),
        ("data:text/csv;charset=utf-8,a%2Cb", "a.csv"),
        ("data:image/svg+xml,%3Csvg%2F%3E", "a.svg"),
        ("DATA:application/zip;BASE64,UEsDBA==", "a.zip"),
        ("/tmp/a.zip?", "a.zip"),
        ("<b>", "a.html"),
        ("https://a.example/b.docx", "b.docx"),
    ] {
        let part = json!({"type": "input_file", "file_data": data, "filename": name});
        let of_responses = of_responses(&json!({"model": "acme/m", "input": [{"role": "user", "content": [part]}]}));
        for dialect in [Dialect::Anthropic, Dialect::Gemini, Dialect::Converse] {
            let of_chat = missing(dialect, &chat(json!([file(data, name)])));
            assert_eq!(missing(dialect, &of_responses), of_chat, "{dialect:?} {data}");
        }
    }
}

#[test]
fn a_data_url_of_text_keeps_its_type_at_a_chat_server_and_schemes_have_no_case() {
    for (given, sent) in [
        ("data:text/csv;charset=utf-8,a%2Cb", "data:text/csv;charset=utf-8,a%2Cb"),
        ("data:,hi", "data:,hi"),
        ("DATA:text/plain,hi", "data:text/plain,hi"),
        ("Data:application/PDF;Base64,JVBERi0=", "data:application/pdf;base64,JVBERi0="),
    ] {
        let part = json!({"type": "input_file", "file_data": given, "filename": "a"});
        let chat = of_responses(&json!({"model": "acme/m", "input": [{"role": "user", "content": [part]}]}));
        let body = body(Dialect::OpenAi, &chat);
        assert_eq!(body["messages"][0]["content"][0]["file"]["file_data"], sent, "{body}");
    }
}
