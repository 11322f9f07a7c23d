//! What a client hears of failures. Every error passes through `error_of`, which checks its form and its waits.

use std::net::SocketAddr;

use actix_web::http::Method;
use pointsman::base::error::ApiError;
use serde_json::{Value, json};

use crate::{
    harness::{KEY, Reply, TestGateway},
    patience::PATIENCE,
    scripted::{Gate, Script, Upstream, refused_address},
    world::{Model, World, always, and, ask, completion, error_of, http, http_with, one_model, provider_key, saying},
};

/// A gateway in front of `acme/small` at these addresses, the first the cheapest: they are asked in this order.
async fn chain(addresses: &[SocketAddr], toml: &str) -> TestGateway {
    let slugs = ["acme", "bolt", "crow"];
    let mut model = Model::new("acme/small");
    let mut world = World::new().with(toml);
    for (n, (address, slug)) in addresses.iter().zip(slugs).enumerate() {
        let price = format!("0.00000{}", n + 1);
        model = model.at(slug, &price, &price);
        world = world.provider(slug, *address);
    }
    world.model(&model).start().await
}

/// What a chat request is answered when the upstreams are these.
async fn through(upstreams: &[&Upstream]) -> Reply {
    let addresses: Vec<SocketAddr> = upstreams.iter().map(|upstream| upstream.address()).collect();
    chain(&addresses, "").await.chat(&and(ask("acme/small"), json!({"objective": "cheapest"}))).await
}

/// The failed attempts an error lists: provider, status and code of each.
fn attempts(error: &Value) -> Vec<(String, Value, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let listed = error["metadata"]["previous_errors"].as_array().unwrap();
    assert!(listed.iter().all(|attempt| attempt["model"] == "acme/small"), "{error}");
    listed.iter().map(|one| (text(&one["provider"]), one["status"].clone(), text(&one["code"]))).collect()
}

/// The whole body of an error, once in full.
#[actix_web::test]
async fn an_error_body_has_exactly_these_members() {
    let (gateway, _upstream) = one_model(&completion("x")).await;
    let headers = [("content-type", "application/json"), ("x-request-id", "mine")];
    let body = Some(ask("acme/smaller").to_string().into_bytes());
    let reply = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, body).await;
    error_of(&reply, 404);
    let expected = json!({"error": {"code": 404, "message": "Model 'acme/smaller' does not exist. Did you mean 'acme/small'?",
        "type": "invalid_request_error", "param": "model",
        "metadata": {"error_type": "not_found", "reason": "model_not_found", "request_id": "mine"},
        "availability": {"code": "model_not_found", "retryable": false, "requested_models": ["acme/smaller"],
            "fallback_models": ["acme/small"]}}});
    assert_eq!(reply.json(), expected);
    assert_eq!(reply.header("cache-control"), Some("no-store"));
}

#[actix_web::test]
async fn refusals_of_our_own_key_end_as_502() {
    for status in [401, 402, 403] {
        let refusal = json!({"error": {"message": "Incorrect API key provided: sk-up", "code": "invalid_api_key"}});
        let (one, two) = (always(status, &refusal), always(status, &refusal));
        let reply = through(&[&one, &two]).await;
        let error = error_of(&reply, 502);
        assert_eq!(
            (&error["type"], &error["metadata"]["error_type"]),
            (&json!("provider_error"), &json!("provider_unavailable"))
        );
        assert_eq!(attempts(&error).len(), 2, "both were asked");
        assert!(!reply.text().contains("Incorrect"), "{}", reply.text());
        assert_eq!(reply.header("www-authenticate"), None);
    }
}

/// An endpoint that does not know our name for the model, or wants no more requests, is passed over.
#[actix_web::test]
async fn what_is_wrong_with_one_provider_is_cured_by_the_next() {
    for status in [401, 402, 403, 404, 408, 409, 425, 429, 500, 502, 503, 529] {
        let (one, two) = (always(status, &json!({"error": {"message": "no"}})), saying("cured"));
        let reply = through(&[&one, &two]).await;
        assert_eq!(reply.expect(200)["choices"][0]["message"]["content"], "cured", "{status}");
        assert_eq!(reply.header("x-route-attempts"), Some("2"));
        assert_eq!(reply.header("x-route-provider"), Some("Bolt"));
    }
}

#[actix_web::test]
async fn an_unknown_model_is_a_404() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    for (request, param, name) in [
        (ask("acme/nope"), "model", "acme/nope"),
        (ask("nonsense"), "model", "nonsense"),
        (and(ask("acme/small"), json!({"models": ["acme/small", "acme/nope"]})), "models[1]", "acme/nope"),
    ] {
        for path in ["/api/v1/chat/completions", "/api/v1/route/preview"] {
            let error = error_of(&gateway.post(path, &request).await, 404);
            assert_eq!(error["metadata"]["reason"], "model_not_found");
            assert_eq!(
                (&error["param"], &error["message"]),
                (&json!(param), &json!(format!("Model '{name}' does not exist.")))
            );
        }
    }
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn filters_that_leave_nothing_are_a_404_that_names_them() {
    let (gateway, upstream) = one_model(&completion("x")).await;
    for (more, by) in [
        (json!({"allowed_models": ["bolt/*"]}), "not_allowed_model"),
        (json!({"blocked_models": ["acme/small"]}), "blocked_model"),
        (json!({"provider": {"only": ["bolt"]}}), "provider_not_allowed"),
        (json!({"provider": {"ignore": ["ACME"]}}), "provider_ignored"),
        (json!({"max_cost_per_1k_tokens": 0.00001}), "max_cost_per_1k_tokens"),
        (json!({"provider": {"max_price": {"prompt": "0.01"}}}), "max_price"),
        (json!({"provider": {"data_collection": "deny"}}), "data_policy"),
        (json!({"provider": {"zdr": true}}), "data_policy"),
        (json!({"provider": {"quantizations": ["fp8"]}}), "quantization"),
    ] {
        for model in ["service/auto", "acme/small"] {
            let error = error_of(&gateway.chat(&and(ask(model), more.clone())).await, 404);
            assert_eq!((&error["metadata"]["reason"], &error["param"]), (&json!("no_candidates"), &Value::Null));
            let availability = &error["availability"];
            assert_eq!(
                (&availability["code"], &availability["excluded_by"]),
                (&json!("constraint_filtered"), &json!([by]))
            );
            assert_eq!(
                (&availability["retryable"], &availability["requested_models"]),
                (&json!(false), &json!([model]))
            );
        }
    }
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn limits_everywhere_are_a_429_with_the_shortest_wait() {
    let limit = |seconds: u32| {
        let head = format!("retry-after: {seconds}\r\n");
        Upstream::start([Script::answering(http_with(429, &head, &json!({"error": {"message": "slow down"}})))])
    };
    let (one, two) = (limit(30), limit(7));
    let reply = through(&[&one, &two]).await;
    let error = error_of(&reply, 429);
    assert_eq!((&error["type"], &error["metadata"]["reason"]), (&json!("rate_limit_error"), &json!("provider")));
    assert_eq!(reply.header("retry-after"), Some("7"));
    let limited = |provider: &str| (provider.to_owned(), json!(429), "rate_limited".to_owned());
    assert_eq!(attempts(&error), [limited("Acme"), limited("Bolt")]);
}

/// Whatever an upstream asks for, the client reads whole seconds between one and sixty.
#[actix_web::test]
async fn an_odd_wait_of_an_upstream_becomes_a_sensible_one() {
    for odd in
        ["0", "-5", "0.2", "1.5", "99999999999999999999", "soon", "Fri, 01 Jan 2010 00:00:00 GMT", "3600", "1e3", ""]
    {
        let head = format!("retry-after: {odd}\r\n");
        let upstream =
            Upstream::start([Script::answering(http_with(429, &head, &json!({"error": {"message": "no"}})))]);
        let reply = through(&[&upstream]).await;
        error_of(&reply, 429);
        let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{odd}: {seconds}");
    }
}

/// While the wait lasts nobody is asked again, and the wait is told again.
#[actix_web::test]
async fn a_second_call_during_the_wait_is_a_429_without_an_upstream_call() {
    let head = "retry-after: 30\r\n";
    let upstream = Upstream::start([Script::answering(http_with(429, head, &json!({"error": {"message": "slow"}})))]);
    let gateway = chain(&[upstream.address()], "").await;
    error_of(&gateway.chat(&ask("acme/small")).await, 429);
    let again = gateway.chat(&ask("acme/small")).await;
    error_of(&again, 429);
    let wait: u64 = again.header("retry-after").unwrap().parse().unwrap();
    assert!((25..=31).contains(&wait), "{wait}");
    assert_eq!(upstream.requests().len(), 1);
}

#[actix_web::test]
async fn silence_everywhere_is_a_504() {
    let silent = Upstream::start([Script::new()]);
    let gateway = chain(&[silent.address()], "[timeouts]\ntotal = \"1s\"").await;
    let error = error_of(&gateway.chat(&ask("acme/small")).await, 504);
    assert_eq!((&error["type"], &error["metadata"]["error_type"]), (&json!("timeout_error"), &json!("timeout")));
    assert_eq!(attempts(&error), [("Acme".to_owned(), Value::Null, "timeout".to_owned())]);
}

/// A stream has its own clock for the first byte, so a silent upstream is passed over in time.
#[actix_web::test]
async fn a_stream_passes_over_silence_and_ends_as_504_when_all_are_silent() {
    let (silent, mute) = (Upstream::start([Script::new()]), Upstream::start([Script::new()]));
    let gateway = chain(&[silent.address(), mute.address()], "[timeouts]\nfirst_byte = \"500ms\"").await;
    let error = error_of(&gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await, 504);
    assert_eq!(attempts(&error).len(), 2);
}

#[actix_web::test]
async fn overload_everywhere_is_a_503_and_a_mixture_a_502() {
    let failing = |status: u16| always(status, &json!({"error": {"message": "no"}}));
    for (statuses, expected) in [
        ([503, 503], 503),
        ([503, 529], 503),
        ([429, 500], 502),
        ([500, 500], 502),
        ([404, 404], 502),
        ([503, 429], 502),
    ] {
        let [one, two] = statuses.map(failing);
        let error = error_of(&through(&[&one, &two]).await, expected);
        let told: Vec<Value> = attempts(&error).into_iter().map(|(_, status, _)| status).collect();
        assert_eq!(told, statuses.map(|status| json!(status)), "{statuses:?}");
    }
}

/// Nobody listening, a broken connection and every kind of 200 that is no answer.
#[actix_web::test]
async fn an_upstream_that_gives_no_answer_is_a_502() {
    let says = |bytes: String| Upstream::start([Script::answering(bytes)]);
    let ok = |body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let cases = [
        (Upstream::start([Script::new().request().reset()]), "reset"),
        (says(http(200, &json!({"error": {"message": "quota"}}))), "malformed"),
        (says(http(200, &json!({"choices": []}))), "malformed"),
        (says(http(200, &json!({"object": "chat.completion"}))), "malformed"),
        (says(ok("<html>busy</html>")), "malformed"),
        (says(ok("")), "truncated"),
        (says(ok("{\"choices\": [{\"message\": {\"content\": \"half")), "truncated"),
        (says(http(204, &json!({}))), "unexpected_status"),
        (says(http_with(302, "location: http://127.0.0.1:1/\r\n", &json!({}))), "unexpected_status"),
    ];
    for (upstream, code) in cases {
        let error = error_of(&through(&[&upstream]).await, 502);
        assert_eq!(attempts(&error)[0].2, code, "{error}");
    }
    for (status, kind) in [(429, "rate_limited"), (503, "overloaded")] {
        let error = json!({"error": {"message": "busy", "code": status}});
        let error = error_of(&through(&[&always(200, &error)]).await, status);
        assert_eq!(attempts(&error)[0].2, kind, "a status within the answer counts as one before it: {error}");
    }
    let gateway = chain(&[refused_address()], "").await;
    let error = error_of(&gateway.chat(&ask("acme/small")).await, 502);
    assert_eq!(attempts(&error), [("Acme".to_owned(), Value::Null, "connect".to_owned())]);
}

/// The client's own mistake comes back at once, with the upstream's words.
#[actix_web::test]
async fn a_refused_request_comes_back_with_its_status_and_the_upstreams_words() {
    for (status, expected) in [(400, 400), (413, 413), (422, 422), (418, 400)] {
        let body = json!({"error": {"message": "temperature is too hot", "code": "too_hot"}});
        let (one, two) = (always(status, &body), saying("never"));
        let reply = through(&[&one, &two]).await;
        let error = error_of(&reply, expected);
        assert_eq!(error["metadata"]["provider_name"], "Acme");
        assert_eq!(error["metadata"]["upstream_status"], status);
        assert_eq!(error["metadata"]["provider_code"], "too_hot");
        assert!(error["metadata"]["raw"].as_str().unwrap().contains("temperature is too hot"), "{error}");
        assert_eq!(two.connections(), 0, "{status}: nobody else is asked");
        assert_eq!(error["metadata"]["generation_id"].as_str(), reply.header("x-generation-id"));
        assert!(reply.header("x-generation-id").unwrap().starts_with("gen-"));
    }
}

/// Our own refusals for now and for a while.
#[actix_web::test]
async fn our_own_limits_say_when_to_come_back() {
    let upstream = saying("x");
    let keys = "[[keys]]\nname = \"slow\"\nenv = \"SLOW_KEY\"\nrequests_per_minute = 1\n";
    let world = World::new().provider("acme", upstream.address()).variable("SLOW_KEY", "sk-slow-0123456789abcdef");
    let gateway = world.model(&Model::new("acme/small").at("acme", "0", "0")).with(keys).start().await;
    let body = ask("acme/small").to_string().into_bytes();
    let headers = [("content-type", "application/json"), ("authorization", "Bearer sk-slow-0123456789abcdef")];
    let call = || gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body.clone()));
    let first = call().await;
    first.expect(200);
    assert_eq!(first.header("x-ratelimit-limit-requests"), Some("1"));
    let second = call().await;
    let error = error_of(&second, 429);
    assert_eq!(error["metadata"]["reason"], "gateway_requests");
    let wait: u64 = second.header("retry-after").unwrap().parse().unwrap();
    assert!((55..=60).contains(&wait), "{wait}");
    assert_eq!(second.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(upstream.requests().len(), 1);
    gateway.chat(&ask("acme/small")).await.expect(200);
}

/// An open circuit says when it may be tried again.
#[actix_web::test]
async fn an_open_circuit_is_a_503_that_says_when_to_come_back() {
    let gateway = chain(&[refused_address()], "[routing.retry]\nbudget_ratio = 0").await;
    error_of(&gateway.chat(&ask("acme/small")).await, 502);
    let reply = gateway.chat(&ask("acme/small")).await;
    let error = error_of(&reply, 503);
    assert_eq!(error["metadata"]["reason"], "all_circuits_open");
    assert_eq!(error["metadata"]["error_type"], "provider_overloaded");
    assert_eq!(error["availability"]["excluded_by"], json!(["circuit_open"]));
}

#[actix_web::test]
async fn an_internal_error_says_nothing_about_its_cause() {
    let response = ApiError::internal().with_request_id("req-1").respond();
    assert_eq!(response.status(), 500);
    assert!(response.headers().get("retry-after").is_some());
    let body = actix_web::body::to_bytes(response.into_body()).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let message = "The gateway failed to handle this request. The request id helps its operator to find out why.";
    let expected = json!({"error": {"code": 500, "message": message, "type": "server_error", "param": null,
        "metadata": {"error_type": "server", "request_id": "req-1"}}});
    assert_eq!(body, expected);
}

/// No words, no address and no key of an upstream.
#[actix_web::test]
async fn failures_that_are_not_the_callers_reveal_nothing_of_the_upstream() {
    let secret = provider_key("acme");
    for status in [401, 403, 404, 429, 500, 503] {
        let words = format!("Traceback at 10.1.2.3 with {secret} of {KEY}");
        let upstream = always(status, &json!({"error": {"message": words, "stack": "at main.rs:7"}}));
        let text = through(&[&upstream]).await.text();
        let port = format!(":{}", upstream.address().port());
        for private in ["Traceback", "10.1.2.3", &secret, KEY, "main.rs", "127.0.0.1", &port] {
            assert!(!text.contains(private), "{status}: {private} in {text}");
        }
    }
}

/// Also for what never reaches a resource.
#[actix_web::test]
async fn wrong_paths_and_methods_are_errors_of_the_same_shape() {
    let (gateway, _upstream) = one_model(&completion("x")).await;
    for path in ["/nowhere", "/api/v1", "/v1", "/api/v2/models", "/v1/nothing", "/api/v1/chat", "/favicon.ico"] {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let error = error_of(&gateway.call(method, path, &[], None).await, 404);
            assert_eq!(error["metadata"]["reason"], "unknown_path", "{path}");
        }
    }
    for (path, allowed, methods) in [
        ("/api/v1/chat/completions", "POST", [Method::GET, Method::PUT, Method::DELETE, Method::PATCH]),
        ("/api/v1/models", "GET, HEAD", [Method::POST, Method::PUT, Method::DELETE, Method::PATCH]),
        ("/api/v1/generation", "GET, HEAD", [Method::POST, Method::PUT, Method::DELETE, Method::PATCH]),
        ("/api/v1/route/explain", "GET, HEAD, POST", [Method::PUT, Method::DELETE, Method::PATCH, Method::TRACE]),
        ("/api/v1/route/preview", "POST", [Method::GET, Method::PUT, Method::DELETE, Method::PATCH]),
    ] {
        for method in methods {
            let reply = gateway.call(method.clone(), path, &[], None).await;
            let error = error_of(&reply, 405);
            assert_eq!(error["metadata"]["reason"], "method_not_allowed", "{method} {path}");
            assert_eq!(reply.header("allow"), Some(allowed), "{method} {path}");
        }
    }
}

/// One deadline holds for all attempts together; the first leaves the next one half of the time.
#[actix_web::test]
async fn silent_upstreams_share_the_total_time_and_end_as_504() {
    let silent: Vec<Upstream> = (0..2).map(|_| Upstream::start([Script::new().request()])).collect();
    let addresses: Vec<SocketAddr> = silent.iter().map(Upstream::address).collect();
    let gateway = chain(&addresses, "[timeouts]\ntotal = \"2s\"").await;
    let error = error_of(&gateway.chat(&and(ask("acme/small"), json!({"objective": "cheapest"}))).await, 504);
    assert_eq!(attempts(&error).len(), 2);
    assert!(silent.iter().all(|upstream| upstream.requests().len() == 1));
}

/// Stopping is no failure of what already runs.
#[actix_web::test]
async fn a_call_that_runs_while_the_gateway_stops_is_still_answered() {
    let gate = Gate::new();
    let held = Script::new().request().wait(&gate).send(http(200, &completion("late")));
    let upstream = Upstream::start([held]);
    let gateway = std::rc::Rc::new(chain(&[upstream.address()], "").await);
    let running = actix_web::rt::spawn({
        let gateway = std::rc::Rc::clone(&gateway);
        async move { gateway.chat(&ask("acme/small")).await }
    });
    assert!(upstream.eventually(PATIENCE, |log| log.requests.len() == 1).await);
    let stopping = actix_web::rt::spawn(async move { gateway.stop().await });
    gate.open();
    let reply = running.await.unwrap();
    assert_eq!(reply.expect(200)["choices"][0]["message"]["content"], "late");
    stopping.await.unwrap();
}

/// Small endpoints at `acme`, a large one at `bolt`, which takes one call at a time.
async fn small_and_large(small: &Upstream, large: &Upstream, toml: &str) -> TestGateway {
    let world = World::new().with(toml).provider("acme", small.address());
    let world = world.provider_with("bolt", large.address(), "max_in_flight = 1\npermit_wait = \"1ms\"\n");
    let few = Model::new("acme/small").with("context_length = 8000").at("acme", "0.000001", "0.000001");
    let many = Model::new("acme/large").at("bolt", "0.000002", "0.000002");
    world.model(&few).model(&many).start().await
}

/// First the small model, then the large one.
fn small_then_large() -> Value {
    let request = and(ask("acme/small"), json!({"models": ["acme/small", "acme/large"]}));
    and(request, json!({"objective": "cheapest"}))
}

/// An upstream whose every call waits for `gate`.
fn held_until(gate: &Gate) -> Upstream {
    Upstream::start([Script::new().request().wait(gate).send(http(200, &completion("late")))])
}

/// Runs `then` while the one place at `bolt` is taken.
async fn while_large_is_full(gateway: &TestGateway, large: &Upstream, gate: &Gate, then: impl AsyncFnOnce()) {
    let body = ask("acme/large");
    let mut running = Box::pin(gateway.chat(&body));
    let arrived = large.eventually(PATIENCE, |log| log.requests.len() == 1);
    tokio::select! {
        reply = &mut running => panic!("answered before its upstream was: {}", reply.status),
        arrived = arrived => assert!(arrived),
    }
    tokio::select! {
        reply = &mut running => panic!("answered before its upstream was: {}", reply.status),
        () = then() => {}
    }
    gate.open();
    running.await.expect(200);
}

#[actix_web::test]
async fn a_prompt_that_is_too_long_is_a_400_also_when_the_larger_endpoint_cannot_be_asked() {
    let words =
        json!({"error": {"message": "This model's maximum context length is 8192 tokens.", "code": "too_long"}});
    let (small, gate) = (always(400, &words), Gate::new());
    let large = held_until(&gate);
    let told = |reply: &Reply| {
        let error = error_of(reply, 400);
        assert_eq!(error["metadata"]["error_type"], "context_length_exceeded");
        assert_eq!(error["metadata"]["provider_name"], "Acme");
    };
    let once = small_and_large(&small, &large, "[routing.retry]\nmax_attempts = 1").await;
    told(&once.chat(&small_then_large()).await);
    assert_eq!(large.connections(), 0);

    let gateway = small_and_large(&small, &large, "").await;
    let check = async || told(&gateway.chat(&small_then_large()).await);
    while_large_is_full(&gateway, &large, &gate, check).await;
}

#[actix_web::test]
async fn a_provider_without_a_free_place_is_a_503_that_says_who_is_full() {
    let (small, gate) = (saying("never"), Gate::new());
    let large = held_until(&gate);
    let gateway = small_and_large(&small, &large, "").await;
    let check = async || {
        let error = error_of(&gateway.chat(&ask("acme/large")).await, 503);
        let message = "Every endpoint that could serve this request takes no more requests at the moment.";
        assert_eq!((&error["metadata"]["reason"], &error["message"]), (&json!("overloaded"), &json!(message)));
        assert_eq!(error["metadata"]["previous_errors"], Value::Null, "nobody was called");
        let expected = json!({"code": "no_endpoints", "retryable": true, "retry_after": 1,
            "requested_models": ["acme/large"], "affected_providers": ["bolt"], "excluded_by": ["saturated"]});
        assert_eq!(error["availability"], expected);
    };
    while_large_is_full(&gateway, &large, &gate, check).await;
}

#[actix_web::test]
async fn a_provider_without_a_free_place_does_not_hide_that_the_others_limit_us() {
    let slow = http_with(429, "retry-after: 7\r\n", &json!({"error": {"message": "slow down"}}));
    let (small, gate) = (Upstream::start([Script::answering(slow)]), Gate::new());
    let large = held_until(&gate);
    let gateway = small_and_large(&small, &large, "").await;
    let check = async || {
        let error = error_of(&gateway.chat(&small_then_large()).await, 429);
        assert_eq!(attempts(&error), [("Acme".to_owned(), json!(429), "rate_limited".to_owned())]);
        let availability = &error["availability"];
        assert_eq!((&availability["retryable"], &availability["retry_after"]), (&json!(true), &json!(7)));
        assert_eq!(availability["excluded_by"], json!(["rate_limited", "saturated"]));
        assert_eq!(availability["affected_providers"], json!(["acme", "bolt"]));
    };
    while_large_is_full(&gateway, &large, &gate, check).await;
}

#[actix_web::test]
async fn a_wait_that_is_known_before_any_call_says_who_is_waited_for() {
    let slow = http_with(429, "retry-after: 30\r\n", &json!({"error": {"message": "slow"}}));
    let upstream = Upstream::start([Script::answering(slow)]);
    let gateway = chain(&[upstream.address()], "").await;
    error_of(&gateway.chat(&ask("acme/small")).await, 429);
    let availability = error_of(&gateway.chat(&ask("acme/small")).await, 429)["availability"].take();
    assert_eq!((&availability["retryable"], &availability["excluded_by"]), (&json!(true), &json!(["rate_limited"])));
    assert_eq!(availability["affected_providers"], json!(["acme"]));
    assert_eq!(availability["requested_models"], json!(["acme/small"]));
    assert!(availability["retry_after"].as_u64().is_some_and(|wait| (25..=31).contains(&wait)), "{availability}");
}
