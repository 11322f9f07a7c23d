//! The configuration is read again when its file changes: what is good comes into force, what is broken does not, and
//! nobody who is being served notices.

use std::{fs, path::Path};

use actix_web::http::Method;
use pointsman::state::reload::{ReloadOutcome, ReloadTrigger};
use serde_json::{Value, json};

use crate::{
    console_login::Browser,
    folder::Folder,
    harness::{TestGateway, preamble},
    patience::eventually,
    raw_client::RawClient,
    scripted::{Gate, Script, Upstream},
    world::{Model, World, and, ask, saying, stream_of},
};

/// The whole file of a world, read again shortly after it changed.
fn text(world: &World) -> String {
    format!("{}\n[reload]\ndebounce = \"20ms\"\n{}", preamble(), world.toml())
}

fn served_by(slug: &str, upstream: &Upstream) -> World {
    World::new().provider(slug, upstream.address()).model(&Model::new("acme/small").at(slug, "0.000001", "0.000001"))
}

async fn load(path: &Path, world: &World) -> TestGateway {
    let environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    TestGateway::load(path, &environment).await
}

/// What the health page says of the configuration, as soon as it is as expected.
async fn until(gateway: &TestGateway, expected: impl Fn(&Value) -> bool) -> Value {
    let config = async || gateway.get("/health").await.expect(200)["config"].take();
    eventually("the configuration", config, expected).await
}

/// The same, when that version is in force and the attempt that brought it is over: the version can be seen earlier.
async fn in_force(gateway: &TestGateway, version: u64) -> Value {
    until(gateway, |config| config["version"] == version && config["last_reload"].is_string()).await
}

async fn metric(gateway: &TestGateway, name: &str) -> f64 {
    let text = gateway.get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[actix_web::test]
async fn a_file_that_is_replaced_comes_into_force_by_itself() {
    let (old, new) = (saying("old"), saying("new"));
    let folder = Folder::new();
    let both = served_by("bolt", &new).variable("ACME_KEY", "sk-upstream-acme-5ec2e7");
    folder.put("config.toml", &text(&served_by("acme", &old)));
    let gateway = load(&folder.at("config.toml"), &both).await;
    assert_eq!(gateway.chat(&ask("acme/small")).await.expect(200)["system_fingerprint"], "fp_1");

    folder.put("config.toml", &text(&both));
    let config = in_force(&gateway, 2).await;

    assert_eq!(config["restart_pending"], false);
    let reply = gateway.chat(&ask("acme/small")).await.expect(200);
    assert_eq!(reply["choices"][0]["message"]["content"], "new");
    assert_eq!(reply["system_fingerprint"], "fp_2");
    assert_eq!(metric(&gateway, "pointsman_config_version").await, 2.0);
    assert_eq!(metric(&gateway, "pointsman_config_reloads_total{result=\"changed\"}").await, 1.0);
}

#[actix_web::test]
async fn a_file_written_in_place_counts_and_a_change_of_comments_makes_no_new_version() {
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = served_by("acme", &upstream);
    folder.put("config.toml", &text(&world));
    let gateway = load(&folder.at("config.toml"), &world).await;

    fs::write(folder.at("config.toml"), format!("# a remark\n{}", text(&world))).unwrap();
    let config = until(&gateway, |config| config["last_reload"] == "unchanged").await;
    assert_eq!(config["version"], 1);

    fs::write(folder.at("config.toml"), text(&world.clone().with("[limits]\nmax_n = 3"))).unwrap();
    in_force(&gateway, 2).await;
    gateway.chat(&and(ask("acme/small"), json!({"n": 4}))).await.expect(400);
}

#[actix_web::test]
async fn a_link_that_is_turned_as_in_kubernetes_counts() {
    use std::os::unix::fs::symlink;

    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = served_by("acme", &upstream);
    for (version, world) in [("..1", world.clone()), ("..2", world.clone().with("[limits]\nmax_n = 3"))] {
        fs::create_dir(folder.at(version)).unwrap();
        fs::write(folder.at(version).join("config.toml"), text(&world)).unwrap();
    }
    symlink("..1", folder.at("..data")).unwrap();
    symlink("..data/config.toml", folder.at("config.toml")).unwrap();
    let gateway = load(&folder.at("config.toml"), &world).await;

    symlink("..2", folder.at("..data_tmp")).unwrap();
    fs::rename(folder.at("..data_tmp"), folder.at("..data")).unwrap();
    fs::remove_dir_all(folder.at("..1")).unwrap();
    in_force(&gateway, 2).await;

    // And once more, in the directory that took the place of the first.
    fs::write(folder.at("..2").join("config.toml"), text(&world)).unwrap();
    in_force(&gateway, 3).await;
}

#[actix_web::test]
async fn a_broken_file_keeps_the_last_good_one_and_says_so() {
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = served_by("acme", &upstream);
    folder.put("config.toml", &text(&world));
    let gateway = load(&folder.at("config.toml"), &world).await;

    folder.put("config.toml", "[limits]\nmax_n = 0\ncolour = 1\n");
    let config = until(&gateway, |config| config["last_reload"] == "refused").await;
    assert_eq!(config["version"], 1);
    gateway.chat(&ask("acme/small")).await.expect(200);
    assert_eq!(metric(&gateway, "pointsman_config_last_reload_successful").await, 0.0);

    let attempt = gateway.inner().reload(ReloadTrigger::Signal).await;
    let ReloadOutcome::Refused(faults) = &attempt.outcome else { panic!("{attempt:?}") };
    assert_eq!(faults.len(), 2, "every fault: {faults:?}");
    assert!(faults[0].contains("config.toml:2:9: limits.max_n: 0 is out of range"), "{faults:?}");
    assert!(faults[1].contains("config.toml:3:1: limits.colour: unknown key"), "{faults:?}");

    fs::remove_file(folder.at("config.toml")).unwrap();
    let attempt = gateway.inner().reload(ReloadTrigger::Signal).await;
    assert!(attempt.outcome.faults()[0].contains("there is no such file"), "{attempt}");

    folder.put("config.toml", &text(&world));
    until(&gateway, |config| config["last_reload"] == "unchanged").await;
    assert_eq!(metric(&gateway, "pointsman_config_last_reload_successful").await, 1.0);
    assert_eq!(metric(&gateway, "pointsman_config_version").await, 1.0);
}

#[actix_web::test]
async fn what_only_a_restart_can_change_stays_and_is_named_while_the_rest_comes_into_force() {
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = served_by("acme", &upstream);
    folder.put("config.toml", &text(&world));
    let gateway = load(&folder.at("config.toml"), &world).await;

    let moved = text(&world.clone().with("[limits]\nmax_n = 3\n[cors]\nallowed_origins = [\"*\"]"));
    folder.put("config.toml", &moved.replace("127.0.0.1:0", "0.0.0.0:1").replace("workers = 1", "workers = 2"));
    let config = in_force(&gateway, 2).await;

    assert_eq!(config["restart_pending"], true);
    assert_eq!(metric(&gateway, "pointsman_config_restart_pending").await, 3.0);
    let attempt = gateway.inner().reload(ReloadTrigger::Signal).await;
    assert_eq!(attempt.outcome, ReloadOutcome::Unchanged);
    let told: Vec<String> = attempt.pending.iter().map(ToString::to_string).collect();
    assert_eq!(told[0], "server.bind is 127.0.0.1:0 until a restart; the configuration says 0.0.0.0:1");
    let keys: Vec<&str> = attempt.pending.iter().map(|pending| pending.key).collect();
    assert_eq!(keys, ["server.bind", "server.workers", "cors.allowed_origins"]);
    // The pages that are open on loopback are so because of where it listens, not because of what the file says.
    assert!(gateway.inner().setup().config.server.is_loopback());
    gateway.chat(&and(ask("acme/small"), json!({"n": 4}))).await.expect(400);
}

#[actix_web::test]
async fn a_provider_key_in_a_file_is_rotated_without_touching_the_configuration() {
    use std::os::unix::fs::PermissionsExt as _;

    let upstream = saying("Hello");
    let folder = Folder::new();
    let write_key = |key: &str| {
        fs::write(folder.at("key.new"), key).unwrap();
        fs::set_permissions(folder.at("key.new"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(folder.at("key.new"), folder.at("key")).unwrap();
    };
    write_key("sk-upstream-first");
    let world = served_by("acme", &upstream);
    folder.put("config.toml", &text(&world).replace("api_key_env = \"ACME_KEY\"", "api_key_file = \"key\""));
    let gateway = load(&folder.at("config.toml"), &world).await;
    gateway.chat(&ask("acme/small")).await.expect(200);

    write_key("sk-upstream-second");
    in_force(&gateway, 2).await;
    gateway.chat(&ask("acme/small")).await.expect(200);

    let requests = upstream.requests();
    assert!(requests[0].contains("sk-upstream-first") && requests[1].contains("sk-upstream-second"), "{requests:?}");
}

#[actix_web::test]
async fn overrides_from_the_environment_hold_across_reloads() {
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = served_by("acme", &upstream).variable("POINTSMAN__LIMITS__MAX_N", "2");
    folder.put("config.toml", &text(&world));
    let gateway = load(&folder.at("config.toml"), &world).await;

    folder.put("config.toml", &text(&world.clone().with("[limits]\nmax_n = 7\nmax_tools = 9")));
    in_force(&gateway, 2).await;

    let config = gateway.inner().setup();
    assert_eq!((config.config.limits.request.max_n, config.config.limits.request.max_tools), (2, 9));
}

#[actix_web::test]
async fn streams_run_through_ten_reloads_good_and_broken_and_a_revoked_key_ends_none() {
    let gate = Gate::new();
    let whole = stream_of(&["one ", "two "]);
    let second = whole.find("\n\ndata: ").unwrap() + 2;
    let (head, rest) = whole.split_at(second);
    let script = Script::new().request().send(head.to_owned()).wait(&gate).send(rest.to_owned()).fin();
    let upstream = Upstream::start(vec![script; 20]);
    let other = saying("Hello");
    let folder = Folder::new();
    // Some key stays in force all the time.
    let kept = format!("[[keys]]\nname = \"kept\"\nsha256 = \"{}\"\n", "0".repeat(64));
    let world = served_by("acme", &upstream).with(&kept).variable("BOLT_KEY", "sk-upstream-bolt-5ec2e7");
    folder.put("config.toml", &text(&world));
    let gateway = load(&folder.at("config.toml"), &world).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut client = RawClient::chat(&gateway, &and(ask("acme/small"), json!({"stream": true}))).await;
        client.until("one ").await;
        streams.push(client);
    }

    // The provider leaves, and so does the key of everybody who streams.
    let gone = text(&served_by("bolt", &other).with(&kept))
        .replace("env = \"TEST_KEY\"", "env = \"TEST_KEY\"\ndisabled = true");
    for round in 1..=10 {
        let broken = round % 3 == 0;
        let good = format!("{gone}\n[limits]\nmax_n = {round}\n");
        folder.put("config.toml", if broken { "[[[" } else { &good });
        let attempt = gateway.inner().reload(ReloadTrigger::Signal).await;
        assert_eq!(attempt.outcome.faults().is_empty(), !broken, "{attempt}");
    }
    gateway.chat(&ask("acme/small")).await.expect(401);

    gate.open();
    for client in &mut streams {
        let rest = client.until("data: [DONE]\n\n").await;
        assert!(rest.contains("two ") && !rest.contains("\"error\""), "{rest}");
    }
    assert_eq!(gateway.inner().setup().version, 8);
}

#[actix_web::test]
async fn what_a_reload_would_change_is_told_before_it_and_changes_nothing() {
    const ADMIN: &str = "sk-boss-0123456789abcdef";
    let upstream = saying("Hello");
    let folder = Folder::new();
    let world = served_by("acme", &upstream)
        .with("[[keys]]\nname = \"boss\"\nenv = \"BOSS\"\nscopes = [\"admin\"]")
        .variable("BOSS", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0");
    let unwatched = |world: &World| format!("{}\n[reload]\nwatch = false\n{}", preamble(), world.toml());
    folder.put("config.toml", &unwatched(&world));
    let gateway = load(&folder.at("config.toml"), &world).await;
    let bearer = format!("Bearer {ADMIN}");
    let preview = async || {
        let headers = [("authorization", bearer.as_str())];
        gateway.admin().call(Method::GET, "/api/v1/admin/reload/preview", &headers, None).await.expect(200)
    };
    let page = async || Browser::logged_in(&gateway, ADMIN).await.page("/console/config").await;

    let same = preview().await;
    assert_eq!((&same["result"], &same["changes"], &same["version"]), (&json!("unchanged"), &json!([]), &json!(1)));
    assert!(page().await.contains("The same as in force."));

    folder.put("config.toml", &unwatched(&world.clone().with("[limits]\nmax_n = 8")));
    let default = preview().await;
    assert_eq!((&default["result"], &default["changes"]), (&json!("unchanged"), &json!([])));
    assert!(page().await.contains("The same as in force."));

    let changed = world.clone().with("[limits]\nmax_n = 3\n[timeouts]\nclient_header = \"7s\"");
    folder.put("config.toml", &unwatched(&changed));
    let told = preview().await;
    assert_eq!((&told["result"], &told["version"], &told["changes_total"]), (&json!("changed"), &json!(1), &json!(2)));
    let change = &told["changes"][0];
    assert_eq!(
        (&change["key"], &change["in_force"], &change["on_disk"]),
        (&json!("limits.max_n"), &json!(null), &json!("3"))
    );
    assert!(change["place"].as_str().unwrap().contains("config.toml:"), "{change}");
    assert_eq!(told["restart_pending"][0]["key"], "timeouts.client_header");
    let shown = page().await;
    assert!(shown.contains("limits.max_n") && shown.contains("Waits for a restart"), "{shown}");

    folder.put("config.toml", &unwatched(&world.clone().with("[limits]\nmax_nn = 3")));
    let refused = preview().await;
    assert_eq!((&refused["result"], &refused["changes"]), (&json!("refused"), &json!([])));
    assert!(refused["faults"][0].as_str().unwrap().contains("limits.max_nn"), "{refused}");
    assert!(page().await.contains("would be refused"));
    assert_eq!(gateway.get("/health").await.expect(200)["config"]["version"], 1, "nothing was read into force");
    gateway.chat(&and(ask("acme/small"), json!({"n": 4}))).await.expect(200);

    // What waits for a restart after a reload is still not in force.
    folder.put("config.toml", &unwatched(&changed));
    let headers = [("authorization", bearer.as_str())];
    let reloaded = gateway.admin().call(Method::POST, "/api/v1/admin/reload", &headers, None).await.expect(200);
    assert_eq!(reloaded["result"], "changed");
    let later = world.clone().with("[limits]\nmax_n = 3\n[timeouts]\nclient_header = \"8s\"");
    folder.put("config.toml", &unwatched(&later));
    let waiting = preview().await;
    assert_eq!((&waiting["result"], &waiting["changes_total"]), (&json!("unchanged"), &json!(1)));
    let change = &waiting["changes"][0];
    assert_eq!(
        (&change["key"], &change["in_force"], &change["on_disk"]),
        (&json!("timeouts.client_header"), &json!(null), &json!("\"8s\""))
    );
    let shown = page().await;
    assert!(shown.contains("what differs waits for a restart"), "{shown}");
    assert_eq!(shown.matches("<h2>Waits for a restart").count(), 1, "{shown}");
}
