//! What a plain completion looks like, and what its upstream was sent.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{KEY, TestGateway},
    schema::conforms,
    scripted::{Script, Upstream},
    world::{Model, World, always, and, answer, ask, completion, one_model, provider_key, saying, stream_of},
};

#[actix_web::test]
async fn a_valid_request_is_answered_with_a_whole_completion() {
    let (gateway, _upstream) = one_model(&completion("Hello there")).await;
    let body = gateway.chat(&ask("acme/small")).await.expect(200);
    let id = body["id"].as_str().unwrap();
    let (seconds, suffix) = id.strip_prefix("gen-").unwrap().split_once('-').unwrap();
    assert_eq!(seconds.parse::<i64>().unwrap(), body["created"].as_i64().unwrap());
    assert!(suffix.len() == 22 && suffix.bytes().all(|b| b.is_ascii_alphanumeric()), "{id}");
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["provider"], "Acme");
    let choice = &body["choices"][0];
    assert_eq!(choice["message"], json!({"role": "assistant", "content": "Hello there", "refusal": null}));
    assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("stop")));
    assert_eq!((&choice["logprobs"], &choice["native_finish_reason"]), (&Value::Null, &json!("stop")));
    assert_eq!(body["usage"]["total_tokens"], 17);
    conforms(&body, "CreateChatCompletionResponse");
}

/// What the upstream calls itself stays with us.
#[actix_web::test]
async fn the_upstreams_own_id_and_model_name_do_not_reach_the_client() {
    let (gateway, upstream) = one_model(&completion("Hello")).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    let (text, id) = (reply.text(), reply.json()["id"].clone());
    for private in ["chatcmpl-private", "private-name", "acme-small", &upstream.address().port().to_string()] {
        assert!(!text.contains(private) || id.as_str().unwrap().contains(private), "{private}: {text}");
    }
    assert_eq!(upstream.last_body()["model"], "acme-small");
}

/// An answer fits the published schema whatever odd members its upstream left out or added.
#[actix_web::test]
async fn odd_but_usable_answers_fit_the_published_schema_too() {
    let message = json!({"role": "assistant", "content": "x", "tool_calls": null, "annotations": [], "refusal": "no"});
    let bare = json!({"choices": [{"message": {"content": "x"}}]});
    let odd = json!({"error": null, "system_fingerprint": null, "usage": null, "extra": [1],
        "choices": [{"index": 7, "message": message, "finish_reason": "eos_token", "logprobs": null}]});
    for upstream_says in [bare, odd] {
        let (gateway, _upstream) = one_model(&upstream_says).await;
        let body = gateway.chat(&ask("acme/small")).await.expect(200);
        conforms(&body, "CreateChatCompletionResponse");
        assert_eq!(body["choices"][0]["index"], 0);
        assert_eq!(body["choices"][0]["finish_reason"], "stop");
    }
}

#[actix_web::test]
async fn an_answer_to_an_alias_names_the_model_that_served() {
    let (paid, free) = (saying("paid"), saying("free"));
    let world = World::new().provider("acme", paid.address()).provider("bolt", free.address());
    let world = world.model(&Model::new("acme/small").at("acme", "0.1", "0.1"));
    let gateway = world.model(&Model::new("bolt/gift").at("bolt", "0", "0")).start().await;
    for alias in ["service/free", "free", "openrouter/free"] {
        let body = gateway.chat(&ask(alias)).await.expect(200);
        assert_eq!(body["model"], "bolt/gift", "{alias}");
    }
    for alias in ["service/auto", "auto", "router", "openrouter/auto"] {
        let request = and(ask(alias), json!({"allowed_models": ["acme/*"]}));
        let reply = gateway.chat(&request).await;
        assert_eq!(reply.expect(200)["model"], "acme/small", "{alias}");
        assert_eq!(reply.header("x-route-model"), Some("acme/small"));
        assert_eq!(reply.header("x-route-router"), Some("service/auto"));
    }
}

#[actix_web::test]
async fn the_total_is_the_sum_whatever_the_upstream_says() {
    for total in [json!(99), json!(0), Value::Null, json!("many")] {
        let usage = json!({"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": total});
        let (gateway, _upstream) = one_model(&answer(json!({"role": "assistant", "content": "x"}), usage)).await;
        let body = gateway.chat(&ask("acme/small")).await.expect(200);
        assert_eq!(body["usage"]["total_tokens"], 17, "{total}");
    }
}

/// Without an upstream's count the gateway estimates, and says so.
#[actix_web::test]
async fn missing_counts_are_estimated_and_marked() {
    let (gateway, _upstream) = one_model(&json!({"choices": [{"message": {"content": "Hello there"}}]})).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    let usage = reply.expect(200)["usage"].clone();
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert!(count("prompt_tokens") > 0 && count("completion_tokens") > 0, "{usage}");
    assert_eq!(count("total_tokens"), count("prompt_tokens") + count("completion_tokens"));
    assert_eq!(reply.header("x-route-usage"), Some("estimated"));
}

/// The digits of the cost, exactly as they stand in the body, for these prices and this usage.
async fn cost(prices: &str, usage: Value) -> String {
    let upstream = always(200, &answer(json!({"role": "assistant", "content": "x"}), usage));
    let model = Model::new("acme/small").priced("acme", prices);
    let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
    let reply = gateway.chat(&ask("acme/small")).await;
    let body = reply.expect(200);
    assert!(body["usage"]["cost"].is_number(), "{body}");
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={}", body["id"].as_str().unwrap())).await;
    let digits = |text: &str, name: &str| {
        let after = text.split(&format!("\"{name}\":")).nth(1).unwrap();
        after.split([',', '}']).next().unwrap().to_owned()
    };
    let cost = digits(&reply.text(), "cost");
    assert_eq!(digits(&explained.text(), "total_cost"), cost);
    cost
}

#[actix_web::test]
async fn cache_writes_of_five_minutes_and_of_one_hour_cost_their_own_price() {
    let prices = "prompt = \"1\", completion = \"2\", input_cache_read = \"0.1\", input_cache_write = \"1.25\"";
    let usage = json!({
        "prompt_tokens": 100, "completion_tokens": 1, "cache_creation_input_tokens": 60,
        "prompt_tokens_details": {"cached_tokens": 30},
        "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 20},
    });
    // 10 + 30 · 0.1 + 60 · 1.25 + 2.
    assert_eq!(cost(prices, usage.clone()).await, "90", "without a price of its own an hour costs five minutes");
    // 10 + 30 · 0.1 + 40 · 1.25 + 20 · 2 + 2.
    assert_eq!(cost(&format!("{prices}, input_cache_write_1h = \"2\""), usage).await, "105");
}

#[actix_web::test]
async fn the_cost_is_the_exact_decimal_sum() {
    let plain = |prompt: u64, completion: u64| json!({"prompt_tokens": prompt, "completion_tokens": completion});
    let two = |prompt: &str, completion: &str| format!("prompt = \"{prompt}\", completion = \"{completion}\"");
    assert_eq!(cost(&two("0.00000015", "0.0000006"), plain(12, 5)).await, "0.0000048");
    // In binary floating point this sum is 0.30000000000000004.
    assert_eq!(cost(&two("0.1", "0.2"), plain(1, 1)).await, "0.3");
    assert_eq!(cost(&two("0.000000000001", "0"), plain(1, 5)).await, "0.000000000001");
    assert_eq!(cost(&two("0", "0"), plain(1000, 1000)).await, "0");
    let all = "prompt = \"0.000003\", completion = \"0.000015\", input_cache_read = \"0.0000003\", \
               internal_reasoning = \"0.00002\", request = \"0.01\"";
    let detailed = json!({"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500,
        "prompt_tokens_details": {"cached_tokens": 200}, "completion_tokens_details": {"reasoning_tokens": 100}});
    assert_eq!(cost(all, detailed.clone()).await, "0.02046");
    // Without prices of their own, cached and reasoning tokens cost what the others do.
    assert_eq!(cost(&two("0.000003", "0.000015"), detailed).await, "0.0105");
}

/// For every chunk, see the streams.
#[actix_web::test]
async fn the_fingerprint_is_never_missing() {
    let with = |fingerprint: Value| and(completion("x"), json!({"system_fingerprint": fingerprint}));
    for (answer, expected) in [
        (with(json!("fp_theirs")), Some("fp_theirs")),
        (with(Value::Null), None),
        (completion("x"), None),
        (with(json!("")), None),
    ] {
        let (gateway, _upstream) = one_model(&answer).await;
        let body = gateway.chat(&ask("acme/small")).await.expect(200);
        let fingerprint = body["system_fingerprint"].as_str().unwrap();
        match expected {
            Some(expected) => assert_eq!(fingerprint, expected),
            None => assert!(fingerprint.len() > 3 && fingerprint.starts_with("fp_"), "{fingerprint}"),
        }
    }
}

/// More about streams stands with the streams.
#[actix_web::test]
async fn every_chunk_carries_a_fingerprint_and_fits_the_published_schema() {
    let upstream = Upstream::start([Script::answering(stream_of(&["Hel", "lo ", "there"]))]);
    let model = Model::new("acme/small").at("acme", "0.1", "0.1");
    let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
    let reply = gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await;
    let chunks = reply.events();
    assert_eq!((reply.status, reply.content().as_str()), (200, "Hello there"));
    assert!(chunks.len() >= 5, "{}", reply.text());
    for chunk in &chunks {
        conforms(chunk, "CreateChatCompletionStreamResponse");
        assert!(chunk["system_fingerprint"].as_str().is_some_and(|text| text.starts_with("fp_")), "{chunk}");
        assert_eq!(chunk["id"].as_str(), reply.header("x-generation-id"));
    }
}

#[actix_web::test]
async fn tool_calls_are_absent_when_there_are_none() {
    for nothing in [Value::Null, json!([])] {
        let message = json!({"role": "assistant", "content": "x", "tool_calls": nothing});
        let (gateway, _upstream) =
            one_model(&answer(message, json!({"prompt_tokens": 1, "completion_tokens": 1}))).await;
        let body = gateway.chat(&ask("acme/small")).await.expect(200);
        assert!(!body["choices"][0]["message"].as_object().unwrap().contains_key("tool_calls"), "{body}");
    }
}

#[actix_web::test]
async fn arguments_pass_unchanged_both_ways_even_when_they_are_no_json() {
    for arguments in
        ["{\"a\": 1,, }", "", "not json", "{\"ü\":\"\\u00e9\\n\"}", "{\"n\": 1.0e+10 }", "\u{0}\u{7f}\\\"/"]
    {
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let usage = json!({"prompt_tokens": 1, "completion_tokens": 1});
        let (gateway, upstream) = one_model(&answer(message.clone(), usage)).await;
        let mut request = ask("acme/small");
        let history = request["messages"].as_array_mut().unwrap();
        history.extend([message, json!({"role": "tool", "tool_call_id": "call_1", "content": "done"})]);
        let body = gateway.chat(&request).await.expect(200);
        let returned = &body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"];
        let sent = &upstream.last_body()["messages"][1]["tool_calls"][0]["function"]["arguments"];
        // Strict clients parse the arguments of a call that has none.
        let told = if arguments.is_empty() { "{}" } else { arguments };
        assert_eq!((returned, sent), (&json!(told), &json!(arguments)));
        conforms(&body, "CreateChatCompletionResponse");
    }
}

/// A gateway in front of a model that honours `max_tokens` only.
async fn modest() -> (TestGateway, Upstream) {
    let upstream = saying("Hello");
    let model = Model::new("acme/small").taking(&["max_tokens"]).at("acme", "0.1", "0.1");
    (World::new().provider("acme", upstream.address()).model(&model).start().await, upstream)
}

#[actix_web::test]
async fn a_parameter_the_model_does_not_list_is_dropped_without_an_error() {
    let (gateway, upstream) = modest().await;
    let soft = json!({"temperature": 0.5, "top_p": 0.5, "stop": ["x"], "seed": 4, "frequency_penalty": 1,
        "presence_penalty": 1, "reasoning": {"effort": "low"}, "include_reasoning": true, "max_tokens": 7});
    let reply = gateway.chat(&and(ask("acme/small"), soft.clone())).await;
    reply.expect(200);
    let (sent, dropped) = (upstream.last_body(), reply.header("x-route-dropped-parameters").unwrap());
    let dropped: Vec<&str> = dropped.split(',').collect();
    for name in soft.as_object().unwrap().keys() {
        let kept = name == "max_tokens";
        assert_eq!(sent.get(name).is_some(), kept, "{name}: {sent}");
        assert_eq!(dropped.contains(&name.as_str()), !kept, "{name}: {dropped:?}");
    }
    assert_eq!(sent["max_tokens"], 7);
}

#[actix_web::test]
async fn the_gateways_own_fields_do_not_reach_the_upstream() {
    let (gateway, upstream) = modest().await;
    let own = json!({
        "metadata": {"objective": "cheapest", "team": "blue"}, "extra_body": {"objective": "cheapest", "custom": 1},
        "objective": "cheapest", "allowed_models": ["acme/*"], "blocked_models": ["bolt/*"],
        "provider_policy": {"ignore": ["bolt"]}, "max_cost_per_1k_tokens": 1000, "max_cost": 1000,
        "weights": {"latency": 1, "cost": 1}, "top_n": 5, "provider": {"order": ["acme"]}, "models": ["acme/small"],
        "plugins": [{"id": "auto-router"}], "route": "fallback", "transforms": ["middle-out"],
        "usage": {"include": true}, "session_id": "s", "trace": {"span": 1}, "debug": {"echo_upstream_body": false}});
    gateway.chat(&and(ask("acme/small"), and(own.clone(), json!({"novelty": {"a": [1]}})))).await.expect(200);
    let sent = upstream.last_body();
    for name in own.as_object().unwrap().keys() {
        assert!(sent.get(name).is_none(), "{name}: {sent}");
    }
    // What nobody claims travels on, from the body and from extra_body.
    assert_eq!((&sent["novelty"], &sent["custom"]), (&json!({"a": [1]}), &json!(1)));
}

/// Not through `extra_body` either, which merges its members at the top.
#[actix_web::test]
async fn extra_body_smuggles_no_field_of_the_gateway_to_the_upstream() {
    let (gateway, upstream) = modest().await;
    let smuggled = json!({"model": "other", "messages": [], "stream": true, "provider": {"order": ["acme"]},
        "models": ["acme/small"], "metadata": {"a": "b"}, "plugins": [], "usage": {"include": true}, "trace": {},
        "weights": {"latency": 1, "cost": 1}, "session_id": "s", "extra_body": {"x": 1}, "top_n": 3, "route": "fallback"});
    let request = ask("acme/small");
    gateway.chat(&and(request.clone(), json!({"extra_body": smuggled}))).await.expect(200);
    let mut sent = upstream.last_body();
    assert_eq!(sent["messages"], request["messages"]);
    assert_eq!(sent["model"], "acme-small");
    sent.as_object_mut().unwrap().retain(|name, _| !matches!(name.as_str(), "model" | "messages" | "stream"));
    assert_eq!(sent, json!({}));
}

#[actix_web::test]
async fn the_callers_credentials_stay_here_and_the_providers_own_are_sent() {
    let (gateway, upstream) = one_model(&completion("Hello")).await;
    let body = ask("acme/small").to_string().into_bytes();
    let headers = [
        ("content-type", "application/json"),
        ("x-api-key", KEY),
        ("cookie", "session=secret-cookie"),
        ("proxy-authorization", "Basic c2VjcmV0"),
        ("x-forwarded-for", "10.9.8.7"),
    ];
    let reply = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body)).await;
    reply.expect(200);
    let sent = upstream.requests().pop().unwrap();
    for private in [KEY, "secret-cookie", "c2VjcmV0", "10.9.8.7"] {
        assert!(!sent.contains(private), "{private}: {sent}");
    }
    assert!(sent.to_lowercase().contains(&format!("authorization: bearer {}", provider_key("acme"))), "{sent}");
    assert_eq!(sent.to_lowercase().matches("authorization:").count(), 1);
}

#[actix_web::test]
async fn every_answer_names_its_call_and_every_success_its_generation() {
    let (gateway, _upstream) = one_model(&completion("Hello")).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    assert_eq!(reply.header("x-generation-id"), reply.json()["id"].as_str());
    assert!(reply.header("x-request-id").unwrap().starts_with("req-"));
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    let found = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
    assert_eq!(found["data"]["id"], id.as_str());
    for (method, path, status) in [
        (Method::GET, "/nowhere", 404),
        (Method::GET, "/api/v1/chat/completions", 405),
        (Method::POST, "/api/v1/chat/completions", 400),
        (Method::GET, "/api/v1/models", 200),
        (Method::GET, "/health", 200),
        (Method::GET, "/api/v1/generation?id=gen-none", 404),
    ] {
        let reply = gateway.call(method.clone(), path, &[], None).await;
        assert_eq!(reply.status, status, "{path}");
        assert!(reply.header("x-request-id").unwrap().starts_with("req-"), "{path}");
        assert_eq!(reply.header("x-generation-id"), None, "{path}");
        let reply = gateway.call(method, path, &[("x-request-id", "Mine._-1")], None).await;
        assert_eq!(reply.header("x-request-id"), Some("Mine._-1"), "{path}");
    }
}

/// A caller's name for the call is echoed only when it is well formed.
#[actix_web::test]
async fn an_ill_formed_request_id_is_replaced() {
    let (gateway, _upstream) = one_model(&completion("Hello")).await;
    let long = "x".repeat(129);
    for bad in ["a b", "<script>", "ü", &long, "a/b", "a;b"] {
        let reply = gateway.call(Method::GET, "/health", &[("x-request-id", bad)], None).await;
        assert!(reply.header("x-request-id").unwrap().starts_with("req-"), "{bad}");
    }
}
