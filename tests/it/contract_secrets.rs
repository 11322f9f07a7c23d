//! Secrets stay secret, on the real binary: after a hostile little session, everything it wrote and
//! everything it answered is searched for the provider's key, the clients' keys and the words of the prompts.

use std::sync::Arc;

use actix_web::http::Method;
use pointsman_domain::Generation;
use pointsman_ledger::{
    entry::Filter,
    generations::GenerationStore,
    page::Query,
    traffic::{Traffic, TrafficRecord, Wanted},
};
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    hostile::UNTIL_CLOSE,
    keyless::{provider, simple_model},
    ledger_commands,
    process::{ConfigFile, Process},
    raw_client::RawClient,
    scripted::{Script, Upstream},
    world::{and, http, refusal, saying, stream_of},
};

const PROVIDER_KEY: &str = "sk-provider-7f3e9a1c5b2d8046";
const WRONG_KEY: &str = "sk-stolen-4c2a8e6f0b1d3579";
const PROMPT: &str = "zanzibarthermocline";
const ANSWER: &str = "quokkamarmalade";

/// What an upstream says that is angry and careless: our key back, in places where an error's words stand.
fn echo(status: u16) -> String {
    let message = format!("Incorrect API key provided: {PROVIDER_KEY}. (Authorization: Bearer {PROVIDER_KEY})");
    http(status, &json!({"error": {"message": message, "code": PROVIDER_KEY, "param": PROVIDER_KEY}}))
}

/// A 200 that is an error and quotes what it was asked, as content filters do.
fn quoting() -> String {
    let message = format!("Cannot process this: {PROMPT}. Key {PROVIDER_KEY}.");
    http(200, &json!({"error": {"message": message, "type": format!("server_error about {PROMPT}"), "code": 500}}))
}

/// The last of an upstream's answers, a stream that breaks off with our key and the prompt in its mouth.
fn broken_stream() -> String {
    let begun = format!("{UNTIL_CLOSE}{}", crate::hostile::text(ANSWER));
    format!("{begun}data: {{\"error\":{{\"message\":\"{PROVIDER_KEY} {PROMPT}\"}}}}\n\n")
}

struct Session {
    gateway: TestGateway,
    /// Everything that was answered, except for the words a model is asked for.
    answers: Vec<(String, String)>,
}

impl Session {
    async fn call(&mut self, method: Method, path: &str, headers: &[(&str, &str)], body: Option<&Value>) {
        self.send(method, path, headers, body.map(|body| body.to_string().into_bytes())).await;
    }

    async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)], body: Option<Vec<u8>>) {
        let reply = self.gateway.call(method.clone(), path, headers, body).await;
        let what = format!("{method} {path} {}", reply.status);
        let (id, inference) = (reply.header("x-generation-id").map(str::to_owned), path.contains("/chat/"));
        let good = inference && reply.status == 200;
        self.answers.push((what.clone(), format!("{:?}", reply.headers)));
        // A good answer is the client's own; an error must not repeat what it was asked.
        let text = if good { reply.text().replace(ANSWER, "") } else { reply.text() };
        self.answers.push((what, text));
        let Some(id) = id else { return };
        for page in [format!("/api/v1/route/explain?id={id}"), format!("/api/v1/generation?id={id}")] {
            let shown = self.gateway.get(&page).await;
            assert_eq!(shown.status, 200, "{page}: {}", shown.text());
            self.answers.push((page, shown.text()));
        }
    }

    async fn chat(&mut self, model: &str, more: &Value) {
        let body = json!({"model": model, "messages": [{"role": "user", "content": PROMPT}]});
        let body = and(body, more);
        let json = [("content-type", "application/json")];
        self.call(Method::POST, "/api/v1/chat/completions", &json, Some(&body)).await;
    }

    fn check(&self) {
        for (what, text) in &self.answers {
            check(what, text);
        }
    }
}

fn check(what: &str, text: &str) {
    for secret in [PROVIDER_KEY, KEY, WRONG_KEY, PROMPT, ANSWER] {
        assert!(!text.contains(secret), "{secret} is in {what}: {text}");
    }
}

/// An upstream per model, each with one way to fail.
fn upstreams() -> Vec<(&'static str, Upstream)> {
    let whole = stream_of(&[ANSWER]);
    vec![
        ("good", saying(ANSWER)),
        ("unauthorized", Upstream::start([Script::answering(echo(401))])),
        ("forbidden", Upstream::start([Script::answering(echo(403))])),
        ("missing", Upstream::start([Script::answering(echo(404))])),
        ("mistaken", Upstream::start([Script::answering(echo(400))])),
        ("odd", Upstream::start([Script::answering(echo(422))])),
        ("limited", Upstream::start([Script::answering(echo(429))])),
        ("broken", Upstream::start([Script::answering(echo(500))])),
        ("lying", Upstream::start([Script::answering(echo(200))])),
        ("quoting", Upstream::start([Script::answering(quoting())])),
        ("silent", Upstream::start([Script::answering(refusal(503))])),
        ("garbled", Upstream::start([Script::answering(format!("HTTP/1.1 {PROVIDER_KEY}\r\n\r\n"))])),
        ("streaming", Upstream::start([Script::new().request().send(whole).fin()])),
        ("cut", Upstream::start([Script::new().request().send(broken_stream()).fin()])),
    ]
}

fn config(upstreams: &[(&str, Upstream)]) -> ConfigFile {
    let mut text = "[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n[simulation]\nmode = \"off\"\n\
                    [[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n\
                    [[shadow]]\nname = \"cheap\"\noverrides = { routing.objective = \"cheapest\" }\n\
                    [[aliases]]\nname = \"chat\"\nallowed_models = [\"acme/good\"]\ncascade = { to = \"acme/streaming\" }\n\
                    [routing.explore]\nshare = 0.5\n"
        .to_owned();
    for (slug, upstream) in upstreams {
        text.push_str(&provider(slug, &upstream.url("/v1")));
        text.push_str("api_key_env = \"ACME_API_KEY\"\n");
        text.push_str(&simple_model(&format!("acme/{slug}"), slug));
    }
    ConfigFile::new(&text)
}

/// Every page that shows something of what happened.
const PAGES: [&str; 17] = [
    "/api/v1/key",
    "/api/v1/credits",
    "/api/v1/providers",
    "/api/v1/health/providers",
    "/api/v1/health/providers/cut",
    "/api/v1/health/providers/garbled",
    "/api/v1/health/calibration",
    "/api/v1/models/stats",
    "/api/v1/models/acme/good/endpoints",
    "/api/v1/models",
    "/api/models",
    "/api/v1/models/count",
    "/metrics",
    "/health",
    "/health/live",
    "/health/ready",
    "/nowhere",
];

/// What clients do wrong, with their prompts, keys and other people's keys in every place there is.
async fn hostile_calls(session: &mut Session) {
    let prompt = |more: &str| format!("{{\"model\":\"acme/good\",\"messages\":[{{\"content\":\"{PROMPT}\"}}]{more}");
    let json = ("content-type", "application/json");
    let bodies =
        [prompt(""), prompt("}} trailing"), prompt(",\"x\":1,\"x\":2}"), format!("\"{PROMPT}\""), "[".repeat(500)];
    for body in bodies {
        for path in ["/api/v1/chat/completions", "/api/v1/route/preview", "/api/v1/route/explain", "/api/v1/images"] {
            session.send(Method::POST, path, &[json], Some(body.clone().into_bytes())).await;
        }
    }
    let asked = json!({"model": "acme/good", "messages": [{"role": "user", "content": PROMPT}]});
    session.call(Method::POST, "/api/v1/route/preview", &[json], Some(&asked)).await;
    session.call(Method::POST, "/api/v1/images", &[json], Some(&json!({"model": "acme/good", "prompt": PROMPT}))).await;
    session.call(Method::POST, "/api/v1/chat/completions", &[("content-type", "text/plain")], Some(&asked)).await;
    for field in ["model", "user", "session_id", "objective", "response_format", "tool_choice", "reasoning"] {
        let mut odd = asked.clone();
        odd[field] = json!({ "a": PROVIDER_KEY });
        // What was sent as a value may come back as one in the error's words; what stands inside it may not.
        session.call(Method::POST, "/api/v1/chat/completions", &[json], Some(&odd)).await;
    }
    session.call(Method::DELETE, "/api/v1/chat/completions", &[json], Some(&asked)).await;
    let (huge, cookie) = (format!("Bearer {}", WRONG_KEY.repeat(900)), format!("key={KEY}"));
    session.call(Method::GET, "/api/v1/key", &[("authorization", &huge), ("cookie", &cookie)], None).await;
}

/// Clients that leave in mid-stream, stop inside a body, or speak no HTTP behind their key.
async fn leave_and_trickle(gateway: &TestGateway) {
    let body = json!({"model": "acme/streaming", "stream": true, "messages": [{"role": "user", "content": PROMPT}]});
    RawClient::chat(gateway, &body).await.hang_up();
    for said in [
        format!("POST /api/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n"),
        format!("{}{{\"messages\":\"{PROMPT}", crate::enemy::head("content-length: 1000\r\n")),
        format!("GET /{PROMPT} HTTP/9.9\r\nauthorization: Bearer {KEY}\r\n\r\n"),
        format!("{}zz{PROMPT}\r\n", crate::enemy::head("transfer-encoding: chunked\r\n")),
    ] {
        let mut client = RawClient::connect(gateway.address).await;
        client.say(said).await;
        client.shut_down_writing().await;
        check("the answer to half a request", &client.rest().await);
    }
}

async fn check_session(log: &str) {
    let upstreams = upstreams();
    let config = config(&upstreams);
    let folder = Folder::new();
    let data = folder.at("data").display().to_string();
    let environment = [
        ("TEST_KEY", KEY),
        ("ACME_API_KEY", PROVIDER_KEY),
        ("RUST_LOG", log),
        ("POINTSMAN__LEDGER__DURABILITY", "group"),
        ("POINTSMAN__LEDGER__DATA_DIR", data.as_str()),
    ];
    let mut process = Process::start(&["--config", config.path()], &environment);
    let mut session = Session { gateway: process.gateway(), answers: Vec::new() };

    for (slug, _) in &upstreams {
        let model = format!("acme/{slug}");
        session.chat(&model, &json!({})).await;
        session.chat(&model, &json!({"stream": true})).await;
    }
    session.chat("service/auto", &json!({"models": ["acme/good"], "trace": {"note": "kept"}})).await;
    let tool = json!([{"type": "function", "function": {"name": "f", "description": PROMPT}}]);
    session.chat("acme/good", &json!({"tools": tool})).await;
    session.chat("acme/good", &json!({"stop": [PROMPT, 5]})).await;
    session.chat("acme/good", &json!({"messages": [{"role": "user", "content": [PROMPT]}]})).await;
    session.chat("acme/good", &json!({"messages": [{"role": "user", "content": {"text": PROMPT}}]})).await;
    session.chat("acme/good", &json!({"max_tokens": 99_999_999})).await;

    // A broken answer of a cascade, and ratings with words.
    session.chat("service/chat", &json!({"response_format": {"type": "json_object"}, "session_id": "s"})).await;
    let asked = json!({"model": "acme/good", "messages": [{"role": "user", "content": PROMPT}]});
    let rated = session.gateway.chat(&asked).await.header("x-generation-id").unwrap().to_owned();
    let path = format!("/api/v1/generations/{rated}/feedback");
    for more in
        [json!({"comment": PROMPT}), json!({"name": format!("{PROMPT} {ANSWER}")}), json!({"idempotency_key": PROMPT})]
    {
        let rating = and(json!({"value": true}), more);
        session.call(Method::POST, &path, &[("content-type", "application/json")], Some(&rating)).await;
    }
    session.call(Method::GET, &path, &[], None).await;

    let stolen = format!("Bearer {WRONG_KEY}");
    for header in [("authorization", stolen.as_str()), ("x-api-key", WRONG_KEY), ("authorization", WRONG_KEY)] {
        session.call(Method::GET, "/api/v1/key", &[header], None).await;
        session.call(Method::POST, "/api/v1/chat/completions", &[header], Some(&json!({"prompt": PROMPT}))).await;
    }
    hostile_calls(&mut session).await;
    for path in PAGES {
        session.call(Method::GET, path, &[], None).await;
    }
    leave_and_trickle(&session.gateway).await;
    session.check();

    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(0));
    let (stdout, stderr) = (process.stdout(), process.stderr());
    assert!(stderr.contains("acme/broken at broken failed"), "the log says too little to be a test: {stderr}");
    check("standard output", &stdout);
    check(&format!("the log at {log}"), &stderr);
    check_records(&folder);

    let reached = |slug: &str| upstreams.iter().find(|(name, _)| *name == slug).unwrap().1.requests().join("");
    assert!(reached("good").contains(PROVIDER_KEY) && reached("good").contains(PROMPT), "the session shows nothing");
    assert!(upstreams.iter().all(|(_, upstream)| upstream.requests().iter().all(|request| !request.contains(KEY))));
}

/// What the ledger keeps, behind its compression, and the files beside it.
fn check_records(folder: &Folder) {
    let ledger = GenerationStore::inspect(&folder.at("data")).unwrap();
    let query = Query { filter: Filter::default(), after: None, limit: 10_000, blocks: usize::MAX };
    let entries = ledger.entries().page(&query).unwrap().entries;
    assert!(entries.len() > 10, "{} records show nothing", entries.len());
    for entry in entries {
        check("a record", &String::from_utf8_lossy(&entry.bytes));
        check("the index of a record", &format!("{:?}", entry.facts));
    }
    let (data, export) = (folder.at("data"), folder.at("traffic.pmx"));
    let (path, out) = (data.display().to_string(), export.display().to_string());
    let (code, said, _) = ledger_commands::ledger(&["export", "--strip", "--out", &out, "--data-dir", &path], &[]);
    assert_eq!(code, 0, "{said}");
    let never = std::sync::atomic::AtomicBool::new(false);
    for place in [&data, &export] {
        let take = |shadows: &mut usize, record: TrafficRecord| {
            let generation = Generation { catalog: Arc::default(), ..record.generation };
            *shadows += generation.shadows.len();
            check(&format!("a record of {}", place.display()), &format!("{generation:?}"));
        };
        let shadows = Traffic::open(place).unwrap().fold(&Wanted::default(), 1, &never, || 0, take).unwrap().0;
        assert!(place == &export || shadows.iter().sum::<usize>() > 0, "no choice of a shadow was recorded");
    }
    for file in std::fs::read_dir(folder.at("data")).unwrap().map(|file| file.unwrap().path()) {
        let bytes = if file.is_file() { std::fs::read(&file).unwrap() } else { Vec::new() };
        check(&file.display().to_string(), &String::from_utf8_lossy(&bytes));
    }
}

#[actix_web::test]
async fn no_key_and_no_prompt_is_in_any_log_line_metric_error_or_record() {
    check_session("debug").await;
}

/// With every library as talkative as it can be.
#[actix_web::test]
async fn not_even_the_most_detailed_log_holds_a_key_or_a_prompt() {
    check_session("trace").await;
}
