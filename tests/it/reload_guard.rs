//! A configuration that is emptied, cut off or opened under a running gateway changes nothing, and the gateway says so.

use std::{fs, time::Duration};

use actix_web::http::Method;
use pointsman::state::reload::{ReloadOutcome, ReloadTrigger};
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway, preamble},
    patience::eventually,
    process::{ConfigFile, Process, run},
    scripted::Upstream,
    world::{Model, World, ask, error_of, provider_key, saying},
};

const PUBLIC: &str = "sk-pointsman-development";
const ADMIN: &str = "sk-admin-0a1b2c3d4e5f";

/// What a file holds when nothing of its own is left in it.
const EMPTY: [&str; 5] = ["", " \n\t\n", "# every key has its default\n", "[server]\n[auth]\n", "\u{feff}"];

fn world(upstream: &Upstream) -> World {
    World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
        .with("[[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]\n")
        .variable("ADMIN", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")
}

/// The whole file of a world.
fn text(world: &World, reload: &str) -> String {
    format!("{}\n[reload]\n{reload}\n{}", preamble(), world.toml())
}

async fn load(folder: &Folder, world: &World) -> TestGateway {
    let environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    TestGateway::load(&folder.at("config.toml"), &environment).await
}

async fn status_with(gateway: &TestGateway, key: &str) -> u16 {
    let bearer = format!("Bearer {key}");
    gateway.call(Method::GET, "/api/v1/key", &[("authorization", &bearer)], None).await.status
}

/// Own keys are accepted, and the key that everybody knows is not, on either listener.
async fn is_as_it_was(gateway: &TestGateway) {
    gateway.chat(&ask("acme/small")).await.expect(200);
    assert_eq!(status_with(gateway, PUBLIC).await, 401);
    let bearer = format!("Bearer {PUBLIC}");
    let status = gateway.admin().call(Method::GET, "/api/v1/admin/status", &[("authorization", &bearer)], None).await;
    assert_eq!(status.status, 401);
}

async fn metric(gateway: &TestGateway, name: &str) -> f64 {
    let text = gateway.get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

async fn health(gateway: &TestGateway, last_reload: &str) -> Value {
    let config = async || gateway.get("/health").await.expect(200)["config"].take();
    eventually("the configuration", config, |config| config["last_reload"] == last_reload).await
}

#[actix_web::test]
async fn a_file_that_is_emptied_in_place_is_refused_by_watch_and_metric_and_health_tell() {
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = world(&upstream);
    let good = text(&world, "debounce = \"20ms\"");
    folder.put("config.toml", &good);
    let gateway = load(&folder, &world).await;

    fs::write(folder.at("config.toml"), "").unwrap();
    assert_eq!(health(&gateway, "refused").await["version"], 1);
    is_as_it_was(&gateway).await;
    assert!(metric(&gateway, "pointsman_config_reloads_total{result=\"refused\"}").await >= 1.0);
    assert_eq!(metric(&gateway, "pointsman_config_last_reload_successful").await, 0.0);

    folder.put("config.toml", &good);
    assert_eq!(health(&gateway, "unchanged").await["version"], 1);
    assert_eq!(metric(&gateway, "pointsman_config_last_reload_successful").await, 1.0);
}

#[actix_web::test]
async fn a_file_that_sets_nothing_is_a_fault_at_a_reload() {
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = world(&upstream);
    folder.put("config.toml", &text(&world, "watch = false\ndebounce = \"1ms\""));
    let gateway = load(&folder, &world).await;
    for empty in EMPTY {
        folder.put("config.toml", empty);
        let reload = gateway.inner().reload(ReloadTrigger::Signal).await;
        assert!(reload.outcome.faults()[0].contains("configuration: "), "{empty:?}: {reload}");
        is_as_it_was(&gateway).await;
    }
}

#[test]
fn a_file_that_sets_nothing_is_a_fault_at_the_start() {
    for empty in EMPTY.iter().take(4) {
        let file = ConfigFile::new(empty);
        for command in ["serve", "check"] {
            let output = run(&[command, "--config", file.path()], &[("POINTSMAN__SERVER__BIND", "127.0.0.1:0")]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command} {empty:?}: {said}");
            assert!(said.contains("configuration: is empty: the file sets no key"), "{command} {empty:?}: {said}");
            assert!(output.stdout.is_empty(), "{command} {empty:?}");
        }
    }
}

#[actix_web::test]
async fn a_file_that_is_cut_off_after_any_of_its_lines_neither_opens_nor_closes_the_gateway() {
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = world(&upstream);
    let good = text(&world, "watch = false\ndebounce = \"1ms\"");
    folder.put("config.toml", &good);
    let gateway = load(&folder, &world).await;
    for (end, _) in good.match_indices('\n') {
        let cut = good.split_at(end).0;
        folder.put("config.toml", cut);
        let reload = gateway.inner().reload(ReloadTrigger::Signal).await;
        assert_eq!(status_with(&gateway, KEY).await, 200, "{reload}: {cut}");
        assert_eq!(status_with(&gateway, PUBLIC).await, 401, "{reload}: {cut}");
        if !cut.contains("TEST_KEY") {
            assert_eq!(reload.outcome.as_str(), "refused", "{reload}: {cut}");
        }
    }
}

#[actix_web::test]
async fn sighup_on_an_emptied_file_is_refused_and_the_log_says_why() {
    let upstream = saying("Hello");
    let world = world(&upstream);
    let file = ConfigFile::new(&text(&world, "watch = false"));
    let acme = provider_key("acme");
    let environment = [("TEST_KEY", KEY), ("ADMIN", ADMIN), ("ACME_KEY", &acme)];
    let process = Process::start(&["serve", "--config", file.path()], &environment);

    fs::write(file.path(), "").unwrap();
    process.signal("HUP");
    process.says("the new configuration is refused (signal); version 1 stays in force", 1).await;
    process.says("configuration: is empty: the file sets no key", 1).await;
    let gateway = process.gateway();
    gateway.chat(&ask("acme/small")).await.expect(200);
    assert_eq!(status_with(&gateway, PUBLIC).await, 401);

    fs::write(file.path(), "[limits]\nmax_n = 3\n").unwrap();
    process.signal("HUP");
    process.says("auth.development_key_enabled: the public development key would be accepted", 1).await;
    process.says("keys: none of the keys in force (test, admin) would stay in force", 1).await;
    assert_eq!(gateway.get("/health").await.expect(200)["config"]["last_reload"], "refused");
    gateway.chat(&ask("acme/small")).await.expect(200);

    fs::write(file.path(), text(&world, "watch = false")).unwrap();
    process.signal("HUP");
    process.says("the refused one is gone, version 1 is in force", 1).await;
}

#[actix_web::test]
async fn an_administrator_who_asks_for_a_file_that_opens_the_gateway_reads_why_not_and_how() {
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = world(&upstream);
    let good = text(&world, "watch = false\ndebounce = \"1ms\"");
    folder.put("config.toml", &good);
    let gateway = load(&folder, &world).await;
    let admin = gateway.admin();
    let bearer = format!("Bearer {ADMIN}");
    let reload = async |text: &str| {
        folder.put("config.toml", text);
        admin.call(Method::POST, "/api/v1/admin/reload", &[("authorization", &bearer)], None).await
    };

    let development = good.replace("development_key_enabled = false", "development_key_enabled = true");
    let nobody = good.replace("[auth]\n", "[auth]\nmode = \"none\"\n");
    for (text, key) in [(&development, "auth.development_key_enabled: "), (&nobody, "auth.mode: ")] {
        let error = error_of(&reload(text).await, 400);
        assert_eq!(error["metadata"]["reason"], "configuration_refused");
        let faults = error["metadata"]["faults"].as_array().unwrap();
        assert_eq!(faults.len(), 1, "{error}");
        let fault = faults[0].as_str().unwrap();
        assert!(fault.starts_with(key) && fault.contains("reload.allow_widening = true"), "{fault}");
        assert_eq!(health(&gateway, "refused").await["version"], 1);
        is_as_it_was(&gateway).await;
    }

    let more =
        format!("{good}\n[[keys]]\nname = \"new\"\nsha256 = \"{}\"\nscopes = [\"admin\", \"read\"]\n", "0".repeat(64));
    assert_eq!(reload(&more).await.expect(200)["result"], "changed", "keys and scopes are added as always");

    let meant = development.replace("[reload]\n", "[reload]\nallow_widening = true\n");
    assert_eq!(reload(&meant).await.expect(200)["result"], "changed");
    assert_eq!(status_with(&gateway, PUBLIC).await, 200);
    let status = async |key: &str| {
        let bearer = format!("Bearer {key}");
        admin.call(Method::GET, "/api/v1/admin/status", &[("authorization", &bearer)], None).await
    };
    assert_eq!(error_of(&status(PUBLIC).await, 403)["metadata"]["reason"], "scope");
    assert_eq!(status(ADMIN).await.status, 200);
}

#[actix_web::test]
async fn a_file_that_is_being_written_is_read_when_it_is_whole() {
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = world(&upstream);
    let good = text(&world, "watch = false\ndebounce = \"1s\"");
    folder.put("config.toml", &good);
    let gateway = load(&folder, &world).await;

    let path = folder.at("config.toml");
    let whole = format!("{good}\n[limits]\nmax_n = 3\n");
    fs::write(&path, "").unwrap();
    let writer = actix_web::rt::task::spawn_blocking(move || {
        for end in [whole.len() / 4, whole.len() / 2, whole.len()] {
            std::thread::sleep(Duration::from_millis(50));
            fs::write(&path, whole.split_at(end).0).unwrap();
        }
    });
    let reload = gateway.inner().reload(ReloadTrigger::Signal).await;
    writer.await.unwrap();

    assert_eq!(reload.outcome, ReloadOutcome::Changed, "{reload}");
    assert_eq!(reload.changes, ["limits.max_n"]);
    assert_eq!(gateway.get("/health").await.expect(200)["config"]["version"], json!(2));
}
