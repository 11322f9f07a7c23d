//! Settings of endpoints that decide what clients of the doors may ask of them.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    scripted::Upstream,
    world::{World, always, and, ask, completion, error_of},
};

/// The model `acme/gpt` at providers with these tables, the cheaper first.
async fn gateway(providers: &[(&str, &Upstream, &str)], more: &str) -> TestGateway {
    let mut world = World::new();
    let mut endpoints = Vec::new();
    for (place, (slug, upstream, table)) in providers.iter().enumerate() {
        world = world.provider_with(slug, upstream.address(), table);
        let price = format!("0.00000{}", place + 1);
        endpoints.push(format!(
            "{{ provider = \"{slug}\", upstream_model = \"gpt-5.6\", pricing = {{ prompt = \"{price}\", completion = \
             \"{price}\" }} }}"
        ));
    }
    world
        .with(&format!(
            "[[models]]\nid = \"acme/gpt\"\ncontext_length = 100000\nsupported_parameters = [\"max_tokens\", \"tools\", \
             \"tool_choice\", \"reasoning\"]\nendpoints = [{}]\n{more}",
            endpoints.join(", ")
        ))
        .variable("POINTSMAN__ROUTING__OBJECTIVE", "cheapest")
        .start()
        .await
}

fn response(id: &str) -> Value {
    let text = json!({"type": "output_text", "text": "Left.", "annotations": []});
    json!({
        "id": id, "object": "response", "created_at": 1, "status": "completed", "model": "gpt-5.6", "store": true,
        "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}],
        "usage": {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25},
    })
}

fn message() -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Right."}], "usage": {"input_tokens": 20, "output_tokens": 5}})
}

fn served_by(reply: &Reply) -> &str {
    let provider = reply.header("x-route-provider");
    assert!(provider.is_some(), "{}", reply.text());
    provider.unwrap_or_default()
}

#[actix_web::test]
async fn hosted_tools_are_left_out_for_other_apis_unless_the_configuration_keeps_them() {
    let (chats, responses) = (always(200, &completion("Right.")), always(200, &response("resp_1")));
    let asked = json!({"model": "acme/gpt", "input": "Which way?", "tools": [{"type": "web_search"}]});
    let providers =
        [("chats", &chats, "dialect = \"openai\""), ("maker", &responses, "dialect = \"openai-responses\"")];
    let dropping = gateway(&providers, "").await;
    let reply = dropping.post("/v1/responses", &asked).await;
    assert_eq!(served_by(&reply), "Chats");
    assert_eq!(reply.header("x-route-dropped-parameters"), Some("tools[].web_search"));
    let keeping = gateway(&providers, "[responses]\ndrop_hosted_tools = false").await;
    assert_eq!(served_by(&keeping.post("/v1/responses", &asked).await), "Maker");
    assert_eq!(responses.last_body()["tools"], asked["tools"]);
    let plain = json!({"model": "acme/gpt", "input": "Which way?"});
    assert_eq!(served_by(&keeping.post("/v1/responses", &plain).await), "Chats");
    let without = gateway(&providers[..1], "[responses]\ndrop_hosted_tools = false").await;
    assert_eq!(error_of(&without.post("/v1/responses", &asked).await, 400)["param"], "tools[0].type");
}

#[actix_web::test]
async fn a_response_is_continued_only_where_the_provider_may_keep_it() {
    let (chats, keeper) = (always(200, &completion("Right.")), always(200, &response("resp_abc")));
    let gateway = gateway(
        &[("chats", &chats, ""), ("keeper", &keeper, "dialect = \"openai-responses\"\nallow_state = true")],
        "",
    )
    .await;
    let continued = json!({"model": "acme/gpt", "input": "And then?", "previous_response_id": "resp_abc"});
    let reply = gateway.post("/v1/responses", &continued).await;
    assert_eq!(reply.expect(200)["id"], "resp_abc");
    assert_eq!(served_by(&reply), "Keeper");
    let sent = keeper.last_body();
    assert_eq!(sent["previous_response_id"], "resp_abc");
    assert_eq!(sent.get("store"), None, "{sent}");
    let fresh = json!({"model": "acme/gpt", "input": "Which way?"});
    assert_eq!(served_by(&gateway.post("/v1/responses", &fresh).await), "Chats");
    let wrong = and(fresh.clone(), json!({"previous_response_id": 7}));
    assert_eq!(error_of(&gateway.post("/v1/responses", &wrong).await, 400)["param"], "previous_response_id");
    let conversation = and(fresh, json!({"conversation": "conv_1"}));
    assert_eq!(error_of(&gateway.post("/v1/responses", &conversation).await, 400)["param"], "conversation");
    let foreign = and(continued, json!({"provider": {"only": ["chats"]}}));
    error_of(&gateway.post("/v1/responses", &foreign).await, 404);
}

#[actix_web::test]
async fn functions_go_without_reasoning_where_the_configuration_says_so() {
    let (chats, other) = (always(200, &completion("Right.")), always(200, &message()));
    let tool = json!({"type": "function", "function": {"name": "map", "parameters": {"type": "object"}}});
    let asked = and(ask("acme/gpt"), json!({"tools": [tool]}));
    let with_effort = and(asked.clone(), json!({"reasoning": {"effort": "high"}}));
    let elsewhere = ("other", &other, "dialect = \"anthropic\"");
    let avoiding = gateway(&[("chats", &chats, ""), elsewhere], "").await;
    assert_eq!(served_by(&avoiding.chat(&asked).await), "Other");
    let forcing = gateway(&[("chats", &chats, "tools_force_effort_none = true"), elsewhere], "").await;
    for (request, name) in [(&asked, "reasoning_effort"), (&with_effort, "reasoning")] {
        let reply = forcing.chat(request).await;
        assert_eq!(served_by(&reply), "Chats");
        assert_eq!(reply.header("x-route-emulated-parameters"), Some(name));
        let sent = chats.last_body();
        assert_eq!((&sent["reasoning_effort"], sent.get("reasoning")), (&json!("none"), None), "{sent}");
    }
    let silent = and(asked, json!({"reasoning_effort": "none"}));
    assert_eq!(forcing.chat(&silent).await.header("x-route-emulated-parameters"), None);
    let reasoning = and(ask("acme/gpt"), json!({"reasoning_effort": "high"}));
    assert_eq!(served_by(&forcing.chat(&reasoning).await), "Chats");
    assert_eq!(chats.last_body()["reasoning_effort"], "high", "without functions it may reason");
}

#[actix_web::test]
async fn an_effort_becomes_the_configured_budget() {
    let maker = always(200, &message());
    let world = |budgets: &str| {
        World::new().provider_with("maker", maker.address(), "dialect = \"anthropic\"").with(budgets).with(
            "[[models]]\nid = \"acme/claude\"\ncontext_length = 100000\nmax_completion_tokens = 60000\n\
                 supported_parameters = [\"max_tokens\", \"reasoning\"]\npricing = \"unknown\"\n\
                 endpoints = [{ provider = \"maker\", upstream_model = \"claude-sonnet-4-5\" }]",
        )
    };
    let asked = and(ask("acme/claude"), json!({"reasoning": {"effort": "low"}}));
    for (budgets, tokens) in [("", 2048), ("[providers.maker.effort_budgets]\nlow = 5000", 5000)] {
        world(budgets).start().await.chat(&asked).await.expect(200);
        assert_eq!(maker.last_body()["thinking"], json!({"type": "enabled", "budget_tokens": tokens}));
    }
}

#[actix_web::test]
async fn required_parameters_that_no_endpoint_lists_exclude_the_apis_that_have_no_form_for_them() {
    let (gemini, chats) = (always(500, &json!({})), always(200, &completion("Right.")));
    let gateway =
        gateway(&[("gemini", &gemini, "dialect = \"gemini\""), ("chats", &chats, "unknown_fields = \"drop\"")], "")
            .await;
    let tool = json!({"type": "function", "function": {"name": "map", "parameters": {"type": "object"}}});
    let required = |more: Value| {
        and(and(ask("acme/gpt"), json!({"provider": {"require_parameters": true}, "reasoning_effort": "none"})), more)
    };
    for more in [
        json!({"logit_bias": {"7": 1}}),
        json!({"store": true}),
        json!({"verbosity": "low"}),
        json!({"parallel_tool_calls": false, "tools": [tool]}),
    ] {
        let reply = gateway.chat(&required(more.clone())).await;
        assert_eq!(served_by(&reply), "Chats", "{more}");
        assert_eq!(reply.header("x-route-dropped-parameters"), None, "{more}");
    }
    assert_eq!(gemini.connections(), 0);
    let only_gemini =
        required(json!({"logit_bias": {"7": 1}, "provider": {"require_parameters": true, "only": ["gemini"]}}));
    let refused = gateway.chat(&only_gemini).await;
    assert!((400..500).contains(&refused.status), "{}", refused.text());
    let unknown = error_of(&gateway.chat(&required(json!({"luck": 7}))).await, 400);
    assert_eq!(unknown["param"], "luck", "{unknown}");
    let free = and(ask("acme/gpt"), json!({"logit_bias": {"7": 1}, "reasoning_effort": "none"}));
    gateway.chat(&free).await;
    assert!(gemini.connections() > 0, "without the requirement the field is dropped");
}

/// A field that the gateway drops on the way to the chat body never reaches a chat upstream, whatever that forwards.
#[actix_web::test]
async fn what_is_lost_on_the_way_to_a_chat_counts_for_chats_too_but_not_the_history() {
    let chats = always(200, &completion("Right."));
    let gateway = gateway(&[("chats", &chats, "")], "").await;
    let asked = |more: Value| {
        let required = json!({"model": "acme/gpt", "input": "Hi", "provider": {"require_parameters": true}});
        and(required, more)
    };
    let refused = error_of(&gateway.post("/v1/responses", &asked(json!({"luck": 7}))).await, 400);
    assert_eq!(refused["param"], "luck", "{refused}");
    let thought = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]});
    let history = json!([thought, {"role": "user", "content": "Hi"}]);
    let reply = gateway.post("/v1/responses", &asked(json!({"input": history}))).await;
    assert_eq!(served_by(&reply), "Chats", "without its provider's seal, reasoning is history that is left out");
}

/// A conversation in which a Claude thought and called, and the result is there.
fn open_turn(format: &str) -> Value {
    let detail =
        json!({"type": "reasoning.text", "text": "Look it up.", "signature": "c2ln", "format": format, "index": 0});
    let call = json!({"id": "toolu_1", "type": "function", "function": {"name": "map", "arguments": "{}"}});
    let tool = json!({"type": "function", "function": {"name": "map", "parameters": {"type": "object"}}});
    let messages = json!([
        {"role": "user", "content": "Which way?"},
        {"role": "assistant", "content": null, "reasoning_details": [detail], "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "left"},
    ]);
    and(ask("acme/gpt"), json!({"messages": messages, "tools": [tool], "reasoning_effort": "none"}))
}

#[actix_web::test]
async fn while_calls_are_open_the_endpoints_that_take_their_reasoning_back_come_first() {
    let chats = always(200, &completion("Right."));
    let refusal = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}});
    let (claude, busy) = (always(200, &message()), always(529, &refusal));
    let with_claude = async |claude: &Upstream| {
        gateway(&[("chats", &chats, ""), ("claude", claude, "dialect = \"anthropic\"")], "").await
    };
    let gateway = with_claude(&claude).await;
    let reply = gateway.chat(&open_turn("anthropic-claude-v1")).await;
    assert_eq!(served_by(&reply), "Claude", "though it is dearer");
    let id = reply.header("x-generation-id").unwrap();
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}&why_not=chats")).await.expect(200);
    assert_eq!(explained["state_format"], "anthropic-claude-v1");
    assert_eq!(explained["why_not"]["reason"], "reasoning_state", "{explained}");
    let reason = explained["decision_reason"].as_str().unwrap();
    assert!(reason.contains("can take back the reasoning before the tool calls"), "{reason}");
    for format in ["google-gemini-v1", "unknown"] {
        assert_eq!(served_by(&gateway.chat(&open_turn(format)).await), "Chats", "no endpoint has {format}");
    }
    let mut closed = open_turn("anthropic-claude-v1");
    let messages = closed["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": "Left."}));
    messages.push(json!({"role": "user", "content": "Sure?"}));
    assert_eq!(served_by(&gateway.chat(&closed).await), "Chats", "the turn is over");
    let message = json!({
        "model": "acme/gpt", "max_tokens": 50, "tools": [{"name": "map", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "Which way?"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Look it up.", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "map", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "left"},
                {"type": "text", "text": "<system-reminder>Be brief.</system-reminder>"}]},
        ],
        "thinking": {"type": "disabled"},
    });
    assert_eq!(served_by(&gateway.post("/v1/messages", &message).await), "Claude", "also with words behind the result");
    let reply = with_claude(&busy).await.chat(&open_turn("anthropic-claude-v1")).await;
    assert_eq!(served_by(&reply), "Chats", "it is no pin: what fails is left");
}

#[actix_web::test]
async fn an_agents_name_for_itself_becomes_a_tag_of_the_record() {
    let maker = always(200, &message());
    let gateway = gateway(&[("maker", &maker, "dialect = \"anthropic\"")], "").await;
    let asked = json!({"model": "acme/gpt", "max_tokens": 9, "messages": [{"role": "user", "content": "Which way?"}]});
    let headers = [
        ("content-type", "application/json"),
        ("x-claude-code-session-id", "s-1"),
        ("x-claude-code-agent-id", "agent-7"),
        ("x-claude-code-parent-agent-id", "agent-1"),
    ];
    let reply = gateway.call(Method::POST, "/v1/messages?beta=true", &headers, Some(asked.to_string().into())).await;
    reply.expect(200);
    let id = reply.header("x-generation-id").unwrap();
    let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    let text = record.to_string();
    assert!(text.contains("\"agent_id\":\"agent-7\"") && text.contains("\"parent_agent_id\":\"agent-1\""), "{text}");
    assert!(!maker.requests()[0].to_lowercase().contains("x-claude-code"), "{:?}", maker.requests());
}
