//! The OpenAI Responses API: for clients, and as upstream.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    scripted::{Script, Upstream},
    world::{World, always, and, answer, ask, completion, error_of, stream_of},
};

async fn gateway(upstream: &Upstream, dialect: &str) -> TestGateway {
    World::new()
        .provider_with("maker", upstream.address(), &format!("dialect = \"{dialect}\""))
        .with(
            "[[models]]\nid = \"acme/gpt\"\ncontext_length = 100000\nsupported_parameters = [\"max_tokens\", \"tools\", \
             \"tool_choice\", \"reasoning\", \"structured_outputs\"]\nendpoints = [{ provider = \"maker\", upstream_model = \
             \"gpt-5.6\", pricing = { prompt = \"0.000001\", completion = \"0.000002\" } }]",
        )
        .start()
        .await
}

fn response(output: Value) -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-5.6", "output": output,
        "usage": {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 5,
                  "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 25},
    })
}

fn said(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
           "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn events(reply: &Reply) -> Vec<Value> {
    let text = reply.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[actix_web::test]
async fn a_chat_reaches_a_responses_endpoint_with_tools_and_reasoning_and_comes_back_as_chat() {
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "map", "arguments": "{\"at\":1}", "status": "completed"});
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3BhcXVl"});
    let maker = always(200, &response(json!([thought, call])));
    let gateway = gateway(&maker, "openai-responses").await;
    let tools = json!([{"type": "function", "function": {"name": "map", "parameters": {"type": "object"}}}]);
    let request = and(ask("acme/gpt"), json!({"tools": tools, "reasoning": {"effort": "low"}}));
    let chat = gateway.chat(&request).await.expect(200);
    assert_eq!(chat["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(chat["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
    assert_eq!(chat["usage"]["prompt_tokens_details"]["cached_tokens"], 8);
    let sent = maker.last_body();
    assert!(maker.requests()[0].starts_with("POST /v1/responses "), "{:?}", maker.requests());
    assert_eq!((&sent["store"], &sent["reasoning"]["effort"]), (&json!(false), &json!("low")));
    assert_eq!(sent["tools"][0]["name"], "map");
    let reply = &chat["choices"][0]["message"];
    let turns = json!([{"role": "user", "content": "Which way?"}, reply, {"role": "tool", "tool_call_id": "call_1", "content": "left"}]);
    gateway.chat(&and(request, json!({"messages": turns}))).await.expect(200);
    let input = maker.last_body()["input"].to_string();
    assert!(input.contains("b3BhcXVl") && input.contains("function_call_output"), "{input}");
}

#[actix_web::test]
async fn a_response_is_made_by_a_chat_endpoint_in_the_clients_own_shape() {
    let usage = json!({"prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}});
    let maker = always(200, &answer(json!({"role": "assistant", "content": "Left."}), usage));
    let gateway = gateway(&maker, "openai").await;
    let request =
        json!({"model": "acme/gpt", "instructions": "Be brief.", "input": "Which way?", "max_output_tokens": 64});
    for path in ["/v1/responses", "/api/v1/responses"] {
        let reply = gateway.post(path, &request).await;
        let made = reply.expect(200);
        assert_eq!(
            (&made["object"], &made["status"], &made["model"]),
            (&json!("response"), &json!("completed"), &json!("acme/gpt"))
        );
        assert_eq!(made["output"][0]["content"][0]["text"], "Left.");
        assert_eq!(made["usage"]["input_tokens"], 20);
        assert_eq!(made["usage"]["input_tokens_details"]["cached_tokens"], 8);
        assert_eq!(made["id"].as_str(), reply.header("x-generation-id"));
        assert_eq!(made["store"], false);
    }
    let sent = maker.last_body();
    assert_eq!(sent["messages"].as_array().unwrap().len(), 2, "{sent}");
    assert!(sent.get("input").is_none() && sent.get("instructions").is_none(), "{sent}");
}

#[actix_web::test]
async fn a_stream_of_chunks_becomes_the_numbered_events_of_a_response() {
    let maker = Upstream::start([Script::answering(stream_of(&["Le", "ft."]))]);
    let gateway = gateway(&maker, "openai").await;
    let request = json!({"model": "acme/gpt", "input": [{"role": "user", "content": "Which way?"}], "stream": true});
    let reply = gateway.post("/v1/responses", &request).await;
    let events = events(&reply);
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("response.created", "response.completed"), "{kinds:?}");
    let text: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(text, "Left.");
    assert!(events.last().unwrap()["response"]["usage"]["output_tokens"].as_u64().unwrap() > 0);
}

#[actix_web::test]
async fn a_custom_tool_of_an_agent_is_declared_called_and_answered_on_a_chat_endpoint() {
    let call = json!({"id": "call_9", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let maker = always(200, &answer(message, json!({"prompt_tokens": 5, "completion_tokens": 5})));
    let gateway = gateway(&maker, "openai").await;
    let tool = json!({"type": "custom", "name": "apply_patch", "description": "Patches.", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}});
    let request = json!({"model": "acme/gpt", "input": [{"role": "user", "content": "Patch."}], "tools": [tool], "tool_choice": "auto"});
    let made = gateway.post("/v1/responses", &request).await.expect(200);
    let call = &made["output"][0];
    assert_eq!(
        (&call["type"], &call["name"], &call["input"]),
        (&json!("custom_tool_call"), &json!("apply_patch"), &json!("*** Begin")),
        "{made}"
    );
    assert_eq!(maker.last_body()["tools"][0]["type"], "custom");
    let result = json!({"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "done"});
    let again = and(request, json!({"input": [{"role": "user", "content": "Patch."}, call, result]}));
    gateway.post("/v1/responses", &again).await.expect(200);
    assert_eq!(maker.last_body()["messages"][1]["tool_calls"][0]["custom"]["input"], "*** Begin");
}

#[actix_web::test]
async fn an_endpoint_of_the_same_api_gets_the_clients_bytes_and_its_stream_passes() {
    let event = |kind: &str, number: u64, rest: &str| {
        format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number}{rest}}}\n\n")
    };
    let done = response(json!([said("L\u{e9}")]));
    let body = event(
        "response.created",
        0,
        ",\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-5.6\",\"status\":\"in_progress\",\"output\":[]}",
    ) + &event(
        "response.output_item.added",
        1,
        ",\"output_index\":0,\"item\":{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":[]}",
    ) + &event(
        "response.output_text.delta",
        2,
        ",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"L\\u00e9\"",
    ) + &event("response.completed", 3, &format!(",\"response\":{done}"));
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", body.len());
    let maker = Upstream::start([Script::answering(head + &body)]);
    let gateway = gateway(&maker, "openai-responses").await;
    let sent = "{\"model\":\"acme/gpt\", \"stream\":true,\"objective\":\"cheapest\",\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"\\u00e9\"}]}],\"truncation\":\"auto\"}";
    let headers = [("content-type", "application/json")];
    let reply = gateway.call(Method::POST, "/v1/responses", &headers, Some(sent.into())).await;
    let text = reply.text();
    assert!(text.contains("\"delta\":\"L\\u00e9\"") && text.contains("\"sequence_number\":3"), "{text}");
    assert!(!text.contains("resp_1") && !text.contains("gpt-5.6"), "{text}");
    let arrived = maker.requests().remove(0);
    assert!(arrived.contains("\"text\":\"\\u00e9\"") && arrived.contains("\"truncation\":\"auto\""), "{arrived}");
    assert!(!arrived.contains("objective") && arrived.contains("\"store\":false"), "{arrived}");
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!((&record["data"]["api_type"], &record["data"]["tokens_completion"]), (&json!("responses"), &json!(5)));
}

#[actix_web::test]
async fn what_would_have_to_be_stored_is_refused_and_says_what_to_do() {
    let maker = always(200, &completion("unused"));
    let gateway = gateway(&maker, "openai").await;
    for more in
        [json!({"previous_response_id": "resp_1"}), json!({"background": true}), json!({"conversation": "conv_1"})]
    {
        let name = more.as_object().unwrap().keys().next().unwrap().clone();
        let error =
            error_of(&gateway.post("/v1/responses", &and(json!({"model": "acme/gpt", "input": "a"}), more)).await, 400);
        assert_eq!(error["param"], json!(name), "{error}");
    }
    let long = json!({"model": "acme/gpt", "input": "Hi", "max_output_tokens": 1_000_000});
    let error = error_of(&gateway.post("/v1/responses", &long).await, 400);
    assert_eq!(error["param"], "input", "{error}");
    assert_eq!(maker.connections(), 0);
    let count =
        gateway.post("/v1/responses/input_tokens", &json!({"model": "acme/gpt", "input": "Which way is it?"})).await;
    assert!(count.expect(200)["input_tokens"].as_u64().unwrap() > 2);
}

#[actix_web::test]
async fn a_client_of_responses_and_an_endpoint_of_messages_understand_each_other() {
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "tool_use", "stop_sequence": null,
        "content": [{"type": "thinking", "thinking": "Map.", "signature": "c2ln"}, {"type": "tool_use", "id": "toolu_1", "name": "map", "input": {"at": 1}}],
        "usage": {"input_tokens": 9, "output_tokens": 4},
    });
    let maker = always(200, &message);
    let gateway = gateway(&maker, "anthropic").await;
    let tool = json!({"type": "function", "name": "map", "parameters": {"type": "object"}});
    let request = json!({"model": "acme/gpt", "input": [{"role": "user", "content": "Which way?"}], "tools": [tool], "reasoning": {"effort": "low", "summary": "auto"}});
    let made = gateway.post("/v1/responses", &request).await.expect(200);
    let items = made["output"].as_array().unwrap();
    assert_eq!(
        items.iter().map(|item| item["type"].as_str().unwrap()).collect::<Vec<_>>(),
        ["reasoning", "function_call"]
    );
    let mut input = vec![json!({"role": "user", "content": "Which way?"})];
    input.extend(items.iter().cloned());
    input.push(json!({"type": "function_call_output", "call_id": items[1]["call_id"], "output": "left"}));
    gateway.post("/v1/responses", &and(request, json!({"input": input}))).await.expect(200);
    let thought = &maker.last_body()["messages"][1]["content"][0];
    assert_eq!((&thought["thinking"], &thought["signature"]), (&json!("Map."), &json!("c2ln")));
}

#[actix_web::test]
async fn a_body_of_this_api_on_the_chat_door_gets_a_chat_answer_and_tools_of_both_forms_arrive() {
    let call = json!({"id": "call_9", "type": "function", "function": {"name": "flat", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let maker = always(200, &answer(message, json!({"prompt_tokens": 5, "completion_tokens": 5})));
    let gateway = gateway(&maker, "openai").await;
    let schema = json!({"type": "object", "properties": {"at": {"type": "integer"}}});
    let tools = json!([
        {"type": "function", "name": "flat", "description": "Flat.", "parameters": schema, "strict": true},
        {"type": "function", "function": {"name": "nested", "parameters": schema}},
        {"type": "function", "name": "of_agents", "input_schema": schema},
        {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}},
    ]);
    let choice = json!({"type": "function", "name": "flat"});
    let input = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "input_text", "text": "Which way?"}]}]);
    let of_input = json!({"model": "acme/gpt", "input": input, "tools": tools, "tool_choice": choice, "max_output_tokens": 64, "truncation": "auto", "reasoning": {"effort": "none"}});
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which way?"}]);
    let of_messages = json!({"model": "acme/gpt", "messages": messages, "tools": tools, "tool_choice": choice, "max_tokens": 64, "reasoning": {"effort": "none"}});
    for (asked, dropped) in [(of_input, Some("truncation")), (of_messages, None)] {
        let reply = gateway.post("/v1/chat/completions", &asked).await;
        let made = reply.expect(200);
        assert_eq!(made["object"], "chat.completion", "{made}");
        assert_eq!(made["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "flat", "{made}");
        assert_eq!(reply.header("x-route-dropped-parameters"), dropped);
        let sent = maker.last_body();
        assert_eq!(
            sent["tools"][0]["function"],
            json!({"name": "flat", "description": "Flat.", "parameters": schema, "strict": true})
        );
        assert_eq!(sent["tools"][1]["function"], json!({"name": "nested", "parameters": schema}));
        assert_eq!(sent["tools"][2]["function"], json!({"name": "of_agents", "parameters": schema}));
        assert_eq!(sent["tools"][3]["custom"]["format"]["grammar"]["syntax"], "lark", "{sent}");
        assert_eq!(sent["tool_choice"], json!({"type": "function", "function": {"name": "flat"}}), "{sent}");
        assert_eq!(sent["messages"].as_array().unwrap().len(), 2, "{sent}");
        assert!(sent.get("input").is_none(), "{sent}");
    }
    let stored = json!({"model": "acme/gpt", "input": [{"type": "item_reference", "id": "x"}]});
    let error = error_of(&gateway.post("/v1/chat/completions", &stored).await, 400);
    assert!(error["param"].as_str().unwrap().starts_with("input[0]"), "{error}");
    let neither = error_of(&gateway.post("/v1/chat/completions", &json!({"model": "acme/gpt"})).await, 400);
    assert_eq!(neither["param"], "messages", "{neither}");
}
