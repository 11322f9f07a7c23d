//! Services with prices of their own (`service_tier`, `speed`, `inference_geo`): what is sent, reserved and billed, at every door
//! and in every dialect, whole and streamed.

use std::path::Path;

use actix_web::http::Method;
use pointsman_config::{BUILT_IN, Config, Environment};
use pointsman_domain::ServiceName;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{Reply, TestGateway},
    issued_keys::{call, issue, world},
    scripted::{Script, Upstream},
    world::{Model, World, always, and, answer, ask, error_of, http_with},
};

/// Dollars per token: 1 and 2 millionths; flex half of it, priority twice, fast three times; 1.1 times in the US.
const PRICED: &str = "prompt = \"0.000001\", completion = \"0.000002\", service_tiers = { \
    flex = { prompt = \"0.0000005\", completion = \"0.000001\" }, \
    priority = { prompt = \"0.000002\", completion = \"0.000004\" }, \
    fast = { prompt = \"0.000003\", completion = \"0.000006\" } }, inference_geo = { us = \"1.1\" }";
/// What 1,000 and 100 tokens cost.
const STANDARD: &str = "0.0012";
const FLEX: &str = "0.0006";
const PRIORITY: &str = "0.0024";
const FAST: &str = "0.0036";

/// An answer of a dialect that tells `told`: members beside the usage, or for Anthropic and Google within it.
fn body(dialect: &str, told: &Value) -> Value {
    match dialect {
        "openai" => {
            let usage = json!({"prompt_tokens": 1000, "completion_tokens": 100});
            and(answer(json!({"role": "assistant", "content": "Hi"}), usage), told)
        }
        "anthropic" => {
            json!({"id": "m", "type": "message", "role": "assistant", "model": "x", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Hi"}], "stop_sequence": null,
            "usage": and(json!({"input_tokens": 1000, "output_tokens": 100}), told)})
        }
        "openai-responses" => and(
            json!({"id": "r", "object": "response", "status": "completed", "model": "x", "output": [{"type": "message", "id": "m",
                "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}],
                "usage": {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}}),
            told,
        ),
        "gemini" => json!({"candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": [{"text": "Hi"}]}}],
            "usageMetadata": and(json!({"promptTokenCount": 1000, "candidatesTokenCount": 100}), told)}),
        _ => and(
            json!({"output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}, "stopReason": "end_turn",
                "usage": {"inputTokens": 1000, "outputTokens": 100, "totalTokens": 1100}}),
            told,
        ),
    }
}

/// The same as a stream; what it tells comes in its last events.
fn stream(dialect: &str, told: &Value) -> String {
    let event = |kind: &str, data: &Value| format!("event: {kind}\ndata: {data}\n\n");
    match dialect {
        "openai" => {
            let chunk = |delta: Value, finish: Value, more: &Value| {
                let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
                format!(
                    "data: {}\n\n",
                    and(json!({"id": "x", "object": "chat.completion.chunk", "choices": choices}), more)
                )
            };
            let usage = and(
                json!({"id": "x", "choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}),
                told,
            );
            let words = chunk(json!({"content": "Hi"}), Value::Null, &json!({"service_tier": "auto"}));
            words + &chunk(json!({}), json!("stop"), told) + &format!("data: {usage}\n\ndata: [DONE]\n\n")
        }
        "anthropic" => {
            let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [],
                "stop_reason": null, "stop_sequence": null,
                "usage": and(json!({"input_tokens": 1000, "output_tokens": 1}), told)});
            let block = json!({"type": "text", "text": ""});
            [
                ("message_start", json!({"type": "message_start", "message": message})),
                ("content_block_start", json!({"type": "content_block_start", "index": 0, "content_block": block})),
                (
                    "content_block_delta",
                    json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
                ),
                ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
                (
                    "message_delta",
                    json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
                        "usage": {"output_tokens": 100}}),
                ),
                ("message_stop", json!({"type": "message_stop"})),
            ]
            .iter()
            .map(|(kind, data)| event(kind, data))
            .collect()
        }
        "openai-responses" => {
            let whole = body(dialect, told);
            let begun =
                json!({"id": "r", "object": "response", "status": "in_progress", "output": [], "service_tier": "auto"});
            event("response.created", &json!({"type": "response.created", "response": begun}))
                + &event("response.completed", &json!({"type": "response.completed", "response": whole}))
        }
        _ => format!("data: {}\n\n", body(dialect, told)),
    }
}

fn upstream(dialect: &str, told: &Value, streamed: bool, header: &str) -> Upstream {
    let answer = if streamed {
        let text = stream(dialect, told);
        let length = text.len();
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{header}content-length: {length}\r\n\r\n{text}")
    } else {
        http_with(200, header, &body(dialect, told))
    };
    Upstream::start([Script::answering(answer)])
}

async fn gateway(dialect: &str, upstream: &Upstream, prices: &str) -> TestGateway {
    let model = format!(
        "[[models]]\nid = \"acme/one\"\ncontext_length = 100000\nsupported_parameters = [\"max_tokens\"]\nendpoints = [{{ provider = \
         \"acme\", upstream_model = \"claude-opus-4-6\", pricing = {{ {prices} }} }}]\n"
    );
    let toml = format!("dialect = \"{dialect}\"");
    World::new().provider_with("acme", upstream.address(), &toml).with(&model).start().await
}

/// A request of a door.
fn request(door: &str) -> Value {
    let turn = json!([{"role": "user", "content": "Hi"}]);
    match door {
        "/v1/messages" => json!({"model": "acme/one", "max_tokens": 200, "messages": turn}),
        "/v1/responses" => json!({"model": "acme/one", "input": "Hi"}),
        _ => json!({"model": "acme/one", "messages": turn}),
    }
}

/// The record of the generation that a reply tells.
async fn record(gateway: &TestGateway, reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let id = reply.header("x-generation-id").unwrap();
    gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take()
}

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

#[actix_web::test]
async fn an_answer_costs_what_the_service_costs_that_it_tells_else_the_one_asked_for() {
    let tier = |name: &str| json!({"service_tier": name});
    let none = || json!({});
    let vertex = |name: &str| json!({"trafficType": name});
    let cases = [
        (CHAT, "openai", tier("flex"), tier("flex"), FLEX, Some("flex")),
        (CHAT, "openai", tier("flex"), none(), FLEX, Some("flex")),
        (CHAT, "openai", tier("priority"), tier("priority"), PRIORITY, Some("priority")),
        (CHAT, "openai", tier("priority"), tier("default"), STANDARD, Some("default")),
        (CHAT, "openai", tier("auto"), tier("priority"), PRIORITY, Some("priority")),
        (CHAT, "openai", tier("default"), tier("default"), STANDARD, Some("default")),
        (CHAT, "openai", none(), none(), STANDARD, None),
        (CHAT, "openai", none(), tier("flex"), FLEX, Some("flex")),
        (RESPONSES, "openai", tier("flex"), tier("flex"), FLEX, Some("flex")),
        (RESPONSES, "openai-responses", tier("priority"), tier("priority"), PRIORITY, Some("priority")),
        (RESPONSES, "openai-responses", tier("priority"), tier("default"), STANDARD, Some("default")),
        (CHAT, "openai-responses", tier("flex"), tier("flex"), FLEX, Some("flex")),
        (CHAT, "anthropic", tier("fast"), json!({"service_tier": "standard", "speed": "fast"}), FAST, Some("fast")),
        (MESSAGES, "anthropic", json!({"speed": "fast"}), json!({"speed": "fast"}), FAST, Some("fast")),
        (MESSAGES, "anthropic", json!({"speed": "fast"}), none(), FAST, Some("fast")),
        (
            MESSAGES,
            "anthropic",
            json!({"speed": "fast"}),
            json!({"service_tier": "standard", "speed": "standard"}),
            STANDARD,
            Some("standard"),
        ),
        (MESSAGES, "anthropic", tier("auto"), tier("priority"), PRIORITY, Some("priority")),
        (MESSAGES, "anthropic", tier("priority"), tier("priority"), PRIORITY, Some("priority")),
        (MESSAGES, "anthropic", json!({"inference_geo": "us"}), json!({"inference_geo": "us"}), "0.00132", None),
        (MESSAGES, "anthropic", json!({"inference_geo": "global"}), json!({"inference_geo": "global"}), STANDARD, None),
        (CHAT, "gemini", tier("priority"), none(), PRIORITY, Some("priority")),
        (CHAT, "gemini", tier("flex"), vertex("ON_DEMAND_FLEX"), FLEX, Some("flex")),
        (CHAT, "gemini", tier("priority"), vertex("ON_DEMAND"), STANDARD, Some("on_demand")),
        (CHAT, "converse", tier("priority"), json!({"serviceTier": {"type": "priority"}}), PRIORITY, Some("priority")),
        (CHAT, "converse", tier("flex"), json!({"serviceTier": {"type": "default"}}), STANDARD, Some("default")),
    ];
    for (door, dialect, asked, told, cost, served) in cases {
        // Converse frames its streams in binary; its unit tests read them.
        for streamed in [false, true].into_iter().filter(|streamed| !streamed || dialect != "converse") {
            let upstream = upstream(dialect, &told, streamed, "");
            let gateway = gateway(dialect, &upstream, PRICED).await;
            let more = if streamed { and(asked.clone(), json!({"stream": true})) } else { asked.clone() };
            let reply = gateway.post(door, &and(request(door), more)).await;
            let case = format!("{door} {dialect} {asked} {told} streamed: {streamed}");
            let record = record(&gateway, &reply).await;
            assert_eq!(record["total_cost"].to_string(), cost, "{case}: {record}");
            assert_eq!(record["service_tier"].as_str(), served, "{case}");
            assert_eq!(reply.header("x-route-dropped-parameters"), None, "{case}");
            if door == CHAT && !streamed {
                assert_eq!(reply.json()["usage"]["cost"].to_string(), cost, "{case}");
            }
        }
    }
}

#[actix_web::test]
async fn google_tells_the_tier_in_a_header() {
    for streamed in [false, true] {
        let upstream = upstream("gemini", &json!({}), streamed, "x-gemini-service-tier: standard\r\n");
        let gateway = gateway("gemini", &upstream, PRICED).await;
        let asked = and(request(CHAT), json!({"service_tier": "priority", "stream": streamed}));
        let record = record(&gateway, &gateway.post(CHAT, &asked).await).await;
        assert_eq!(record["total_cost"].to_string(), STANDARD, "{record}");
    }
}

#[actix_web::test]
async fn a_field_that_asks_for_a_service_without_a_price_is_left_out_and_named() {
    const FLAT: &str = "prompt = \"0.000001\", completion = \"0.000002\"";
    let cases = [
        (CHAT, "openai", "service_tier", "flex"),
        (CHAT, "openai", "service_tier", "priority"),
        (CHAT, "openai", "service_tier", "turbo"),
        (CHAT, "gemini", "service_tier", "priority"),
        (CHAT, "converse", "service_tier", "flex"),
        (RESPONSES, "openai", "service_tier", "flex"),
        (RESPONSES, "openai-responses", "service_tier", "flex"),
        (MESSAGES, "anthropic", "speed", "fast"),
        (MESSAGES, "openai", "speed", "fast"),
        (MESSAGES, "anthropic", "service_tier", "priority"),
        (CHAT, "anthropic", "service_tier", "fast"),
    ];
    for (door, dialect, name, word) in cases {
        let upstream = upstream(dialect, &json!({}), false, "");
        let gateway = gateway(dialect, &upstream, FLAT).await;
        let asked = and(request(door), json!({name: word}));
        let reply = gateway.post(door, &asked).await;
        let case = format!("{door} {dialect} {name} {word}");
        assert_eq!(record(&gateway, &reply).await["total_cost"].to_string(), STANDARD, "{case}");
        assert_eq!(reply.header("x-route-dropped-parameters"), Some(name), "{case}");
        let sent = upstream.last_body();
        for field in ["service_tier", "serviceTier", "speed"] {
            assert_eq!(sent.get(field), None, "{case}: {sent}");
        }
        let strict = and(asked, json!({"provider": {"require_parameters": true}}));
        let refused = gateway.post(door, &strict).await;
        assert!(refused.status >= 400 && refused.text().contains(name), "{case}: {}", refused.text());
        assert_eq!(upstream.bodies().len(), 1, "{case}");
    }
}

/// Where data is processed is not given up without a word.
#[actix_web::test]
async fn an_endpoint_without_a_factor_for_a_geography_serves_no_request_that_names_it() {
    let upstream = upstream("anthropic", &json!({}), false, "");
    let gateway = gateway("anthropic", &upstream, "prompt = \"0.000001\", completion = \"0.000002\"").await;
    let refused = gateway.post(MESSAGES, &and(request(MESSAGES), json!({"inference_geo": "us"}))).await;
    assert!(refused.status >= 400 && refused.text().contains("inference_geo"), "{}", refused.text());
    assert!(upstream.bodies().is_empty());
    let global = gateway.post(MESSAGES, &and(request(MESSAGES), json!({"inference_geo": "global"}))).await;
    assert_eq!(global.status, 200, "{}", global.text());
}

#[actix_web::test]
async fn where_nothing_costs_anything_every_field_passes() {
    let upstream = upstream("openai", &json!({}), false, "");
    let gateway = gateway("openai", &upstream, "prompt = \"0\", completion = \"0\"").await;
    gateway.post(CHAT, &and(request(CHAT), json!({"service_tier": "priority"}))).await.expect(200);
    assert_eq!(upstream.last_body()["service_tier"], "priority");
}

#[actix_web::test]
async fn a_limit_on_prices_or_cost_holds_for_the_dearest_service_that_may_be_served() {
    let upstream = upstream("openai", &json!({"service_tier": "default"}), false, "");
    let gateway = gateway("openai", &upstream, PRICED).await;
    let send = async |tier: &str, limit: Value| {
        let asked = and(request(CHAT), json!({"service_tier": tier, "max_tokens": 100}));
        gateway.post(CHAT, &and(asked, limit)).await.status
    };
    for (limit, flex, priority) in [
        (json!({"provider": {"max_price": {"prompt": 1.5}}}), 200, 404),
        (json!({"max_cost_per_1k_tokens": 0.003}), 200, 404),
    ] {
        assert_eq!(send("flex", limit.clone()).await, flex, "{limit}");
        assert_eq!(send("priority", limit.clone()).await, priority, "{limit}");
    }
    // 100 tokens of the answer cost 0.0002, and of priority 0.0004: it is cut short, or refused.
    let ceiling = json!({"max_cost": 0.0003});
    assert_eq!(send("flex", ceiling.clone()).await, 200);
    let capped = send("priority", ceiling).await != 200 || upstream.last_body()["max_tokens"].as_u64().unwrap() < 100;
    assert!(capped, "{}", upstream.last_body());
}

/// What a key may spend is never passed, whatever the fields of its requests and the answers say.
#[actix_web::test]
async fn a_key_with_a_limit_never_spends_more_over_any_door_for_any_field_and_any_answer() {
    let words = ["flex", "priority", "fast", "auto", "default", "turbo"];
    let told = ["priority", "fast", "default"];
    for (door, dialect, field) in [
        (CHAT, "openai", "service_tier"),
        (RESPONSES, "openai-responses", "service_tier"),
        (MESSAGES, "anthropic", "service_tier"),
        (MESSAGES, "anthropic", "speed"),
    ] {
        for told in told {
            let upstream = upstream(dialect, &json!({"service_tier": told}), false, "");
            let folder = Folder::new();
            let model = format!(
                "[providers.dear]\nbase_url = \"http://{}/v1\"\ndialect = \"{dialect}\"\n[[models]]\nid = \
                 \"acme/one\"\ncontext_length = 1100\nmax_completion_tokens = 100\nendpoints = [{{ provider = \"dear\", upstream_model = \
                 \"m\", pricing = {{ {PRICED} }} }}]",
                upstream.address()
            );
            let gateway = world(&upstream, &folder).with(&model).start().await;
            for word in words.into_iter().chain([""]) {
                let (key, _) = issue(&gateway, json!({"name": format!("with {word}"), "limit": 0.004})).await;
                let long = "way ".repeat(900);
                let mut asked = match word {
                    "" => request(door),
                    word => and(request(door), json!({field: word})),
                };
                match door {
                    RESPONSES => asked["input"] = json!(long),
                    _ => asked["messages"][0]["content"] = json!(long),
                }
                for _ in 0..4 {
                    let reply = call(&gateway, Method::POST, door, &key, Some(asked.clone())).await;
                    assert!(matches!(reply.status, 200 | 402), "{door} {word} {told}: {}", reply.text());
                }
                let spent = call(&gateway, Method::GET, "/api/v1/key", &key, None).await.expect(200);
                let spent = &spent["data"]["usage"];
                // The prompt is estimated to be a tenth shorter than counted.
                assert!(spent.as_f64().unwrap() <= 0.0044, "{door} {field} {word} {told}: {spent}");
            }
        }
    }
}

#[actix_web::test]
async fn the_reservation_of_a_limited_key_is_that_of_the_dearest_service() {
    let (upstream, folder) = (upstream("openai", &json!({}), false, ""), Folder::new());
    let tiered = "prompt = \"0.001\", completion = \"0\", service_tiers = { priority = { prompt = \"0.002\", completion = \"0\" }, flex = { \
                  prompt = \"0.0005\", completion = \"0\" } }";
    let gateway = world(&upstream, &folder).model(&Model::new("acme/tiered").priced("acme", tiered)).start().await;
    // About 1,000 tokens cost one dollar, and of priority two.
    let (key, _) = issue(&gateway, json!({"name": "ci", "limit": 1.5})).await;
    let send = async |tier: &str| {
        let text = json!([{"role": "user", "content": "way ".repeat(1_000)}]);
        let tier = if tier.is_empty() { json!({}) } else { json!({"service_tier": tier}) };
        let asked = and(and(ask("acme/tiered"), json!({"max_tokens": 1, "messages": text})), &tier);
        call(&gateway, Method::POST, "/api/v1/chat/completions", &key, Some(asked)).await
    };
    for tier in ["priority", "fast", "auto", ""] {
        let error = error_of(&send(tier).await, 402);
        assert!(error["metadata"]["budget"]["needed"].as_f64().unwrap() > 1.9, "{tier}: {error}");
    }
    assert!(upstream.bodies().is_empty());
    send("flex").await.expect(200);
}

#[actix_web::test]
async fn the_record_the_explanation_and_the_model_list_tell_services_and_their_prices() {
    let told = json!({"service_tier": "standard", "speed": "fast", "inference_geo": "us"});
    let upstream = upstream("anthropic", &told, false, "");
    let gateway = gateway("anthropic", &upstream, PRICED).await;
    let asked = and(request(MESSAGES), json!({"speed": "fast", "inference_geo": "us"}));
    let reply = gateway.post(MESSAGES, &asked).await;
    let record = record(&gateway, &reply).await;
    let shown = ["service_tier", "inference_geo"].map(|name| record["route"][name].clone());
    assert_eq!((&record["service_tier"], shown), (&json!("fast"), [json!("fast"), json!("us")]));
    let parts = ["prompt", "completion"].map(|part| record["route"]["cost_breakdown"][part].to_string());
    assert_eq!(parts, ["0.0033", "0.00066"], "three times the price, and a tenth more");
    assert_eq!(reply.json()["usage"]["speed"], "fast", "the client's own answer passes as it came");
    let pricing = gateway.get("/api/v1/models/acme/one").await.expect(200)["pricing"].take();
    assert_eq!(pricing["service_tiers"]["flex"], json!({"prompt": "0.0000005", "completion": "0.000001"}));
    assert_eq!(pricing["inference_geo"], json!({"us": "1.1"}));
}

#[test]
fn a_service_without_prices_a_name_or_a_factor_is_refused() {
    let faults = |prices: &str| {
        let text = format!(
            "[providers.acme]\nbase_url = \"http://127.0.0.1:9/v1\"\n[[models]]\nid = \"acme/one\"\ncontext_length = \
             9\nendpoints = [{{ provider = \"acme\", upstream_model = \"one\", usd_per_million = {{ prompt = \"1\", completion = \"2\", \
             {prices} }} }}]\n"
        );
        let read = Config::parse(&text, "f", Path::new("."), &Environment::default());
        read.err().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        faults("service_tiers = { flex = { prompt = \"1\", completion = \"2\" } }, inference_geo = { us = \"1.1\" }"),
        ""
    );
    for (prices, wrong) in [
        ("service_tiers = { flex = { prompt = \"1\" } }", "service_tiers.flex.completion: is missing"),
        (
            "service_tiers = { flex = { prompt = \"-1\", completion = \"2\" } }",
            "service_tiers.flex.prompt: is negative",
        ),
        (
            "service_tiers = { \"two words\" = { prompt = \"1\", completion = \"2\" } }",
            "is not the name of a service tier",
        ),
        ("service_tiers = { default = { prompt = \"1\", completion = \"2\" } }", "is not the name of a service tier"),
        ("inference_geo = { us = \"0\" }", "inference_geo.us: is not a geography and its factor"),
        ("inference_geo = { us = \"1.00001\" }", "inference_geo.us: is not a geography and its factor"),
        ("inference_geo = { us = 1.1 }", "inference_geo.us: got"),
    ] {
        assert!(faults(prices).contains(wrong), "{prices}: {}", faults(prices));
    }
}

#[test]
fn the_built_in_catalogue_has_the_services_of_its_price_list() {
    let config = Config::parse(BUILT_IN, "built-in", Path::new("."), &Environment::default()).unwrap();
    let catalog = config.catalog(1);
    let prompt = |upstream: &str, tier: &str| {
        let endpoint = catalog.endpoints.iter().find(|endpoint| &*endpoint.upstream_model == upstream).unwrap();
        let pricing = endpoint.pricing.as_deref().unwrap();
        let name = ServiceName::parse(tier).unwrap();
        pricing.service_tier(&name).map(|pricing| pricing.prompt.times(1_000_000).to_string())
    };
    let prices =
        [("gpt-6-sol", "flex"), ("gpt-6-sol", "fast"), ("claude-opus-5-5", "fast"), ("gemini-3.8-flash", "priority")]
            .map(|(upstream, tier)| prompt(upstream, tier).unwrap());
    assert_eq!(prices, ["1", "4", "8", "1.35"]);
    assert_eq!((prompt("claude-sonnet-5-5", "fast"), prompt("gpt-4o-mini", "flex")), (None, None));
}

#[actix_web::test]
async fn embeddings_are_billed_by_the_tier_that_their_answer_tells() {
    let vectors = |told: &Value| {
        let vectors =
            json!({"data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 1000, "total_tokens": 1000}});
        always(200, &and(vectors, told))
    };
    for (told, cost) in
        [(json!({}), 0.001), (json!({"service_tier": "flex"}), 0.0005), (json!({"service_tier": "priority"}), 0.002)]
    {
        let maker = vectors(&told);
        let models = format!(
            "[[models]]\nid = \"acme/vectors\"\ncontext_length = 8192\noutput_modalities = [\"embeddings\"]\nendpoints = [{{ \
             provider = \"acme\", upstream_model = \"v\", pricing = {{ {PRICED} }} }}]"
        );
        let gateway = World::new().provider("acme", maker.address()).with(&models).start().await;
        let asked = json!({"model": "acme/vectors", "input": "Which way?"});
        let answer = gateway.post("/v1/embeddings", &asked).await.expect(200);
        assert_eq!(answer["usage"]["cost"], json!(cost), "{told}");
    }
}

#[actix_web::test]
async fn images_are_billed_by_the_tier_that_their_answer_tells() {
    let data = "iVBORw0KGgo=";
    let image = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}});
    let drawn = json!({"role": "assistant", "content": "", "images": [image]});
    let of_api = json!({"data": [{"b64_json": data}], "usage": {"input_tokens": 1000, "output_tokens": 100}});
    let of_chat = answer(drawn, json!({"prompt_tokens": 1000, "completion_tokens": 100}));
    for (made, through_chat) in [(of_api, false), (of_chat, true)] {
        for (told, cost) in [
            (json!({}), STANDARD),
            (json!({"service_tier": "flex"}), FLEX),
            (json!({"service_tier": "priority"}), PRIORITY),
        ] {
            let maker = always(200, &and(made.clone(), &told));
            let models = format!(
                "[[models]]\nid = \"acme/canvas\"\ncontext_length = 8192\noutput_modalities = [\"image\"]\nendpoints = [{{ \
                 provider = \"acme\", upstream_model = \"v\", images_through_chat = {through_chat}, pricing = {{ {PRICED} }} }}]"
            );
            let gateway = World::new().provider("acme", maker.address()).with(&models).start().await;
            let asked = json!({"model": "acme/canvas", "prompt": "A cat"});
            let answer = gateway.post("/api/v1/images/generations", &asked).await.expect(200);
            let billed: f64 = cost.parse().unwrap();
            assert_eq!(answer["usage"]["cost"], json!(billed), "{told}, through chat: {through_chat}");
        }
    }
}
