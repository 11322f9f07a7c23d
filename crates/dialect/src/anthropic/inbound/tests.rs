use pointsman_domain::ReasoningFormat;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{ChatPurpose, ChatRequest, RequestLimits, neutral::Content, openai::request_writer::whole_chat};

const KEY: StateKey = StateKey::new([1; 32]);

fn read_messages<'a>(body: &'a [u8], key: &StateKey) -> Result<InboundMessages<'a>, Invalid> {
    super::read(body, Purpose::Answer, key, MAX_DEPTH)
}

fn read_count_tokens<'a>(body: &'a [u8], key: &StateKey) -> Result<InboundMessages<'a>, Invalid> {
    super::read(body, Purpose::Count, key, MAX_DEPTH)
}

#[track_caller]
fn read(body: Value) -> InboundMessages<'static> {
    read_messages(body.to_string().leak().as_bytes(), &KEY).unwrap()
}

#[track_caller]
fn chat(body: Value) -> Value {
    whole(&read(body))
}

/// The chat, as a server is sent it that takes everything.
fn whole(read: &InboundMessages<'_>) -> Value {
    whole_chat(&read.chat.conversation, true)
}

#[track_caller]
fn param(body: Value) -> String {
    read_messages(body.to_string().as_bytes(), &KEY).unwrap_err().param.unwrap()
}

fn asking(messages: Value) -> Value {
    json!({"model": "m", "max_tokens": 10, "messages": messages})
}

#[test]
fn a_whole_request_becomes_the_chat_body_that_means_the_same() {
    let body = json!({
        "model": "claude", "max_tokens": 100, "stream": true, "temperature": 0.5, "top_k": 3,
        "system": [{"type": "text", "text": "x-anthropic-billing-header: 1"}, {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "EqQB"}, {"type": "text", "text": "a"}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1.0}}]},
            {"role": "user", "content": [{"type": "text", "text": "go"}, {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "18"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}]}]}
        ],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}, "defer_loading": true}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "thinking": {"type": "enabled", "budget_tokens": 2048}, "stop_sequences": ["x"],
        "metadata": {"user_id": "u", "objective": "fastest"}, "context_management": {}, "provider": {"order": ["a"]}
    });
    let inbound = read(body.clone());
    let dropped: Vec<&str> = inbound.unsupported.dropped().iter().map(AsRef::as_ref).collect();
    assert_eq!(dropped, ["tools[].defer_loading"]);
    let others: Vec<_> = inbound.chat.members.iter().map(|(key, _)| key.text().unwrap()).collect();
    assert_eq!(others, ["context_management", "metadata", "model", "provider"]);
    let expected = json!({
        "model": "m", "max_tokens": 100, "stream": true, "stream_options": {"include_usage": true}, "temperature": 0.5, "top_k": 3,
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "a", "tool_calls": [{"type": "function", "id": "t1", "function": {"name": "f", "arguments": "{\"x\":1.0}"}}],
             "reasoning_details": [{"type": "reasoning.text", "format": "anthropic-claude-v1", "text": "hm", "signature": "EqQB"}]},
            {"role": "tool", "tool_call_id": "t1", "content": "18"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}, {"type": "text", "text": "go"}]}
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        "tool_choice": "required", "parallel_tool_calls": false, "reasoning": {"max_tokens": 2048}, "stop": ["x"],
        "user": "u"
    });
    assert_eq!(chat(body), expected);
}

#[test]
fn reasoning_of_another_provider_comes_back_from_our_envelope_and_a_forged_one_is_dropped_and_named() {
    let sealed = KEY.seal(ReasoningFormat::Gemini, "AbC=");
    let message = |signature: &str| {
        asking(json!([{"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": signature}, {"type": "text", "text": "b"}]}]))
    };
    let details = chat(message(&sealed))["messages"][1]["reasoning_details"].clone();
    assert_eq!(details, json!([{"type": "reasoning.encrypted", "format": "google-gemini-v1", "data": "AbC="}]));
    let forged = read(message("pm1.AAAA"));
    assert_eq!(forged.unsupported.dropped().len(), 1);
    assert!(!whole(&forged).to_string().contains("reasoning_details"));
}

#[test]
fn a_failed_result_keeps_its_mark_for_the_dialects_that_know_one() {
    let body = asking(
        json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "no"}]}]),
    );
    let read = read(body);
    let Content::ToolResult { failed, .. } = &read.chat.conversation.turns[0].parts[0].content else {
        panic!("{:?}", read.chat.conversation.turns)
    };
    assert!(failed);
}

#[test]
fn a_server_tool_needs_an_endpoint_of_this_dialect() {
    let mut body = asking(json!([{"role": "user", "content": "a"}]));
    body["tools"] = json!([{"type": "web_search_20250305", "name": "web_search"}]);
    assert_eq!(read(body.clone()).native_feature.as_deref(), Some("tools[0].type"));
    assert_eq!(chat(body).get("tools"), None);
}

#[test]
fn effort_and_format_are_taken_from_output_config() {
    let mut body = asking(json!([{"role": "user", "content": "a"}]));
    body["thinking"] = json!({"type": "adaptive"});
    body["output_config"] = json!({"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}});
    let chat = chat(body);
    assert_eq!(chat["reasoning"], json!({"effort": "high", "enabled": true}));
    assert_eq!(chat["response_format"]["json_schema"]["name"], "output");
}

/// PHP writes `/` as `\/`.
#[test]
fn an_image_may_be_written_with_escaped_slashes() {
    let source = json!({"type": "base64", "media_type": "image/png", "data": "ab/c"});
    let body = asking(json!([{"role": "user", "content": [{"type": "image", "source": source}]}])).to_string();
    let body = body.replace('/', "\\/");
    let read = read_messages(body.as_bytes(), &KEY).unwrap();
    assert_eq!(whole(&read)["messages"][0]["content"][0]["image_url"]["url"], "data:image/png;base64,ab/c");
}

#[test]
fn mistakes_name_the_field_in_the_clients_own_dialect() {
    let image = json!([{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "x"}}]}]);
    assert_eq!(param(asking(image)), "messages[0].content[0].source.media_type");
    assert_eq!(param(asking(json!([]))), "messages");
    assert_eq!(param(asking(json!([{"role": "robot", "content": "a"}]))), "messages[0].role");
    assert_eq!(param(json!({"model": "m", "messages": []})), "max_tokens");
    let mut body = asking(json!([{"role": "user", "content": "a"}]));
    body["temperature"] = json!(1.5);
    assert_eq!(param(body), "temperature");
}

#[test]
fn a_member_of_the_wrong_type_is_refused_and_none_is_lost_without_being_named() {
    let user = |block: Value| asking(json!([{"role": "user", "content": [block]}]));
    let with = |name: &str, value: Value| {
        let mut body = asking(json!([{"role": "user", "content": "a"}]));
        body[name] = value;
        body
    };
    let result = |name: &str, value: Value| {
        let mut block = json!({"type": "tool_result", "tool_use_id": "t"});
        block[name] = value;
        user(block)
    };
    for wrong in [json!(5), json!(true), json!({}), json!(1.5)] {
        assert_eq!(param(result("content", wrong)), "messages[0].content[0].content");
    }
    assert_eq!(param(result("is_error", json!("zzz"))), "messages[0].content[0].is_error");
    assert_eq!(param(with("system", json!([{"type": "image", "text": "S"}]))), "system[0].type");
    assert_eq!(param(with("system", json!([{"text": "S"}]))), "system[0].type");
    let tool = |name: &str, value: Value| {
        let mut tool = json!({"name": "f", "input_schema": {"type": "object"}});
        tool[name] = value;
        with("tools", json!([tool]))
    };
    assert_eq!(param(tool("description", json!(5))), "tools[0].description");
    assert_eq!(param(tool("strict", json!("zzz"))), "tools[0].strict");
    assert_eq!(param(with("metadata", json!({"user_id": 5}))), "metadata.user_id");
    let choice = json!({"type": "auto", "disable_parallel_tool_use": "zzz"});
    assert_eq!(param(with("tool_choice", choice)), "tool_choice.disable_parallel_tool_use");
    assert_eq!(param(with("output_config", json!(5))), "output_config");
    assert_eq!(param(with("service_tier", json!({}))), "service_tier");
    assert_eq!(param(with("speed", json!(1))), "speed");
    let mut unknown = with("service_tier", json!("zzz"));
    unknown["speed"] = json!("zzz");
    let inbound = read(unknown);
    let dropped: Vec<&str> = inbound.unsupported.dropped().iter().map(AsRef::as_ref).collect();
    assert_eq!(dropped, ["service_tier", "speed"]);
    for empty in [result("content", json!(null)), result("is_error", json!(null)), tool("description", json!(null))] {
        assert_eq!(read(empty).unsupported, UnsupportedFields::default());
    }
}

#[test]
fn tokens_are_counted_of_every_body_that_is_answered_and_without_a_limit() {
    let body = asking(json!([{"role": "user", "content": "How are you?"}]));
    let mut without = body.clone();
    without.as_object_mut().unwrap().remove("max_tokens");
    for body in [body, without] {
        let body = body.to_string();
        let request = routed(&read_count_tokens(body.as_bytes(), &KEY).unwrap());
        assert_eq!(request.prompt_tokens, 12_u32.div_ceil(4) + 4);
    }
    let no_messages = read_count_tokens(json!({"model": "m"}).to_string().as_bytes(), &KEY).unwrap_err();
    assert_eq!(no_messages.param.as_deref(), Some("messages"));
}

#[test]
fn a_limit_of_zero_only_fills_the_cache_of_an_endpoint_of_this_dialect() {
    let mut body = asking(json!([{"role": "user", "content": "a"}]));
    body["max_tokens"] = json!(0);
    assert_eq!(read(body.clone()).native_feature.as_deref(), Some("max_tokens"));
    for wrong in [json!(-1), json!(1.5), json!("9")] {
        body["max_tokens"] = wrong;
        assert_eq!(param(body.clone()), "max_tokens");
    }
}

#[test]
fn a_client_that_wants_no_text_of_thoughts_gets_their_signatures() {
    let mut body = asking(json!([{"role": "user", "content": "a"}]));
    for (display, omits) in [("omitted", true), ("summarized", false)] {
        body["thinking"] = json!({"type": "adaptive", "display": display});
        assert_eq!(read(body.clone()).omits_thinking, omits);
        assert_eq!(chat(body.clone())["reasoning"], json!({"enabled": true}));
    }
}

/// The chat, checked as every chat is.
#[track_caller]
fn routed(inbound: &InboundMessages<'_>) -> Box<ChatRequest> {
    let (limits, mut unsupported) = (RequestLimits::default(), UnsupportedFields::default());
    ChatRequest::of_client(&inbound.chat, Bytes::new(), ChatPurpose::Chat, &limits, field_name, &mut unsupported)
        .unwrap()
}

#[test]
fn messages_are_measured_as_those_of_a_chat() {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}});
    let sealed = KEY.seal(ReasoningFormat::Gemini, "AbC=");
    let mut body = asking(json!([
        {"role": "user", "content": "Look at \"this\"\n\u{1f600}, please."},
        {"role": "user", "content": [image, {"type": "text", "text": "fn main() { let a = f(b); }"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": sealed},
            {"type": "text", "text": "I will."}, {"type": "tool_use", "id": "t", "name": "f", "input": {"é": "\n"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "18 °C"}]},
    ]));
    body["system"] = json!("Be brief.\t".repeat(200));
    let read = read(body);
    let (own, chat) = (routed(&read), whole(&read).to_string());
    let chat = ChatRequest::parse(chat.into(), ChatPurpose::Chat, &RequestLimits::default()).unwrap();
    assert_eq!((own.prompt_tokens, own.images, own.open_state), (chat.prompt_tokens, 1, ReasoningFormat::Gemini));
    assert_eq!((own.task_features, own.opening), (chat.task_features, chat.opening));
    assert!(own.opening.is_some());
}

fn named(names: &[std::sync::Arc<str>]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn all_that_a_coding_agent_sends_is_understood_or_named() {
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    let body = json!({
        "model": "claude-opus-5-5", "max_tokens": 32_000, "stream": true,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.330"},
            {"type": "text", "text": "You are an agent.", "cache_control": mark},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Read a", "cache_control": mark}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
                {"type": "text", "text": "I will.", "citations": null},
                {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}, "caller": {"type": "direct"}},
                {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"path": "b"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "1"}]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no", "is_error": true, "cache_control": mark},
                {"type": "text", "text": "<reminder>"},
            ]},
            {"role": "system", "content": "Be brief."},
        ],
        "tools": [{"name": "Read", "description": "d", "input_schema": {"type": "object"}, "strict": true, "defer_loading": true, "cache_control": mark}],
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "max", "task_budget": 5},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": "x".repeat(400)}, "betas": ["a"],
    });
    let inbound = read(body);
    assert_eq!(named(inbound.unsupported.dropped()), ["output_config.task_budget", "tools[].defer_loading"]);
    assert_eq!(named(inbound.unsupported.emulated()), ["metadata.user_id"]);
    assert_eq!(inbound.native_feature, None);
    let request = routed(&inbound);
    assert!(request.stream && request.max_tokens == Some(32_000));
    let chat = whole(&inbound);
    let roles: Vec<&str> = chat["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user", "system"]);
    assert!(!chat.to_string().contains("billing"));
    assert_eq!(chat["reasoning"], json!({"effort": "max", "enabled": true}));
    assert_eq!(chat["user"].as_str().unwrap().len(), 2 * USER_HASH_BYTES);
    assert_eq!(chat["tools"][0]["cache_control"], mark);
    assert_eq!(chat["messages"][4]["cache_control"], mark);
}

#[test]
fn sampling_is_refused_in_a_version_that_has_none() {
    for name in ["temperature", "top_p", "top_k"] {
        let mut body = asking(json!([{"role": "user", "content": "a"}]));
        body[name] = json!(1);
        let inbound = read(body);
        let refused = inbound.check_version(Some("2026-10-21")).unwrap_err();
        assert_eq!(refused.param.as_deref(), Some(name));
        assert_eq!(refused.message, format!("{name}: Extra inputs are not permitted"));
        for version in [None, Some("2023-06-01")] {
            inbound.check_version(version).unwrap();
        }
    }
    read(asking(json!([{"role": "user", "content": "a"}]))).check_version(Some("2026-10-21")).unwrap();
}

#[test]
fn a_choice_among_server_tools_is_left_to_endpoints_of_this_dialect() {
    for choice in [json!({"type": "any"}), json!({"type": "tool", "name": "web_search"})] {
        let mut body = asking(json!([{"role": "user", "content": "a"}]));
        body["tools"] = json!([{"type": "web_search_20250305", "name": "web_search"}]);
        body["tool_choice"] = choice;
        let inbound = read(body);
        assert!(inbound.native_feature.is_some());
        routed(&inbound);
    }
}

#[test]
fn files_at_the_provider_need_an_endpoint_of_this_dialect() {
    for kind in ["image", "document"] {
        let body = asking(
            json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": kind, "source": {"type": "file", "file_id": "f"}}]}]),
        );
        let inbound = read(body);
        assert_eq!(inbound.native_feature.as_deref(), Some("messages[0].content[1].source.type"), "{kind}");
        routed(&inbound);
    }
}

#[test]
fn a_request_of_nothing_but_what_this_dialect_has_is_routed() {
    let file = json!({"type": "document", "source": {"type": "file", "file_id": "f"}});
    for block in [file, json!({"type": "container_upload", "file_id": "f"}), json!({"type": "new_block"})] {
        let inbound = read(asking(json!([{"role": "user", "content": [block]}])));
        assert!(inbound.native_feature.is_some());
        routed(&inbound);
    }
}

#[test]
fn broken_json_is_told_with_its_place() {
    let message = |body: &[u8]| read_messages(body, &KEY).unwrap_err().message;
    for (body, expected) in [
        (&b"{\n \"model\": }"[..], "expected value at line 2 column 11."),
        (b"", "the body is empty at line 1 column 1."),
        (b"{\"a\":\"\xff\"}", "invalid UTF-8 at line 1 column 7."),
    ] {
        assert!(message(body).contains(expected), "{}", message(body));
    }
}

#[test]
fn what_chat_would_refuse_is_refused_by_the_clients_own_names() {
    let image = |source: Value| asking(json!([{"role": "user", "content": [{"type": "image", "source": source}]}]));
    let pdf = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBE"});
    assert_eq!(param(image(pdf)), "messages[0].content[0].source.media_type");
    assert_eq!(param(image(json!({"type": "url", "url": "file:///etc/passwd"}))), "messages[0].content[0].source.url");
    let mut body = asking(json!([{"role": "user", "content": "a"}]));
    body["output_config"] = json!({"effort": "huge"});
    assert_eq!(param(body.clone()), "output_config.effort");
    body["output_config"] = Value::Null;
    for name in ["a.b".to_owned(), "x".repeat(129), "ok".to_owned()] {
        body["tools"] = json!([{"name": "ok", "input_schema": {}}, {"name": name, "input_schema": {}}]);
        assert_eq!(param(body.clone()), "tools[1].name");
    }
    let link = json!([{"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": ""}}]}]);
    assert_eq!(param(asking(link)), "messages[0].content[0].source.url");
}

#[test]
fn a_document_in_pieces_has_its_mark_once_and_citations_are_named_only_if_they_were_wanted() {
    let document = |enabled: bool| {
        asking(
            json!([{"role": "user", "content": [{"type": "document", "title": "T", "citations": {"enabled": enabled},
            "cache_control": {"type": "ephemeral"}, "source": {"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}}]}]),
        )
    };
    let parts = chat(document(false))["messages"][0]["content"].clone();
    let marks = parts.as_array().unwrap().iter().map(|part| part.get("cache_control").is_some());
    assert_eq!(marks.collect::<Vec<_>>(), [false, false, true]);
    assert!(read(document(false)).unsupported.dropped().is_empty());
    assert_eq!(named(read(document(true)).unsupported.dropped()), ["messages[].content[].citations"]);
}

#[test]
fn an_unsigned_thought_is_dropped_and_named() {
    let body = asking(
        json!([{"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": ""}, {"type": "text", "text": "b"}]}]),
    );
    assert_eq!(named(read(body).unsupported.dropped()), ["messages[].content[].thinking"]);
}

fn block() -> impl Strategy<Value = Value> {
    let text = || any::<String>();
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}});
    prop_oneof![
        text().prop_map(|text| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})),
        Just(image.clone()),
        (text(), text()).prop_map(|(title, data)| json!({"type": "document", "title": title, "source": {"type": "text", "media_type": "text/plain", "data": data}})),
        text().prop_map(|title| json!({"type": "document", "title": title, "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}})),
        text().prop_map(|title| json!({"type": "search_result", "title": title, "source": "s", "content": [{"type": "text", "text": "t"}]})),
        (text(), any::<bool>()).prop_map(move |(text, failed)| json!({"type": "tool_result", "tool_use_id": "t", "is_error": failed,
            "content": [{"type": "text", "text": text}, image]})),
        Just(json!({"type": "tool_result", "tool_use_id": "t"})),
        Just(json!({"type": "container_upload", "file_id": "f"})),
    ]
}

fn assistant_block() -> impl Strategy<Value = Value> {
    let text = || any::<String>();
    prop_oneof![
        text().prop_map(|text| json!({"type": "text", "text": text})),
        (text(), text())
            .prop_map(|(text, signature)| json!({"type": "thinking", "thinking": text, "signature": signature})),
        text().prop_map(|data| json!({"type": "redacted_thinking", "data": data})),
        text().prop_map(|value| json!({"type": "tool_use", "id": "t", "name": "f", "input": {"x": value}})),
        Just(json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
        Just(json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []})),
    ]
}

fn message() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<String>().prop_map(|text| json!({"role": "user", "content": text})),
        prop::collection::vec(block(), 0..4).prop_map(|blocks| json!({"role": "user", "content": blocks})),
        prop::collection::vec(assistant_block(), 0..4)
            .prop_map(|blocks| json!({"role": "assistant", "content": blocks})),
        any::<String>().prop_map(|text| json!({"role": "system", "content": [{"type": "text", "text": text}]})),
    ]
}

proptest! {
    #[test]
    fn what_is_accepted_here_is_a_valid_chat_body(
        messages in prop::collection::vec(message(), 0..6),
        choice in prop::sample::select(vec![Value::Null, json!({"type": "auto"}), json!({"type": "any"}), json!({"type": "none"}), json!({"type": "tool", "name": "f"})]),
        thinking in prop::sample::select(vec![Value::Null, json!({"type": "adaptive"}), json!({"type": "enabled", "budget_tokens": 1024}), json!({"type": "disabled"})]),
    ) {
        let mut all = vec![json!({"role": "user", "content": "begin"})];
        all.extend(messages);
        let mut body = asking(json!(all));
        body["tools"] = json!([{"name": "f", "input_schema": {"type": "object"}}]);
        body["tool_choice"] = choice;
        body["thinking"] = thinking;
        read_count_tokens(body.to_string().as_bytes(), &KEY).unwrap();
        routed(&read(body));
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), message in "[\\[{}\\]\":,a-z0-9]{0,40}") {
        let _ = read_messages(&bytes, &KEY);
        let body = format!("{{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{{\"role\":\"user\",\"content\":[{message}]}}]}}");
        let _ = read_messages(body.as_bytes(), &KEY);
    }
}

#[test]
fn a_thread_is_refused_with_the_name_after_which_clients_send_the_whole_conversation() {
    let mut body = asking(json!([{"role": "user", "content": "hi"}]));
    body["thread"] = json!({"type": "create"});
    let refusal = read_messages(body.to_string().as_bytes(), &KEY).unwrap_err();
    assert_eq!(refusal.reason.as_str(), "thread_unsupported_request");
    body["thread"] = Value::Null;
    assert_eq!(read(body).native_feature, None);
}

#[test]
fn a_hundred_thousand_tools_are_read_without_comparing_each_with_all_others() {
    let tool = |number: usize| format!(r#"{{"name":"{}{number}","input_schema":{{}}}}"#, "f".repeat(100));
    let tools = |last: usize| (0..100_000).chain([last]).map(tool).collect::<Vec<_>>().join(",");
    let body = |last| {
        format!(
            r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"user","content":"a"}}],"tools":[{}]}}"#,
            tools(last)
        )
    };
    assert_eq!(read_messages(body(100_000).as_bytes(), &KEY).unwrap().chat.conversation.tools.len(), 100_001);
    assert_eq!(read_messages(body(5).as_bytes(), &KEY).unwrap_err().param.as_deref(), Some("tools[100000].name"));
}

#[test]
fn reading_stops_at_the_first_message_that_is_too_many() {
    let messages = format!("[{}7]", r#"{"role":"user","content":"a"},"#.repeat(MAX_MESSAGES));
    let body = format!(r#"{{"model":"m","max_tokens":1,"messages":{messages}}}"#);
    let refusal = read_messages(body.as_bytes(), &KEY).unwrap_err();
    assert_eq!(refusal.message, "'messages' must have between 1 and 100000 elements.");
    assert_eq!(param(asking(json!([]))), "messages");
}
