//! The life of the real binary: what it says at start, when it refuses, how it leaves.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use actix_web::http::Method;
use futures_util::StreamExt as _;

use crate::{
    harness::KEY,
    keyless::{provider, simple_model},
    patience::{eventually, until},
    process::{ConfigFile, Process, run},
    scripted::{Gate, Upstream},
    world::{and, ask, column, held_stream},
};

const DEVELOPMENT_KEY: &str = "sk-pointsman-development";
const FREE_PORT: (&str, &str) = ("POINTSMAN__SERVER__BIND", "127.0.0.1:0");
const ONE_WORKER: (&str, &str) = ("POINTSMAN__SERVER__WORKERS", "1");
const SIMULATED: (&str, &str) = ("POINTSMAN__SIMULATION__MODE", "on");

/// A stream that is held back by a gate after its first words, and the server in front of it.
struct HeldStream {
    gate: Gate,
    _upstream: Upstream,
    _config: ConfigFile,
    process: Process,
}

impl HeldStream {
    fn start(server: &str) -> HeldStream {
        let gate = Gate::new();
        let script = held_stream(&["This "], &gate);
        let upstream = Upstream::start([script]);
        let config = ConfigFile::new(
            &[
                format!("[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n{server}\n"),
                "[simulation]\nmode = \"off\"\n[[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n".to_owned(),
                provider("acme", &upstream.url("")),
                simple_model("acme/small", "acme"),
            ]
            .concat(),
        );
        let process = Process::start(&["serve", "--config", config.path()], &[("TEST_KEY", KEY)]);
        HeldStream { gate, _upstream: upstream, _config: config, process }
    }

    /// Opens the stream and reads its first words.
    async fn open(&self) -> impl Future<Output = Result<String, String>> + use<> {
        let url = self.process.gateway().url("/api/v1/chat/completions");
        let client = awc::Client::builder().timeout(Duration::from_secs(20)).finish();
        let body = and(ask("acme/small"), serde_json::json!({"stream": true}));
        let request = client.post(url).insert_header(("authorization", format!("Bearer {KEY}")));
        let mut answer = request.send_json(&body).await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut text = String::new();
        while !text.contains("This ") {
            text.push_str(&String::from_utf8_lossy(&answer.next().await.unwrap().unwrap()));
        }
        async move {
            while let Some(piece) = answer.next().await {
                text.push_str(&String::from_utf8_lossy(&piece.map_err(|error| error.to_string())?));
            }
            Ok(text)
        }
    }
}

#[actix_web::test]
async fn readiness_turns_503_on_sigterm_while_running_streams_finish() {
    let mut held = HeldStream::start("drain_notice = \"4s\"");
    let gateway = held.process.gateway();
    assert_eq!(gateway.get("/health/ready").await.expect(200)["status"], "ready");
    let rest = held.open().await;

    let asked = Instant::now();
    held.process.signal("TERM");
    let readiness = async || {
        let ready = gateway.get("/health/ready").await;
        assert_eq!(ready.status == 503, ready.header("retry-after").is_some(), "{}", ready.text());
        (ready.status, ready.json()["status"].take())
    };
    let (_, status) = eventually("it is no longer ready", readiness, |(status, _)| *status == 503).await;
    assert_eq!(status, "draining");
    assert_eq!(gateway.get("/health/live").await.status, 200, "the listener stays open during the notice");
    held.gate.open();
    let text = rest.await.unwrap();
    assert!(text.ends_with("data: [DONE]\n\n") && !text.contains("\"error\""), "{text}");
    assert_eq!(held.process.end().await.code(), Some(0));
    assert!(asked.elapsed() >= Duration::from_millis(4000), "it left before the notice was over");
}

#[actix_web::test]
async fn after_the_notice_nobody_new_is_let_in_and_a_stream_still_finishes() {
    let mut held = HeldStream::start("drain_notice = \"0s\"");
    let rest = held.open().await;
    held.process.signal("INT");
    // The listener closes; what was accepted goes on.
    until("the listener closes", || std::net::TcpStream::connect(held.process.address).is_err()).await;
    held.gate.open();
    let text = rest.await.unwrap();
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    assert_eq!(held.process.end().await.code(), Some(0));
}

#[actix_web::test]
async fn a_second_signal_stops_at_once() {
    let mut held = HeldStream::start("");
    let _rest = held.open().await;
    held.process.signal("TERM");
    held.process.says("draining", 1).await;
    let asked = Instant::now();
    held.process.signal("TERM");
    assert_eq!(held.process.end().await.code(), Some(0));
    // The grace is half a minute.
    assert!(asked.elapsed() < Duration::from_secs(10), "it took {:?}", asked.elapsed());
}

#[actix_web::test]
async fn a_signal_right_after_the_greeting_is_an_orderly_stop() {
    for _ in 0..5 {
        let mut process = Process::start(&[], &[FREE_PORT, ONE_WORKER, SIMULATED]);
        process.signal("TERM");
        let status = process.end().await;
        assert_eq!(status.code(), Some(0), "{status:?}: {}", process.stderr());
    }
}

/// What stands behind a name in the start-up lines.
fn said<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim().strip_prefix(name)).map(str::trim).collect()
}

#[actix_web::test]
async fn the_start_up_lines_are_enough_for_a_first_call() {
    let mut process = Process::start(&[], &[FREE_PORT, ONE_WORKER, SIMULATED]);
    let text = process.stdout();
    assert_eq!(said(&text, "Key"), [DEVELOPMENT_KEY], "{text}");
    let models = said(&text, "Models")[0];
    assert_eq!(said(&text, "Aliases"), ["service/auto, service/free"], "{text}");
    for name in ["meadow/small", "lantern/canvas"] {
        assert!(models.split(", ").any(|shown| shown == name), "{name}: {models}");
    }
    assert!(!models.contains("openai/"), "only what can be called: {models}");
    assert!(said(&text, "Serving")[0].contains("sim-swift (simulated)"), "{text}");
    assert!(text.contains("POINTSMAN__SIMULATION__MODE=on"), "{text}");
    assert!(!text.contains("is public"), "nothing can be spent: {text}");

    // The curl line, taken apart as a shell would.
    let (_, curl) = text.split_once("curl ").unwrap();
    let url = curl.split(' ').next().unwrap();
    let quoted: Vec<&str> = curl.split('\'').skip(1).step_by(2).collect();
    let [authorization, content_type, body] = quoted[..] else { panic!("{quoted:?}") };
    let headers = [authorization, content_type].map(|header| header.split_once(": ").unwrap());
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value));
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let path = url.strip_prefix(&process.gateway().url("")).unwrap();
    let answer = process.gateway().call(Method::POST, path, &headers, Some(body.into())).await;
    assert_eq!(answer.expect(200)["object"], "chat.completion");

    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(0));
}

#[actix_web::test]
async fn a_key_of_a_real_provider_switches_the_simulation_off_and_the_start_up_lines_say_so() {
    let mut process = Process::start(&[], &[FREE_PORT, ONE_WORKER, ("GROQ_API_KEY", "gsk-0a1b2c3d4e5f6071")]);
    let text = process.stdout();
    let notes = said(&text, "Note").join("\n");
    assert!(notes.contains("Provider 'groq' is on: GROQ_API_KEY holds its key."), "{text}");
    assert!(notes.contains("Simulated providers are off because real ones are on: groq (GROQ_API_KEY)."), "{text}");
    assert!(!text.contains("gsk-0a1b2c3d4e5f6071"), "{text}");
    let public = "The development key is public: whatever runs on this machine may call real providers (groq)";
    assert!(notes.contains(public) && notes.contains("inference and read, never admin"), "{text}");
    assert_eq!(said(&text, "Serving"), ["groq"], "{text}");
    assert!(said(&text, "Off").iter().any(|line| line.starts_with("sim-swift, ")), "{text}");
    assert!(!said(&text, "Models")[0].contains("meadow/"), "{text}");

    let models = process.gateway().get("/api/models").await.expect(200);
    let models = column(&models["data"], "id");
    assert!(!models.is_empty() && !models.contains(&"meadow/small"), "{models:?}");
    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(0));
}

#[actix_web::test]
async fn with_the_simulation_forced_on_a_stray_key_costs_nothing() {
    let environment = [FREE_PORT, ONE_WORKER, SIMULATED, ("GROQ_API_KEY", "gsk-0a1b2c3d4e5f6071")];
    let process = Process::start(&[], &environment);
    let text = process.stdout();
    assert!(text.contains("Provider 'groq' stays off although GROQ_API_KEY holds its key"), "{text}");
    assert!(said(&text, "Serving")[0].contains("sim-swift (simulated)"), "{text}");
}

#[test]
fn the_development_key_is_refused_anywhere_but_on_loopback() {
    for bind in ["0.0.0.0:0", "[::]:0"] {
        for command in ["serve", "check"] {
            let output = run(&[command], &[("POINTSMAN__SERVER__BIND", bind)]);
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command} {bind}: {text}");
            for part in ["server.bind", "development", "keygen"] {
                assert!(text.contains(part), "'{part}' is missing: {text}");
            }
            assert!(output.stdout.is_empty());
        }
    }
    let off = [("POINTSMAN__SERVER__BIND", "0.0.0.0:0"), ("POINTSMAN__AUTH__DEVELOPMENT_KEY_ENABLED", "false")];
    let output = run(&["check"], &off);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("server.bind is 0.0.0.0:0 without [server.tls]"), "{text}");
}

#[test]
fn an_address_in_use_ends_with_code_three_and_says_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&[], &[("POINTSMAN__SERVER__BIND", &address), SIMULATED]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains(&address) && text.contains("server.bind"), "{text}");
    assert!(output.stdout.is_empty(), "it must not greet: {}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn check_says_what_the_configuration_comes_to_or_every_fault_with_its_place() {
    let good = run(&["check"], &[]);
    let text = String::from_utf8_lossy(&good.stdout);
    assert_eq!(good.status.code(), Some(0), "{}", String::from_utf8_lossy(&good.stderr));
    assert!(text.contains("can be used") && text.contains("service/auto"), "{text}");

    let config = ConfigFile::new("[server]\nbind = \"nowhere\"\n[limits]\nmax_n = 0\ncolour = 1\n");
    let bad = run(&["check", "--config", config.path()], &[]);
    let text = String::from_utf8_lossy(&bad.stderr);
    assert_eq!(bad.status.code(), Some(2), "{text}");
    for place in [":2:8: server.bind", ":4:9: limits.max_n", ":5:1: limits.colour"] {
        assert!(text.contains(place), "{place} is missing: {text}");
    }
    assert!(text.contains("3 faults"), "{text}");
}

#[actix_web::test]
async fn a_key_made_by_keygen_opens_a_server_with_the_lines_it_prints() {
    let output = run(&["keygen", "--name", "team"], &[]);
    assert_eq!(output.status.code(), Some(0));
    let printed = String::from_utf8(output.stdout).unwrap();
    let key = printed.lines().map(str::trim).find(|line| line.starts_with("sk-")).unwrap();
    let (_, lines) = printed.split_once("[[keys]]").unwrap();
    let config = ConfigFile::new(&format!("[auth]\ndevelopment_key_enabled = false\n[[keys]]{lines}"));
    let process = Process::start(&["--config", config.path()], &[FREE_PORT, ONE_WORKER]);
    let authorization = format!("Bearer {key}");
    let shown = process.gateway().call(Method::GET, "/api/v1/key", &[("authorization", &authorization)], None).await;
    assert_eq!(shown.expect(200)["data"]["label"], "team");
    let development = format!("Bearer {DEVELOPMENT_KEY}");
    let refused = process.gateway().call(Method::GET, "/api/v1/key", &[("authorization", &development)], None).await;
    assert_eq!(refused.status, 401);
}

#[test]
fn help_and_version_are_printed_and_a_wrong_argument_is_named() {
    for (arguments, part) in [(&["--help"][..], "Usage:"), (&["-h"], "EXIT CODES"), (&["--version"], "\ncommit: ")] {
        let output = run(arguments, &[]);
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&output.stdout).contains(part), "{arguments:?}");
    }
    let output = run(&["--port", "80"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--port"));
}
