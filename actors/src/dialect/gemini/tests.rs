//! The statements about this dialect, from chat bodies and to chat answers.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Decoder, kind_of_response, path, retry_delay, write_request};
use crate::{
    dialect::{
        answer::AnswerFault,
        frame::sse::SseEvent,
        neutral::{FieldFates, ToolNames},
        openai::{completion_writer::CompletionWriter, conversation_reader::read_conversation},
    },
    domain::{Dialect, Endpoint, EndpointId, FailureKind},
};

const NEWEST: &str = "gemini-3.8-flash";
const BUDGET: &str = "gemini-2.5-flash";
const PRO: &str = "gemini-2.5-pro";

fn endpoint(model: &str) -> Endpoint {
    Endpoint { dialect: Dialect::Gemini, ..Endpoint::with_defaults(EndpointId::of(model, "google", ""), 0, 0, model) }
}

/// What a chat body with these members becomes: the body, the names, dropped and emulated fields.
fn send(model: &str, body: &Value) -> (Value, ToolNames, Vec<String>, Vec<String>) {
    let mut fates = FieldFates::default();
    let body = body.to_string();
    let written = write_request(&read_conversation(&body).unwrap(), &endpoint(model), &mut fates);
    let names = |list: &[std::sync::Arc<str>]| list.iter().map(ToString::to_string).collect();
    let (dropped, emulated) = (names(fates.dropped()), names(fates.emulated()));
    (serde_json::from_slice(&written.body).unwrap(), written.names, dropped, emulated)
}

fn with(members: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

/// The chat answer that these stream chunks add up to.
fn streamed(chunks: &[Value], names: ToolNames) -> Result<Value, AnswerFault> {
    let (mut decoder, mut sink) = (Decoder::new(names), CompletionWriter::default());
    for chunk in chunks {
        let data = chunk.to_string().into_bytes().into();
        decoder.event(&SseEvent { data, is_error: false }, &mut sink)?;
    }
    decoder.end(&mut sink)?;
    Ok(parsed(&sink.finish()?))
}

fn whole(body: &Value) -> Result<Value, AnswerFault> {
    let mut sink = CompletionWriter::default();
    Decoder::new(ToolNames::default()).whole(&body.to_string(), &mut sink)?;
    Ok(parsed(&sink.finish()?))
}

fn parsed(body: &Bytes) -> Value {
    serde_json::from_slice(body).unwrap()
}

fn chunk(parts: Value, finish: Option<&str>) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}]})
}

#[test]
fn the_model_stands_in_the_path_and_the_key_does_not() {
    assert_eq!(path(&endpoint("gemini-x"), false), "/models/gemini-x:generateContent");
    assert_eq!(path(&endpoint("tuned/a b"), true), "/models/tuned%2Fa%20b:streamGenerateContent?alt=sse");
}

#[test]
fn a_whole_request_has_its_parameters_where_this_api_looks_for_them() {
    let (body, _, dropped, emulated) = send(
        NEWEST,
        &json!({
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [
                {"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
                {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}]}],
            "max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "seed": 7, "stop": ["a", "b", "c", "d", "e", "f"],
            "frequency_penalty": 0.1, "logit_bias": {"1": 1}, "user": "u", "service_tier": "flex", "n": 1,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"$ref": "#/$defs/a", "$defs": {"a": {}}}}},
        }),
    );
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {
            "maxOutputTokens": 9, "temperature": 0.5, "topP": 0.9, "topK": 3, "seed": 7, "frequencyPenalty": 0.1,
            "stopSequences": ["a", "b", "c", "d", "e"], "responseMimeType": "application/json",
            "responseJsonSchema": {"$ref": "#/$defs/a", "$defs": {"a": {}}},
        },
        "serviceTier": "flex",
        "contents": [{"role": "user", "parts": [
            {"text": "What?"}, {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
            {"inlineData": {"mimeType": "audio/wav", "data": "UklG"}}]}],
    });
    assert_eq!(body, expected);
    assert_eq!((dropped, emulated), (vec!["logit_bias".to_owned(), "stop[]".into(), "user".into()], vec![]));
}

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

#[test]
fn level_and_budget_are_never_sent_together_and_what_a_model_cannot_do_is_named() {
    let thinking = |model: &str, reasoning: Value| {
        let (body, _, dropped, emulated) = send(model, &with(json!({"reasoning": reasoning})));
        (body["generationConfig"]["thinkingConfig"].clone(), dropped.len() + emulated.len())
    };
    let level = |level: &str| json!({"thinkingLevel": level, "includeThoughts": true});
    assert_eq!(thinking(NEWEST, json!({"effort": "high"})), (level("HIGH"), 0));
    assert_eq!(thinking(NEWEST, json!({"effort": "xhigh"})), (level("HIGH"), 1));
    assert_eq!(thinking(NEWEST, json!({"max_tokens": 2_000})), (level("LOW"), 1));
    assert_eq!(thinking(NEWEST, json!({"effort": "none"})), (json!({"thinkingLevel": "MINIMAL"}), 1));
    assert_eq!(thinking(NEWEST, json!({"enabled": true})), (json!({"includeThoughts": true}), 0));
    assert_eq!(thinking(NEWEST, json!({"effort": "low", "exclude": true})), (json!({"thinkingLevel": "LOW"}), 0));
    assert_eq!(thinking(BUDGET, json!({"effort": "none"})), (json!({"thinkingBudget": 0}), 0));
    assert_eq!(thinking(PRO, json!({"effort": "none"})), (json!({"thinkingBudget": 128}), 1));
    assert_eq!(thinking(BUDGET, json!({"enabled": true})), (json!({"thinkingBudget": -1, "includeThoughts": true}), 0));
    assert_eq!(
        thinking(BUDGET, json!({"max_tokens": 99_999})),
        (json!({"thinkingBudget": 24_576, "includeThoughts": true}), 1)
    );
    assert_eq!(thinking("gemini-2.0-flash", json!({"effort": "low"})), (Value::Null, 1));
}

#[test]
fn a_choice_of_tools_becomes_a_mode() {
    let tools =
        json!([{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}]);
    let config = |choice: Value| {
        send(NEWEST, &with(json!({"tools": tools, "tool_choice": choice}))).0["toolConfig"]["functionCallingConfig"]
            .clone()
    };
    assert_eq!(config(json!("auto")), json!({"mode": "AUTO"}));
    assert_eq!(config(json!("none")), json!({"mode": "NONE"}));
    assert_eq!(config(json!("required")), json!({"mode": "ANY"}));
    let named = json!({"type": "function", "function": {"name": "f"}});
    assert_eq!(config(named), json!({"mode": "ANY", "allowedFunctionNames": ["f"]}));
}

#[test]
fn three_calls_of_one_function_in_three_chunks_are_three_calls_and_end_with_tool_calls() {
    let call = |n: u32| chunk(json!([{"functionCall": {"name": "f", "args": {"n": n}}}]), None);
    let answer =
        streamed(&[call(1), call(2), call(3), chunk(json!([{"text": ""}]), Some("STOP"))], ToolNames::default())
            .unwrap();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    let arguments: Vec<&str> = calls.iter().map(|call| call["function"]["arguments"].as_str().unwrap()).collect();
    assert_eq!(arguments, [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#]);
    let mut ids: Vec<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[test]
fn thoughts_stand_beside_the_answer_and_tool_use_prompts_inside_the_prompt() {
    let usage = |usage: Value| {
        let mut body = chunk(json!([{"text": "a"}]), Some("STOP"));
        body["usageMetadata"] = usage;
        let usage = whole(&body).unwrap()["usage"].clone();
        let details = usage["completion_tokens_details"]["reasoning_tokens"].clone();
        (usage["prompt_tokens"].clone(), usage["completion_tokens"].clone(), details)
    };
    let counts =
        json!({"promptTokenCount": 107, "candidatesTokenCount": 31, "thoughtsTokenCount": 148, "totalTokenCount": 286});
    assert_eq!(usage(counts), (json!(107), json!(179), json!(148)));
    let counts = json!({"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "cachedContentTokenCount": 8, "candidatesTokenCount": 2});
    assert_eq!(usage(counts), (json!(15), json!(2), Value::Null));
}

#[test]
fn filtered_answers_are_answers_and_malformed_ones_are_failures() {
    let filtered = whole(&chunk(json!([{"text": "Some"}]), Some("SAFETY"))).unwrap();
    assert_eq!(filtered["choices"][0]["message"]["content"], "Some");
    assert_eq!(filtered["choices"][0]["finish_reason"], "content_filter");
    let blocked =
        whole(&json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}})).unwrap();
    assert_eq!(blocked["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(blocked["choices"][0]["native_finish_reason"], "PROMPT_BLOCKED:SAFETY");
    let kind = |body: Value| whole(&body).unwrap_err().kind;
    assert_eq!(kind(chunk(json!([]), Some("MALFORMED_FUNCTION_CALL"))), FailureKind::Malformed);
    assert_eq!(kind(chunk(json!([]), Some("STOP"))), FailureKind::Malformed);
    assert_eq!(kind(chunk(json!([{"text": "a"}]), None)), FailureKind::Truncated);
    assert_eq!(kind(json!({})), FailureKind::Malformed);
    let overloaded = json!({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}});
    assert_eq!(kind(overloaded.clone()), FailureKind::Overloaded);
    assert_eq!(kind(json!([overloaded])), FailureKind::Overloaded);
}

#[test]
fn errors_are_classified_by_their_words_and_tell_how_long_to_wait() {
    let error =
        |status: &str, message: &str| json!({"error": {"code": 400, "status": status, "message": message}}).to_string();
    let kind = |status: &str, message: &str| kind_of_response(400, error(status, message).as_bytes());
    assert_eq!(kind("INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), FailureKind::Auth);
    assert_eq!(
        kind("INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
        FailureKind::ContextLength
    );
    assert_eq!(kind("FAILED_PRECONDITION", "User location is not supported for the API use."), FailureKind::Forbidden);
    assert_eq!(kind("INVALID_ARGUMENT", "Invalid value"), FailureKind::BadRequest);
    assert_eq!(kind_of_response(504, b"<html>"), FailureKind::Timeout);
    let limited = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota", "details": [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerDay"}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"}]}});
    for body in [limited.clone(), json!([limited])] {
        let body = body.to_string();
        assert_eq!(kind_of_response(429, body.as_bytes()), FailureKind::RateLimited);
        assert_eq!(retry_delay(body.as_bytes()), Some(Duration::from_secs(36)));
    }
    let told = error("RESOURCE_EXHAUSTED", "Please retry in 36.5s.");
    assert_eq!(retry_delay(told.as_bytes()), Some(Duration::from_millis(36_500)));
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (mut decoder, mut sink) = (Decoder::new(ToolNames::default()), CompletionWriter::default());
        let _ = decoder.event(&SseEvent { data: data.into(), is_error: false }, &mut sink);
        let _ = decoder.end(&mut sink);
    }

    #[test]
    fn a_stream_adds_up_to_the_whole_answer(texts in proptest::collection::vec(any::<String>(), 1..6), calls in 0_u32..3) {
        let mut parts: Vec<Value> = texts.iter().map(|text| json!({"text": text})).collect();
        parts.push(json!({"text": "."}));
        parts.extend((0..calls).map(|n| json!({"functionCall": {"id": format!("c{n}"), "name": "f", "args": {"n": n}}})));
        let mut chunks: Vec<Value> = parts.iter().map(|part| chunk(json!([part]), None)).collect();
        chunks.push(chunk(json!([]), Some("STOP")));
        let whole = whole(&chunk(json!(parts), Some("STOP"))).unwrap();
        prop_assert_eq!(streamed(&chunks, ToolNames::default()).unwrap(), whole);
    }

    #[test]
    fn the_body_of_a_conversation_is_a_prefix_of_the_body_with_one_more_turn(texts in proptest::collection::vec("[a-z ]{1,9}", 1..6)) {
        let body = |count: usize| {
            let messages: Vec<Value> = texts.iter().take(count).enumerate().map(|(place, text)| {
                json!({"role": if place % 2 == 0 { "user" } else { "assistant" }, "content": format!("x{text}")})
            }).collect();
            let body = json!({"messages": messages, "max_tokens": 5}).to_string();
            let written = write_request(&read_conversation(&body).unwrap(), &endpoint(NEWEST), &mut FieldFates::default());
            String::from_utf8(written.body.to_vec()).unwrap()
        };
        for count in 1..texts.len() {
            let shorter = body(count);
            let shorter = shorter.strip_suffix("]}").unwrap();
            prop_assert!(body(count + 1).starts_with(shorter));
        }
    }
}
