//! Answers above limits of the gateway itself: the provider is not to blame, nothing is repeated, and the client reads the key.

use serde_json::{Value, json};

use crate::{
    contract_route::explain,
    harness::TestGateway,
    scripted::{Script, Upstream},
    world::{Model, World, always, and, ask, completion, error_of},
};

/// A gateway with a model at three such providers.
async fn gateway(upstreams: &[Upstream; 3], kind: &str, toml: &str) -> TestGateway {
    let mut model = Model::new("acme/x");
    if kind != "text" {
        model = model.with(&format!("output_modalities = [\"{kind}\"]"));
    }
    let mut world = World::new().with(toml);
    for (slug, upstream) in ["one", "two", "three"].into_iter().zip(upstreams) {
        (world, model) = (world.provider(slug, upstream.address()), model.at(slug, "0", "0"));
    }
    world.model(&model).start().await
}

#[actix_web::test]
async fn an_answer_above_a_limit_of_the_gateway_names_its_key_closes_nothing_and_is_not_asked_for_a_third_time() {
    let long = completion(&"long ".repeat(2_000));
    let vectors = json!({"object": "list", "model": "m", "usage": {"prompt_tokens": 7, "total_tokens": 7},
        "data": [{"object": "embedding", "index": 0, "embedding": vec![0.123_456_789; 1_000]}]});
    let link = json!({"created": 1, "data": [{"url": "https://elsewhere.example/1.png"}]});
    let bytes = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, vec![0_u8; 3_000]);
    let image = json!({"created": 1, "data": [{"b64_json": bytes}]});
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "long ".repeat(2_000)}, "finish_reason": null}]});
    let event = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    let stream =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{event}", event.len());
    let whole = |body: &Value| crate::world::http(200, body);
    let body_limit = "[limits]\nupstream_body = \"4KiB\"\n";
    let cases = [
        ("text", "chat/completions", ask("acme/x"), whole(&long), body_limit, "limits.upstream_body"),
        ("embeddings", "embeddings", json!({"input": "Hi"}), whole(&vectors), body_limit, "limits.upstream_body"),
        (
            "text",
            "chat/completions",
            and(ask("acme/x"), json!({"stream": true})),
            stream,
            "[stream]\nmax_event = \"4KiB\"\n",
            "stream.max_event",
        ),
        ("image", "images/generations", json!({"prompt": "Hi"}), whole(&link), "", "providers.image_hosts"),
        (
            "image",
            "images/generations",
            json!({"prompt": "Hi", "response_format": "url"}),
            whole(&image),
            "[images]\ncapacity = \"1KiB\"\n",
            "images.capacity",
        ),
    ];
    for (kind, door, body, answer, toml, key) in cases {
        let upstreams = [(); 3].map(|()| Upstream::start([Script::answering(answer.clone())]));
        let gateway = gateway(&upstreams, kind, toml).await;
        let asked = and(body, json!({"model": "acme/x"}));
        for n in 1..=4 {
            let reply = gateway.post(&format!("/api/v1/{door}"), &asked).await;
            let error = error_of(&reply, 502);
            assert!(error["message"].as_str().unwrap().contains(key), "{error}");
            assert_eq!(error["metadata"]["reason"], "gateway_limit", "{error}");
            assert_eq!((reply.header("x-should-retry"), reply.header("retry-after")), (Some("false"), None), "{key}");
            let calls: usize = upstreams.iter().map(|upstream| upstream.requests().len()).sum();
            assert_eq!(calls, 2 * n, "{key}: not a third one, and all stay open");
            let explained = explain(&gateway, reply.header("x-generation-id").unwrap()).await;
            assert_eq!(explained["attempts"][0]["error_type"], "gateway_limit", "{explained}");
        }
    }
}

/// The guard of the test above: the same limits let the same answers pass where they fit.
#[actix_web::test]
async fn an_answer_within_the_limits_is_served() {
    let upstreams = [(); 3].map(|()| always(200, &completion(&"long ".repeat(500))));
    let gateway = gateway(&upstreams, "text", "[limits]\nupstream_body = \"4KiB\"\n").await;
    gateway.chat(&ask("acme/x")).await.expect(200);
}
