//! Simulated providers over real HTTP. Their parts are tested where they stand; here it is the sockets.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use pointsman_simulation::{ProviderServer, ProviderSettings, SimulatedModel, start};
use serde_json::{Value, json};

use crate::patience::on_this_thread;

/// A provider without waits and faults.
fn quick() -> ProviderSettings {
    let seeing = SimulatedModel { context_length: Some(10_000), ..SimulatedModel::text("hare-1").seeing() };
    ProviderSettings {
        slug: "hare".to_owned(),
        name: "Hare".to_owned(),
        first_token: Duration::ZERO,
        tokens_per_second: 1e9,
        odd_framing_rate: 0.0,
        models: vec![seeing, SimulatedModel::image("brush-1")],
        ..ProviderSettings::default()
    }
}

fn run(settings: ProviderSettings) -> ProviderServer {
    start(vec![settings]).unwrap().remove(0)
}

/// What came back: everything until the connection closed.
struct Reply {
    status: u16,
    head: String,
    /// The writes of the server's body, as its chunked encoding shows them; one if it had a length.
    writes: Vec<String>,
    /// Whether the body was whole.
    whole: bool,
}

impl Reply {
    fn text(&self) -> String {
        self.writes.concat()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap_or_else(|fault| panic!("{fault}: {}", self.text()))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The JSON of all events, without the `[DONE]` that must end them.
    fn events(&self) -> Vec<Value> {
        let text = self.text();
        let mut events: Vec<&str> = text.split_terminator("\n\n").map(|e| e.strip_prefix("data: ").unwrap()).collect();
        assert_eq!(events.pop(), Some("[DONE]"), "{text}");
        events.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }
}

fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer anything\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    connection.write_all(request.as_bytes()).unwrap();
    connection
}

fn receive(mut connection: TcpStream) -> Reply {
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).unwrap();
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..split].to_vec()).unwrap().to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = &bytes[split + 4..];
    let mut reply = Reply { status, head, writes: Vec::new(), whole: false };
    let (writes, whole) = match reply.header("content-length") {
        Some(length) => (vec![body.to_vec()], body.len() == length.parse::<usize>().unwrap()),
        None => dechunk(body),
    };
    reply.whole = whole;
    // Splits may fall into characters: what is compared as text here is joined first.
    reply.writes = match writes.iter().map(|write| String::from_utf8(write.clone())).collect() {
        Ok(writes) => writes,
        Err(_) => vec![String::from_utf8(writes.concat()).unwrap()],
    };
    reply
}

fn dechunk(mut rest: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut chunks = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return (chunks, true);
        }
        chunks.push(rest[end + 2..].iter().take(size).copied().collect());
        rest = rest.get(end + 2 + size + 2..).unwrap_or_default();
    }
    (chunks, false)
}

fn post(running: &ProviderServer, path: &str, body: &Value) -> Reply {
    receive(send(running.address, "POST", path, &body.to_string()))
}

fn chat(running: &ProviderServer, more: Value) -> Reply {
    post(running, "/v1/chat/completions", &chat_body(more))
}

fn chat_body(more: Value) -> Value {
    let mut body = json!({ "model": "hare-1", "messages": [{ "role": "user", "content": "Why is the sky blue?" }] });
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    body
}

fn content(events: &[Value]) -> String {
    events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect()
}

#[test]
fn a_plain_answer_is_a_chat_completion_whose_usage_adds_up() {
    let hare = run(quick());
    let reply = chat(&hare, json!({}));
    let body = reply.json();
    assert_eq!((reply.status, body["object"].as_str()), (200, Some("chat.completion")));
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    let message = &body["choices"][0]["message"];
    assert!(message["content"].as_str().unwrap().starts_with("I am a simulated model, hare-1 at Hare."), "{message}");
    assert_eq!(message.get("tool_calls"), None);
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    let count = |name: &str| body["usage"][name].as_u64().unwrap();
    assert_eq!(count("total_tokens"), count("prompt_tokens") + count("completion_tokens"));
    assert_eq!((hare.counters().requests(), hare.counters().completed(), hare.counters().in_flight()), (1, 1, 0));
}

#[test]
fn a_stream_tells_the_words_of_the_plain_answer_role_first_and_done_last() {
    let hare = run(quick());
    let plain = chat(&hare, json!({ "seed": 7 })).json();
    let reply = chat(&hare, json!({ "seed": 7, "stream": true, "stream_options": { "include_usage": true } }));
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let events = reply.events();
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(content(&events), plain["choices"][0]["message"]["content"].as_str().unwrap());
    let [.., finish, usage] = events.as_slice() else { panic!("too few events") };
    assert_eq!(finish["choices"][0]["finish_reason"], "stop");
    assert_eq!((usage["choices"].as_array().unwrap().len(), &usage["usage"]), (0, &plain["usage"]));
    assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
    assert!(reply.whole);
}

#[test]
fn usage_is_told_only_when_asked_for_and_by_providers_that_report_it() {
    let with_usage = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let silent = run(ProviderSettings { reports_usage: false, ..quick() });
    assert!(chat(&silent, with_usage).events().iter().all(|event| event.get("usage").is_none()));
    assert_eq!(chat(&silent, json!({})).json().get("usage"), None);
    let hare = run(quick());
    assert!(chat(&hare, json!({ "stream": true })).events().iter().all(|event| event.get("usage").is_none()));
}

#[test]
fn odd_framing_changes_the_writes_but_not_the_events() {
    let (even, odd) = (run(quick()), run(ProviderSettings { odd_framing_rate: 1.0, ..quick() }));
    let body = json!({ "stream": true, "seed": 3, "max_tokens": 60 });
    let (even, odd) = (chat(&even, body.clone()), chat(&odd, body));
    assert!(even.writes.iter().all(|write| write.matches("\n\n").count() == 1 && write.ends_with("\n\n")));
    assert!(odd.writes.iter().any(|write| !write.ends_with("\n\n")), "some event is split");
    assert!(odd.writes.iter().any(|write| write.matches("data: ").count() == 2), "some events leave together");
    let words = |reply: &Reply| reply.events().iter().map(|event| event["choices"].clone()).collect::<Vec<_>>();
    assert_eq!(words(&even), words(&odd));
}

#[test]
fn a_tool_round_trip_works_plain_and_streamed() {
    let hare = run(quick());
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let tools = json!([{ "type": "function", "function": { "name": "get_weather", "parameters": schema } }]);
    let question = json!({ "role": "user", "content": "What is the weather in Lisbon?" });

    let asked = chat(&hare, json!({ "messages": [question], "tools": tools })).json();
    let choice = &asked["choices"][0];
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!((choice["finish_reason"].as_str(), &choice["message"]["content"]), (Some("tool_calls"), &Value::Null));
    assert_eq!(call["function"], json!({ "name": "get_weather", "arguments": r#"{"city":"Lisbon"}"# }));

    let events = chat(&hare, json!({ "messages": [question], "tools": tools, "stream": true })).events();
    let fragments: Vec<&Value> = events.iter().filter_map(|e| e["choices"][0]["delta"]["tool_calls"].get(0)).collect();
    assert!(fragments[0]["id"].is_string() && fragments[0]["function"]["name"] == "get_weather");
    let arguments: String = fragments.iter().filter_map(|f| f["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, r#"{"city":"Lisbon"}"#);
    assert!(fragments.len() > 2, "arguments come in fragments");

    let result = json!({ "role": "tool", "tool_call_id": call["id"], "content": "23 degrees, sunny" });
    let messages = json!([question, choice["message"], result]);
    let told = chat(&hare, json!({ "messages": messages, "tools": tools })).json();
    let text = told["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert!(text.contains("The tool get_weather answered: 23 degrees, sunny."), "{text}");
}

#[test]
fn pictures_are_real_pngs() {
    let hare = run(quick());
    let body = json!({ "model": "brush-1", "prompt": "a fox", "n": 2 });
    let reply = post(&hare, "/v1/images/generations", &body).json();
    let pngs: Vec<Vec<u8>> = reply["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|image| BASE64.decode(image["b64_json"].as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(pngs.len(), 2);
    assert_ne!(pngs[0], pngs[1]);
    assert!(pngs[0].starts_with(b"\x89PNG\r\n\x1a\n"));
    let usage = &reply["usage"];
    assert_eq!(
        usage["total_tokens"],
        usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap()
    );
    let refused = post(&hare, "/v1/images/generations", &json!({ "model": "hare-1", "prompt": "a fox" }));
    assert_eq!(refused.status, 400);
}

#[test]
fn a_picture_can_be_sent_and_one_can_be_drawn_in_a_chat() {
    let hare = run(quick());
    let url = json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } });
    let messages = json!([{ "role": "user", "content": [{ "type": "text", "text": "What is this?" }, url] }]);
    let seen = chat(&hare, json!({ "messages": messages })).text();
    assert!(seen.contains("You sent 1 image"), "{seen}");
    for stream in [false, true] {
        let drawn = chat(&hare, json!({ "model": "brush-1", "modalities": ["image"], "stream": stream })).text();
        assert!(drawn.contains(r#""images":[{"image_url":{"url":"data:image/png;base64,iVBOR"#), "{drawn}");
    }
}

#[test]
fn beyond_the_rate_limit_comes_a_429_that_says_when_to_try_again() {
    let strict = run(ProviderSettings { rate_limit_per_minute: Some(2), ..quick() });
    let first = chat(&strict, json!({}));
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("1"));
    assert_eq!(chat(&strict, json!({})).status, 200);
    let refused = chat(&strict, json!({ "stream": true }));
    assert_eq!(refused.status, 429);
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let error = &refused.json()["error"];
    assert_eq!((error["code"].as_str(), error["type"].as_str()), (Some("rate_limit_exceeded"), Some("requests")));
    assert_eq!(strict.counters().rate_limited(), 1);
}

#[test]
fn failures_come_before_any_content_and_in_the_same_places_for_the_same_seed() {
    let statuses = |seed| {
        let flaky = run(ProviderSettings { error_rate: 0.5, seed, ..quick() });
        let statuses: Vec<u16> = (0..12).map(|n| chat(&flaky, json!({ "stream": n % 2 == 0 })).status).collect();
        assert_eq!(flaky.counters().failed(), statuses.iter().filter(|status| **status == 500).count() as u64);
        statuses
    };
    assert_eq!(statuses(5), statuses(5));
    assert!(statuses(5).contains(&200) && statuses(5).contains(&500));
}

#[test]
fn a_cut_answer_breaks_off_and_never_looks_whole() {
    let cutting = run(ProviderSettings { truncate_rate: 1.0, ..quick() });
    let stream = chat(&cutting, json!({ "stream": true }));
    assert!(!stream.whole && !stream.text().contains("[DONE]") && !stream.text().contains("\"stop\""));
    assert!(stream.text().contains("\"content\":\"I am"), "{}", stream.text());
    let plain = chat(&cutting, json!({}));
    assert_eq!((plain.status, plain.whole), (200, false));
    assert_eq!(cutting.counters().truncated(), 2);
}

#[test]
fn a_silent_provider_never_answers_and_counts_the_client_that_gave_up() {
    let silent = run(ProviderSettings { hang_rate: 1.0, ..quick() });
    let connection = send(silent.address, "POST", "/v1/chat/completions", &chat_body(json!({})).to_string());
    on_this_thread("arrival", || (silent.counters().in_flight() == 1).then_some(()));
    drop(connection);
    on_this_thread("cancellation", || (silent.counters().cancelled() == 1).then_some(()));
    assert_eq!(silent.counters().in_flight(), 0);
}

#[test]
fn a_client_that_leaves_stops_the_generation_at_once() {
    let slow = run(ProviderSettings { tokens_per_second: 10.0, ..quick() });
    for (stream, cancelled) in [(true, 1), (false, 2)] {
        let body = chat_body(json!({ "stream": stream })).to_string();
        let mut connection = send(slow.address, "POST", "/v1/chat/completions", &body);
        if stream {
            connection.read_exact(&mut [0; 300]).unwrap();
        }
        on_this_thread("arrival", || (slow.counters().in_flight() == 1).then_some(()));
        let left = Instant::now();
        drop(connection);
        on_this_thread("cancellation", || (slow.counters().cancelled() == cancelled).then_some(()));
        assert!(left.elapsed() < Duration::from_secs(5), "{:?}", left.elapsed());
        assert_eq!((slow.counters().in_flight(), slow.counters().completed()), (0, 0));
    }
}

#[test]
fn tokens_come_at_the_simulated_pace() {
    let steady = run(ProviderSettings {
        first_token: Duration::from_millis(20),
        first_token_spread: 0.0,
        tokens_per_second: 500.0,
        tokens_per_second_spread: 0.0,
        ..quick()
    });
    for stream in [false, true] {
        let begin = Instant::now();
        let reply = chat(&steady, json!({ "stream": stream, "max_tokens": 31 }));
        assert_eq!(reply.status, 200);
        // 20 ms and thirty times 2 ms: sleeping may take longer on a busy machine, never shorter.
        assert!(begin.elapsed() >= Duration::from_millis(79), "stream {stream}: {:?}", begin.elapsed());
    }
}

#[test]
fn mistakes_are_refused_in_openais_shape() {
    let hare = run(quick());
    let check = |method: &str, path: &str, body: &str, status: u16, part: &str| {
        let reply = receive(send(hare.address, method, path, body));
        let error = reply.json()["error"].clone();
        assert_eq!(reply.status, status, "{error}");
        assert!(error.to_string().contains(part), "{error} should contain {part}");
        assert_eq!(error.as_object().unwrap().len(), 4, "message, type, param, code");
    };
    let chat = "/v1/chat/completions";
    check("POST", chat, "{\"model\":", 400, "could not parse the JSON body");
    check("POST", chat, "{}", 400, "missing_required_parameter");
    check("POST", chat, &chat_body(json!({ "model": "tortoise" })).to_string(), 404, "model_not_found");
    let long = json!({ "max_tokens": 10_000 });
    check("POST", chat, &chat_body(long).to_string(), 400, "maximum context length is 10000 tokens");
    check("GET", chat, "", 405, "method_not_supported");
    check("GET", "/v1/audio/speech", "", 404, "unknown_url");
    check("GET", "/v1/models/tortoise", "", 404, "model_not_found");
}

#[test]
fn models_are_listed() {
    let hare = run(quick());
    let list = receive(send(hare.address, "GET", "/v1/models", "")).json();
    let ids: Vec<&str> = list["data"].as_array().unwrap().iter().filter_map(|model| model["id"].as_str()).collect();
    assert_eq!(ids, ["hare-1", "brush-1"]);
    assert_eq!(receive(send(hare.address, "GET", "/v1/models/hare-1", "")).json(), list["data"][0]);
}

#[test]
fn one_provider_stops_while_its_neighbour_serves() {
    let both =
        start(vec![quick(), ProviderSettings { slug: "tortoise".to_owned(), tokens_per_second: 1.0, ..quick() }])
            .unwrap();
    let [hare, tortoise] = both.as_slice() else { panic!("two were started") };
    let running = send(tortoise.address, "POST", "/v1/chat/completions", &chat_body(json!({})).to_string());
    on_this_thread("arrival", || (tortoise.counters().in_flight() == 1).then_some(()));
    tortoise.stop();
    assert!(TcpStream::connect(tortoise.address).is_err(), "a stopped provider refuses");
    assert_eq!(tortoise.counters().in_flight(), 0);
    drop(running);
    assert_eq!(chat(hare, json!({})).status, 200);
}

#[test]
fn a_provider_ends_with_its_handle() {
    let address = run(quick()).address;
    on_this_thread("refusal", || (TcpStream::connect(address).is_err()).then_some(()));
}

#[test]
fn a_provider_can_fall_ill_and_recover_while_it_runs() {
    let hare = run(quick());
    hare.set_settings(ProviderSettings { error_rate: 1.0, ..quick() });
    assert_eq!(chat(&hare, json!({})).status, 500);
    hare.set_settings(quick());
    assert_eq!(chat(&hare, json!({})).status, 200);
}

#[actix_web::test]
async fn providers_start_inside_an_actix_system_too() {
    let hare = run(quick());
    let url = format!("{}/chat/completions", hare.base_url());
    let mut reply = awc::Client::default().post(url).send_json(&chat_body(json!({}))).await.unwrap();
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.json::<Value>().await.unwrap()["model"], "hare-1");
}
