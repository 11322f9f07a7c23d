//! Chats through the gateway to simulated providers that serve another API than chat.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    world::{and, ask},
};

/// The dialects, and how each says that an answer has come to its end.
const DIALECTS: [(&str, &str); 4] =
    [("anthropic", "end_turn"), ("gemini", "STOP"), ("openai-responses", "completed"), ("converse", "end_turn")];

/// `test/poet` at `claudia`, which serves this dialect, and for more money at `charles`, which serves chats.
async fn gateway(dialect: &str, claudia: &str) -> TestGateway {
    let quick = "ttft = \"0ms\"\ntokens_per_second = 1000000\nodd_framing_rate = 0.0\n";
    let endpoint = |provider: &str, price: &str| {
        format!(
            "{{ provider = \"{provider}\", upstream_model = \"claude-sonnet-4-5\", pricing = {{ prompt = \"{price}\", \
             completion = \"{price}\" }} }}"
        )
    };
    let quick_claudia = if claudia.contains("odd_framing_rate") { quick.split_at(quick.len() - 23).0 } else { quick };
    let config = format!(
        "[simulation.providers.claudia]\ndialect = \"{dialect}\"\n{quick_claudia}{claudia}\n\
         [simulation.providers.charles]\n{quick}\n\
         [[models]]\nid = \"test/poet\"\ncontext_length = 100000\nmax_completion_tokens = 8000\nsupported_parameters = \
         [\"max_tokens\", \"tools\", \"tool_choice\", \"reasoning\", \"response_format\", \"structured_outputs\"]\n\
         endpoints = [{}, {}]\n",
        endpoint("claudia", "0.000001"),
        endpoint("charles", "0.001")
    );
    TestGateway::start_with(&config, &[("POINTSMAN__SIMULATION__MODE", "on")]).await
}

fn with_tool(request: Value) -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let tool = json!({"type": "function", "function": {"name": "get_weather", "parameters": parameters}});
    let messages = json!([{"role": "user", "content": "Weather in Paris and Tokyo?"}]);
    and(request, json!({"tools": [tool], "messages": messages}))
}

#[actix_web::test]
async fn a_chat_is_answered_with_text_and_usage_by_a_simulated_provider_of_every_dialect() {
    for (dialect, end) in DIALECTS {
        let gateway = gateway(dialect, "").await;
        let answer = gateway.chat(&ask("test/poet")).await.expect(200);
        assert_eq!(
            (&answer["provider"], &answer["choices"][0]["native_finish_reason"]),
            (&json!("claudia"), &json!(end)),
            "{answer}"
        );
        assert!(!answer["choices"][0]["message"]["content"].as_str().unwrap().is_empty());
        let usage = &answer["usage"];
        assert!(
            usage["prompt_tokens"].as_u64().unwrap() > 0 && usage["completion_tokens"].as_u64().unwrap() > 0,
            "{answer}"
        );
        let cut = gateway.chat(&and(ask("test/poet"), json!({"max_tokens": 3}))).await.expect(200);
        assert_eq!(cut["choices"][0]["finish_reason"], "length", "{dialect}: {cut}");
    }
}

#[actix_web::test]
async fn thinking_and_parallel_calls_are_accepted_back_and_a_changed_seal_is_refused_or_replaced() {
    for (dialect, _) in DIALECTS {
        let gateway = gateway(dialect, "").await;
        let request = and(with_tool(ask("test/poet")), json!({"reasoning": {"effort": "low"}, "max_tokens": 4000}));
        let request = and(request, json!({"provider": {"only": ["claudia"]}}));
        let answer = gateway.chat(&request).await.expect(200);
        let reply = answer["choices"][0]["message"].clone();
        assert_eq!(reply["tool_calls"].as_array().map(Vec::len), Some(2), "{answer}");
        assert!(reply["reasoning"].as_str().unwrap().contains("Paris"), "{answer}");
        assert!(reply["reasoning_details"].is_array(), "{answer}");
        let turn = |reply: &Value| {
            let mut messages = vec![request["messages"][0].clone(), reply.clone()];
            for call in reply["tool_calls"].as_array().unwrap() {
                messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "sunny"}));
            }
            and(request.clone(), json!({"messages": messages}))
        };
        let second = gateway.chat(&turn(&reply)).await.expect(200);
        assert!(second["choices"][0]["message"]["content"].as_str().unwrap().contains("sunny"), "{dialect}: {second}");
        let mut changed = reply;
        for detail in changed["reasoning_details"].as_array_mut().unwrap() {
            for name in ["signature", "data"] {
                if detail[name].is_string() {
                    detail[name] = json!("QW5vdGhlciBzZWFsLg==");
                }
            }
        }
        let reply = gateway.chat(&turn(&changed)).await;
        // For Gemini there is a seal that says that the call is of another model.
        let expected = if dialect == "gemini" { 200 } else { 400 };
        assert_eq!(reply.status, expected, "{dialect}: {}", reply.text());
    }
}

#[actix_web::test]
async fn a_stream_of_oddly_framed_events_arrives_whole() {
    for (dialect, _) in DIALECTS {
        let gateway = gateway(dialect, "odd_framing_rate = 1.0").await;
        let request = and(with_tool(ask("test/poet")), json!({"stream": true, "provider": {"only": ["claudia"]}}));
        let reply = gateway.chat(&request).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let deltas = reply.events();
        let calls = deltas.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"][0].as_object());
        let arguments: String = calls.filter_map(|call| call["function"]["arguments"].as_str()).collect();
        assert_eq!(arguments, r#"{"city":"Paris"}{"city":"Tokyo"}"#, "{dialect}");
        assert!(reply.text().ends_with("data: [DONE]\n\n"), "{}", reply.text());
    }
}

#[actix_web::test]
async fn an_answer_follows_the_schema_that_was_asked_for() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "place", "strict": true, "schema": schema}});
    for (dialect, _) in DIALECTS {
        let gateway = gateway(dialect, "").await;
        let request = and(ask("test/poet"), json!({"response_format": format, "provider": {"only": ["claudia"]}}));
        let answer = gateway.chat(&request).await.expect(200);
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
        let place: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{dialect}: {answer}"));
        assert!(place["city"].is_string(), "{dialect}: {answer}");
    }
}

#[actix_web::test]
async fn an_overloaded_simulated_provider_hands_over_to_one_of_chats() {
    for (dialect, _) in DIALECTS {
        let gateway = gateway(dialect, "error_rate = 1.0").await;
        let reply = gateway.chat(&ask("test/poet")).await;
        let answer = reply.expect(200);
        assert_eq!(answer["provider"], "charles", "{dialect}: {answer}");
        assert_eq!(reply.header("x-route-attempts"), Some("2"));
    }
}

#[actix_web::test]
async fn an_answer_that_the_filter_of_gemini_blocks_ends_as_such() {
    let gateway = gateway("gemini", "").await;
    let messages = json!([{"role": "user", "content": "SIMULATED_SAFETY_BLOCK"}]);
    let request = and(ask("test/poet"), json!({"messages": messages, "provider": {"only": ["claudia"]}}));
    let answer = gateway.chat(&request).await.expect(200);
    assert_eq!(answer["choices"][0]["finish_reason"], "content_filter", "{answer}");
}

/// The tokens of a prompt that were read from a cache, and those that were written to it, plain and streamed alike.
async fn cached(gateway: &TestGateway, request: &Value) -> (u64, u64) {
    let count = |usage: &Value, name: &str| usage["prompt_tokens_details"][name].as_u64().unwrap_or(0);
    let whole = gateway.chat(request).await.expect(200);
    let streamed =
        gateway.chat(&and(request.clone(), json!({"stream": true, "stream_options": {"include_usage": true}}))).await;
    let usage = streamed
        .events()
        .into_iter()
        .rev()
        .find_map(|event| event.get("usage").filter(|usage| usage.is_object()).cloned());
    let usage = usage.expect("no usage");
    assert!(count(&usage, "cached_tokens") > 0, "the stream asks for the same prompt again: {usage}");
    assert_eq!(count(&usage, "cache_write_tokens"), 0, "{usage}");
    (count(&whole["usage"], "cached_tokens"), count(&whole["usage"], "cache_write_tokens"))
}

#[actix_web::test]
async fn a_long_prompt_is_read_from_the_cache_the_second_time_in_every_dialect() {
    let rules = "Never say never. ".repeat(400);
    for dialect in ["openai", "anthropic", "gemini", "openai-responses", "converse"] {
        let gateway = gateway(dialect, "").await;
        let marked = matches!(dialect, "anthropic" | "converse");
        let mut part = json!({"type": "text", "text": rules});
        if marked {
            part["cache_control"] = json!({"type": "ephemeral"});
        }
        let asked = |question: &str| {
            let messages =
                json!([{"role": "system", "content": [part.clone()]}, {"role": "user", "content": question}]);
            and(ask("test/poet"), json!({"messages": messages, "provider": {"only": ["claudia"]}}))
        };
        let (read, written) = cached(&gateway, &asked("Which way?")).await;
        assert_eq!((read, written > 1_000), (0, marked), "{dialect}");
        let (read, written) = cached(&gateway, &asked("And back?")).await;
        assert!(read > 1_000, "{dialect}: {read}");
        assert_eq!(written, 0, "{dialect}");
        if marked {
            // Another mark for longer is another entry, but what is before it is there already.
            part["cache_control"] = json!({"type": "ephemeral", "ttl": "1h"});
            let messages = json!([{"role": "system", "content": [part.clone()]}, {"role": "user", "content": [
                {"type": "text", "text": rules, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}]);
            let (read, written) = cached(
                &gateway,
                &and(ask("test/poet"), json!({"messages": messages, "provider": {"only": ["claudia"]}})),
            )
            .await;
            assert!(read > 1_000 && written > 1_000, "{dialect}: {read} {written}");
        }
    }
}

/// What the README promises: without an account, every dialect is translated, plain and streamed.
#[actix_web::test]
async fn the_built_in_thinking_model_is_served_by_a_simulated_provider_of_each_dialect() {
    let gateway = TestGateway::start_with("", &[("POINTSMAN__SIMULATION__MODE", "on")]).await;
    for slug in ["sim-opal", "sim-jade", "sim-onyx", "sim-amber"] {
        let request = and(with_tool(ask("beacon/think")), json!({"reasoning": {"effort": "low"}, "max_tokens": 4000}));
        let request = and(request, json!({"provider": {"only": [slug]}}));
        let answer = gateway.chat(&request).await.expect(200);
        let message = &answer["choices"][0]["message"];
        assert!(message["reasoning"].as_str().unwrap().contains("Paris"), "{slug}: {answer}");
        assert_eq!(message["tool_calls"].as_array().map(Vec::len), Some(2), "{slug}: {answer}");
        assert!(answer["usage"]["cost"].as_f64().unwrap() > 0.0, "{slug}: {answer}");
        let streamed = gateway.chat(&and(request, json!({"stream": true}))).await;
        assert!(streamed.text().contains("\"reasoning\":") && streamed.text().ends_with("data: [DONE]\n\n"), "{slug}");
    }
}

/// What Claude Code sends, with the blocks and members that it sends to any address.
fn agent_message(messages: &Value, only: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!({
        "model": "test/poet", "max_tokens": 4000, "messages": messages, "provider": {"only": [only]},
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.330; cch=00000;"},
            {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
        ],
        "tools": [{"name": "get_weather", "description": "Weather.", "input_schema": schema, "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "enabled", "budget_tokens": 2048}, "temperature": 1, "stop_sequences": ["</end>"],
        "metadata": {"user_id": "user_1_account__session_2"},
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    })
}

#[actix_web::test]
async fn a_session_of_claude_code_goes_on_at_an_endpoint_of_another_api_between_its_turns() {
    let headers = [
        ("content-type", "application/json"),
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "interleaved-thinking-2025-05-14,context-management-2025-06-27"),
        ("x-app", "cli"),
        ("x-claude-code-session-id", "session-2"),
    ];
    for (dialect, _) in DIALECTS {
        let gateway = gateway(dialect, "").await;
        let post = async |messages: &Value, only: &str| {
            let body = agent_message(messages, only).to_string();
            let reply = gateway.call(Method::POST, "/v1/messages?beta=true", &headers, Some(body.into())).await;
            let answer = reply.expect(200);
            let kinds: Vec<String> =
                answer["content"].as_array().unwrap().iter().map(|block| block["type"].to_string()).collect();
            (answer, kinds)
        };
        let mut messages = json!([]);
        let say = |messages: &mut Value, role: &str, content: Value| {
            messages.as_array_mut().unwrap().push(json!({"role": role, "content": content}));
        };
        for round in 0..2 {
            say(&mut messages, "user", json!([{"type": "text", "text": "Weather in Paris and Tokyo?"}]));
            let (called, kinds) = post(&messages, "claudia").await;
            assert_eq!(kinds, ["\"thinking\"", "\"tool_use\"", "\"tool_use\""], "{dialect} {round}: {called}");
            assert_eq!(called["stop_reason"], "tool_use");
            let results = called["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
            let results = results.map(|call| {
                json!({"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": "sunny"}]})
            });
            let results: Vec<Value> = results.collect();
            say(&mut messages, "assistant", called["content"].clone());
            say(&mut messages, "user", json!(results));
            // The first time the other provider goes on, which did not think these thoughts.
            let (ended, _) = post(&messages, ["charles", "claudia"][round]).await;
            assert_eq!(ended["stop_reason"], "end_turn", "{dialect} {round}: {ended}");
            say(&mut messages, "assistant", ended["content"].clone());
        }
        let counted = agent_message(&messages, "claudia").to_string();
        let counted = gateway.call(Method::POST, "/v1/messages/count_tokens?beta=true", &headers, Some(counted.into()));
        assert!(counted.await.expect(200)["input_tokens"].as_u64().unwrap() > 50);
    }
}

/// What Codex sends: functions, a tool with a grammar, tools of a namespace, and tools that run at the provider.
fn codex_request(input: &Value, only: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let grammar = json!({"type": "grammar", "syntax": "lark", "definition": "start: /[^\\n]+/"});
    json!({
        "model": "test/poet", "instructions": "You are Codex.", "input": input, "provider": {"only": [only]},
        "tools": [
            {"type": "function", "name": "get_weather", "description": "Weather.", "strict": false, "parameters": schema},
            {"type": "custom", "name": "apply_patch", "description": "Patches files.", "format": grammar},
            {"type": "local_shell"}, {"type": "web_search"},
            {"type": "namespace", "name": "mcp__docs", "description": "Docs.", "tools": [
                {"type": "function", "name": "find", "parameters": {"type": "object", "properties": {}}}]},
        ],
        "tool_choice": "auto", "parallel_tool_calls": true, "reasoning": {"effort": "low", "summary": "auto"},
        "store": false, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "thread-3",
        "text": {"verbosity": "low"}, "client_metadata": {"x-codex-installation-id": "1"}, "max_output_tokens": 4000,
    })
}

#[actix_web::test]
async fn a_session_of_codex_goes_on_at_an_endpoint_of_another_api_between_its_turns() {
    for (dialect, _) in DIALECTS {
        let gateway = gateway(dialect, "").await;
        let question = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather in Paris and Tokyo?"}]});
        let mut input = json!([question]);
        let called = gateway.post("/v1/responses", &codex_request(&input, "claudia")).await.expect(200);
        assert_eq!((&called["status"], &called["store"]), (&json!("completed"), &json!(false)), "{dialect}: {called}");
        let items = called["output"].as_array().unwrap();
        let calls: Vec<&Value> = items.iter().filter(|item| item["type"] == "function_call").collect();
        assert_eq!(calls.len(), 2, "{dialect}: {called}");
        let history = input.as_array_mut().unwrap();
        history.extend(items.iter().cloned());
        for call in calls {
            history.push(json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}));
        }
        for only in ["claudia", "charles"] {
            let ended = gateway.post("/v1/responses", &codex_request(&input, only)).await.expect(200);
            let message = ended["output"].as_array().unwrap().iter().find(|item| item["type"] == "message");
            let text = message.unwrap_or_else(|| panic!("{dialect} {only}: {ended}"))["content"][0]["text"].to_string();
            assert!(text.contains("sunny"), "{dialect} {only}: {text}");
        }
    }
}
