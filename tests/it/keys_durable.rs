//! Keys, budgets and the audit log across kills of the real binary.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    issued_keys::{ADMIN, call, chat, issue},
    process::{ConfigFile, Process, run},
    scripted::{Script, Upstream},
    world::{error_of, saying},
};

/// A configuration file with one model at a cent per token, and its ledger in `folder`.
pub(crate) fn config(upstream: &Upstream, folder: &Folder) -> ConfigFile {
    ConfigFile::new(&format!(
        "[server]\nbind = \"127.0.0.1:0\"\nworkers = 2\n[simulation]\nmode = \"off\"\n[auth]\ndevelopment_key_enabled = false\n\
         [ledger]\ndata_dir = {:?}\n[routing]\nexploration = 0\n\
         [[keys]]\nname = \"test\"\nenv = \"TEST_KEY\"\n[[keys]]\nname = \"admin\"\nenv = \"ADMIN\"\nscopes = [\"admin\"]\n\
         [providers.acme]\nname = \"Acme\"\nbase_url = \"http://{}/v1\"\napi_key_env = \"ACME_KEY\"\n\
         [[models]]\nid = \"acme/small\"\ncontext_length = 1000\nsupported_parameters = [\"max_tokens\"]\n\
         endpoints = [{{ provider = \"acme\", upstream_model = \"s\", pricing = {{ prompt = \"0.01\", completion = \"0.01\" }} }}]\n",
        folder.at("data"),
        upstream.address()
    ))
}

pub(crate) const ENVIRONMENT: [(&str, &str); 5] = [
    ("TEST_KEY", KEY),
    ("ADMIN", ADMIN),
    ("ACME_KEY", "sk-upstream-acme-5ec2e7"),
    ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
    ("POINTSMAN__LEDGER__DURABILITY", "group"),
];

fn start(config: &ConfigFile) -> Process {
    Process::start(&["serve", "--config", config.path()], &ENVIRONMENT)
}

/// The listener for administration of a process.
fn admin(process: &Process) -> TestGateway {
    let said = process.stdout();
    let url = said.lines().find_map(|line| line.trim().strip_prefix("Admin")).expect("an admin address");
    let address = url.trim().strip_prefix("http://").unwrap().split('/').next().unwrap();
    TestGateway::at(address.parse().unwrap())
}

async fn kill(mut process: Process) {
    process.signal("KILL");
    process.end().await;
}

#[actix_web::test]
async fn keys_disabled_keys_budgets_and_the_audit_log_survive_kills() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let config = config(&upstream, &folder);
    let process = start(&config);
    let gateway = process.gateway();
    let (text, data) = issue(&gateway, json!({ "name": "ci", "limit": 1 })).await;
    let (revoked, other) = issue(&gateway, json!({ "name": "gone" })).await;
    let (off, _) = issue(&gateway, json!({ "name": "off" })).await;
    let path = format!("/api/v1/keys/{}", other["hash"].as_str().unwrap());
    call(&gateway, Method::DELETE, &path, ADMIN, None).await.expect(200);
    for name in ["test", "off"] {
        let path = format!("/api/v1/admin/keys/{name}/disable");
        call(&admin(&process), Method::POST, &path, ADMIN, None).await.expect(200);
    }
    let id = chat(&gateway, &text, json!({ "max_tokens": 5 })).await.expect(200)["id"].as_str().unwrap().to_owned();
    kill(process).await;

    for cycle in 1..4_u32 {
        let process = start(&config);
        let gateway = process.gateway();
        let key = call(&gateway, Method::GET, "/api/v1/key", &text, None).await.expect(200);
        let spent = f64::from(cycle * 17) / 100.0;
        assert_eq!(key["data"]["usage"].as_f64(), Some(spent), "cycle {cycle}: {key}");
        let ledger = call(&gateway, Method::GET, "/api/v1/activity", &text, None).await.expect(200);
        let sum: f64 = ledger["data"].as_array().unwrap().iter().map(|row| row["cost"].as_f64().unwrap()).sum();
        assert!((sum - spent).abs() < 1e-9, "the ledger says the same: {ledger}");
        assert_eq!(error_of(&chat(&gateway, &revoked, json!({})).await, 401)["metadata"]["reason"], "invalid_key");
        for disabled in [KEY, &off] {
            let error = error_of(&chat(&gateway, disabled, json!({})).await, 401);
            assert_eq!(error["metadata"]["reason"], "disabled_key", "cycle {cycle}");
        }
        let record = call(&gateway, Method::GET, &format!("/api/v1/generation?id={id}"), &text, None).await;
        assert_eq!(record.expect(200)["data"]["id"], json!(id));
        let audit = call(&admin(&process), Method::GET, "/api/v1/admin/audit", ADMIN, None).await.expect(200);
        assert_eq!(audit["data"].as_array().unwrap().len(), 6, "{audit}");
        chat(&gateway, &text, json!({ "max_tokens": 5 })).await.expect(200);
        kill(process).await;
    }

    let process = start(&config);
    let gateway = process.gateway();
    call(&admin(&process), Method::POST, "/api/v1/admin/keys/test/enable", ADMIN, None).await.expect(200);
    chat(&gateway, KEY, json!({ "max_tokens": 5 })).await.expect(200);
    // $0.68 of the dollar is spent: a request that may cost more than the rest is refused after a kill as before it.
    assert_eq!(
        error_of(&chat(&gateway, &text, json!({ "max_tokens": 40 })).await, 402)["metadata"]["reason"],
        "key_limit"
    );
    let path = format!("/api/v1/keys/{}/rotate", data["hash"].as_str().unwrap());
    let rotated = call(&gateway, Method::POST, &path, ADMIN, None).await.expect(200);
    let new = rotated["key"].as_str().unwrap().to_owned();
    kill(process).await;
    let process = start(&config);
    let key = call(&process.gateway(), Method::GET, "/api/v1/key", &new, None).await.expect(200);
    assert_eq!((&key["data"]["label"], &key["data"]["usage"]), (&json!("ci"), &json!(0.68)));
    assert_eq!(chat(&process.gateway(), &text, json!({})).await.status, 401);
}

#[actix_web::test]
async fn a_reservation_ends_with_the_process_that_made_it_and_the_prompt_that_was_sent_is_billed_by_estimate() {
    let (upstream, folder) = (Upstream::start([Script::new().request()]), Folder::new());
    let config = config(&upstream, &folder);
    let process = start(&config);
    let gateway = process.gateway();
    let (text, _) = issue(&gateway, json!({ "name": "ci", "limit": 1 })).await;
    let remaining = async |gateway: &TestGateway| -> Value {
        call(gateway, Method::GET, "/api/v1/key", &text, None).await.expect(200)["data"]["limit_remaining"].take()
    };
    let hanging = {
        let (address, text) = (process.address, text.clone());
        actix_web::rt::spawn(async move {
            // Killed in the middle, so it ends with an error.
            let body =
                json!({ "model": "acme/small", "max_tokens": 50, "messages": [{ "role": "user", "content": "x" }] });
            let client = awc::Client::default().post(format!("http://{address}/api/v1/chat/completions"));
            client.bearer_auth(text).send_json(&body).await.is_err()
        })
    };
    crate::patience::until("the provider is called", || !upstream.requests().is_empty()).await;
    assert!(remaining(&gateway).await.as_f64().unwrap() < 0.5);
    // The beginning of a call that takes long is in the journal.
    let segments = || std::fs::read_dir(folder.at("data/journal")).into_iter().flatten().flatten();
    let length = || segments().map(|segment| segment.metadata().map_or(0, |file| file.len())).sum::<u64>();
    crate::patience::until("its beginning is recorded", || length() > 0).await;
    kill(process).await;
    assert!(hanging.await.unwrap());
    let process = start(&config);
    let listed = call(&process.gateway(), Method::GET, "/api/v1/generations", &text, None).await.expect(200);
    let record = &listed["data"][0];
    assert_eq!(record["status"], "failed", "{listed}");
    let (cost, left) = (record["cost"].as_f64().unwrap(), remaining(&process.gateway()).await.as_f64().unwrap());
    assert!(cost > 0.0 && cost < 0.5, "a cent for each token of the prompt, and none for the answer: {cost}");
    assert!((left - (1.0 - cost)).abs() < 1e-9, "{left} and {cost}");
}

#[actix_web::test]
async fn a_damaged_file_of_changes_stops_the_start_and_a_torn_last_line_does_not() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let config = config(&upstream, &folder);
    let process = start(&config);
    let (text, _) = issue(&process.gateway(), json!({ "name": "one" })).await;
    issue(&process.gateway(), json!({ "name": "two" })).await;
    kill(process).await;
    let path = folder.at("data").join("accounts.log");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    let process = start(&config);
    chat(&process.gateway(), &text, json!({})).await.expect(200);
    kill(process).await;
    let mut damaged = whole;
    damaged[40] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let refused = run(&["serve", "--config", config.path()], &ENVIRONMENT);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("line 1 of \"accounts.log\"") && said.contains("backup"), "{said}");
}
