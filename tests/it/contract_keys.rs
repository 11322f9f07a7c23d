//! Who may call, and whose secrets stay secret.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{KEY, Reply, TestGateway},
    patience::PATIENCE,
    process::ConfigFile,
    scripted::Script,
    world::{Model, World, and, ask, error_of, http, http_with, provider_key, raw, saying, stream_of},
};

const OFF: &str = "sk-off-0123456789abcdef";
const OLD: &str = "sk-old-0123456789abcdef";

/// A gateway with a good, a disabled and an expired key.
async fn gateway() -> TestGateway {
    let keys = "[[keys]]\nname = \"off\"\nenv = \"OFF_KEY\"\ndisabled = true\n\
                [[keys]]\nname = \"old\"\nenv = \"OLD_KEY\"\nexpires_at = 2020-01-01T00:00:00Z\n";
    let world = World::new().provider("acme", saying("x").keep()).with(keys);
    let world = world.variable("OFF_KEY", OFF).variable("OLD_KEY", OLD);
    world.model(&Model::new("acme/small").at("acme", "0", "0")).start().await
}

async fn chat_with(gateway: &TestGateway, headers: &[(&str, &str)]) -> Reply {
    let mut all = vec![("content-type", "application/json")];
    all.extend(headers);
    gateway.call(Method::POST, "/api/v1/chat/completions", &all, Some(ask("acme/small").to_string().into_bytes())).await
}

#[actix_web::test]
async fn every_key_that_is_not_good_is_a_401() {
    let gateway = gateway().await;
    let bearer = |key: &str| format!("Bearer {key}");
    let (good, off, old) = (bearer(KEY), bearer(OFF), bearer(OLD));
    let long = bearer(&"x".repeat(5000));
    let almost = bearer(KEY.trim_end_matches('f'));
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("authorization", "")], "missing_key"),
        (&[("authorization", "Bearer sk-unknown-0123456789")], "invalid_key"),
        (&[("authorization", &almost)], "invalid_key"),
        (&[("authorization", "Basic c2stdGVzdA==")], "invalid_key"),
        (&[("authorization", KEY)], "invalid_key"),
        (&[("authorization", "Bearer")], "invalid_key"),
        (&[("authorization", "Token x")], "invalid_key"),
        (&[("authorization", &long)], "invalid_key"),
        (&[("authorization", &off)], "disabled_key"),
        (&[("authorization", &old)], "expired_key"),
        (&[("authorization", ""), ("x-api-key", OFF)], "disabled_key"),
        (&[("authorization", ""), ("x-api-key", "sk-unknown-0123456789")], "invalid_key"),
        (&[("authorization", &good), ("x-api-key", OFF)], "invalid_key"),
        (&[("authorization", &off), ("x-api-key", KEY)], "invalid_key"),
        (&[("authorization", &good), ("authorization", &good)], "invalid_key"),
        (&[("authorization", &good), ("authorization", "Bearer other-0123456789")], "invalid_key"),
        (&[("authorization", ""), ("x-api-key", KEY), ("x-api-key", KEY)], "invalid_key"),
    ];
    for (headers, reason) in cases {
        let reply = chat_with(&gateway, headers).await;
        let error = error_of(&reply, 401);
        assert_eq!(
            (&error["type"], &error["metadata"]["reason"]),
            (&json!("authentication_error"), &json!(reason)),
            "{headers:?}"
        );
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{headers:?}");
        assert!(!reply.text().contains("0123456789"), "a key is never repeated: {}", reply.text());
    }
}

/// The key is looked at before anything else, on every path that wants one.
#[actix_web::test]
async fn without_a_key_nothing_but_the_public_pages_answers() {
    let gateway = gateway().await;
    let nobody = [("authorization", "")];
    for (method, path) in [
        (Method::POST, "/api/v1/chat/completions"),
        (Method::POST, "/api/chat/completions"),
        (Method::POST, "/v1/chat/completions"),
        (Method::POST, "/api//v1//chat/completions/"),
        (Method::POST, "/api/v1/images/generations"),
        (Method::POST, "/api/v1/images"),
        (Method::POST, "/api/v1/route/preview"),
        (Method::POST, "/api/v1/route/explain"),
        (Method::GET, "/api/v1/route/explain?generation_id=gen-1"),
        (Method::GET, "/api/v1/route/replay?generation_id=gen-1"),
        (Method::GET, "/api/v1/generation?id=gen-1"),
        (Method::GET, "/api/v1/key"),
        (Method::GET, "/api/v1/auth/key"),
        (Method::GET, "/api/v1/credits"),
        (Method::GET, "/api/v1/keys"),
        (Method::POST, "/api/v1/keys"),
        (Method::DELETE, "/api/v1/keys/0123456789abcdef"),
        (Method::POST, "/api/v1/keys/0123456789abcdef/rotate"),
        (Method::GET, "/api/v1/models/stats"),
        (Method::GET, "/api/v1/health/calibration"),
        (Method::GET, "/api/v1/health/memory"),
        (Method::GET, "/api/v1/health/providers"),
        (Method::GET, "/api/v1/health/providers/acme"),
    ] {
        error_of(&gateway.call(method, path, &nobody, Some(b"not json".to_vec())).await, 401);
    }
    let wrong = [("authorization", "Bearer sk-unknown-0123456789")];
    for path in [
        "/api/v1/models",
        "/api/models",
        "/api/v1/models/acme/small",
        "/api/v1/model/acme/small",
        "/api/v1/providers",
        "/health",
        "/health/live",
        "/health/ready",
        "/api/v1/models/count",
        "/api/v1/models/acme/small/endpoints",
    ] {
        for headers in [&nobody, &wrong] {
            assert_eq!(gateway.call(Method::GET, path, headers, None).await.status, 200, "{path}");
        }
    }
}

/// What is a good key.
#[actix_web::test]
async fn a_good_key_may_stand_in_either_header_and_the_scheme_in_any_case() {
    let gateway = gateway().await;
    let bearer = format!("Bearer {KEY}");
    let (lower, upper) = (format!("bearer {KEY}"), format!("BEARER  {KEY}"));
    for headers in [
        &[("authorization", bearer.as_str())][..],
        &[("authorization", &lower)],
        &[("authorization", &upper)],
        &[("authorization", ""), ("x-api-key", KEY)],
        &[("authorization", &bearer), ("x-api-key", KEY)],
    ] {
        chat_with(&gateway, headers).await.expect(200);
    }
}

/// A good key without the right is a 403.
#[actix_web::test]
async fn a_key_without_the_scope_or_the_model_is_a_403() {
    const READER: &str = "sk-reader-0123456789abcdef";
    const NARROW: &str = "sk-narrow-0123456789abcdef";
    let upstream = saying("x");
    let keys = "[[keys]]\nname = \"reader\"\nenv = \"READER_KEY\"\nscopes = [\"read\"]\n\
                [[keys]]\nname = \"narrow\"\nenv = \"NARROW_KEY\"\nallowed_models = [\"bolt/*\"]\n";
    let world = World::new().provider("acme", upstream.address()).with(keys);
    let world = world.variable("READER_KEY", READER).variable("NARROW_KEY", NARROW);
    let gateway = world.model(&Model::new("acme/small").at("acme", "0", "0")).start().await;
    for (key, reason) in [(READER, "scope"), (NARROW, "model_not_allowed_for_key")] {
        let reply = chat_with(&gateway, &[("authorization", &format!("Bearer {key}"))]).await;
        let error = error_of(&reply, 403);
        assert_eq!((&error["type"], &error["metadata"]["reason"]), (&json!("permission_error"), &json!(reason)));
    }
    // A request cannot widen what its key allows.
    let headers = [("authorization", &*format!("Bearer {NARROW}")), ("content-type", "application/json")];
    let body = and(ask("service/auto"), json!({"allowed_models": ["acme/*"]})).to_string().into_bytes();
    let reply = gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body)).await;
    assert_eq!(error_of(&reply, 404)["availability"]["excluded_by"], json!(["key_policy"]));
    assert_eq!(upstream.connections(), 0);
}

/// The program itself, with everything logged that can be.
struct Program {
    child: Child,
    address: std::net::SocketAddr,
    log: mpsc::Receiver<String>,
    greeting: String,
}

impl Program {
    fn start(world: &World) -> Program {
        let preamble = "[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n[simulation]\nmode = \"off\"\n\
                        [[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n";
        let config = ConfigFile::new(&format!("{preamble}{}", world.toml()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
        command.args(["--config", config.path()]).env("RUST_LOG", "trace").env("TEST_KEY", KEY);
        command.envs(world.environment().iter().map(|(name, value)| (name, value)));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut stderr, (told, log)) = (child.stderr.take().unwrap(), mpsc::channel());
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            let _ = told.send(String::from_utf8_lossy(&text).into_owned());
        });
        let (mut stdout, mut greeting) = (BufReader::new(child.stdout.take().unwrap()), String::new());
        while !greeting.contains("Try it") {
            assert_ne!(stdout.read_line(&mut greeting).unwrap(), 0, "the program ended: {greeting}");
        }
        let address = greeting.split("http://").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
        Program { child, address, log, greeting }
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> String {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\nconnection: close\r\n"
        );
        raw(self.address, format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await
    }

    /// Ends it and gives everything it logged.
    fn log(mut self) -> String {
        self.child.kill().unwrap();
        let _ = self.child.wait();
        self.log.recv_timeout(PATIENCE).unwrap()
    }
}

#[actix_web::test]
async fn no_providers_key_appears_in_any_answer_log_line_metric_or_record() {
    let (acme, bolt) = (provider_key("acme"), provider_key("bolt"));
    let words =
        |key: &str| json!({"error": {"message": format!("bad key {key} (Bearer {key})"), "code": key, "type": key}});
    // An answer that would pass in every other respect.
    let echo = |key: &str| {
        let message = json!({"role": "assistant", "content": format!("Your key is {key}, is it not?")});
        let choice = json!({"index": 0, "message": message, "finish_reason": key});
        json!({"id": key, "model": key, "system_fingerprint": key, "choices": [choice], key: key})
    };
    // Last what keeps an endpoint from being asked again.
    let play = |key: &str, last: u16| {
        let header = format!("x-echo: {key}\r\n");
        let script = Script::new().request().send(http(200, &words(key)));
        let script =
            script.request().send(http(200, &echo(key))).request().send(stream_of(&["Your key is ", key, "."]));
        let told = [400, 422, 500, 302, last].into_iter();
        let told = told.fold(script, |script, status| script.request().send(http_with(status, &header, &words(key))));
        crate::scripted::Upstream::start([Script::new().repeat(told)])
    };
    let upstreams = [play(&acme, 401), play(&bolt, 429)];
    let world = World::new().with("[routing.breaker]\nconsecutive = 50\n[routing.retry]\nbudget_ratio = 1");
    let world = world.provider("acme", upstreams[0].address()).provider("bolt", upstreams[1].address());
    let world = world.model(&Model::new("acme/small").at("acme", "0", "0"));
    let program = Program::start(&world.model(&Model::new("bolt/small").at("bolt", "0", "0")));
    let mut answers = vec![program.greeting.clone()];
    for model in ["acme/small", "bolt/small"] {
        // In the order of the script: a false 200, an answer, a stream, then refusals of both kinds.
        for stream in [false, false, true, true, false, true, false, true] {
            let answer =
                program.call("POST", "/api/v1/chat/completions", &and(ask(model), json!({"stream": stream}))).await;
            let id =
                answer.lines().find_map(|line| line.strip_prefix("x-generation-id: ")).unwrap_or("gen-none").to_owned();
            answers.push(answer);
            answers.push(program.call("GET", &format!("/api/v1/route/explain?generation_id={id}"), &Value::Null).await);
            answers.push(program.call("GET", &format!("/api/v1/generation?id={id}"), &Value::Null).await);
        }
    }
    for path in [
        "/metrics",
        "/health/ready",
        "/api/v1/health/calibration",
        "/api/v1/health/memory",
        "/api/v1/health/providers",
        "/api/v1/models/stats",
        "/api/v1/providers",
        "/api/v1/models",
    ] {
        answers.push(program.call("GET", path, &Value::Null).await);
    }
    assert!(
        answers.iter().any(|answer| answer.contains("\"raw\":")),
        "the upstream's words were shown where they may be"
    );
    let asked: usize = upstreams.iter().map(|upstream| upstream.requests().len()).sum();
    assert!(asked >= 14, "the upstreams were asked: {asked}");
    let log = program.log();
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "everything is logged: {log}");
    for key in [&acme, &bolt] {
        for text in answers.iter().chain([&log]) {
            assert!(!text.contains(key.as_str()), "{key} in {text}");
        }
    }
    assert!(!log.contains(KEY), "the caller's key is not logged either");
}
