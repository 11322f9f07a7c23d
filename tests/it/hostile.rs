//! What a client sees of an upstream that misbehaves: one case, told in a line, for plain and streamed calls.
//!
//! [`check`] runs a case four ways: plain and streamed, with the upstream alone and with a healthy spare behind
//! it. What the line does not say holds for every case: see [`Seen::is_in_order`].

use std::{fmt::Write as _, panic::Location};

use actix_web::http::Method;
use futures_util::future::{FutureExt as _, LocalBoxFuture, join_all};
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    patience::eventually,
    scripted::{Gate, Script, Upstream},
};

/// The key every scripted provider is called with. It must never come back.
pub(crate) const PROVIDER_KEY: &str = "sk-provider-5ecre7-0123456789";

/// A head that announces chunks of events.
pub(crate) const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// The head of an event stream that ends with its connection.
pub(crate) const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

/// Clocks that run out soon, for upstreams that make us wait, but not for a loaded machine that delays a good answer.
pub(crate) const SHORT: &str = "[timeouts]\nconnect = \"2s\"\nfirst_byte = \"1600ms\"\nfirst_content = \"2s\"\n\
                                total = \"6s\"\n[stream]\nidle_timeout = \"1600ms\"\n";

/// A body in one chunk, the last one left out.
pub(crate) fn chunk(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n", body.len())
}

/// A whole chunked event stream.
pub(crate) fn stream_of(body: &str) -> String {
    format!("{CHUNKED}{}0\r\n\r\n", chunk(body))
}

/// An event with this delta.
pub(crate) fn delta(delta: &Value) -> String {
    event(&json!([{"index": 0, "delta": delta, "finish_reason": null}]))
}

/// An event with this text.
pub(crate) fn text(text: &str) -> String {
    delta(&json!({"content": text}))
}

/// The event that ends the first choice.
pub(crate) fn finish(reason: &str) -> String {
    event(&json!([{"index": 0, "delta": {}, "finish_reason": reason}]))
}

/// An event with these choices.
pub(crate) fn event(choices: &Value) -> String {
    let chunk =
        json!({"id": "up-1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": choices});
    format!("data: {chunk}\n\n")
}

/// The events of a whole answer with this text.
pub(crate) fn events(words: &str) -> String {
    let role = delta(&json!({"role": "assistant", "content": ""}));
    format!("{role}{}{}data: [DONE]\n\n", text(words), finish("stop"))
}

/// A status line, a JSON body and its length.
pub(crate) fn status(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A regular 200 with this JSON body.
pub(crate) fn ok(body: &str) -> String {
    status("200 OK", "", body)
}

/// The body of a regular completion with this text.
pub(crate) fn completion(words: &str) -> String {
    json!({"id": "up-1", "object": "chat.completion", "created": 7, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": words}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})
    .to_string()
}

/// The first 40 bytes.
pub(crate) fn head_of(text: &str) -> &str {
    text.get(..40).unwrap()
}

/// Reads one request, says these bytes, and closes.
pub(crate) fn saying(bytes: &str) -> Script {
    Script::new().request().send(bytes).fin()
}

/// What a provider does, for each way it can be asked.
pub(crate) struct Case {
    plain: Option<Setting>,
    streamed: Option<Setting>,
    config: &'static str,
    gate: Option<Gate>,
}

struct Setting {
    scripts: Option<Vec<Script>>,
    expected: &'static str,
}

impl Case {
    /// The same script for plain and streamed calls.
    pub(crate) fn of(script: &Script, plain: &'static str, streamed: &'static str) -> Case {
        Case::plain(script, plain).and_streamed(script, streamed)
    }

    /// A script for plain calls only.
    pub(crate) fn plain(script: &Script, expected: &'static str) -> Case {
        let plain = Some(Setting { scripts: Some(vec![script.clone()]), expected });
        Case { plain, streamed: None, config: "", gate: None }
    }

    /// A script for streamed calls only.
    pub(crate) fn streamed(script: &Script, expected: &'static str) -> Case {
        Case { plain: None, streamed: None, config: "", gate: None }.and_streamed(script, expected)
    }

    /// Nobody listens.
    pub(crate) fn refused(expected: &'static str) -> Case {
        let setting = || Some(Setting { scripts: None, expected });
        Case { plain: setting(), streamed: setting(), config: "", gate: None }
    }

    /// With clocks that run out soon.
    pub(crate) fn waiting(self) -> Case {
        self.with(SHORT)
    }

    /// With this further configuration.
    pub(crate) fn with(mut self, config: &'static str) -> Case {
        self.config = config;
        self
    }

    /// With a gate that opens as soon as the client has something of the stream in its hands.
    pub(crate) fn with_gate(mut self, gate: &Gate) -> Case {
        self.gate = Some(gate.clone());
        self
    }

    /// Plays it one way, with a spare or without.
    async fn play(&self, setting: &Setting, streamed: bool, spared: bool, place: &Location<'_>) {
        let spare = spared.then(|| spare(streamed));
        let expected = if spared { hidden(setting.expected) } else { setting.expected.to_owned() };
        let gate = self.gate.clone().unwrap_or_default();
        let line = play(setting.scripts.as_deref(), spare, (self.config, &gate), streamed).await;
        assert_eq!(line, expected, "streamed: {streamed}, with a spare: {spared}, {place}");
    }

    fn and_streamed(mut self, script: &Script, expected: &'static str) -> Case {
        self.streamed = Some(Setting { scripts: Some(vec![script.clone()]), expected });
        self
    }
}

/// Runs a case all ways, side by side. A line reads `<what the client got> | <the record's status> | <attempts>`; with a
/// spare it must be the spare's answer, unless the client had its answer, a part of one, or made the mistake itself.
#[track_caller]
pub(crate) fn check(case: Case) -> LocalBoxFuture<'static, ()> {
    let place = Location::caller();
    // Boxed, as each play: many of them at once are too much for the stack of a test.
    let all = async move {
        let settings = [(false, &case.plain), (true, &case.streamed)];
        let settings = settings.into_iter().filter_map(|(streamed, setting)| Some((streamed, setting.as_ref()?)));
        let ways = settings.flat_map(|(streamed, setting)| [false, true].map(|spared| (setting, streamed, spared)));
        let plays = ways.map(|(setting, streamed, spared)| case.play(setting, streamed, spared, place).boxed_local());
        if case.gate.is_none() {
            join_all(plays).await;
            return;
        }
        // A gate opens for whoever waits: one client at a time.
        for play in plays {
            play.await;
        }
    };
    all.boxed_local()
}

/// A provider that answers.
fn spare(streamed: bool) -> Script {
    Script::answering(if streamed { stream_of(&events("spare")) } else { ok(&completion("spare")) })
}

/// What a line becomes when a healthy endpoint stands behind.
fn hidden(alone: &str) -> String {
    let parts: Vec<&str> = alone.split(" | ").collect();
    match parts.as_slice() {
        [seen, _, attempts] if !["200", "400", "413", "422"].iter().any(|status| seen.starts_with(status)) => {
            format!("200 'spare' stop | completed | {attempts}, ok:200")
        }
        _ => alone.to_owned(),
    }
}

async fn play(
    scripts: Option<&[Script]>,
    spare: Option<Script>,
    (config, gate): (&str, &Gate),
    streamed: bool,
) -> String {
    let first = scripts.map(|scripts| Upstream::start(scripts.to_vec()));
    let spare = spare.map(|script| Upstream::start([script]));
    let address =
        first.as_ref().map_or_else(|| format!("http://{}", crate::scripted::refused_address()), |u| u.url(""));
    let mut providers = vec![address];
    providers.extend(spare.as_ref().map(|spare| spare.url("")));
    let gateway = gateway(&providers, config).await;
    gate.close();
    let seen = Seen::of(&gateway, watched_chat(&gateway, &body(streamed), gate).await).await;
    seen.is_in_order(streamed);
    health_heard_of(&gateway, &seen.record["route"]["attempts"][0]).await;
    seen.line()
}

/// A chat call that opens the gate as soon as something of the answer's body is here.
pub(crate) async fn watched_chat(gateway: &TestGateway, body: &Value, gate: &Gate) -> Reply {
    let (headers, body) = ([("content-type", "application/json")], body.to_string().into_bytes());
    gateway.call_watched(Method::POST, "/api/v1/chat/completions", &headers, Some(body), |_| gate.open()).await
}

/// A gateway whose only model, `acme/small`, stands at providers `p0`, `p1` and so on.
pub(crate) async fn gateway(providers: &[String], further: &str) -> TestGateway {
    TestGateway::start_with(&config(providers, further), &[("PROVIDER_KEY", PROVIDER_KEY)]).await
}

/// Its configuration.
pub(crate) fn config(providers: &[String], further: &str) -> String {
    let mut config = format!(
        "{further}\n[[models]]\nid = \"acme/small\"\nname = \"Small\"\ncontext_length = 100000\n\
         supported_parameters = [\"tools\", \"tool_choice\", \"max_tokens\"]\n\
         pricing = {{ prompt = \"0.000001\", completion = \"0.000002\" }}\n"
    );
    for number in 0..providers.len() {
        let _ = write!(config, "[[models.endpoints]]\nprovider = \"p{number}\"\nupstream_model = \"m\"\n");
    }
    for (number, url) in providers.iter().enumerate() {
        let _ = write!(
            config,
            "[providers.p{number}]\nname = \"P{number}\"\nbase_url = \"{url}\"\napi_key_env = \"PROVIDER_KEY\"\n"
        );
    }
    config
}

/// A request that tries the providers in their order.
pub(crate) fn body(streamed: bool) -> Value {
    json!({"model": "acme/small", "stream": streamed, "messages": [{"role": "user", "content": "Hello?"}],
        "provider": {"order": ["p0", "p1", "p2"]}})
}

/// An answer and the record of it.
pub(crate) struct Seen {
    reply: Reply,
    record: Value,
}

impl Seen {
    /// Looks the record up at once: it must be there before the last byte.
    pub(crate) async fn of(gateway: &TestGateway, reply: Reply) -> Seen {
        let id = reply.header("x-generation-id").unwrap_or_else(|| panic!("no generation id: {}", reply.text()));
        let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take();
        Seen { reply, record }
    }

    /// The whole outcome in one line.
    pub(crate) fn line(&self) -> String {
        format!("{} | {}", self.got(), record_line(&self.record))
    }

    fn got(&self) -> String {
        let status = self.reply.status;
        if status != 200 {
            let error = &self.reply.json()["error"];
            return format!("{status} {}", error["metadata"]["error_type"].as_str().unwrap());
        }
        if self.reply.header("content-type") == Some("application/json") {
            let choice = &self.reply.json()["choices"][0];
            let finish = choice["finish_reason"].as_str().unwrap();
            return format!("200 '{}' {finish}", choice["message"]["content"].as_str().unwrap_or("null"));
        }
        let events = self.reply.events();
        let error = events.iter().find(|event| event.get("error").is_some());
        let finish =
            events.iter().find_map(|event| event["choices"][0]["finish_reason"].as_str()).unwrap_or("unfinished");
        let error = error.map_or_else(String::new, |event| {
            format!(" {} {}", event["error"]["code"], event["error"]["metadata"]["error_type"].as_str().unwrap())
        });
        format!("200 '{}' {finish}{error}", self.reply.content())
    }

    /// What holds for every answer, however it came about.
    pub(crate) fn is_in_order(&self, streamed: bool) {
        let (reply, record) = (&self.reply, self.record.to_string());
        assert!(!reply.text().contains("5ecre7") && !record.contains("5ecre7"), "the provider's key came back");
        assert!(reply.header("x-request-id").is_some());
        if reply.status == 200 && streamed {
            return stream_in_order(reply);
        }
        let body = reply.json();
        if reply.status == 200 {
            assert_eq!(Some(body["id"].as_str().unwrap()), reply.header("x-generation-id"));
            return;
        }
        let error = &body["error"];
        assert_eq!(error["code"], reply.status);
        assert!(!error["message"].as_str().unwrap().is_empty() && error["type"].is_string(), "{body}");
        assert!(reply.status == 404 || error.get("param").is_some(), "{body}");
        if reply.status == 429 || reply.status >= 500 {
            // Waiting cures nothing where a client is told not to call again.
            let wait = reply.header("retry-after").map(|seconds| seconds.parse::<u32>().unwrap());
            assert!(wait.map_or(reply.header("x-should-retry") == Some("false"), |wait| wait >= 1));
            assert!(!error["metadata"]["previous_errors"].as_array().unwrap().is_empty(), "{body}");
        }
    }
}

/// What the first provider's health says of its only attempt: a success, its failure by name, or nothing at all where
/// the caller or a limit of the gateway made the mistake. Nothing of it stays in flight.
async fn health_heard_of(gateway: &TestGateway, attempt: &Value) {
    let health = async || gateway.get("/api/v1/health/providers/p0").await.expect(200)["data"][0].take();
    let told = |health: &Value| match attempt["error_type"].as_str() {
        None => health["successes"] == 1 && health["last_error"].is_null(),
        Some("bad_request" | "context_length" | "gateway_limit" | "too_large" | "unprocessable") => {
            health["consecutive_failures"] == 0 && health["last_error"].is_null()
        }
        Some(failure) => {
            let error = &health["last_error"];
            health["successes"] == 0 && error["error_type"] == failure && error["status"] == attempt["status"]
        }
    };
    eventually(attempt, health, |health| told(health) && health["in_flight"] == 0).await;
}

pub(crate) fn stream_in_order(reply: &Reply) {
    let text = reply.text();
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert!(text.ends_with("data: [DONE]\n\n") && text.matches("[DONE]").count() == 1, "{text}");
    for event in text.trim_end().split("\n\n") {
        assert!(event == ": keep-alive" || (event.starts_with("data: ") && !event.contains('\n')), "{event:?}");
    }
    for event in reply.events() {
        assert_eq!(event["id"].as_str(), reply.header("x-generation-id"));
        assert_eq!((event["object"].as_str(), event["created"].is_i64()), (Some("chat.completion.chunk"), true));
        assert!(event["system_fingerprint"].as_str().is_some_and(|print| !print.is_empty()), "{event}");
        for absent in ["usage", "error"] {
            assert!(event.get(absent).is_none_or(|value| value.is_object()), "{event}");
        }
        for choice in event["choices"].as_array().unwrap() {
            assert!(choice["index"].is_u64() && choice["delta"].is_object(), "{event}");
            assert!(choice.get("finish_reason").is_some(), "{event}");
        }
    }
    let events = reply.events();
    let first =
        events.iter().filter_map(|event| event["choices"].as_array()).flatten().filter(|choice| choice["index"] == 0);
    assert_eq!(first.filter(|choice| choice["finish_reason"].is_string()).count(), 1, "{text}");
}

/// `<status> | <attempts>` of a record.
pub(crate) fn record_line(record: &Value) -> String {
    let route = &record["route"];
    let attempts: Vec<String> = route["attempts"].as_array().unwrap().iter().map(attempt).collect();
    assert_eq!(record["cancelled"] == true, route["status"] == "cancelled");
    format!("{} | {}", route["status"].as_str().unwrap(), attempts.join(", "))
}

fn attempt(attempt: &Value) -> String {
    let outcome = attempt["error_type"].as_str().unwrap_or("ok");
    attempt["status"].as_u64().map_or_else(|| outcome.to_owned(), |status| format!("{outcome}:{status}"))
}
