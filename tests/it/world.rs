//! A small world around a gateway: scripted providers, models at them, and what each of them received.
//!
//! Providers have keys of their own, so that every test also shows whose key went where. Exploration and hedging are
//! off: which endpoint serves follows from prices and measured figures alone.

use std::{
    borrow::Borrow,
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    patience::PATIENCE,
    scripted::{Gate, Script, Upstream},
};

/// A configuration under construction.
#[derive(Clone, Default)]
pub(crate) struct World {
    toml: String,
    environment: Vec<(String, String)>,
}

impl World {
    /// Nothing but deterministic routing.
    pub(crate) fn new() -> World {
        World::default().with("[routing]\nexploration = 0\n[routing.hedge]\nobjectives = []")
    }

    /// Further configuration, as TOML.
    pub(crate) fn with(mut self, toml: &str) -> World {
        self.toml.push_str(toml);
        self.toml.push('\n');
        self
    }

    /// A further environment variable.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> World {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A provider at that address, named as its slug with a capital, with the key [`provider_key`].
    pub(crate) fn provider(self, slug: &str, address: SocketAddr) -> World {
        self.provider_with(slug, address, "")
    }

    /// As [`World::provider`], with further keys of its table.
    pub(crate) fn provider_with(self, slug: &str, address: SocketAddr, toml: &str) -> World {
        let variable = format!("{}_KEY", slug.to_uppercase());
        let name = capital(slug);
        let table = format!(
            "[providers.{slug}]\nname = \"{name}\"\nbase_url = \"http://{address}/v1\"\napi_key_env = \"{variable}\"\n{toml}"
        );
        self.with(&table).variable(&variable, &provider_key(slug))
    }

    /// A model.
    pub(crate) fn model(self, model: &Model) -> World {
        let toml = model.toml();
        self.with(&toml)
    }

    /// The configuration as it will be read.
    pub(crate) fn toml(&self) -> &str {
        &self.toml
    }

    /// The environment as it will be read.
    pub(crate) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Moves a running gateway into this world; the version of its configuration there.
    pub(crate) async fn take_over(&self, gateway: &TestGateway) -> u64 {
        let environment: Vec<(&str, &str)> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        gateway.adopt(&self.toml, &environment).await
    }

    /// A gateway in this world.
    pub(crate) async fn start(&self) -> TestGateway {
        let environment: Vec<(&str, &str)> =
            self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        TestGateway::start_with(&self.toml, &environment).await
    }
}

/// The key that a provider of a [`World`] is called with.
pub(crate) fn provider_key(slug: &str) -> String {
    format!("sk-upstream-{slug}-5ec2e7")
}

fn capital(slug: &str) -> String {
    let (first, rest) = slug.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

/// One `[[models]]`.
#[derive(Clone)]
pub(crate) struct Model {
    id: String,
    parameters: Vec<String>,
    extra: String,
    endpoints: Vec<String>,
}

impl Model {
    /// A model that honours `max_tokens`, `temperature` and tools.
    pub(crate) fn new(id: &str) -> Model {
        let parameters = ["max_tokens", "temperature", "tools", "tool_choice"].map(str::to_owned).to_vec();
        Model { id: id.to_owned(), parameters, extra: String::new(), endpoints: Vec::new() }
    }

    /// The only parameters it honours.
    pub(crate) fn taking(mut self, parameters: &[&str]) -> Model {
        self.parameters = parameters.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// An endpoint at that provider, with prices of a prompt and a completion token.
    pub(crate) fn at(self, provider: &str, prompt: &str, completion: &str) -> Model {
        self.priced(provider, &format!("prompt = \"{prompt}\", completion = \"{completion}\""))
    }

    /// An endpoint at that provider, with all its prices. Its name there is `<provider>-<name>`.
    pub(crate) fn priced(mut self, provider: &str, prices: &str) -> Model {
        let name = self.id.split('/').nth(1).unwrap();
        self.endpoints.push(format!(
            "{{ provider = \"{provider}\", upstream_model = \"{provider}-{name}\", pricing = {{ {prices} }} }}"
        ));
        self
    }

    /// Further keys of its table.
    pub(crate) fn with(mut self, toml: &str) -> Model {
        let _ = writeln!(self.extra, "{toml}");
        self
    }

    fn toml(&self) -> String {
        let context = if self.extra.contains("context_length") { "" } else { "context_length = 100000\n" };
        format!(
            "[[models]]\nid = \"{}\"\n{context}supported_parameters = {}\n{}endpoints = [{}]\n",
            self.id,
            json!(self.parameters),
            self.extra,
            self.endpoints.join(", ")
        )
    }
}

/// A gateway in front of one model, `acme/small`, whose only provider always answers `answer`.
pub(crate) async fn one_model(answer: &Value) -> (TestGateway, Upstream) {
    let upstream = Upstream::start([Script::answering(http(200, answer))]);
    let model = Model::new("acme/small").at("acme", "0.00000015", "0.0000006");
    let gateway = World::new().provider("acme", upstream.address()).model(&model).start().await;
    (gateway, upstream)
}

/// An upstream that answers every request with this status and body.
pub(crate) fn always(status: u16, body: &Value) -> Upstream {
    Upstream::start([Script::answering(http(status, body))])
}

/// An upstream that answers every request with this text.
pub(crate) fn saying(text: &str) -> Upstream {
    always(200, &completion(text))
}

/// A plain answer of an upstream: this text, 12 prompt tokens, 5 completion tokens.
pub(crate) fn completion(text: &str) -> Value {
    answer(
        json!({"role": "assistant", "content": text}),
        json!({"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}),
    )
}

/// A plain answer of an upstream with this message and usage.
pub(crate) fn answer(message: Value, usage: Value) -> Value {
    json!({"id": "chatcmpl-private", "object": "chat.completion", "created": 1, "model": "private-name",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})
}

/// A whole HTTP answer.
pub(crate) fn http(status: u16, body: &Value) -> String {
    http_with(status, "", body)
}

/// A whole refusal of an upstream in OpenAI's form.
pub(crate) fn refusal(status: u16) -> String {
    http(status, &json!({"error": {"message": "Refused.", "type": "some_error", "code": null}}))
}

/// A whole HTTP answer with further header lines, each ended with CR LF.
pub(crate) fn http_with(status: u16, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Any\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}

/// A stream of an upstream that is held back behind its first word until the gate opens.
pub(crate) fn held_stream(words: &[&str], gate: &Gate) -> Script {
    let whole = stream_of(words);
    let (head, rest) = whole.split_at(whole.find("\n\ndata: ").unwrap() + 2);
    Script::new().request().send(head.to_owned()).wait(gate).send(rest.to_owned()).fin()
}

/// A stream of an upstream: each word a chunk, then the finish and `[DONE]`.
pub(crate) fn stream_of(words: &[&str]) -> String {
    let chunk = |delta: Value, finish: Value| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        format!(
            "data: {}\n\n",
            json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "p", "choices": choices})
        )
    };
    let mut body: String = words.iter().map(|word| chunk(json!({"content": word}), Value::Null)).collect();
    body.push_str(&chunk(json!({}), json!("stop")));
    body.push_str("data: [DONE]\n\n");
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// A request with one user message.
pub(crate) fn ask(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "Which way?"}]})
}

/// The same request with the members of `more` in addition.
pub(crate) fn and(mut request: Value, more: impl Borrow<Value>) -> Value {
    let more = more.borrow().as_object().expect("an object").clone();
    request.as_object_mut().unwrap().extend(more);
    request
}

/// The members of an array of objects, under this name.
pub(crate) fn column<'a>(list: &'a Value, name: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    items.iter().map(|item| item[name].as_str().unwrap_or_else(|| panic!("no {name}: {item}"))).collect()
}

impl Upstream {
    /// The JSON bodies received so far.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        let body = |request: &String| serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        self.requests().iter().map(body).collect()
    }

    /// The JSON body of the last request.
    pub(crate) fn last_body(&self) -> Value {
        self.bodies().pop().expect("nothing arrived")
    }
}

/// Fails the test unless the reply is an error in the one shape, and gives its `error` object.
pub(crate) fn error_of(reply: &Reply, status: u16) -> Value {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"), "{}", reply.text());
    let body = reply.json();
    let members: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(members, ["error"]);
    let error = body["error"].clone();
    assert_eq!(error["code"], json!(status), "{error}");
    assert!(error["code"].is_u64(), "{error}");
    let filled = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    assert!(filled(&error["message"]) && filled(&error["type"]), "{error}");
    assert!(error.as_object().unwrap().contains_key("param"), "{error}");
    assert!(error["param"].is_null() || filled(&error["param"]), "{error}");
    assert!(filled(&error["metadata"]["error_type"]), "{error}");
    assert_eq!(error["metadata"]["request_id"].as_str(), reply.header("x-request-id"), "{error}");
    // Waiting cures nothing where a client is told not to call again.
    if (status == 429 || status >= 500) && reply.header("x-should-retry") != Some("false") {
        let seconds: u64 = reply.header("retry-after").expect("no Retry-After").parse().unwrap();
        assert!(seconds >= 1, "{seconds}");
        assert!(reply.header("retry-after-ms").unwrap().parse::<u64>().unwrap() >= 1);
    }
    error
}

/// Sends these bytes on a connection of their own and gives what comes back until the server closes or, once it has
/// answered, falls silent.
pub(crate) async fn raw(address: SocketAddr, bytes: impl Into<Vec<u8>>) -> String {
    let bytes = bytes.into();
    // On a thread of its own: the gateway lives on this one.
    actix_web::rt::task::spawn_blocking(move || exchange(address, &bytes)).await.unwrap()
}

fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    // A server that refuses early may close before it has read everything.
    let _ = socket.write_all(bytes);
    let (mut got, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    while let Ok(read @ 1..) = socket.read(&mut buffer) {
        got.extend_from_slice(&buffer[..read]);
        socket.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    }
    String::from_utf8_lossy(&got).into_owned()
}
