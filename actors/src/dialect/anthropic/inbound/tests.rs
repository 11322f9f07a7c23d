use serde_json::{Value, json};

use super::*;
use crate::dialect::{ChatPurpose, ChatRequest, RequestLimits, neutral::ReasoningFormat};

const KEY: StateKey = StateKey::new([1; 32]);

#[track_caller]
fn read(body: Value) -> InboundMessages {
    read_messages(body.to_string().as_bytes(), &KEY).unwrap()
}

#[track_caller]
fn chat(body: Value) -> Value {
    serde_json::from_slice(&read(body).chat).unwrap()
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
    let dropped: Vec<&str> = inbound.fates.dropped().iter().map(AsRef::as_ref).collect();
    assert_eq!(dropped, ["context_management", "tools[].defer_loading"]);
    let expected = json!({
        "model": "claude", "max_tokens": 100, "stream": true, "temperature": 0.5, "top_k": 3,
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": [{"type": "function", "id": "t1", "function": {"name": "f", "arguments": "{\"x\":1.0}"}}],
             "reasoning_details": [{"type": "reasoning.text", "format": "anthropic-claude-v1", "text": "hm", "signature": "EqQB"}]},
            {"role": "tool", "tool_call_id": "t1", "content": "18"},
            {"role": "user", "content": [{"type": "text", "text": "go"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}]}
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        "tool_choice": "required", "parallel_tool_calls": false, "reasoning": {"max_tokens": 2048}, "stop": ["x"],
        "user": "u", "metadata": {"objective": "fastest"}, "provider": {"order": ["a"]}
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
    assert_eq!(forged.fates.dropped().len(), 1);
    assert!(!String::from_utf8_lossy(&forged.chat).contains("reasoning_details"));
}

#[test]
fn a_failed_result_is_told_in_its_text() {
    let body = asking(
        json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "no"}]}]),
    );
    assert_eq!(chat(body)["messages"][0], json!({"role": "tool", "tool_call_id": "t", "content": "Error: no"}));
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
fn tokens_are_counted_of_every_body_that_is_answered_and_without_a_limit() {
    let body = asking(json!([{"role": "user", "content": "How are you?"}]));
    let mut without = body.clone();
    without.as_object_mut().unwrap().remove("max_tokens");
    for body in [body, without] {
        let inbound = read_count_tokens(body.to_string().as_bytes(), &KEY).unwrap();
        let request = ChatRequest::parse(inbound.chat, ChatPurpose::Chat, &RequestLimits::default()).unwrap();
        assert_eq!(request.prompt_tokens, 12_u32.div_ceil(4) + 4);
    }
    assert_eq!(count_tokens_body(7), r#"{"input_tokens":7}"#);
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
