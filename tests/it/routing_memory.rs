//! What a restart remembers: on the real binary, over signals and kills, and with every kind of file in its way.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use pointsman_config::{Config, Environment};
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    keyless::{model, provider},
    patience::{PATIENCE, eventually, until},
    process::{ConfigFile, Process},
    scripted::{Script, Upstream},
    world::{and, ask, completion, http},
};

/// One model at a slow provider and at a quick one, which differ in nothing else.
struct World {
    toml: String,
}

impl World {
    /// `memory` is what stands in its section.
    fn new(memory: &str) -> World {
        let after = |pause| {
            let script =
                Script::new().request().pause(Duration::from_millis(pause)).send(http(200, &completion("This way.")));
            Upstream::start([Script::new().repeat(script)])
        };
        // Whoever knows nothing takes the slow one.
        let (slow, quick) = (after(400), after(1));
        let toml = [
            "[routing]\nexploration = 0\nobjective = \"fastest\"\n[routing.hedge]\nobjectives = []\n".to_owned(),
            format!("[routing.memory]\n{memory}\n"),
            provider("slow", &format!("http://{}", slow.keep())),
            provider("nimble", &format!("http://{}", quick.keep())),
            model("acme/small", "", &[("slow", "0.000001", "0.000001"), ("nimble", "0.000001", "0.000001")]),
        ];
        World { toml: toml.concat() }
    }

    fn at(path: &Path) -> World {
        World::new(&format!("path = {:?}\nsave_interval = \"100ms\"", path.to_str().unwrap()))
    }

    async fn gateway(&self) -> TestGateway {
        TestGateway::start(&self.toml).await
    }

    fn process(&self) -> (ConfigFile, Process) {
        let head = "[server]\nbind = \"127.0.0.1:0\"\nworkers = 1\n[simulation]\nmode = \"off\"\n\
                    [[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n";
        let config = ConfigFile::new(&format!("{head}{}", self.toml));
        let process = Process::start(&["serve", "--config", config.path()], &[("TEST_KEY", KEY)]);
        (config, process)
    }
}

/// Who serves a request that leaves the choice to the gateway.
async fn serves(gateway: &TestGateway) -> String {
    let reply = gateway.chat(&ask("acme/small")).await;
    reply.expect(200);
    reply.header("x-route-provider").unwrap().to_owned()
}

/// Has both providers answer a few times.
async fn learn(gateway: &TestGateway) {
    for provider in ["slow", "nimble", "slow", "nimble"] {
        let body = and(ask("acme/small"), json!({"provider": {"only": [provider]}}));
        gateway.chat(&body).await.expect(200);
    }
}

async fn memory(gateway: &TestGateway) -> Value {
    gateway.get("/api/v1/health/memory").await.expect(200)["data"].clone()
}

/// Reads the page until it shows what is wanted.
async fn memory_until(gateway: &TestGateway, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually("the page shows it", async || memory(gateway).await, wanted).await
}

/// What the file tells of an endpoint, if it can be read.
fn told(path: &Path, endpoint: &str) -> Option<Value> {
    let whole: Value = serde_json::from_slice(&fs::read(path).ok()?).unwrap();
    whole["endpoints"].get(endpoint).cloned()
}

/// Waits until the file tells of both endpoints.
async fn tells_of_both(path: &Path) {
    let both = ["acme/small@nimble", "acme/small@slow"];
    until("both are told of", || both.iter().all(|endpoint| told(path, endpoint).is_some())).await;
}

#[actix_web::test]
async fn the_first_decision_after_an_orderly_restart_is_the_learned_one() {
    let directory = Folder::new();
    // So rarely that only the end writes it.
    let path = directory.at("deep/in/state.json");
    let world = World::new(&format!("path = {:?}\nsave_interval = \"3600s\"", path.to_str().unwrap()));
    let (_config, mut first) = world.process();
    assert_eq!(memory(&first.gateway()).await["restored"], Value::Null);
    assert_eq!(serves(&first.gateway()).await, "slow", "it knows nothing yet");
    learn(&first.gateway()).await;
    first.signal("TERM");
    assert_eq!(first.end().await.code(), Some(0), "{}", first.stderr());
    assert!(told(&path, "acme/small@nimble").is_some());

    let (_config, mut second) = world.process();
    let gateway = second.gateway();
    let restored = memory(&gateway).await["restored"].clone();
    assert_eq!((&restored["endpoints"], &restored["rejected"]), (&2.into(), &0.into()), "{}", second.stderr());
    assert_eq!(serves(&gateway).await, "nimble", "the very first");
    second.signal("TERM");
    assert_eq!(second.end().await.code(), Some(0));
    assert!(second.stderr().contains("2 endpoints as of"), "{}", second.stderr());
}

#[actix_web::test]
async fn a_kill_loses_at_most_what_was_learned_since_the_last_interval() {
    let directory = Folder::new();
    let path = directory.at("state.json");
    let world = World::at(&path);
    let (_config, mut first) = world.process();
    learn(&first.gateway()).await;
    // Both have answered; an interval later that is on the disk.
    tells_of_both(&path).await;
    first.signal("KILL");
    assert_eq!(first.end().await.code(), None);

    let (_config, second) = world.process();
    assert_eq!(serves(&second.gateway()).await, "nimble");
}

/// The file says when it was learned by the wall's clock, which somebody may set while the gateway is away.
#[actix_web::test]
async fn what_was_learned_is_believed_although_the_clock_was_set_meanwhile() {
    const HOUR_MS: i64 = 3_600_000;
    let directory = Folder::new();
    let path = directory.at("state.json");
    let world = World::at(&path);
    let (_config, mut first) = world.process();
    learn(&first.gateway()).await;
    first.signal("TERM");
    assert_eq!(first.end().await.code(), Some(0));
    let learned: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();

    // As it looks when the clock was set back by an hour, and forward by a day.
    for (moved, first_served) in [(HOUR_MS, Some("nimble")), (-24 * HOUR_MS, None)] {
        let mut learned = learned.clone();
        learned["learned_at_ms"] = json!(learned["learned_at_ms"].as_i64().unwrap() + moved);
        fs::write(&path, learned.to_string()).unwrap();
        let (_config, mut process) = world.process();
        let restored = memory(&process.gateway()).await["restored"].take();
        assert_eq!((&restored["endpoints"], &restored["rejected"]), (&2.into(), &0.into()), "{moved} ms");
        let served = serves(&process.gateway()).await;
        assert!(first_served.is_none_or(|first| served == first), "{moved} ms: {served}");
        process.signal("TERM");
        assert_eq!(process.end().await.code(), Some(0));
    }
}

#[actix_web::test]
async fn kills_at_any_moment_leave_a_whole_file() {
    let directory = Folder::new();
    let path = directory.at("state.json");
    let world = World::new(&format!("path = {:?}\nsave_interval = \"100ms\"", path.to_str().unwrap()));
    for round in 0..6_u64 {
        let (_config, mut process) = world.process();
        let gateway = process.gateway();
        let begun = Instant::now();
        let long = || begun.elapsed() > Duration::from_millis(120 + 17 * round);
        while !(long() && (round < 5 || told(&path, "acme/small@slow").is_some())) {
            assert!(begun.elapsed() < PATIENCE, "{}", process.stderr());
            gateway.chat(&ask("acme/small")).await.expect(200);
        }
        process.signal("KILL");
        process.end().await;
        assert!(!process.stderr().contains("is not used"), "{}", process.stderr());
    }
    assert!(told(&path, "acme/small@slow").is_some());
}

#[actix_web::test]
async fn the_file_is_for_its_owner_and_nothing_is_left_beside_it() {
    let directory = Folder::new();
    let path = directory.at("state.json");
    // Left over from a crash, or laid there by somebody.
    symlink(directory.at("elsewhere"), directory.at("state.json.tmp")).unwrap();
    let gateway = World::at(&path).gateway().await;
    learn(&gateway).await;
    let shown = memory_until(&gateway, |shown| shown["saves"].as_u64() > Some(0)).await;
    assert_eq!(shown["state"], "ok");
    assert!(shown["saved_at"].as_str().unwrap().starts_with("20"), "{shown}");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    // A further copy may be under way beside it.
    let names = async || directory.names();
    eventually("nothing else lies there", names, |names| *names == ["state.json", "state.json.lock"]).await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("Which way") && !text.contains(KEY), "{text}");
    gateway.stop().await;
}

#[actix_web::test]
async fn without_news_nothing_is_written() {
    let directory = Folder::new();
    let gateway = World::at(&directory.at("state.json")).gateway().await;
    learn(&gateway).await;
    memory_until(&gateway, |shown| shown["saves"].as_u64() > Some(0)).await;
    // What the last answer told may wait for one more interval; after that it stays as it is.
    const TEN_INTERVALS: Duration = Duration::from_secs(1);
    let saves = async || memory(&gateway).await["saves"].take();
    let at_both_ends = async || {
        let before = saves().await;
        actix_web::rt::time::sleep(TEN_INTERVALS).await;
        (before, saves().await)
    };
    eventually("nothing is written", at_both_ends, |(before, after)| before == after).await;
}

#[actix_web::test]
async fn by_default_nothing_is_kept_and_the_page_says_so() {
    let gateway = World::new("").gateway().await;
    learn(&gateway).await;
    assert_eq!(memory(&gateway).await["state"], "off");
    assert!(!gateway.get("/metrics").await.text().contains("pointsman_routing_memory"));
}

#[actix_web::test]
async fn simulated_providers_are_remembered_too() {
    let directory = Folder::new();
    let path = directory.at("state.json");
    let environment = [
        ("POINTSMAN__SERVER__BIND", "127.0.0.1:0"),
        ("POINTSMAN__SIMULATION__MODE", "on"),
        ("POINTSMAN__ROUTING__MEMORY__PATH", path.to_str().unwrap()),
        ("TEST_KEY", KEY),
        ("POINTSMAN__KEYS", "[{ name = \"test\", env = \"TEST_KEY\" }]"),
    ];
    let mut process = Process::start(&[], &environment);
    process.gateway().chat(&and(ask("meadow/small"), json!({"max_tokens": 5}))).await.expect(200);
    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(0));
    let process = Process::start(&[], &environment);
    assert_eq!(memory(&process.gateway()).await["restored"]["endpoints"], 1, "{}", process.stderr());
}

/// Something that lies where the file should be.
struct Obstacle {
    what: &'static str,
    lay: fn(&Path),
    /// A word of what is said about it.
    said: &'static str,
}

const OBSTACLES: [Obstacle; 8] = [
    Obstacle { what: "empty", lay: |path| lay(path, b""), said: "not a whole document" },
    Obstacle {
        what: "torn",
        lay: |path| lay(path, br#"{"format":"pointsman routing memory","version":1,"endpo"#),
        said: "not a whole document",
    },
    Obstacle { what: "not JSON", lay: |path| lay(path, "\u{feff}hello".as_bytes()), said: "not a whole document" },
    Obstacle { what: "of others", lay: |path| lay(path, br#"{"name":"x","version":1}"#), said: "something else" },
    Obstacle {
        what: "of another release",
        lay: |path| lay(path, br#"{"format":"pointsman routing memory","version":9}"#),
        said: "version 9",
    },
    Obstacle { what: "bytes", lay: |path| lay(path, &[0xff; 4096]), said: "not a whole document" },
    Obstacle {
        what: "huge",
        lay: |path| fs::File::create(path).unwrap().set_len(200 * 1024 * 1024).unwrap(),
        said: "larger than",
    },
    Obstacle {
        what: "a pipe",
        lay: |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        said: "not a file",
    },
];

fn lay(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

#[actix_web::test]
async fn a_file_that_is_no_use_is_a_cold_start_and_is_replaced() {
    let start = async |Obstacle { what, lay, said }| {
        let directory = Folder::new();
        let path = directory.at("state.json");
        lay(&path);
        let gateway = World::at(&path).gateway().await;
        (directory, path, gateway, what, said)
    };
    // A start takes its time, in which nothing else of this thread goes on: no request waits for one.
    let started = join_all(OBSTACLES.map(start)).await;
    let check = async |(_directory, path, gateway, what, said): (Folder, PathBuf, TestGateway, &str, &str)| {
        let shown = memory(&gateway).await;
        assert!(shown["not_restored"].as_str().is_some_and(|why| why.contains(said)), "{what}: {shown}");
        assert_eq!(serves(&gateway).await, "slow", "{what}");
        memory_until(&gateway, |shown| shown["saves"].as_u64() > Some(0)).await;
        assert!(told(&path, "acme/small@slow").is_some(), "{what}");
        gateway.stop().await;
    };
    join_all(started.into_iter().map(check)).await;
}

#[actix_web::test]
async fn one_entry_that_cannot_be_true_costs_only_that_endpoint() {
    let directory = Folder::new();
    let path = directory.at("state.json");
    let nimble = json!({"first_token": {"weight": 9, "y": -36, "yy": 144.2}, "throughput": {"mean": -7, "weight": 9}});
    let endpoints = json!({"acme/small@nimble": nimble, "acme/small@slow": {"throughput": {"mean": 1, "weight": -1}}});
    let text = json!({"format": "pointsman routing memory", "version": 1, "learned_at_ms": 1, "endpoints": endpoints});
    fs::write(&path, text.to_string()).unwrap();
    let (_config, process) = World::at(&path).process();
    let restored = memory(&process.gateway()).await["restored"].clone();
    assert_eq!((&restored["endpoints"], &restored["rejected"]), (&1.into(), &1.into()));
    assert_eq!(serves(&process.gateway()).await, "nimble");
    process.says("acme/small@slow is not restored: a weight is out of range", 1).await;
}

#[actix_web::test]
async fn a_place_that_cannot_be_written_is_said_once_shown_and_tried_again() {
    let directory = Folder::new();
    // A file where a directory is needed: not even root gets past it.
    fs::write(directory.at("place"), "").unwrap();
    let (_config, mut process) = World::at(&directory.at("place/state.json")).process();
    let gateway = process.gateway();
    learn(&gateway).await;
    let failing = memory_until(&gateway, |shown| shown["failures"].as_u64() > Some(3)).await;
    assert_eq!(failing["state"], "failing");
    assert!(
        failing["last_error"].as_str().is_some_and(|why| !why.contains("place")),
        "no paths for readers: {failing}"
    );
    let metrics = gateway.get("/metrics").await.text();
    assert!(metrics.contains("\npointsman_routing_memory_failing 1\n"), "{metrics}");
    assert_eq!(gateway.get("/health/ready").await.status, 200);

    fs::remove_file(directory.at("place")).unwrap();
    let fine = memory_until(&gateway, |shown| shown["state"] == "ok").await;
    assert!(fine["saves"].as_u64() > Some(0) && fine["last_error"].is_null(), "{fine}");
    assert!(gateway.get("/metrics").await.text().contains("\npointsman_routing_memory_failing 0\n"));
    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(0));
    let log = process.stderr();
    assert_eq!(log.matches("cannot be written").count(), 1, "{log}");
    assert_eq!(log.matches("can be written again").count(), 1, "{log}");
}

#[actix_web::test]
async fn of_two_processes_with_one_file_the_second_waits_for_the_first_to_leave() {
    let directory = Folder::new();
    let path = directory.at("state.json");
    let world = World::at(&path);
    let (_config, mut first) = world.process();
    learn(&first.gateway()).await;
    tells_of_both(&path).await;

    let (_config, second) = world.process();
    let gateway = second.gateway();
    assert_eq!(serves(&gateway).await, "nimble", "it may read");
    let shown = memory(&gateway).await;
    assert_eq!((&shown["state"], &shown["last_error"]), (&"failing".into(), &"another process writes it".into()));
    first.signal("TERM");
    assert_eq!(first.end().await.code(), Some(0));
    let shown = memory_until(&gateway, |shown| shown["state"] == "ok").await;
    assert!(shown["saves"].as_u64() > Some(0), "{shown}");
}

#[test]
fn a_path_that_is_none_and_an_odd_interval_are_faults_of_the_configuration() {
    let faults = |memory: &str| -> Vec<String> {
        let toml = format!("[routing.memory]\n{memory}");
        let config = Config::parse(&toml, "f", Path::new("/etc/pointsman"), &Environment::default());
        config.map_or_else(|faults| faults.iter().map(ToString::to_string).collect(), |_| Vec::new())
    };
    for path in ["state/", " ", "a\\u0000b"] {
        let said = faults(&format!("path = \"{path}\""));
        assert!(
            said.len() == 1 && said[0].contains("f:2:8: routing.memory.path: is not the path of a file"),
            "{said:?}"
        );
    }
    for interval in ["0s", "-1s", "40days", "often"] {
        assert_eq!(faults(&format!("save_interval = \"{interval}\"")).len(), 1, "{interval}");
    }
    let good = |path: &str| {
        let toml = format!("[routing.memory]\npath = {path:?}");
        Config::parse(&toml, "f", Path::new("/etc/pointsman"), &Environment::default()).unwrap().routing.memory.path
    };
    assert_eq!(good(""), None);
    assert_eq!(
        good("state/routing.json"),
        Some("/etc/pointsman/state/routing.json".into()),
        "beside the configuration"
    );
    assert_eq!(good("/var/lib/routing.json"), Some("/var/lib/routing.json".into()));
}

/// The seeds that the first decisions of a gateway draw their noise from.
async fn seeds(routing: &str) -> Vec<String> {
    let world = World::new("");
    let toml = world.toml.replace("exploration = 0\n", &format!("{routing}\n"));
    let gateway = TestGateway::start(&toml).await;
    let mut seeds = Vec::new();
    for _ in 0..3 {
        let id = gateway.chat(&ask("acme/small")).await.expect(200)["id"].as_str().unwrap().to_owned();
        let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
        seeds.push(explained["route_seed"].as_str().unwrap().to_owned());
    }
    seeds
}

#[actix_web::test]
async fn replicas_with_one_configuration_make_different_noise_unless_they_are_told_otherwise() {
    for routing in ["", "seed = 7"] {
        let (one, other) = tokio::join!(seeds(routing), seeds(routing));
        assert!(one.iter().all(|seed| !other.contains(seed)), "{routing}: {one:?} {other:?}");
    }
    let repeatable = "seed = 7\ninstance_id = 3";
    let (one, again, another) = tokio::join!(seeds(repeatable), seeds(repeatable), seeds("seed = 7\ninstance_id = 4"));
    assert_eq!(one, again);
    assert_ne!(one, another);
}
