//! `pointsman ledger export | verify | compact`, with the real binary, on a stopped and on a running gateway.

use std::{collections::BTreeMap, path::Path, process::Output};

use serde_json::{Value, json};

use crate::{
    folder::Folder,
    generation_lists::{ADMIN, Stage, admin, one_of_each},
    ledger_durable::{answered, environment, start},
    patience::eventually,
    process::{self, Process},
    raw_client::RawClient,
    world::column,
};

pub(crate) fn ledger(arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let all: Vec<&str> = ["ledger"].into_iter().chain(arguments.iter().copied()).collect();
    let Output { status, stdout, stderr } = process::run(&all, environment);
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Every file with its bytes.
fn files(below: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        // An index in memory that programs share.
        } else if !path.ends_with("ledger.db-shm") {
            files.insert(path.display().to_string(), std::fs::read(&path).unwrap());
        }
    }
    files
}

pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn ids(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[actix_web::test]
async fn a_killed_gateways_records_are_exported_and_verified_and_nothing_in_its_directory_changes() {
    let folder = Folder::new();
    let data = folder.at("data");
    let path = data.display().to_string();
    let mut process = start(&path);
    let mut answered = answered(&process.gateway(), 30).await;
    process.signal("KILL");
    process.end().await;
    let before = files(&data);

    let (code, exported, said) = ledger(&["export", "--data-dir", &path], &[]);
    assert_eq!((code, said.as_str()), (0, ""));
    let rows = lines(&exported);
    let mut found = ids(&rows);
    assert!(rows.is_sorted_by(|a, b| a["created_at"].as_str() >= b["created_at"].as_str()));
    found.sort();
    answered.sort();
    assert_eq!(found, answered);
    assert!(rows.iter().all(|row| row["cost"].as_str().is_some_and(|cost| cost.parse::<f64>().unwrap() >= 0.0)));

    let (code, text, said) = ledger(&["verify", "--data-dir", &path], &[]);
    assert_eq!((code, said.as_str()), (0, ""), "{text}");
    assert!(text.contains(": 30 records in ") && text.ends_with("No fault.\n"), "{text}");
    let (code, json, _) = ledger(&["verify", "--json", "--data-dir", &path], &[]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, report["records"].as_u64(), report["fault_count"].as_u64()), (0, Some(30), Some(0)), "{report}");
    assert!(files(&data) == before, "a file has changed");

    let process = start(&path);
    let listed = process.gateway().get("/api/v1/generations?limit=200").await.expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), 30);
}

#[actix_web::test]
async fn a_stream_that_ran_when_its_process_was_killed_is_exported_as_failed_and_is_no_fault() {
    let folder = Folder::new();
    let path = folder.at("data").display().to_string();
    let mut environment = environment(&path);
    for slug in ["SIM_SWIFT", "SIM_THRIFT", "SIM_FLAKY", "SIM_GRATIS"] {
        environment.push((format!("POINTSMAN__SIMULATION__PROVIDERS__{slug}__TOKENS_PER_SECOND"), "1".to_owned()));
    }
    let pairs: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut process = Process::start(&["serve"], &pairs);
    let body = json!({ "model": "meadow/small", "stream": true, "max_tokens": 500,
                       "messages": [{ "role": "user", "content": "Tell me a long story about the railway." }] });
    let mut client = RawClient::chat(&process.gateway(), &body).await;
    client.until("\"content\":").await;
    process.signal("KILL");
    process.end().await;

    let (code, exported, said) = ledger(&["export", "--data-dir", &path], &[]);
    let rows = lines(&exported);
    assert_eq!((code, rows.len(), rows[0]["id"].as_str()), (0, 1, Some(&*client.generation())), "{said}");
    assert_eq!(rows[0]["status"], "failed", "{exported}");
    let (code, text, _) = ledger(&["verify", "--data-dir", &path], &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("and 1 of generations that were running"), "{text}");
}

#[actix_web::test]
async fn a_directory_in_use_is_refused_and_the_way_through_the_admin_listener_is_named() {
    let folder = Folder::new();
    let path = folder.at("data").display().to_string();
    let _process = start(&path);
    for command in ["export", "verify"] {
        let (code, out, said) = ledger(&[command, "--data-dir", &path], &[]);
        assert_eq!((code, out.as_str()), (2, ""));
        let way = format!("pointsman ledger {command} --url http://127.0.0.1:8081");
        assert!(said.contains("is in use by a running gateway") && said.contains(&way), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let (code, _, said) = ledger(&["compact", "--data-dir", &path], &[]);
    assert!(code == 2 && said.contains("stop it, and run this again"), "{said}");
}

#[actix_web::test]
async fn a_running_gateway_exports_and_verifies_through_its_admin_listener_what_its_directory_gives_later() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    let url = gateway.admin().url("");
    let key = [("POINTSMAN_ADMIN_KEY", ADMIN)];

    let (code, exported, said) = ledger(&["export", "--url", &url], &key);
    assert_eq!((code, said.as_str()), (0, ""));
    let rows = lines(&exported);
    let listed = admin(&gateway, "generations").await;
    let text = listed.text().to_owned();
    let page = listed.expect(200);
    assert_eq!(ids(&rows), ids(page["data"].as_array().unwrap()));
    // Members as in the list; the cost is its text.
    for (row, listed) in rows.iter().zip(page["data"].as_array().unwrap()) {
        for (name, member) in listed.as_object().unwrap().iter().filter(|(name, _)| *name != "cost") {
            assert_eq!(row[name], *member, "{name}");
        }
        assert_eq!(row.as_object().unwrap().len(), listed.as_object().unwrap().len());
        assert!(text.contains(&format!("\"cost\":{},", row["cost"].as_str().unwrap())), "{row}");
    }

    let (code, csv, _) = ledger(&["export", "--url", &url, "--format", "csv"], &key);
    assert_eq!((code, csv.as_str()), (0, &*admin(&gateway, "generations.csv").await.text()));

    let (code, failed, _) = ledger(&["export", "--url", &url, "--status", "failed,cancelled"], &key);
    assert_eq!((code, column(&Value::from(lines(&failed)), "status")), (0, vec!["failed"]));
    let (code, none, _) = ledger(&["export", "--url", &url, "--until", "2026-01-01", "--since", "2025-12-31"], &key);
    assert_eq!((code, none.as_str()), (0, ""));

    let (code, report, said) = ledger(&["verify", "--url", &url], &key);
    assert!(code == 0 && report.ends_with("No fault.\n"), "{report}{said}");

    let (code, _, said) = ledger(&["export", "--url", &url], &[("POINTSMAN_ADMIN_KEY", crate::harness::KEY)]);
    assert!(code == 2 && said.contains("scope 'admin'"), "{said}");
    let (code, _, said) = ledger(&["export", "--url", "http://127.0.0.1:1"], &key);
    assert!(code == 4 && said.contains("http://127.0.0.1:1"), "{said}");
}

#[test]
fn a_command_that_cannot_begin_says_why_and_what_to_do() {
    let folder = Folder::new();
    let nowhere = folder.at("nowhere").display().to_string();
    for (arguments, expected) in [
        (&["export", "--data-dir", &nowhere][..], "there is no ledger in"),
        (&["verify", "--data-dir", &nowhere], "--data-dir"),
        (&["compact", "--data-dir", &nowhere], "there is no ledger in"),
        (&["export", "--since", "yesterday", "--data-dir", &nowhere], "'since' must be a time such as"),
        (&["export", "--status", "lost", "--data-dir", &nowhere], "Unknown value 'lost' in 'status'"),
        (&["export", "--format", "xml"], "jsonl, csv"),
        (&["export", "--url", "http://a", "--data-dir", "b"], "cannot be used with"),
    ] {
        let (code, out, said) = ledger(arguments, &[]);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert!(!folder.at("nowhere").exists());
}

#[actix_web::test]
async fn a_damaged_block_is_left_out_of_lists_which_say_so_and_verify_and_export_end_with_1() {
    let stage = Stage::new();
    let gateway = stage.gateway().await;
    one_of_each(&gateway).await;
    gateway.stop().await;
    drop(gateway);
    let data = stage.data();
    let path = data.display().to_string();
    let verify = || ledger(&["verify", "--data-dir", &path], &[]);
    eventually("the directory is given up", async || verify().0, |code| *code == 0).await;
    let file = data.join("ledger.db");
    let mut bytes = std::fs::read(&file).unwrap();
    // Compressed parts begin so. The catalog and the policy are longer than the records of four calls.
    let magic = [0x28, 0xb5, 0x2f, 0xfd];
    let places: Vec<usize> = bytes.windows(4).enumerate().filter(|(_, at)| **at == magic).map(|(at, _)| at).collect();
    places.iter().for_each(|at| bytes[at + 30] ^= 0xff);
    std::fs::write(&file, &bytes).unwrap();

    let (code, report, said) = verify();
    assert_eq!(code, 1, "{report}{said}");
    assert!(report.contains("fault: group ") && report.contains("fault: the catalogue or policy"), "{report}");
    let (code, out, said) = ledger(&["export", "--data-dir", &path], &[]);
    assert!(code == 1 && out.is_empty() && said.contains("'pointsman ledger verify' names them"), "{said}");

    let gateway = stage.gateway().await;
    let call = crate::world::ask("acme/small");
    crate::generation_lists::chat(&gateway, crate::harness::KEY, &call).await.expect(200);
    let page = admin(&gateway, "generations").await.expect(200);
    assert_eq!(column(&page["data"], "requested_model"), ["acme/small"], "{page}");
    assert_eq!((&page["damaged_blocks"], &page["unreadable_records"]), (&json!(1), &json!(4)), "{page}");
    let csv = admin(&gateway, "generations.csv").await;
    assert_eq!((csv.status, csv.header("x-damaged-blocks")), (200, Some("1")));
    assert_eq!(admin(&gateway, "ledger").await.status, 200);
    assert_eq!(admin(&gateway, "activity").await.status, 200);
}

#[actix_web::test]
async fn compaction_makes_the_file_smaller_and_keeps_every_record() {
    let folder = Folder::new();
    let data = folder.at("data");
    let path = data.display().to_string();
    let mut process = start(&path);
    answered(&process.gateway(), 40).await;
    process.signal("TERM");
    process.end().await;
    let file = data.join("ledger.db");
    let free = "create table gone (bytes); insert into gone values (zeroblob(4000000)); drop table gone";
    rusqlite::Connection::open(&file).unwrap().execute_batch(free).unwrap();
    let length = || std::fs::metadata(&file).unwrap().len();
    let before = length();
    let (code, said, _) = ledger(&["compact", "--data-dir", &path], &[]);
    assert_eq!(code, 0, "{said}");
    assert!(length() < before && said.contains(&format!("{before} bytes before, {} after", length())), "{said}");
    let (code, report, _) = ledger(&["verify", "--data-dir", &path], &[]);
    assert!(code == 0 && report.contains(": 40 records in "), "{report}");
}
