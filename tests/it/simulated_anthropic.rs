//! Chats through the gateway to a simulated provider that serves the Anthropic Messages API.

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    world::{and, ask},
};

/// `test/poet` at `claudia`, which serves Messages, and for more money at `charles`, which serves chats.
async fn gateway(claudia: &str) -> TestGateway {
    let quick = "ttft = \"0ms\"\ntokens_per_second = 1000000\nodd_framing_rate = 0.0\n";
    let endpoint = |provider: &str, price: &str| {
        format!(
            "{{ provider = \"{provider}\", upstream_model = \"claude-sonnet-4-5\", pricing = {{ prompt = \"{price}\", \
             completion = \"{price}\" }} }}"
        )
    };
    let quick_claudia = if claudia.contains("odd_framing_rate") { &quick[..quick.len() - 23] } else { quick };
    let config = format!(
        "[simulation.providers.claudia]\ndialect = \"anthropic\"\n{quick_claudia}{claudia}\n\
         [simulation.providers.charles]\n{quick}\n\
         [[models]]\nid = \"test/poet\"\ncontext_length = 100000\nmax_completion_tokens = 8000\nsupported_parameters = \
         [\"max_tokens\", \"tools\", \"tool_choice\", \"reasoning\"]\nendpoints = [{}, {}]\n",
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
async fn a_chat_is_answered_with_text_by_a_simulated_provider_of_messages() {
    let gateway = gateway("").await;
    let answer = gateway.chat(&ask("test/poet")).await.expect(200);
    assert_eq!(answer["provider"], "claudia", "{answer}");
    assert_eq!(answer["choices"][0]["native_finish_reason"], "end_turn");
    assert!(!answer["choices"][0]["message"]["content"].as_str().unwrap().is_empty());
}

#[actix_web::test]
async fn thinking_and_parallel_calls_are_accepted_back_and_a_changed_signature_is_not() {
    let gateway = gateway("").await;
    let request = and(with_tool(ask("test/poet")), json!({"reasoning": {"effort": "low"}, "max_tokens": 4000}));
    let request = and(request, json!({"provider": {"only": ["claudia"]}}));
    let answer = gateway.chat(&request).await.expect(200);
    let reply = answer["choices"][0]["message"].clone();
    assert_eq!(reply["tool_calls"].as_array().map(Vec::len), Some(2), "{answer}");
    assert!(reply["reasoning"].as_str().unwrap().contains("Paris"), "{answer}");
    let turn = |reply: &Value| {
        let mut messages = vec![request["messages"][0].clone(), reply.clone()];
        for call in reply["tool_calls"].as_array().unwrap() {
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "sunny"}));
        }
        and(request.clone(), json!({"messages": messages}))
    };
    let second = gateway.chat(&turn(&reply)).await.expect(200);
    assert!(second["choices"][0]["message"]["content"].as_str().unwrap().contains("sunny"), "{second}");
    let mut changed = reply;
    changed["reasoning_details"][0]["text"] = json!("Another thought.");
    let refused = gateway.chat(&turn(&changed)).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
}

#[actix_web::test]
async fn a_stream_of_oddly_framed_events_arrives_whole() {
    let gateway = gateway("odd_framing_rate = 1.0").await;
    let request = and(with_tool(ask("test/poet")), json!({"stream": true, "provider": {"only": ["claudia"]}}));
    let reply = gateway.chat(&request).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let deltas = reply.events();
    let calls = deltas.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"][0].as_object());
    let arguments: String = calls.filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, r#"{"city":"Paris"}{"city":"Tokyo"}"#);
    assert!(reply.text().ends_with("data: [DONE]\n\n"), "{}", reply.text());
}

#[actix_web::test]
async fn an_overloaded_simulated_provider_of_messages_hands_over_to_one_of_chats() {
    let gateway = gateway("error_rate = 1.0").await;
    let reply = gateway.chat(&ask("test/poet")).await;
    let answer = reply.expect(200);
    assert_eq!(answer["provider"], "charles", "{answer}");
    assert_eq!(reply.header("x-route-attempts"), Some("2"));
}
