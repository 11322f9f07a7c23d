//! The ledger on disk, with the real binary: what survives a kill, a shutdown and a second process.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    process::{self, Process},
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
    let database = std::fs::read(folder.at("data/ledger.redb")).unwrap();
    std::fs::write(folder.at("data/format"), "99").unwrap();

    let verified = process::run(&["ledger", "verify", "--data-dir", &data], &[]);
    let said = String::from_utf8_lossy(&verified.stderr);
    assert_eq!(verified.status.code(), Some(2), "{said}");
    assert!(said.contains("newer version"), "{said}");

    let second = start(&data);
    second.gateway().get(&format!("/api/v1/generation?id={}", ids[0])).await.expect(404);
    answered(&second.gateway(), 1).await;
    let names = std::fs::read_dir(folder.at("data")).unwrap().map(|entry| entry.unwrap().path());
    let aside = names.into_iter().find(|path| path.to_string_lossy().contains("set-aside-")).expect("a folder");
    assert_eq!(std::fs::read(aside.join("ledger.redb")).unwrap(), database, "nothing of it is lost");
    assert_eq!(std::fs::read_to_string(aside.join("format")).unwrap(), "99");
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
