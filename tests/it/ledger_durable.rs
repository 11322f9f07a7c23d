//! The ledger on disk, with the real binary: what survives a kill, a shutdown and a second process.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    process::{self, Process},
    raw_client::RawClient,
};

/// Environment of a process with quick simulated providers and its ledger in `data`.
fn environment(data: &str) -> Vec<(String, String)> {
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

/// Ends a process during 200 streams, and gives the statuses of their records after a restart.
async fn stopped_during_streams(grace: &str, tokens_per_second: &str) -> Vec<String> {
    let folder = Folder::new();
    let data = folder.at("data").display().to_string();
    let mut environment = environment(&data);
    environment.push(("POINTSMAN__TIMEOUTS__DRAIN_GRACE".to_owned(), grace.to_owned()));
    for slug in ["SIM_SWIFT", "SIM_THRIFT", "SIM_FLAKY", "SIM_GRATIS"] {
        let name = format!("POINTSMAN__SIMULATION__PROVIDERS__{slug}__TOKENS_PER_SECOND");
        environment.push((name, tokens_per_second.to_owned()));
    }
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut first = Process::start(&["serve"], &pairs);
    let gateway = first.gateway();
    let body = request(true);
    let begun = (0..200).map(|_| async {
        let mut client = RawClient::chat(&gateway, &body).await;
        client.until("\"content\":").await;
        client
    });
    let clients = join_all(begun).await;
    assert!(clients.iter().filter(|client| !client.text().contains("[DONE]")).count() > 150, "too late");
    first.signal("TERM");
    let ids = join_all(clients.into_iter().map(|mut client| async move {
        client.rest().await;
        client.generation()
    }));
    let ids = ids.await;
    assert_eq!(first.end().await.code(), Some(0));

    let second = start(&data);
    let listed = second.gateway().get("/api/v1/generations?limit=200").await.expect(200);
    assert_eq!((listed["data"].as_array().unwrap().len(), &listed["next"]), (200, &Value::Null));
    let rows = listed["data"].as_array().unwrap();
    let status = |id: &String| {
        let row = rows.iter().find(|row| row["id"] == json!(id)).unwrap_or_else(|| panic!("{id} is lost"));
        row["status"].as_str().unwrap().to_owned()
    };
    ids.iter().map(status).collect()
}

#[actix_web::test]
async fn two_hundred_streams_that_end_in_the_time_of_the_drain_leave_two_hundred_complete_records() {
    let statuses = stopped_during_streams("30s", "8").await;
    assert!(statuses.iter().all(|status| status == "completed"), "{statuses:?}");
}

#[actix_web::test]
async fn two_hundred_streams_that_the_end_of_the_drain_cuts_off_leave_two_hundred_records() {
    let statuses = stopped_during_streams("100ms", "0.5").await;
    let failed = statuses.iter().filter(|status| *status == "failed").count();
    assert!(failed > 150, "{failed} {statuses:?}");
}
