//! Alerts, as a receiver gets them over a real socket.

use std::sync::Arc;

use actix_web::http::Method;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    issued_keys::{ADMIN, call, chat, issue, world},
    keys_durable::{self, ENVIRONMENT},
    patience::{eventually, until},
    process::{ConfigFile, Process, run},
    scripted::{Gate, Script, Upstream, refused_address},
    upstream_tls::authority,
    world::{Model, World, always, saying},
};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const KEY_BYTES: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";

/// A receiver that answers its connections, each with one of these, and the later ones with the last.
fn receiver(answers: &[&str]) -> Upstream {
    Upstream::start(answers.iter().map(|answer| Script::new().request().send(*answer)))
}

fn table(name: &str, url: &str, more: &str) -> String {
    format!("[[alerts]]\nname = \"{name}\"\nurl = \"{url}\"\nsecret_env = \"HOOK_SECRET\"\n{more}\n")
}

fn told(world: World, receivers: &str) -> World {
    world.with(receivers).variable("HOOK_SECRET", SECRET)
}

/// Spends the whole budget of a new key.
async fn spend(gateway: &TestGateway, name: &str) {
    let (text, _) = issue(gateway, json!({ "name": name, "limit": 0.17 })).await;
    chat(gateway, &text, json!({ "max_tokens": 5 })).await.expect(200);
}

/// A received alert: its headers and its body.
struct Received {
    head: String,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines();
        let found = lines.filter_map(|line| line.split_once(": ")).find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.unwrap_or_else(|| panic!("no {name}: {}", self.head)).1
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Checks the signature as a receiver does.
    fn is_signed_with(&self, key: &[u8]) -> bool {
        let mut code = Hmac::<Sha256>::new_from_slice(key).unwrap();
        code.update(
            format!("{}.{}.{}", self.header("webhook-id"), self.header("webhook-timestamp"), self.body).as_bytes(),
        );
        self.header("webhook-signature") == format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()))
    }
}

fn received(receiver: &Upstream) -> Vec<Received> {
    let split = |request: &String| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        Received { head: head.to_owned(), body: body.to_owned() }
    };
    receiver.requests().iter().map(split).collect()
}

/// Waits for so many alerts.
async fn arrived(receiver: &Upstream, number: usize) -> Vec<Received> {
    until(format!("{number} alerts arrive"), || receiver.requests().len() >= number).await;
    received(receiver)
}

async fn admin(gateway: &TestGateway, method: Method, path: &str) -> Value {
    call(&gateway.admin(), method, &format!("/api/v1/admin/{path}"), ADMIN, None).await.expect(200)
}

/// The first receiver, once `wanted` likes it.
async fn shown(gateway: &TestGateway, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || admin(gateway, Method::GET, "alerts").await["data"][0].clone(), wanted).await
}

#[actix_web::test]
async fn a_spent_budget_is_told_once_signed_and_stands_in_the_audit_log() {
    let (upstream, folder, ops) = (saying("Hello"), Folder::new(), receiver(&[OK]));
    let events = "events = [\"budget_spent\"]";
    let gateway = told(world(&upstream, &folder), &table("ops", &ops.url("/hook/"), events)).start().await;
    spend(&gateway, "ci").await;
    let alert = arrived(&ops, 1).await.remove(0);
    assert!(alert.head.starts_with("POST /hook/ HTTP/1.1\r\n"), "{}", alert.head);
    assert!(alert.is_signed_with(&STANDARD.decode(KEY_BYTES).unwrap()));
    assert!(!alert.is_signed_with(b"another key of enough bytes"));
    let body = alert.json();
    assert_eq!((&body["type"], &body["data"]["event"]), (&json!("alert.began"), &json!("budget_spent")));
    assert_eq!(body["data"]["subjects"], json!(["key ci ($0.17 in all)"]));
    assert_eq!(body["data"]["severity"], "critical");

    let receiver = shown(&gateway, "the delivery is known", |it| it["last"]["outcome"] == "sent").await;
    assert_eq!((&receiver["waiting"], &receiver["signed"]), (&json!(0), &json!(true)));
    assert_eq!(receiver["lasting"][0]["subject"], "key ci ($0.17 in all)");
    assert!(!receiver.to_string().contains("/hook"), "the address may hold a secret: {receiver}");
    let is_there = |log: &Value| log["data"][0]["action"] == "send_alert";
    let log =
        eventually("it is in the audit log", async || admin(&gateway, Method::GET, "audit").await, is_there).await;
    assert_eq!((&log["data"][0]["object"], &log["data"][0]["by"]), (&json!("ops"), &json!("gateway")));
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("pointsman_alert_attempts_total{receiver=\"ops\",result=\"sent\"} 1"), "{metrics}");
    assert!(metrics.contains("pointsman_alerts_waiting{receiver=\"ops\"} 0"), "{metrics}");

    // Another budget is another event; the first one is not told again.
    spend(&gateway, "nightly").await;
    let second = arrived(&ops, 2).await.remove(1).json();
    assert_eq!(second["data"]["subjects"], json!(["key nightly ($0.17 in all)"]));
    assert_eq!(ops.requests().len(), 2);
}

#[actix_web::test]
async fn a_chat_gets_its_own_form_and_only_the_events_it_asked_for() {
    let (upstream, folder, room) = (saying("Hello"), Folder::new(), receiver(&[OK]));
    let more = "format = \"slack\"\nevents = [\"budget_spent\"]";
    let gateway = told(world(&upstream, &folder), &table("room", &room.url("/T0"), more)).start().await;
    spend(&gateway, "ci").await;
    let alert = arrived(&room, 1).await.remove(0).json();
    let text = "Pointsman, critical: Calls are refused with 402: the budget is spent of key ci ($0.17 in all).";
    assert_eq!(alert, json!({ "text": text }));
}

#[actix_web::test]
async fn a_receiver_with_a_certificate_of_its_own_authority_is_told_with_the_ca_file_and_never_without() {
    let (upstream, folder, authority) = (saying("Hello"), Folder::new(), authority());
    let start = || Upstream::start_tls(Arc::clone(&authority.server), [Script::new().request().send(OK)]);
    let (trusted, stranger) = (start(), start());
    let at = |receiver: &Upstream| format!("https://localhost:{}/hook", receiver.address().port());
    let ca_file = format!("ca_file = {:?}", authority.ca_file);
    let receivers = table("trusted", &at(&trusted), &ca_file) + &table("stranger", &at(&stranger), "");
    let gateway = told(world(&upstream, &folder), &receivers).start().await;
    spend(&gateway, "ci").await;
    let alert = arrived(&trusted, 1).await.remove(0);
    assert!(alert.is_signed_with(&STANDARD.decode(KEY_BYTES).unwrap()));
    let of_stranger = |page: &Value| page["data"][1]["last"]["outcome"].clone();
    let is_refused = |page: &Value| of_stranger(page).is_string();
    let page =
        eventually("the other one fails", async || admin(&gateway, Method::GET, "alerts").await, is_refused).await;
    assert!(of_stranger(&page).as_str().unwrap().contains("tls"), "{page}");
    assert!(stranger.requests().is_empty(), "nothing is sent to whom nobody vouches for");
}

/// The configuration of a process that tells `ops` of spent budgets.
fn config(upstream: &Upstream, folder: &Folder, ops: &str) -> ConfigFile {
    let without = keys_durable::config(upstream, folder);
    let text = std::fs::read_to_string(without.path()).unwrap();
    ConfigFile::new(&format!("{text}{}", table("ops", ops, "events = [\"budget_spent\"]")))
}

fn start(config: &ConfigFile) -> Process {
    let environment: Vec<(&str, &str)> = ENVIRONMENT.into_iter().chain([("HOOK_SECRET", SECRET)]).collect();
    Process::start(&["serve", "--config", config.path()], &environment)
}

/// Waits until the file says that nothing waits.
async fn is_delivered(folder: &Folder) {
    let outbox = folder.at("data").join("alerts.json");
    let is_empty = || std::fs::read_to_string(&outbox).is_ok_and(|text| text.contains("\"waiting\":[]"));
    until("nothing waits", is_empty).await;
}

#[actix_web::test]
async fn an_alert_that_fails_twice_survives_a_kill_and_arrives_under_one_id() {
    let (upstream, folder, ops) = (saying("Hello"), Folder::new(), receiver(&[BUSY, BUSY, OK]));
    let config = config(&upstream, &folder, &ops.url("/hook"));
    let mut process = start(&config);
    spend(&process.gateway(), "ci").await;
    arrived(&ops, 1).await;
    process.signal("KILL");
    process.end().await;

    let process = start(&config);
    let alerts = arrived(&ops, 3).await;
    let ids: Vec<&str> = alerts.iter().map(|alert| alert.header("webhook-id")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert!(alerts.iter().all(|alert| alert.is_signed_with(&STANDARD.decode(KEY_BYTES).unwrap())));
    assert!(alerts.iter().all(|alert| alert.json()["data"]["subjects"] == json!(["key ci ($0.17 in all)"])));
    is_delivered(&folder).await;
    drop(process);
}

#[actix_web::test]
async fn an_alert_on_its_way_at_a_kill_is_repeated_once_and_then_never() {
    let (upstream, folder, gate) = (saying("Hello"), Folder::new(), Gate::new());
    // The first connection never gets its answer.
    let ops = Upstream::start([Script::new().request().wait(&gate), Script::answering(OK)]);
    let config = config(&upstream, &folder, &ops.url("/hook"));
    let mut process = start(&config);
    spend(&process.gateway(), "ci").await;
    arrived(&ops, 1).await;
    process.signal("KILL");
    process.end().await;

    let process = start(&config);
    arrived(&ops, 2).await;
    is_delivered(&folder).await;
    spend(&process.gateway(), "more").await;
    let alerts = arrived(&ops, 3).await;
    assert_eq!(alerts[0].header("webhook-id"), alerts[1].header("webhook-id"));
    assert_ne!(alerts[1].header("webhook-id"), alerts[2].header("webhook-id"));
    drop(process);
}

#[actix_web::test]
async fn a_test_says_in_a_sentence_how_it_ended() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let elsewhere = receiver(&[OK]);
    let redirect = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", elsewhere.url("/"));
    let huge = format!("HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n{}", "x".repeat(1 << 20));
    let (good, moved, large) = (receiver(&[OK]), receiver(&[&redirect]), receiver(&[&huge]));
    let hangs = Upstream::start([Script::new().request()]);
    let refused = format!("http://{}", refused_address());
    let receivers = [
        table("good", &good.url("/a"), ""),
        table("moved", &moved.url("/a"), ""),
        table("large", &large.url("/a"), ""),
        table("hangs", &hangs.url("/a"), ""),
        table("gone", &refused, ""),
    ];
    let gateway = told(world(&upstream, &folder), &receivers.concat()).start().await;
    let tests = admin(&gateway, Method::POST, "alerts/test").await;
    let sentence = |n: usize| tests["data"][n]["sentence"].as_str().unwrap().to_owned();
    let taken: Vec<bool> = (0..5).map(|n| tests["data"][n]["ok"].as_bool().unwrap()).collect();
    assert_eq!(taken, [true, false, true, false, false], "{tests}");
    assert!(sentence(0).starts_with("'good' at http://127.0.0.2:") && sentence(0).ends_with(" took the test."));
    assert!(sentence(1).contains("it answered 302, and redirects are not followed"), "{}", sentence(1));
    assert!(sentence(3).contains("timeout"), "{}", sentence(3));
    assert!(elsewhere.requests().is_empty());
    let body = received(&good).remove(0).json();
    assert_eq!((&body["type"], &body["data"]["event"]), (&json!("alert.test"), &json!("test")));

    let one = admin(&gateway, Method::POST, "alerts/test?receiver=good").await;
    assert_eq!(one["data"].as_array().unwrap().len(), 1);
    let unknown = call(&gateway.admin(), Method::POST, "/api/v1/admin/alerts/test?receiver=nobody", ADMIN, None).await;
    assert_eq!(unknown.status, 404, "{}", unknown.text());
}

#[actix_web::test]
async fn the_command_tests_one_receiver() {
    let (upstream, folder, ops) = (saying("Hello"), Folder::new(), receiver(&[OK, BUSY]));
    let gateway = told(world(&upstream, &folder), &table("ops", &ops.url("/hook"), "events = []")).start().await;
    let url = format!("http://{}", gateway.admin().address);
    let command = async |name: &'static str| {
        let url = url.clone();
        let run = move || run(&["alerts", "test", name, "--url", &url], &[("POINTSMAN_ADMIN_KEY", ADMIN)]);
        let output = actix_web::rt::task::spawn_blocking(run).await.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said, _) = command("ops").await;
    assert!(code == Some(0) && said.ends_with(" took the test.\n"), "{said}");
    let (code, said, _) = command("ops").await;
    assert!(code == Some(1) && said.contains("did not take the test: it answered 503."), "{said}");
    let (code, _, said) = command("nobody").await;
    assert!(code == Some(2) && said.contains("There is no such receiver of alerts."), "{said}");
}

#[actix_web::test]
async fn a_receiver_that_a_reload_adds_hears_what_lasts_and_one_that_is_removed_is_forgotten() {
    let (upstream, folder, ops) = (saying("Hello"), Folder::new(), receiver(&[OK]));
    let world = world(&upstream, &folder);
    let gateway = world.start().await;
    spend(&gateway, "ci").await;
    let events = "events = [\"budget_spent\"]";
    told(world.clone(), &table("ops", &ops.url("/hook"), events)).take_over(&gateway).await;
    let alert = arrived(&ops, 1).await.remove(0).json();
    assert_eq!(alert["data"]["subjects"], json!(["key ci ($0.17 in all)"]));
    world.take_over(&gateway).await;
    assert_eq!(admin(&gateway, Method::GET, "alerts").await["data"], json!([]));
}

#[actix_web::test]
async fn an_endpoint_whose_breaker_opens_is_told_by_name() {
    let (broken, good, folder, ops) = (always(500, &json!({})), saying("Hello"), Folder::new(), receiver(&[OK]));
    let world = world(&broken, &folder).provider("bolt", good.address());
    let world = world.model(&Model::new("acme/other").at("bolt", "0.01", "0.01"));
    let events = "events = [\"endpoints_down\"]";
    let gateway = told(world, &table("ops", &ops.url("/hook"), events)).start().await;
    let call_and_look = async || {
        chat(&gateway, KEY, json!({ "max_tokens": 5 })).await;
        ops.requests().len()
    };
    eventually("the alert arrives", call_and_look, |requests| *requests > 0).await;
    let alert = received(&ops).remove(0).json();
    assert_eq!((&alert["type"], &alert["data"]["event"]), (&json!("alert.began"), &json!("endpoints_down")));
    assert_eq!(alert["data"]["subjects"], json!(["acme/small at Acme"]));
}

#[actix_web::test]
async fn a_price_that_a_reload_changes_is_told_once() {
    let (upstream, folder, ops) = (saying("Hello"), Folder::new(), receiver(&[OK]));
    let world = told(world(&upstream, &folder), &table("ops", &ops.url("/hook"), "events = [\"catalogue_changed\"]"));
    let gateway = world.start().await;
    let environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    gateway.adopt(&world.toml().replace("\"0.01\"", "\"0.02\""), &environment).await;
    let alert = arrived(&ops, 1).await.remove(0).json();
    let sentence = "Version 2 of the configuration changed the catalogue: prices of acme/small at Acme.";
    assert_eq!((&alert["data"]["sentence"], &alert["data"]["severity"]), (&json!(sentence), &json!("info")));
}
