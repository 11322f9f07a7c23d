//! How long callers are told to wait after refusals, over every door, and that the other kinds of calls wait as chats do.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    harness::{NO_WAIT, Reply, TestGateway},
    scripted::{Gate, Script, Upstream},
    world::{Model, World, and, ask, http, http_with, refusal},
};

/// The doors of chat-like calls, each with a request of `acme/small`.
fn doors() -> [(&'static str, Value); 3] {
    let message = json!([{"role": "user", "content": "Which way?"}]);
    [
        ("/api/v1/chat/completions", ask("acme/small")),
        ("/api/v1/messages", json!({"model": "acme/small", "max_tokens": 9, "messages": message})),
        ("/api/v1/responses", json!({"model": "acme/small", "input": "Which way?"})),
    ]
}

/// A gateway without waits, in front of a model at these providers, the first of which is the cheapest.
async fn gateway(upstreams: &[&Upstream], dialect: &str) -> TestGateway {
    let mut world = World::new();
    let mut model = Model::new("acme/small");
    for (place, upstream) in upstreams.iter().enumerate() {
        let slug = ["one", "two", "three"][place];
        world = world.provider_with(slug, upstream.address(), &format!("dialect = \"{dialect}\""));
        model = model.at(slug, &format!("0.00{}", place + 1), "0.001");
    }
    world.model(&model).start().await
}

fn waits(reply: &Reply) -> (Option<&str>, Option<&str>) {
    (reply.header("retry-after"), reply.header("x-should-retry"))
}

#[actix_web::test]
async fn a_rate_limit_of_the_messages_dialect_without_retry_after_asks_for_one_second_at_every_door() {
    let remaining = "anthropic-ratelimit-requests-remaining: 0\r\n";
    let both = format!("{remaining}anthropic-ratelimit-tokens-remaining: 0\r\n");
    for headers in ["", remaining, &both] {
        for body in [
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Rate limit reached for requests."}}),
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Too many requests. Please wait."}}),
        ] {
            for (path, request) in doors() {
                for streamed in [false, true] {
                    let upstream = Upstream::start([Script::answering(http_with(429, headers, &body))]);
                    let gateway = gateway(&[&upstream], "anthropic").await;
                    let reply = gateway.post(path, &and(request.clone(), json!({"stream": streamed}))).await;
                    assert_eq!(reply.status, 429, "{path}: {}", reply.text());
                    assert_eq!(waits(&reply), (Some("1"), None), "{path}, {headers:?}: {}", reply.text());
                    let health = gateway.get("/api/v1/health/providers/one").await.expect(200)["data"][0].take();
                    let errors = [&health["errors"]["rate_limited"], &health["errors"]["auth"]];
                    assert_eq!(errors, [1, 0], "it is no fault of the account: {health}");
                }
            }
        }
    }
}

/// The SDKs would sleep for the minute that the refusal of a key names.
#[actix_web::test]
async fn the_wait_that_a_provider_names_beside_a_refusal_of_our_account_is_never_told() {
    let long = "retry-after: 60\r\n";
    let faults = [
        http_with(401, long, &json!({"error": {"message": "Incorrect API key.", "code": "invalid_api_key"}})),
        http_with(402, long, &json!({"error": {"message": "Your credit balance is too low.", "code": "billing"}})),
        http_with(404, long, &json!({"error": {"message": "The model does not exist.", "code": "model_not_found"}})),
    ];
    let others = [
        (refusal(500), 502, Some("1")),
        (refusal(503), 502, Some("1")),
        (http_with(503, "retry-after: 4\r\n", &json!({"error": {"message": "Busy."}})), 502, Some("4")),
        (http_with(429, "retry-after: 3\r\n", &json!({"error": {"message": "Slow down."}})), 502, Some("3")),
    ];
    for fault in &faults {
        for (other, status, expected) in &others {
            for fault_is_first in [true, false] {
                for (path, request) in doors() {
                    let fault = Upstream::start([Script::answering(fault.clone())]);
                    let other = Upstream::start([Script::answering(other.clone())]);
                    let order = if fault_is_first { [&fault, &other] } else { [&other, &fault] };
                    let gateway = gateway(&order, "openai").await;
                    let reply = gateway.post(path, &and(request, json!({"objective": "cheapest"}))).await;
                    assert_eq!(reply.status, *status, "{path}: {}", reply.text());
                    assert_eq!(waits(&reply), (*expected, None), "{path}, first {fault_is_first}: {}", reply.text());
                }
            }
        }
        for (path, request) in doors() {
            let fault = Upstream::start([Script::answering(fault.clone())]);
            let gateway = gateway(&[&fault], "openai").await;
            let reply = gateway.post(path, &request).await;
            assert_eq!((reply.status, waits(&reply)), (502, (None, Some("false"))), "{path}: {}", reply.text());
        }
    }
}

/// A longer wait is shortened to a minute, so a wait of a minute may be one of a day.
#[actix_web::test]
async fn a_wait_that_was_shortened_is_not_worth_a_retry() {
    for (asked, told) in
        [("retry-after: 86400\r\n", (Some("60"), Some("false"))), ("retry-after: 7\r\n", (Some("7"), None))]
    {
        let slow_down = http_with(429, asked, &json!({"error": {"message": "Slow down."}}));
        for (path, request) in doors() {
            let upstream = Upstream::start([Script::answering(slow_down.clone())]);
            let gateway = gateway(&[&upstream], "openai").await;
            assert_eq!(waits(&gateway.post(path, &request).await), told, "{path}");
        }
    }
}

/// The calls that follow while the endpoint rests get no other advice, and everybody can read why.
#[actix_web::test]
async fn while_a_shortened_wait_lasts_every_refusal_knows_of_it() {
    let slow_down = http_with(429, "retry-after: 4469039625\r\n", &json!({"error": {"message": "Slow down."}}));
    let sentence = "told to wait 141 years, taken as 60 s";
    for (path, request) in doors() {
        let upstream = Upstream::start([Script::answering(slow_down.clone())]);
        let gateway = gateway(&[&upstream], "openai").await;
        gateway.post(path, &request).await;
        let refused = gateway.post(path, &request).await;
        let (wait, worth) = waits(&refused);
        assert!(wait.unwrap().parse::<u64>().unwrap() <= 60, "{path}");
        assert_eq!((refused.status, worth), (429, Some("false")), "{path}: {}", refused.text());
        assert_eq!(upstream.requests().len(), 1, "{path}");
        let health = gateway.get("/api/v1/health/providers").await.text().to_owned();
        assert!(health.contains(sentence), "{path}: {health}");
        let explained = gateway.get("/api/v1/route/explain").await;
        let id = refused.header("x-generation-id").map(|id| format!("?generation_id={id}"));
        let explained = match id {
            Some(id) => gateway.get(&format!("/api/v1/route/explain{id}")).await,
            None => explained,
        };
        assert!(explained.text().contains(sentence), "{path}: {}", explained.text());
    }
}

/// Clients of Messages repeat what is called an overload, also in a stream.
#[actix_web::test]
async fn a_stream_that_fails_after_keep_alives_is_called_an_overload_only_if_it_may_succeed_later() {
    let refused = http(401, &json!({"error": {"message": "Incorrect API key.", "code": "invalid_api_key"}}));
    for (answer, kind) in [(refused, "api_error"), (refusal(500), "overloaded_error")] {
        let gate = Gate::new();
        let script = Script::new().request().wait(&gate).send(answer);
        let upstream = Upstream::start([script]);
        let gateway = World::new()
            .with("[stream]\nkeepalive = \"50ms\"\n[routing.retry]\nmax_attempts = 1\nlast_resort = 0\n")
            .provider("acme", upstream.address())
            .model(&Model::new("acme/small").at("acme", "0.001", "0.001"))
            .start()
            .await;
        let (path, request) = &doors()[1];
        let asked = and(request.clone(), json!({"stream": true}));
        let (reply, ()) = futures_util::join!(gateway.post(path, &asked), async {
            actix_web::rt::time::sleep(Duration::from_millis(300)).await;
            gate.open();
        });
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.text().contains(&format!("\"error\":{{\"type\":\"{kind}\"")), "{kind}: {}", reply.text());
        assert!(reply.text().contains("\"message\":\"No provider could complete this request. "), "{}", reply.text());
    }
}

#[actix_web::test]
async fn embeddings_and_images_wait_for_an_endpoint_that_takes_requests_again_soon() {
    let vectors = json!({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "m",
        "usage": {"prompt_tokens": 7, "total_tokens": 7}});
    let image = json!({"created": 1, "data": [{"b64_json": "iVBORw0KGgo="}]});
    for (modality, path, request, answer) in [
        ("embeddings", "/api/v1/embeddings", json!({"model": "acme/x", "input": "one"}), vectors),
        ("image", "/api/v1/images/generations", json!({"model": "acme/x", "prompt": "A signal box"}), image),
    ] {
        for status in [429, 503] {
            let error = json!({"error": {"message": "Not now.", "type": "some_error", "code": null}});
            let rest = http_with(status, "retry-after-ms: 400\r\n", &error);
            let good = Script::answering(http(200, &answer));
            let upstream = Upstream::start([Script::new().request().send(rest).then(&good), good]);
            let model = Model::new("acme/x").at("acme", "0.000001", "0");
            let gateway = World::new()
                .provider("acme", upstream.address())
                .model(&model.with(&format!("output_modalities = [\"{modality}\"]")))
                .variable(NO_WAIT.0, "20s")
                .start()
                .await;
            let alone = and(request.clone(), json!({"provider": {"allow_fallbacks": false}}));
            let reply = gateway.post(path, &alone).await;
            assert_eq!(reply.status, status, "{path} has no second attempt, so it does not wait: {}", reply.text());
            let begun = Instant::now();
            let reply = gateway.post(path, &request).await;
            assert_eq!((reply.status, upstream.requests().len()), (200, 2), "{path}, {status}: {}", reply.text());
            assert!(begun.elapsed() >= Duration::from_millis(250), "{path}, {status}: {:?}", begun.elapsed());
            let id = reply.header("x-generation-id").unwrap();
            let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
            assert!(explained["waited_ms"].as_u64().is_some_and(|waited| waited >= 200), "{path}: {explained}");
        }
    }
}
