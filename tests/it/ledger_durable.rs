//! The ledger on disk, with the real binary: what survives a kill, a shutdown and a second process.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashSet},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    rc::Rc,
};

use futures_util::future::join_all;
use pointsman_domain::Usd;
use pointsman_ledger::directory::FORMAT;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    ledger_commands::{ledger, lines},
    patience::eventually,
    process::{self, Process},
    replicas_records::{UNKNOWN, answer},
};

/// Environment of a process with quick simulated providers and its ledger in `data`.
pub(crate) fn environment(data: &str) -> Vec<(String, String)> {
    let mut environment = vec![
        ("TEST_KEY".to_owned(), KEY.to_owned()),
        ("POINTSMAN__KEYS".to_owned(), "[{ name = \"test\", env = \"TEST_KEY\" }]".to_owned()),
        ("POINTSMAN__SERVER__BIND".to_owned(), "127.0.0.1:0".to_owned()),
        ("POINTSMAN__SERVER__WORKERS".to_owned(), "2".to_owned()),
        ("POINTSMAN__SIMULATION__MODE".to_owned(), "on".to_owned()),
        ("POINTSMAN__LEDGER__DURABILITY".to_owned(), "group".to_owned()),
        ("POINTSMAN__LEDGER__DATA_DIR".to_owned(), data.to_owned()),
    ];
    for slug in ["SIM_SWIFT", "SIM_THRIFT", "SIM_FLAKY", "SIM_GRATIS"] {
        for (key, value) in [
            ("TTFT", "1ms"),
            ("TOKENS_PER_SECOND", "10000"),
            ("ERROR_RATE", "0"),
            ("TRUNCATE_RATE", "0"),
            ("HANG_RATE", "0"),
        ] {
            environment.push((format!("POINTSMAN__SIMULATION__PROVIDERS__{slug}__{key}"), value.to_owned()));
        }
    }
    environment
}

pub(crate) fn start(data: &str) -> Process {
    let environment = environment(data);
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    Process::start(&["serve"], &pairs)
}

fn request(streamed: bool) -> Value {
    json!({ "model": "meadow/small", "stream": streamed, "max_tokens": 8,
            "messages": [{ "role": "user", "content": "Which way?" }] })
}

/// Ids of generations of which the whole answer was read.
pub(crate) async fn answered(gateway: &TestGateway, count: usize) -> Vec<String> {
    let replies = join_all((0..count).map(|n| async move { gateway.chat(&request(n % 2 == 0)).await })).await;
    let id = |reply: &crate::harness::Reply| reply.header("x-generation-id").expect("an id").to_owned();
    replies.iter().inspect(|reply| assert_eq!(reply.status, 200)).map(id).collect()
}

async fn record(gateway: &TestGateway, id: &str) -> Value {
    gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200)["data"].take()
}

#[actix_web::test]
async fn twenty_kills_lose_no_record_of_an_answer_that_was_read() {
    let folder = Folder::new();
    let data = folder.at("data").display().to_string();
    let mut ids = Vec::new();
    for cycle in 0..20 {
        let mut process = start(&data);
        ids.extend(answered(&process.gateway(), 1 + cycle % 5).await);
        process.signal("KILL");
        process.end().await;
    }
    let process = start(&data);
    for id in &ids {
        let record = record(&process.gateway(), id).await;
        assert_eq!((record["id"].as_str(), record["finish_reason"].is_string()), (Some(id.as_str()), true), "{record}");
    }
}

/// Asks until the process is gone, one in two for a stream. Gives the ids of the answers that were read whole, which `read` counts.
async fn ask_until_killed(url: String, first: usize, read: Rc<Cell<usize>>) -> Vec<String> {
    let (client, mut ids) = (awc::Client::default(), Vec::new());
    for n in first.. {
        let streamed = n % 2 == 0;
        let Ok(mut response) = client.post(&url).bearer_auth(KEY).send_json(&request(streamed)).await else { break };
        let id = response.headers().get("x-generation-id").map(|id| id.to_str().unwrap().to_owned());
        let Ok(body) = response.body().await else { break };
        assert_eq!(response.status(), 200);
        // The client takes a connection that closes within an answer for its end.
        let is_whole = if streamed { body.ends_with(b"data: [DONE]\n\n") } else { body.ends_with(b"}") };
        if !is_whole {
            break;
        }
        ids.push(id.expect("an id"));
        read.set(read.get() + 1);
    }
    ids
}

#[actix_web::test]
async fn twenty_kills_under_load_lose_no_answer_that_was_read_and_budgets_are_the_sums_of_the_records() {
    let folder = Folder::new();
    let data = folder.at("data").display().to_string();
    let mut seen: Vec<String> = Vec::new();
    for cycle in 0..20 {
        let mut process = start(&data);
        let (url, read) = (format!("http://{}/api/v1/chat/completions", process.address), Rc::new(Cell::new(0)));
        let callers: Vec<_> =
            (0..6).map(|n| actix_web::rt::spawn(ask_until_killed(url.clone(), n, Rc::clone(&read)))).collect();
        crate::patience::until("the load runs", || read.get() >= 12 + cycle).await;
        process.signal("KILL");
        process.end().await;
        for caller in callers {
            seen.extend(caller.await.unwrap());
        }
        let (code, said, fault) = ledger(&["verify", "--data-dir", &data], &[]);
        assert_eq!(code, 0, "cycle {cycle}: {said}{fault}");
        let (_, exported, _) = ledger(&["export", "--data-dir", &data], &[]);
        let records = lines(&exported);
        let stored: HashSet<&str> = records.iter().map(|record| record["id"].as_str().unwrap()).collect();
        assert_eq!(stored.len(), records.len(), "cycle {cycle}: a record is there twice");
        let lost: Vec<&String> = seen.iter().filter(|id| !stored.contains(id.as_str())).collect();
        assert!(lost.is_empty(), "cycle {cycle}: {lost:?} of {}", seen.len());
        let costs = records.iter().map(|record| record["cost"].as_str().unwrap().parse::<Usd>().unwrap());
        let process = start(&data);
        let key = process.gateway().get("/api/v1/key").await.text();
        let usage = key.split("\"usage\":").nth(1).and_then(|rest| rest.split(',').next()).expect("a usage");
        assert_eq!(usage.parse::<Usd>().unwrap(), costs.sum(), "cycle {cycle}");
    }
}

#[actix_web::test]
async fn a_decision_is_explained_and_made_again_after_a_kill_as_before_it() {
    let folder = Folder::new();
    let data = folder.at("data").display().to_string();
    let mut first = start(&data);
    let id = answered(&first.gateway(), 1).await.remove(0);
    let explain = format!("/api/v1/route/explain?generation_id={id}");
    let before = first.gateway().get(&explain).await.expect(200);
    first.signal("KILL");
    first.end().await;

    let second = start(&data);
    assert_eq!(second.gateway().get(&explain).await.expect(200), before);
    let replay = second.gateway().get(&format!("/api/v1/route/replay?generation_id={id}")).await.expect(200);
    assert_eq!(replay["data"]["identical"], true, "{replay}");
}

#[actix_web::test]
async fn a_shutdown_leaves_everything_in_the_database_and_nothing_in_the_journal() {
    let folder = Folder::new();
    let data = folder.at("data");
    let mut first = start(&data.display().to_string());
    let ids = answered(&first.gateway(), 6).await;
    first.signal("TERM");
    assert_eq!(first.end().await.code(), Some(0));
    assert_eq!(std::fs::read_dir(data.join("journal")).unwrap().count(), 0);

    let second = start(&data.display().to_string());
    for id in &ids {
        assert_eq!(record(&second.gateway(), id).await["id"], json!(id));
    }
}

#[actix_web::test]
async fn calls_go_on_while_a_program_holds_a_transaction_open_and_another_copies_the_file() {
    let folder = Folder::new();
    let process = start(&folder.at("data").display().to_string());
    let (gateway, file) = (process.gateway(), folder.at("data/ledger.db"));
    let open = |file: &Path| Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let count = |connection: &Connection, of: &str| connection.query_row(of, [], |row| row.get::<_, i64>(0)).unwrap();
    let generations = |connection: &Connection| count(connection, "select count(*) from generations");
    let first = answered(&gateway, 20).await.len() as i64;
    let reader = open(&file);
    let stored = async || generations(&reader);
    eventually("the first calls are stored", stored, |count| *count == first).await;
    reader.execute_batch("begin").unwrap();
    assert_eq!(generations(&reader), first);
    let (mut calls, mut copies) = (first, Vec::new());
    for round in 0..10 {
        calls += answered(&gateway, 20).await.len() as i64;
        let copy = folder.at(&format!("copy-{round}.db"));
        let (from, to) = (open(&file), copy.to_string_lossy().into_owned());
        let copied = actix_web::web::block(move || from.execute("vacuum into ?1", [to]));
        calls += answered(&gateway, 20).await.len() as i64;
        copied.await.unwrap().unwrap();
        copies.push(copy);
    }
    let other = Connection::open(&file).unwrap();
    assert_eq!(count(&other, "pragma wal_checkpoint(truncate)"), 1, "the reader is in the way of a checkpoint");
    calls += answered(&gateway, 20).await.len() as i64;
    let stored = async || generations(&other);
    eventually("what was recorded meanwhile is stored", stored, |count| *count == calls).await;
    assert_eq!(generations(&reader), first, "its transaction sees what it saw");
    let journal = std::fs::read_dir(folder.at("data/journal")).unwrap();
    let journal: u64 = journal.map(|segment| segment.unwrap().metadata().unwrap().len()).sum();
    assert!(journal < 2 * 8 * 1024 * 1024, "{journal} bytes wait in the segments of two workers");
    assert_eq!(gateway.get("/health").await.expect(200)["ledger"]["state"], "ok");
    for copy in copies {
        let copy = open(&copy);
        assert!((first..=calls).contains(&generations(&copy)));
        assert_eq!(count(&copy, "select sum(requests) from activity"), generations(&copy));
        assert_eq!(copy.query_row("pragma integrity_check", [], |row| row.get::<_, String>(0)).unwrap(), "ok");
    }
    // Nothing is left of it when the reader ends.
    reader.execute_batch("commit").unwrap();
    assert_eq!(generations(&reader), calls);
}

#[actix_web::test]
async fn a_second_process_on_the_same_directory_is_refused_and_told_what_to_do() {
    let folder = Folder::new();
    let data = folder.at("data").display().to_string();
    let _first = start(&data);
    let environment = environment(&data);
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let second = process::run(&["serve"], &pairs);
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(3), "{said}");
    assert!(said.contains("is in use by another process") && said.contains("ledger.data_dir"), "{said}");
}

#[actix_web::test]
async fn a_ledger_of_a_newer_version_is_set_aside_whole_and_is_no_directory_for_commands() {
    let folder = Folder::new();
    let data = folder.at("data").display().to_string();
    let mut first = start(&data);
    let ids = answered(&first.gateway(), 2).await;
    first.signal("TERM");
    first.end().await;
    // As a version leaves it that writes the next number.
    std::fs::write(folder.at("data/format"), (FORMAT + 1).to_string()).unwrap();
    let before = files(&folder.at("data"));

    let verified = process::run(&["ledger", "verify", "--data-dir", &data], &[]);
    let said = String::from_utf8_lossy(&verified.stderr);
    assert_eq!(verified.status.code(), Some(2), "{said}");
    assert!(said.contains("newer version"), "{said}");

    let second = start(&data);
    second.gateway().get(&format!("/api/v1/generation?id={}", ids[0])).await.expect(404);
    answered(&second.gateway(), 1).await;
    second.says("the ledger was written by a newer version; its files were moved to set-aside-", 1).await;
    let health = second.gateway().get("/health").await.expect(200)["ledger"].take();
    assert_eq!((&health["state"], &health["set_aside"]), (&json!("ok"), &json!(true)), "{health}");
    let names = std::fs::read_dir(folder.at("data")).unwrap().map(|entry| entry.unwrap().path());
    let aside = names.into_iter().find(|path| path.to_string_lossy().contains("set-aside-")).expect("a folder");
    let (moved, left) = (files(&aside), files(&folder.at("data")));
    assert!(moved.contains_key("ledger.db") && moved.contains_key("format"), "{:?}", moved.keys());
    for (name, bytes) in &before {
        let now = moved.get(name).or_else(|| left.get(name).filter(|_| STAYING.contains(&name.as_str())));
        assert!(now == Some(bytes), "{name} is changed or lost");
    }
    drop(second);

    // What was set aside is still a ledger of the version that wrote it.
    std::fs::write(aside.join("format"), FORMAT.to_string()).unwrap();
    let third = start(&aside.display().to_string());
    for id in &ids {
        assert_eq!(record(&third.gateway(), id).await["id"], json!(id));
    }
    assert_eq!(third.gateway().get("/health").await.expect(200)["ledger"].get("set_aside"), None);
}

/// Files that are the same for all versions, and stay.
const STAYING: [&str; 4] = ["lock", "accounts.log", "shared.log", "node"];

/// The files in a folder, and what is in them.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect()
}

#[actix_web::test]
async fn a_directory_that_cannot_be_written_is_a_fault_at_the_start() {
    let folder = Folder::new();
    // For root every file can be written, but no folder can be opened as a file to be written.
    std::fs::create_dir_all(folder.at("data/lock")).unwrap();
    let environment = environment(&folder.at("data").display().to_string());
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let refused = process::run(&["serve"], &pairs);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot open the ledger"), "{said}");
}

#[actix_web::test]
async fn while_the_disk_fails_health_and_metrics_say_so_and_what_was_answered_is_stored_when_it_works() {
    let folder = Folder::new();
    // Neither the journal nor the database can be opened.
    std::fs::create_dir_all(folder.at("data/ledger.db")).unwrap();
    folder.put("data/journal", "not a directory");
    let process = start(&folder.at("data").display().to_string());
    let gateway = process.gateway();
    let ids = answered(&gateway, 3).await;
    let health = async || gateway.get("/health").await.expect(200)["ledger"].take();
    let failing = async || gateway.get("/metrics").await.text().contains("\npointsman_ledger_failing 1\n");
    let degraded = health().await;
    assert_eq!((&degraded["state"], degraded["queued"].as_u64() >= Some(3)), (&json!("degraded"), true), "{degraded}");
    assert!(degraded["since"].is_string() && failing().await);
    std::fs::remove_file(folder.at("data/journal")).unwrap();
    std::fs::remove_dir(folder.at("data/ledger.db")).unwrap();
    let state = async || health().await["state"].clone();
    crate::patience::eventually("the ledger is well", state, |state| *state == json!("ok")).await;
    assert!(!failing().await);
    drop(process);
    let process = start(&folder.at("data").display().to_string());
    for id in &ids {
        assert_eq!(record(&process.gateway(), id).await["id"], json!(id));
    }
}

#[actix_web::test]
async fn while_the_database_is_closed_foreign_and_unknown_ids_get_the_same_503_and_owners_their_records() {
    const OTHER: &str = "sk-other-0a1b2c3d4e5f6a7b";
    let folder = Folder::new();
    std::fs::create_dir_all(folder.at("data/ledger.db")).unwrap();
    let mut environment = environment(&folder.at("data").display().to_string());
    let keys = "[{ name = \"test\", env = \"TEST_KEY\" }, { name = \"other\", env = \"OTHER_KEY\" }]";
    environment.push(("POINTSMAN__KEYS".to_owned(), keys.to_owned()));
    environment.push(("OTHER_KEY".to_owned(), OTHER.to_owned()));
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let process = Process::start(&["serve"], &pairs);
    let gateway = process.gateway();
    let ids = answered(&gateway, 2).await;
    for path in ["generation?id=", "route/explain?generation_id=", "route/replay?generation_id="] {
        let path = format!("/api/v1/{path}");
        let unknown = answer(&gateway, OTHER, &format!("{path}{UNKNOWN}")).await;
        assert!(unknown.0 == 503 && unknown.1.contains("\"reason\":\"ledger_unavailable\""), "{path}: {}", unknown.1);
        assert!(unknown.2.contains(&("retry-after".to_owned(), "2".to_owned())), "{:?}", unknown.2);
        for id in &ids {
            assert_eq!(answer(&gateway, OTHER, &format!("{path}{id}")).await, unknown, "{path}");
            assert_eq!(answer(&gateway, KEY, &format!("{path}{id}")).await.0, 200, "{path}");
        }
    }
    for path in ["generations", "activity"] {
        let (status, body, _) = answer(&gateway, KEY, &format!("/api/v1/{path}")).await;
        assert!(status == 503 && body.contains("ledger_unavailable"), "{path}: {body}");
    }
}

#[actix_web::test]
async fn a_directory_that_cannot_be_made_is_a_fault_at_the_start_unless_records_stay_in_memory() {
    let folder = Folder::new();
    folder.put("file", "not a directory");
    let data = folder.at("file").join("data").display().to_string();
    let mut environment = environment(&data);
    let run = |environment: &[(String, String)]| {
        let pairs: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        process::run(&["serve"], &pairs)
    };
    let refused = run(&environment);
    assert_ne!(refused.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot open the ledger"), "{refused:?}");

    environment.push(("POINTSMAN__LEDGER__DURABILITY".to_owned(), "off".to_owned()));
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let process = Process::start(&["serve"], &pairs);
    assert_eq!(answered(&process.gateway(), 1).await.len(), 1);
}

#[actix_web::test]
async fn without_a_word_in_the_configuration_the_ledger_and_the_routing_memory_lie_in_data_beside_it() {
    let folder = Folder::new();
    folder.put("config.toml", "[server]\nbind = \"127.0.0.1:0\"\n[simulation]\nmode = \"on\"\n");
    let variables = environment("").into_iter().filter(|(name, _)| !name.starts_with("POINTSMAN__LEDGER__DATA_DIR"));
    let environment: Vec<(String, String)> = variables.collect();
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let config = folder.at("config.toml").display().to_string();
    let mut first = Process::start(&["serve", "--config", &config], &pairs);
    let data = folder.at("data");
    let greeting = format!("Records       {}", data.display());
    crate::patience::until("the greeting says where", || first.stdout().contains(&greeting)).await;
    let mode = std::fs::metadata(&data).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else may read it");
    let ids = answered(&first.gateway(), 2).await;
    first.signal("TERM");
    assert_eq!(first.end().await.code(), Some(0));
    assert!(data.join("ledger.db").is_file() && data.join("routing.json").is_file(), "{:?}", files(&data).keys());

    let second = Process::start(&["serve", "--config", &config], &pairs);
    for id in &ids {
        assert_eq!(record(&second.gateway(), id).await["id"], json!(id));
    }
}
