//! `pointsman logs`, and the form and exit codes that all commands share which ask a gateway.

use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    openapi::admin_address,
    process::{Process, run},
    scripted::refused_address,
};

const SIMULATED: [(&str, &str); 4] = [
    ("POINTSMAN__SIMULATION__MODE", "on"),
    ("POINTSMAN__SERVER__BIND", "127.0.0.1:0"),
    ("POINTSMAN__KEYS", "[{ name = \"test\", env = \"TEST_KEY\" }]"),
    ("TEST_KEY", KEY),
];

#[actix_web::test]
async fn logs_show_generations_as_lines_oldest_first_and_go_on_with_those_that_follow() {
    let folder = Folder::new();
    let ledger = folder.at("ledger").display().to_string();
    let stored = [("POINTSMAN__LEDGER__DATA_DIR", ledger.as_str()), ("POINTSMAN__LEDGER__DURABILITY", "group")];
    let process = Process::start(&[], &[SIMULATED.as_slice(), &stored].concat());
    let gateway = process.gateway();
    let body = json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5});
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(gateway.chat(&body).await.header("x-generation-id").unwrap().to_owned());
    }
    let (url, key) = (gateway.url(""), [("POINTSMAN_API_KEY", KEY)]);
    let output = run(&["logs", "--url", &url], &key);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines.iter().zip(&ids).all(|(line, id)| line.contains(id.as_str()) && line.contains("completed")),
        "{said}"
    );
    let newest = run(&["logs", "-n", "1", "--json", "--url", &url], &key);
    let row: Value = serde_json::from_slice(&newest.stdout).unwrap();
    assert_eq!(row["id"], json!(ids[1]));
    assert!(run(&["logs", "--failed", "--url", &url], &key).stdout.is_empty());

    let watched = url.clone();
    let following =
        std::thread::spawn(move || run(&["logs", "-f", "-n", "0", "--url", &watched], &[("POINTSMAN_API_KEY", KEY)]));
    // The lists above were three.
    reads_of(&gateway, "/generations", 4).await;
    let later = gateway.chat(&body).await.header("x-generation-id").unwrap().to_owned();
    // The fifth may have begun before the generation was recorded; the sixth shows it, and who asks for a seventh
    // has printed the sixth.
    reads_of(&gateway, "/generations", 7).await;
    drop(process);
    let output = following.join().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "the gateway is gone");
    assert!(said.contains(&later) && !said.contains(&ids[0]) && !said.contains(&ids[1]), "{said}");
}

/// Waits until the path, by its end, was read so often.
pub(crate) async fn reads_of(gateway: &TestGateway, path: &str, count: u64) {
    let label = format!("{path}\"");
    let asked = async || gateway.get("/metrics").await.text();
    let are_read = |text: &String| {
        let line = text.lines().find(|line| line.starts_with("pointsman_requests_total") && line.contains(&label));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).is_some_and(|read| read >= count)
    };
    crate::patience::eventually("it is read", asked, are_read).await;
}

#[test]
fn every_command_that_asks_a_gateway_ends_with_code_4_and_no_output_when_there_is_none() {
    let url = format!("http://{}", refused_address());
    let key = [("POINTSMAN_API_KEY", KEY), ("POINTSMAN_ADMIN_KEY", KEY)];
    for command in [
        &["logs"][..],
        &["preview", "Hello"],
        &["explain", "gen-1-AAAAAAAAAAAAAAAAAAAAAA"],
        &["replay", "gen-1-AAAAAAAAAAAAAAAAAAAAAA"],
        &["replay", "gen-1-AAAAAAAAAAAAAAAAAAAAAA", "--json"],
        &["keys", "list"],
        &["keys", "list", "--json"],
        &["ledger", "verify"],
    ] {
        let output = run(&[command, &["--url", &url]].concat(), &key);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(4), 0), "{command:?}: {said}");
        assert!(said.contains(&url), "{command:?}: {said}");
    }
}

#[test]
fn no_command_sends_an_administrators_key_unencrypted_to_another_machine() {
    let folder = Folder::new();
    let config = folder.at("config.toml");
    std::fs::write(&config, "").unwrap();
    let config = config.display().to_string();
    for command in [
        &["keys", "list"][..],
        &["reload"],
        &["logs", "--all"],
        &["logs", "--refused"],
        &["explain", "--last", "--key-env", "POINTSMAN_ADMIN_KEY"],
        &["ledger", "verify"],
        &["diff", "--config", &config],
    ] {
        let output = run(&[command, &["--url", "http://192.0.2.1:8081"]].concat(), &[("POINTSMAN_ADMIN_KEY", KEY)]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.contains("would be sent unencrypted"), "{command:?}: {said}");
    }
}

#[actix_web::test]
async fn a_refused_key_and_a_wrong_listener_are_named_with_what_to_do() {
    let process = Process::start(&[], &[SIMULATED.as_slice(), &[("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")]].concat());
    let (url, admin) = (process.gateway().url(""), admin_address(&process).url(""));
    let wrong = "sk-not-a-key-of-this-gateway";
    let both = [("POINTSMAN_API_KEY", wrong), ("POINTSMAN_ADMIN_KEY", wrong)];
    for (command, address, hint) in [
        (&["explain", "--last"][..], &url, "The key is that of the variable POINTSMAN_API_KEY."),
        (&["keys", "usage"], &admin, "The key is that of the variable POINTSMAN_ADMIN_KEY."),
        (&["logs"], &admin, "Models are called at server.bind."),
        (&["explain"], &admin, "--url must be the address that models are called at"),
        (&["reload"], &url, "administration has a listener of its own"),
    ] {
        let output = run(&[command, &["--url", address]].concat(), &both);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{command:?}: {said}");
        assert!(said.contains(hint) && !said.contains(wrong), "{command:?}: {said}");
    }
}

#[actix_web::test]
async fn replay_says_as_json_what_it_says_as_text() {
    let process = Process::start(&[], &SIMULATED);
    let gateway = process.gateway();
    let body = json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5});
    let id = gateway.chat(&body).await.expect(200)["id"].as_str().unwrap().to_owned();
    let (url, key) = (gateway.url(""), [("POINTSMAN_API_KEY", KEY)]);
    let text = run(&["replay", &id, "--url", &url], &key);
    assert!(String::from_utf8_lossy(&text.stdout).contains("identical"), "{}", String::from_utf8_lossy(&text.stderr));
    let page = run(&["replay", &id, "--url", &url, "--json"], &key);
    let page: Value = serde_json::from_slice(&page.stdout).unwrap();
    assert_eq!(
        (&page["generation_id"], &page["identical"], &page["differences"]),
        (&json!(id), &json!(true), &json!([]))
    );
}

#[test]
fn keys_are_issued_listed_and_switched_as_json() {
    let folder = crate::folder::Folder::new();
    let data = folder.at("data");
    let environment =
        [("POINTSMAN__LEDGER__DATA_DIR", data.to_str().unwrap()), ("POINTSMAN__LEDGER__DURABILITY", "group")];
    let keys = |arguments: &[&str]| {
        let output = run(&[&["keys"], arguments, &["--json"]].concat(), &environment);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let issued = keys(&["create", "--name", "team"]);
    assert!(issued["name"] == "team" && issued["key"].as_str().unwrap().starts_with("sk-pointsman-"), "{issued}");
    let listed = keys(&["list"]);
    assert_eq!((&listed["data"][0]["name"], &listed["data"][0]["disabled"]), (&json!("team"), &json!(false)));
    assert_eq!(keys(&["disable", "team"]), json!({"name": "team", "disabled": true}));
    assert_eq!(keys(&["list"])["data"][0]["disabled"], true);
    assert_eq!(keys(&["revoke", "team"]), json!({"name": "team", "revoked": true}));
    assert_eq!(keys(&["create", "positional"])["name"], "positional", "named alike in all commands");
    keys(&["revoke", "positional"]);
    let emptied = keys(&["list"]);
    assert_eq!(emptied["data"], json!([]));
    assert!(emptied["configured"].is_array(), "{emptied}");
}
