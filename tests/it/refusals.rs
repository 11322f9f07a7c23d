//! What a refusal is about: every body of `fixtures/refusals.json` through a running gateway, and a caller who tries to shut
//! providers for another one.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    scripted::{Script, Upstream},
    world::{Model, World, always, and, ask, completion, error_of, http, http_with},
};

/// One body of a provider, and what follows from it.
struct Fixture {
    name: String,
    dialect: &'static str,
    status: u16,
    headers: String,
    body: String,
    subject: String,
    client: u16,
    closes: Option<String>,
}

fn fixtures() -> Vec<Fixture> {
    let all: Vec<Value> = serde_json::from_str(include_str!("fixtures/refusals.json")).unwrap();
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let read = |value: &Value| {
        assert!(!text(value, "source").is_empty(), "{value}");
        let headers = value["headers"].as_object().into_iter().flatten();
        Fixture {
            name: text(value, "name"),
            dialect: match value["dialect"].as_str().unwrap() {
                "anthropic" => "anthropic",
                "gemini" => "gemini",
                "converse" => "converse",
                "openai-responses" => "openai-responses",
                _ => "openai",
            },
            status: u16::try_from(value["status"].as_u64().unwrap()).unwrap(),
            headers: headers.map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap())).collect(),
            body: value["body"].to_string(),
            subject: text(value, "subject"),
            client: u16::try_from(value["client"].as_u64().unwrap()).unwrap(),
            closes: value["closes"].as_str().map(str::to_owned),
        }
    };
    all.iter().map(read).collect()
}

impl Fixture {
    fn answer(&self, model: &str) -> String {
        let body: Value = serde_json::from_str(&self.body.replace("{model}", model)).unwrap();
        http_with(self.status, &self.headers, &body)
    }

    fn slug(&self) -> String {
        self.name.replace('-', "")
    }
}

/// A gateway with a provider for each fixture, each with two models.
async fn world_of(fixtures: &[Fixture]) -> (TestGateway, Vec<Upstream>) {
    let mut world = World::new();
    let mut upstreams = Vec::new();
    for fixture in fixtures {
        let slug = fixture.slug();
        let upstream = Upstream::start([Script::answering(fixture.answer(&format!("{slug}-one")))]);
        world = world.provider_with(&slug, upstream.address(), &format!("dialect = \"{}\"", fixture.dialect));
        for model in ["one", "two"] {
            world = world.model(&Model::new(&format!("{slug}/{model}")).at(&slug, "0.001", "0.002"));
        }
        upstreams.push(upstream);
    }
    (world.start().await, upstreams)
}

/// Why the only endpoint of a model is excluded now.
async fn excluded(gateway: &TestGateway, model: &str) -> Option<String> {
    let (path, body) = match model.rsplit('/').next() {
        Some("vectors") => ("/api/v1/route/preview", json!({"model": model, "input": "Hi"})),
        Some("canvas") => ("/api/v1/route/preview?api=images", json!({"model": model, "prompt": "Hi"})),
        _ => ("/api/v1/route/preview", ask(model)),
    };
    let shown = gateway.post(path, &body).await.json();
    Some(shown["excluded"].as_array()?.first()?["reason"].as_str()?.to_owned())
}

#[actix_web::test]
async fn every_refusal_closes_what_it_is_about_and_reaches_the_client_as_what_it_is() {
    let fixtures = fixtures();
    for streamed in [false, true] {
        let (gateway, _upstreams) = world_of(&fixtures).await;
        for fixture in &fixtures {
            let (name, slug) = (&fixture.name, fixture.slug());
            let asked = and(ask(&format!("{slug}/one")), json!({"stream": streamed}));
            let reply = gateway.chat(&asked).await;
            assert_eq!(reply.status, fixture.client, "{name}: {}", reply.text());
            checked(fixture, &reply);
            let one = excluded(&gateway, &format!("{slug}/one")).await;
            let other = excluded(&gateway, &format!("{slug}/two")).await;
            let fault = Some("config_fault".to_owned());
            let expected = match fixture.closes.as_deref() {
                Some("provider") => (fault.clone(), fault),
                Some("endpoint") => (fault, None),
                Some(_) => (Some("rate_limited".to_owned()), None),
                None => (None, None),
            };
            assert_eq!((one, other), expected, "{name}");
            if fixture.closes.as_deref().is_some_and(|closes| closes != "cools") {
                shown(&gateway, fixture, &slug).await;
                let again = gateway.chat(&asked).await;
                assert_eq!((again.status, again.header("x-should-retry")), (503, Some("false")), "{name}");
                assert_eq!(again.header("retry-after"), None, "{name}");
            }
        }
    }
}

/// What the client reads.
fn checked(fixture: &Fixture, reply: &Reply) {
    let (name, error) = (&fixture.name, reply.json()["error"].take());
    let kind = error["metadata"]["error_type"].as_str().unwrap_or_default();
    match fixture.subject.as_str() {
        "account" | "model" | "unknown" => {
            assert_eq!((reply.header("x-should-retry"), reply.header("retry-after")), (Some("false"), None), "{name}");
            assert!(error["metadata"].get("raw").is_none_or(Value::is_null), "{name}: {error}");
            assert_eq!(kind, "provider_unavailable", "{name}");
        }
        "rate" => assert!(reply.header("retry-after").is_some(), "{name}"),
        subject => {
            assert_eq!(reply.header("retry-after"), None, "{name}: {error}");
            let expected = match subject {
                "content" => "content_policy_violation",
                "length" => "context_length_exceeded",
                "limit" => "payload_too_large",
                "price" => "payment_required",
                _ => kind,
            };
            assert_eq!(kind, expected, "{name}: {error}");
            if subject == "price" {
                assert!(error["message"].as_str().unwrap().contains("max_tokens"), "{error}");
            }
        }
    }
    // Without the ids of the gateway, in which any figures may stand.
    let said = format!("{}{}{}", error["message"], error["metadata"]["raw"], error["metadata"]["previous_errors"]);
    for secret in [
        "org-",
        "org_",
        "proj_",
        "wXyZ",
        "xa***gA",
        "****abcd",
        "team 0a1b",
        "2300",
        "123456789012",
        "Account acme",
        "user_3D0",
        "secret-project",
    ] {
        assert!(!said.contains(secret), "{name}: {said}");
    }
}

/// What administrators read.
async fn shown(gateway: &TestGateway, fixture: &Fixture, slug: &str) {
    let health = gateway.get(&format!("/api/v1/health/providers/{slug}")).await.expect(200)["data"][0].take();
    let refusal = &health["refusals"][0];
    let subject = if fixture.subject == "account" { "key" } else { "model" };
    assert_eq!(refusal["subject"], subject, "{}: {health}", fixture.name);
    let reason = health["reason"].as_str().unwrap();
    for (member, is_said) in [("meaning", true), ("words", true), ("since", true), ("next_try", true), ("remedy", true)]
    {
        assert_eq!(refusal[member].as_str().is_some_and(|text| reason.contains(text)), is_said, "{member}: {health}");
    }
    assert_eq!(refusal["status"], fixture.status, "{health}");
}

/// The same faults with a healthy provider beside them cost the clients nothing.
#[actix_web::test]
async fn accounts_and_models_that_are_refused_fail_over_and_are_not_asked_again() {
    for fixture in fixtures().iter().filter(|it| ["account", "model"].contains(&it.subject.as_str())) {
        let slug = fixture.slug();
        let broken = Upstream::start([Script::answering(fixture.answer(&format!("{slug}-x")))]);
        let healthy = always(200, &completion("Right."));
        let gateway = World::new()
            .provider_with(&slug, broken.address(), &format!("dialect = \"{}\"", fixture.dialect))
            .provider("healthy", healthy.address())
            .model(&Model::new("acme/x").at(&slug, "0.001", "0.002").at("healthy", "0.01", "0.02"))
            .start()
            .await;
        let asked = and(ask("acme/x"), json!({"objective": "cheapest"}));
        for _ in 0..3 {
            let answer = gateway.chat(&asked).await.expect(200);
            assert_eq!(answer["choices"][0]["message"]["content"], "Right.", "{}", fixture.name);
        }
        assert_eq!(broken.requests().len(), 1, "{}", fixture.name);
    }
}

/// A refusal of this request here leaves it to another endpoint.
#[actix_web::test]
async fn requests_that_one_endpoint_refuses_are_served_by_another() {
    for fixture in fixtures().iter().filter(|it| ["request", "limit", "price"].contains(&it.subject.as_str())) {
        let slug = fixture.slug();
        let refusing = Upstream::start([Script::answering(fixture.answer(&format!("{slug}-x")))]);
        let other = always(200, &completion("Right."));
        let gateway = World::new()
            .provider_with(&slug, refusing.address(), &format!("dialect = \"{}\"", fixture.dialect))
            .provider("other", other.address())
            .model(&Model::new("acme/x").at(&slug, "0.001", "0.002").at("other", "0.01", "0.02"))
            .start()
            .await;
        let asked = and(ask("acme/x"), json!({"objective": "cheapest"}));
        for _ in 0..2 {
            gateway.chat(&asked).await.expect(200);
        }
        assert_eq!(refusing.requests().len(), 2, "{}: it stays open", fixture.name);
    }
}

/// Over all three doors.
#[actix_web::test]
async fn flagged_content_is_the_same_400_over_every_door() {
    let flagged = [
        json!({"error": {"code": 403, "message": "Your input was flagged.", "metadata": {"reasons": ["violence"]}}}),
        json!({"error": {"code": "content_policy_violation", "message": "no"}}),
    ];
    for body in flagged {
        for streamed in [false, true] {
            let upstream = always(403, &body);
            let gateway = World::new()
                .provider("acme", upstream.address())
                .model(&Model::new("acme/x").at("acme", "0.001", "0.002"))
                .start()
                .await;
            let stream = json!({"stream": streamed});
            let error = error_of(&gateway.chat(&and(ask("acme/x"), &stream)).await, 400);
            assert_eq!(error["metadata"]["error_type"], "content_policy_violation", "{error}");
            let messages = json!({"model": "acme/x", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
            let reply = gateway.post("/api/v1/messages", &and(messages, &stream)).await;
            let error = reply.expect(400)["error"].take();
            assert_eq!(error["type"], "invalid_request_error", "{error}");
            assert_eq!(error["details"]["error_code"], "content_policy_violation", "{error}");
            let reply =
                gateway.post("/api/v1/responses", &and(json!({"model": "acme/x", "input": "Hi"}), &stream)).await;
            assert_eq!(reply.expect(400)["error"]["metadata"]["error_type"], "content_policy_violation");
            assert_eq!(excluded(&gateway, "acme/x").await, None);
        }
    }
}

#[actix_web::test]
async fn a_corrected_key_address_or_model_is_tried_at_once() {
    let upstream = Upstream::start([Script::answering(http(401, &json!({"error": {"code": "invalid_api_key"}})))]);
    let gone = json!({"error": {"code": "model_not_found", "message": "The model `beta-x` does not exist."}});
    let (missing, healthy) = (always(404, &gone), always(200, &completion("Right.")));
    let model = |id: &str, provider: &str, name: &str| {
        format!(
            "[[models]]\nid = \"{id}\"\ncontext_length = 8192\nendpoints = [{{ provider = \"{provider}\", upstream_model = \"{name}\", pricing = {{ prompt = \"0\", completion = \"0\" }} }}]\n"
        )
    };
    let world = |address: SocketAddr, beta: &str| {
        World::new()
            .provider("acme", address)
            .provider("beta", missing.address())
            .with(&model("acme/x", "acme", "x"))
            .with(&model("beta/x", "beta", beta))
    };
    let before = world(upstream.address(), "beta-x");
    let gateway = before.start().await;
    for model in ["acme/x", "beta/x"] {
        gateway.chat(&ask(model)).await.expect(502);
        assert_eq!(gateway.chat(&ask(model)).await.status, 503, "{model}");
    }
    let calls = |upstream: &Upstream| upstream.requests().len();
    let with_other_key = before.clone().variable("ACME_KEY", "sk-corrected-0123456789");
    with_other_key.take_over(&gateway).await;
    gateway.chat(&ask("acme/x")).await.expect(502);
    assert_eq!((calls(&upstream), calls(&missing)), (2, 1), "the key has changed, and nothing else");
    assert_eq!(gateway.chat(&ask("beta/x")).await.status, 503);
    world(healthy.address(), "beta-x").take_over(&gateway).await;
    gateway.chat(&ask("acme/x")).await.expect(200);
    world(healthy.address(), "beta-y").take_over(&gateway).await;
    assert_eq!(gateway.chat(&ask("beta/x")).await.status, 502, "asked again");
    assert_eq!(calls(&missing), 2);
}

/// The end of an answer that ends too early.
const CUT: &str = "\r\n\r\n{\"id\": \"x\"";

/// A provider that serves everybody, but answers a request that holds `attack-<n>` with that refusal, and one that holds
/// `echo-<n>` by repeating what stands behind it.
struct FickleProvider {
    address: SocketAddr,
}

impl FickleProvider {
    /// One whose good answer is this one.
    fn with_good(answers: Vec<String>, good: &Value) -> FickleProvider {
        let good: Arc<str> = http(200, good).into();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Arc::new(answers);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, good) = (Arc::clone(&answers), Arc::clone(&good));
                thread::spawn(move || FickleProvider::serve(stream, &answers, &good));
            }
        });
        FickleProvider { address }
    }

    fn serve(stream: TcpStream, answers: &[String], good: &str) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut stream = stream;
        loop {
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).ok()? > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().ok()?;
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).ok()?;
            let body: Value = serde_json::from_slice(&body).ok()?;
            let text = body.to_string();
            let answer = match text.split_once("attack-") {
                Some((_, rest)) => {
                    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                    answers[digits.parse::<usize>().ok()?].clone()
                }
                None => said(&body).map_or_else(|| good.to_owned(), FickleProvider::echo),
            };
            stream.write_all(answer.as_bytes()).ok()?;
            // What is cut off ends with its connection.
            if answer.is_empty() || answer.ends_with(CUT) {
                return None;
            }
        }
    }

    /// The first digit chooses the status and the form.
    fn echo(words: &str) -> String {
        let (form, words) = words.split_at(1);
        let (status, message) = match form {
            "0" => (400, format!("Unknown parameter: '{words}'.")),
            "1" => (400, format!("{words}: Extra inputs are not permitted")),
            "2" => (404, words.to_owned()),
            "3" => (403, format!("{words} is not allowed here")),
            "4" => (402, format!("Invalid value: {words}")),
            "5" => (412, format!("`{words}` is not of type string")),
            _ => (401, words.to_owned()),
        };
        http(status, &json!({"error": {"message": message, "type": "invalid_request_error", "code": null}}))
    }
}

/// What a request wants to hear repeated, wherever its dialect puts it.
fn said(body: &Value) -> Option<&str> {
    match body {
        Value::String(text) => text.strip_prefix("echo-"),
        Value::Array(values) => values.iter().find_map(said),
        Value::Object(members) => members.values().find_map(said),
        _ => None,
    }
}

/// The key of a second caller, with an account of its own, and its digest.
pub(crate) const OTHER: &str = "sk-other-0123456789abcdef";
pub(crate) const SHA256: &str = "c6334c7846071ed8a7230d8d92839ab7bf2b1c16badb39f54b36bc69b0395f82";

/// The law of docs/ROUTING.md over real sockets: a caller sends whatever draws a refusal of requests, in any order; every call of
/// the other one is served.
#[actix_web::test]
async fn nothing_that_one_caller_sends_shuts_a_provider_for_another() {
    let fixtures = fixtures();
    // What closes nothing, and what is about a request; a provider that says more says it to everybody.
    let attacks: Vec<&Fixture> = fixtures.iter().filter(|it| it.closes.is_none()).collect();
    let sentences: Vec<String> = fixtures
        .iter()
        .filter(|it| it.closes.is_some())
        .filter_map(|it| {
            let body: Value = serde_json::from_str(&it.body.replace("{model}", "acme-x")).unwrap();
            let error = body.get("error").unwrap_or(&body);
            error["message"].as_str().or(error.as_str()).or(body["message"].as_str()).map(str::to_owned)
        })
        .collect();
    let mut answers: Vec<String> = attacks.iter().map(|it| it.answer("acme-x")).collect();
    // The server breaks on a plain request.
    let (fault, broken) = (answers.len(), http(500, &json!({"error": {"message": "Internal error"}})));
    answers.push(broken);
    let keys = format!("[[keys]]\nname = \"other\"\nsha256 = \"{SHA256}\"\n");
    let (mut world, mut providers) = (World::new().with(&keys), Vec::new());
    for (slug, dialect, good) in good_answers() {
        let provider = FickleProvider::with_good(answers.clone(), &good);
        world = world.provider_with(slug, provider.address, &format!("dialect = \"{dialect}\""));
        world = world.model(&Model::new(&format!("{slug}/x")).taking(&["max_tokens"]).at(slug, "0", "0"));
        providers.push((dialect, format!("{slug}/x")));
    }
    let gateway = world.start().await;
    let mut seed = 7_u64;
    let mut any = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let bearer = format!("Bearer {OTHER}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    // Where nobody else was served yet, they open the circuit, and then take all that is saved up for attempts past it.
    for (_, model) in &providers {
        let mut hostile = ask(model);
        hostile["messages"] = json!([{"role": "user", "content": format!("attack-{fault}")}]);
        for _ in 0..30 + any(30) {
            assert_ne!(gateway.chat(&hostile).await.status, 200);
        }
        let body = ask(model).to_string().into_bytes();
        let served = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body)).await;
        assert_eq!(served.status, 200, "{model}: {}", served.text());
    }
    for round in 0..600 {
        let attack = any(attacks.len());
        let (text, dialect) = match any(2) {
            0 => (format!("attack-{attack} {}", "x".repeat(any(2_000))), attacks[attack].dialect),
            _ => (format!("echo-{}{}", any(7), sentences[any(sentences.len())]), providers[any(providers.len())].0),
        };
        let model = &providers.iter().find(|(of, _)| *of == dialect).unwrap().1;
        let mut hostile = and(ask(model), json!({"stream": any(2) == 0}));
        hostile["messages"] = json!([{"role": "user", "content": text}]);
        hostile["max_tokens"] = json!(1 + any(9_000));
        let refused = gateway.chat(&hostile).await;
        assert_ne!(refused.status, 200, "{hostile}");
        let body = ask(model).to_string().into_bytes();
        let served = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body)).await;
        assert_eq!(served.status, 200, "round {round}, after {hostile}: {}", served.text());
        // Without a success of anybody between, as often as the hostile caller likes.
        for _ in 0..any(4) {
            assert_ne!(gateway.chat(&hostile).await.status, 200);
        }
    }
    for (_, model) in &providers {
        assert_eq!(excluded(&gateway, model).await, None, "{model}");
    }
}

/// A member of an attack that becomes a part of its message.
const IMAGE: &str = "image";
/// The same of one that is a part already.
const PART: &str = "part";

/// A request of a hostile client, and what its provider answers.
struct Attack {
    provider: &'static str,
    door: &'static str,
    extra: Value,
    answer: String,
}

/// Answers of a healthy provider, by its slug and dialect.
fn good_answers() -> [(&'static str, &'static str, Value); 5] {
    let claude = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Right."}], "usage": {"input_tokens": 12, "output_tokens": 5}});
    let gemini = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Right."}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 5, "totalTokenCount": 17}});
    [
        ("chat", "openai", completion("Right.")),
        ("claude", "anthropic", claude),
        ("gemini", "gemini", gemini),
        ("responses", "openai-responses", response("completed", &Value::Null)),
        ("bedrock", "converse", converse("end_turn", &json!([{"text": "Right."}]))),
    ]
}

fn converse(stop: &str, content: &Value) -> Value {
    json!({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop,
        "usage": {"inputTokens": 12, "outputTokens": 5, "totalTokens": 17}, "metrics": {"latencyMs": 1}})
}

fn response(status: &str, error: &Value) -> Value {
    let text = json!({"type": "output_text", "text": "Right.", "annotations": []});
    let message =
        json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [text]});
    let output = if error.is_null() { json!([message]) } else { json!([]) };
    json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output, "error": error,
        "usage": {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17}})
}

/// A stream of these events.
fn events(events: &[Value]) -> String {
    let line = |event: &Value| match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    let body: String = events.iter().map(line).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn attacks() -> Vec<Attack> {
    let mut all = Vec::new();
    let mut add = |provider, door, extra: Value, answer: String| all.push(Attack { provider, door, extra, answer });
    let said = |message: &str| json!({"error": {"message": message}});
    let anthropic = |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});

    // Conditions that one request meets.
    add(
        "chat",
        "chat/completions",
        json!({}),
        http(400, &said("The model `m` is not supported when using flex processing.")),
    );
    add("chat", "chat/completions", json!({}), http(404, &said("No endpoints found for m that support image input.")));
    add("chat", "chat/completions", json!({}), http(404, &said("No provider supports the parameter logprobs here.")));
    let price = json!({"error": {"code": 402, "metadata": {"error_type": "payment_required"},
        "message": "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 2300."}});
    add("chat", "chat/completions", json!({}), http(402, &price));
    let iam = json!({"message": "User: arn:x is not authorized to perform: bedrock:InvokeModelWithResponseStream on resource: arn:y"});
    add("claude", "messages", json!({"stream": true}), http(403, &iam));

    // Keys, models and accounts of the client.
    let bad_key =
        json!({"error": {"message": "Authentication Error, bad key", "type": "authentication_error", "code": "401"}});
    add("chat", "chat/completions", json!({"api_key": "bad"}), http(401, &bad_key));
    let nope = json!({"error": {"message": "Model not found: nope", "code": "model_not_found"}});
    add("chat", "chat/completions", json!({"fallbacks": ["nope"]}), http(404, &nope));
    let server = json!([{"type": "url", "url": "https://dead.example/", "name": "x", "authorization_token": "bad"}]);
    let refused = anthropic("authentication_error", "Authentication error while communicating with MCP server 'x'");
    add("claude", "messages", json!({"mcp_servers": server}), http(401, &refused));
    add("claude", "messages", json!({"mcp_servers": server, "stream": true}), events(&[refused]));
    let image = json!([{"type": "image_generation"}]);
    let no_model = json!({"error": {"code": "model_not_found", "message": "The model `gpt-image-1` does not exist or you do not have access to it."}});
    add("responses", "responses", json!({"tools": image}), http(404, &no_model));
    let limited = json!({"error": {"code": "rate_limit_exceeded", "message": "Rate limit reached for gpt-image-1 in organization org-x."}});
    add("responses", "responses", json!({"tools": image}), http_with(429, "retry-after: 30\r\n", &limited));

    // Users of the client.
    let of_user = said("Rate limit exceeded for end_user: u1. Limit type: requests. Current limit: 5, Remaining: 0");
    add("chat", "chat/completions", json!({"user": "u1"}), http_with(429, "retry-after: 60\r\n", &of_user));

    // Tiers and sizes of the client.
    let fast = anthropic("rate_limit_error", "Fast mode rate limit reached");
    add("claude", "messages", json!({"speed": "fast"}), http_with(429, "retry-after: 60\r\n", &fast));
    let flex = json!({"error": {"message": "Flex capacity is exhausted", "code": "rate_limit_exceeded"}});
    add("chat", "chat/completions", json!({"service_tier": "flex"}), http_with(429, "retry-after: 60\r\n", &flex));
    add("chat", "chat/completions", json!({"service_tier": "flex"}), http_with(503, "retry-after: 60\r\n", &flex));
    let own = anthropic(
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 30 input tokens per minute (org: x).",
    );
    add("claude", "messages", json!({}), http_with(429, "retry-after: 47\r\n", &own));
    let quota = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota.", "details": [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaValue": "30",
            "quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_input_token_count"}]},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}]}});
    add("gemini", "chat/completions", json!({}), http(429, &quota));

    let full = json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "The model is overloaded. Please try again later."}});
    for headers in ["", "retry-after: 60\r\n"] {
        add("gemini", "chat/completions", json!({"service_tier": "flex"}), http_with(503, headers, &full));
    }

    // Failures within a 200.
    add("chat", "chat/completions", json!({"deferred": true}), http(200, &json!({"request_id": "f15c"})));
    let overflow = "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens.";
    add("chat", "chat/completions", json!({"stream": true}), events(&[json!({"error": {"message": overflow}})]));
    let many = json!({"error": {"code": 1002, "message": "Too many requests"}});
    add("chat", "chat/completions", json!({"stream": true, "plugins": [1]}), events(&[many]));
    for code in [
        "http_error",
        "external_connector_error",
        "vector_store_timeout",
        "cyber_policy",
        "bio_policy",
        "mcp_error",
        "unsupported_file",
        "tool_user_error",
    ] {
        let failed = response("failed", &json!({"code": code, "message": "no"}));
        let tools = json!([{"type": "mcp", "server_label": "x", "server_url": "https://dead.example/"}]);
        add("responses", "responses", json!({"tools": tools}), http(200, &failed));
        let streamed = [
            json!({"type": "response.created", "sequence_number": 0, "response": response("in_progress", &Value::Null)}),
            json!({"type": "response.failed", "sequence_number": 1, "response": failed}),
        ];
        add("responses", "responses", json!({"tools": tools, "stream": true}), events(&streamed));
    }
    for reason in
        ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "OTHER"]
    {
        let ended =
            json!({"candidates": [{"finishReason": reason, "index": 0}], "usageMetadata": {"promptTokenCount": 12}});
        add("gemini", "chat/completions", json!({}), http(200, &ended));
        add("gemini", "messages", json!({"stream": true}), events(&[ended]));
    }

    for reason in ["MALFORMED_RESPONSE", "STOP"] {
        let ended =
            json!({"candidates": [{"finishReason": reason, "index": 0}], "usageMetadata": {"promptTokenCount": 12}});
        add("gemini", "chat/completions", json!({}), http(200, &ended));
        add("gemini", "responses", json!({"stream": true}), events(&[ended]));
    }
    for stop in ["malformed_tool_use", "malformed_model_output"] {
        add("bedrock", "chat/completions", json!({}), http(200, &converse(stop, &json!([]))));
        add("bedrock", "messages", json!({"stream": true}), http(200, &converse(stop, &json!([]))));
    }
    // An answer that was not asked for as a stream.
    for (code, own) in [(2061, "service_tier"), (2061, "api_key"), (1008, "api_key")] {
        let refused = json!({"id": "x", "choices": null, "base_resp": {"status_code": code, "status_msg": "no"}});
        for stream in [false, true] {
            add("chat", "chat/completions", json!({"stream": stream, own: "flex"}), http(200, &refused));
        }
    }
    for code in [2042, 2999] {
        let refused = json!({"id": "x", "choices": null, "base_resp": {"status_code": code, "status_msg": "no"}});
        add("chat", "chat/completions", json!({"stream": true}), http(200, &refused));
        add("chat", "chat/completions", json!({}), http(200, &refused));
    }
    add("claude", "messages", json!({"stream": true}), http(200, &anthropic("invalid_request_error", "No such tool.")));

    // Time-outs that are told, and faults of what a request names or brings.
    let late = json!({"error": {"code": 504, "status": "DEADLINE_EXCEEDED", "message": "Deadline expired before operation could complete."}});
    add("gemini", "chat/completions", json!({}), http(504, &late));
    add(
        "gemini",
        "chat/completions",
        json!({}),
        http(499, &json!({"error": {"code": 499, "status": "CANCELLED", "message": "Cancelled."}})),
    );
    let model_late =
        http_with(408, "x-amzn-errortype: ModelTimeoutException\r\n", &json!({"message": "Model has timed out."}));
    add("bedrock", "chat/completions", json!({}), model_late);
    let timed_out = anthropic("timeout_error", "The request timed out.");
    add("claude", "messages", json!({}), http(504, &timed_out));
    add("claude", "messages", json!({"stream": true}), events(&[timed_out]));
    let broken = json!({"error": {"message": "Internal Server Error", "type": "InternalServerError", "code": 500}});
    let cut = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500{CUT}");
    for (door, stream) in
        [("chat/completions", false), ("chat/completions", true), ("messages", false), ("responses", true)]
    {
        let extra = |extra: Value| and(json!({"stream": stream}), &extra);
        for status in [500, 502, 503, 504] {
            let message = http_with(status, "retry-after: 30\r\n", &broken);
            let named = json!({"user": "x", IMAGE: "https://dead.example/x.png"});
            add("chat", door, extra(named), message.clone());
            add("chat", "chat/completions", extra(json!({"deferred": true})), message);
        }
        // The provider ends the connection.
        add("chat", "chat/completions", extra(json!({"deferred": true})), String::new());
        add("chat", "chat/completions", extra(json!({"deferred": true})), cut.clone());
    }
    for door in ["completions", "embeddings", "images/generations", "messages/count_tokens"] {
        let headers = "x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 60s\r\n";
        let refused = json!({"error": {"message": "No.", "code": 2, "type": "invalid_request_error"}});
        add("chat", door, json!({"api_key": "bad"}), http_with(500, headers, &broken));
        add("chat", door, json!({"api_key": "bad"}), http_with(401, headers, &bad_key));
        add("chat", door, json!({}), http(400, &refused));
        add("chat", door, json!({}), http(404, &said("No provider supports the parameter logprobs here.")));
    }
    // A quota of the tier, or of what the request brings.
    for (extra, status) in [
        (json!({"service_tier": "flex"}), 200),
        (json!({"deferred": true}), 200),
        (json!({"service_tier": "flex"}), 429),
    ] {
        let headers = "x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 60s\r\nx-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: 60s\r\n";
        let body = if status == 200 { completion("Right.") } else { said("Slow down.") };
        add("chat", "chat/completions", extra, http_with(status, headers, &body));
    }

    // A region, a job, and parts that are not known here.
    let closed = json!({"error": {"code": "model_not_found", "message": "no"}});
    let part = json!({"type": "skill", "id": "x"});
    for answer in [http(404, &closed), http(403, &closed), http_with(429, "retry-after: 60\r\n", &said("no"))] {
        add("chat", "chat/completions", json!({PART: part}), answer.clone());
        add("chat", "chat/completions", json!({"background": true}), answer.clone());
        add("chat", "chat/completions", json!({"inference_geo": "mars"}), answer.clone());
        add("claude", "messages", json!({"inference_geo": "mars"}), answer.clone());
        add("responses", "responses", json!({PART: {"type": "input_video", "video_url": "x"}}), answer);
    }

    // Resources in use.
    add(
        "claude",
        "messages",
        json!({"container": "c_1"}),
        http(409, &anthropic("invalid_request_error", "Container is busy")),
    );
    add(
        "responses",
        "responses",
        json!({"previous_response_id": "resp_x"}),
        http(409, &said("Another process is operating on it.")),
    );
    all
}

/// The same over each door, at each dialect, streamed and whole, with whatever one caller adds to its requests.
#[actix_web::test]
async fn nothing_that_one_caller_adds_to_its_requests_closes_rests_or_slows_an_endpoint_for_another() {
    let attacks = attacks();
    let answers: Vec<String> = attacks.iter().map(|attack| attack.answer.clone()).collect();
    let mut world = World::new();
    let mut providers = Vec::new();
    for (slug, dialect, good) in good_answers() {
        let provider = FickleProvider::with_good(answers.clone(), &good);
        let legacy = if dialect == "openai" { "legacy_completions = true" } else { "" };
        world = world.provider_with(slug, provider.address, &format!("dialect = \"{dialect}\"\n{legacy}"));
        for model in ["one", "two"] {
            let model = Model::new(&format!("{slug}/{model}")).taking(&["max_tokens", "tools", "tool_choice"]);
            let model = model.with("input_modalities = [\"text\", \"image\"]\n");
            world = world.model(&model.at(slug, "0", "0"));
        }
        providers.push(provider);
    }
    for (model, kind) in [("chat/vectors", "embeddings"), ("chat/canvas", "image")] {
        let model = Model::new(model).with(&format!("output_modalities = [\"{kind}\"]\n"));
        world = world.model(&model.at("chat", "0", "0"));
    }
    let keys = format!("[[keys]]\nname = \"other\"\nsha256 = \"{SHA256}\"\n");
    let gateway = world.with(&keys).variable("POINTSMAN__SERVER__LEGACY_COMPLETIONS", "true").start().await;
    let bearer = format!("Bearer {OTHER}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    for (number, attack) in attacks.iter().enumerate() {
        let text = format!("attack-{number} {}", "x ".repeat(200));
        let mut extra = attack.extra.clone();
        let image = extra.as_object_mut().and_then(|extra| extra.remove(IMAGE));
        let said = match (&image, attack.door) {
            (None, _) => json!(text),
            (Some(url), "responses") => {
                json!([{"type": "input_text", "text": text}, {"type": "input_image", "image_url": url}])
            }
            (Some(url), "messages") => {
                json!([{"type": "text", "text": text}, {"type": "image", "source": {"type": "url", "url": url}}])
            }
            (Some(url), _) => json!([{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]),
        };
        let said = match extra.as_object_mut().and_then(|extra| extra.remove(PART)) {
            Some(part) if attack.door == "responses" => json!([{"type": "input_text", "text": text}, part]),
            Some(part) => json!([{"type": "text", "text": text}, part]),
            None => said,
        };
        let turn = json!([{"role": "user", "content": said}]);
        let asked = match attack.door {
            "responses" => json!({"input": turn}),
            "messages" => json!({"max_tokens": 9, "messages": turn}),
            "messages/count_tokens" => json!({"messages": turn}),
            "embeddings" => json!({"input": text}),
            "completions" | "images/generations" => json!({"prompt": text}),
            _ => json!({"messages": turn}),
        };
        let model = match attack.door {
            "embeddings" => "chat/vectors".to_owned(),
            "images/generations" => "chat/canvas".to_owned(),
            _ => format!("{}/one", attack.provider),
        };
        let asked = and(and(asked, json!({"model": model})), &extra);
        for _ in 0..4 {
            gateway.post(&format!("/api/v1/{}", attack.door), &asked).await;
        }
        let beside = if attack.provider == "chat" { &["one", "two", "vectors", "canvas"][..] } else { &["one", "two"] };
        for model in beside {
            let model = format!("{}/{model}", attack.provider);
            assert_eq!(
                excluded(&gateway, &model).await,
                None,
                "{model} after {asked}, answered with {}",
                attack.answer
            );
            if !model.ends_with("/one") && !model.ends_with("/two") {
                continue;
            }
            let body = ask(&model).to_string().into_bytes();
            let served = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body)).await;
            assert_eq!(served.status, 200, "after {asked}: {}", served.text());
        }
    }
}
