//! A directory as version 0.1.0 left it: this version reads its configuration, records, keys and routing memory again, and
//! goes on with them. The fixture stays as it is; a later format must read it.

use std::fs;

use serde_json::{Value, json};

use crate::{
    folder::Folder,
    process::{Process, run},
    world::{ask, column},
};

const ADMIN: &str = "sk-upgrade-admin-0123456789";
const APP: &str = "sk-upgrade-app-0123456789";
/// Issued by the gateway of that version, with a limit.
const ISSUED: &str = "sk-pointsman-v1-3a8bcdbb19a10330472ca94cb7946ac312386dfdec11072774f14fa3ec4cb008";
/// The newest and the oldest of its generations.
const NEWEST: &str = "gen-1795564674-006VsTzqaiE2lf4SZ32OEU";
const OLDEST: &str = "gen-1795564664-OFPIH2FDa5K3g1fQF3QYF9";
const ENVIRONMENT: [(&str, &str); 4] = [
    ("UPGRADE_ADMIN_KEY", ADMIN),
    ("UPGRADE_APP_KEY", APP),
    ("POINTSMAN__LEDGER__DURABILITY", "group"),
    ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
];

/// The directory of that version, for this test to change.
fn directory() -> Folder {
    let folder = Folder::new();
    let data = folder.at("data");
    fs::create_dir(&data).unwrap();
    fs::write(folder.at("config.toml"), include_bytes!("fixtures/release-0.1.0/config.toml")).unwrap();
    fs::write(folder.at("routing.json"), include_bytes!("fixtures/release-0.1.0/routing.json")).unwrap();
    fs::write(data.join("accounts.log"), include_bytes!("fixtures/release-0.1.0/accounts.log")).unwrap();
    fs::write(data.join("format"), include_bytes!("fixtures/release-0.1.0/format")).unwrap();
    fs::write(data.join("node"), include_bytes!("fixtures/release-0.1.0/node")).unwrap();
    fs::write(data.join("state.key"), include_bytes!("fixtures/release-0.1.0/state.key")).unwrap();
    let ledger = include_bytes!("fixtures/release-0.1.0/ledger.redb.zst").as_slice();
    fs::write(data.join("ledger.redb"), zstd::decode_all(ledger).unwrap()).unwrap();
    folder
}

fn start(folder: &Folder) -> Process {
    Process::start(&["serve", "--config", folder.at("config.toml").to_str().unwrap()], &ENVIRONMENT)
}

async fn get(process: &Process, key: &str, path: &str) -> crate::harness::Reply {
    crate::generation_lists::get(&process.gateway(), key, path).await
}

/// The generations of both keys, newest first.
async fn generations(process: &Process) -> Vec<Value> {
    let admin = crate::openapi::admin_address(process);
    let page = crate::generation_lists::get(&admin, ADMIN, "/api/v1/admin/generations").await.expect(200);
    page["data"].as_array().unwrap().clone()
}

#[actix_web::test]
async fn an_upgrade_finds_records_keys_limits_and_what_the_routing_learned_again() {
    let folder = directory();
    let mut process = start(&folder);
    let before = generations(&process).await;
    assert_eq!(before.len(), 12);
    assert_eq!((before[0]["id"].as_str(), before[11]["id"].as_str()), (Some(NEWEST), Some(OLDEST)));
    let rows = json!(before);
    let mut keys = column(&rows, "key");
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys, ["app", "issued"]);
    assert!(before.iter().all(|row| row["cost"].is_number() && row["chain"][0]["provider_slug"].is_string()));

    let key = get(&process, ISSUED, "/api/v1/key").await.expect(200);
    assert_eq!((&key["data"]["limit"], &key["data"]["limit_reset"]), (&json!(25), &json!("monthly")), "{key}");
    assert!(key["data"]["usage"].as_f64().unwrap() > 0.0, "what it spent is counted: {key}");
    assert_eq!(get(&process, APP, "/api/v1/key").await.status, 401, "it was disabled then");
    let memory = get(&process, ISSUED, "/api/v1/health/memory").await.expect(200);
    assert!(memory["data"]["restored"]["endpoints"].as_u64().unwrap() >= 5, "{memory}");
    assert_eq!(memory["data"]["restored"]["rejected"], 0, "{memory}");

    let (url, variables) = (process.gateway().url(""), [("POINTSMAN_API_KEY", ADMIN)]);
    for id in [NEWEST, OLDEST] {
        let replayed = run(&["replay", id, "--url", &url], &variables);
        assert_eq!(replayed.status.code(), Some(0), "{}", String::from_utf8_lossy(&replayed.stdout));
    }

    let headers = [("authorization", format!("Bearer {ISSUED}"))];
    let headers = [(headers[0].0, headers[0].1.as_str()), ("content-type", "application/json")];
    let body = Some(ask("meadow/small").to_string().into_bytes());
    let call = process.gateway().call(actix_web::http::Method::POST, "/api/v1/chat/completions", &headers, body).await;
    call.expect(200);
    let format = fs::read_to_string(folder.at("data/format")).unwrap();
    assert_eq!(format.trim(), "2", "that version reads up to 1, and would set this directory aside");
    process.signal("TERM");
    assert_eq!(process.end().await.code(), Some(0), "{}", process.stderr());
    let after = generations(&start(&folder)).await;
    assert_eq!(after[1..], before[..], "what this version wrote stands before what that one wrote");
}

#[test]
fn the_configuration_of_that_version_is_valid_and_its_former_names_are_named() {
    let folder = directory();
    let checked = run(&["check", "--json", "--config", folder.at("config.toml").to_str().unwrap()], &ENVIRONMENT);
    let page: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{page}");
    let warnings = page["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 4, "{page}");
    assert!(warnings.iter().all(|warning| warning.to_string().contains("today")), "{page}");
}
