//! The commands around the configuration: `check`, `keygen`, `--help`.

use std::{ffi::OsString, path::Path};

use pointsman::app::cli::{NewKey, Next, report, run, summary};
use pointsman_config::{Config, Environment, digest_of};
use serde_json::{Value, json};

use crate::process::{self, ConfigFile};

fn parse(toml: &str) -> Config {
    Config::parse(toml, "f", Path::new("."), &Environment::default()).unwrap()
}

#[test]
fn the_lines_that_keygen_prints_let_its_key_in() {
    let printed = NewKey::from_bits([0xab; 32]).report("build \"server\"");
    let key = printed.lines().map(str::trim).find(|line| line.starts_with("sk-")).unwrap();
    assert_eq!(key, format!("sk-pointsman-v1-{}", "ab".repeat(32)));
    let (_, lines) = printed.split_once("[[keys]]").unwrap();
    assert!(!lines.contains(key), "the configuration must not hold the key");
    let config = parse(&format!("[[keys]]{lines}"));
    assert_eq!(&*config.keys[1].name, "build \"server\"");
    assert_eq!(config.keys[1].sha256, digest_of(key));
}

#[test]
fn check_prints_json_with_the_place_of_each_fault_and_warnings_fail_it_on_request() {
    let file = ConfigFile::new("[timeouts]\nconnect = \"3s\"\n[server]\nbnid = 1\n");
    let check = |file: &ConfigFile, more: &[&str]| {
        let output = process::run(&[&["check", "--config", file.path(), "--json"], more].concat(), &[]);
        let page: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), page)
    };
    let (code, refused) = check(&file, &[]);
    assert_eq!((code, &refused["valid"]), (Some(2), &json!(false)), "{refused}");
    let fault = &refused["faults"][0];
    assert_eq!((&fault["line"], &fault["column"], &fault["key"]), (&json!(4), &json!(1), &json!("server.bnid")));
    assert!(fault["file"].as_str().unwrap().ends_with("config.toml"), "{fault}");

    let file = ConfigFile::new("[messages]\nmodels = { \"claude-*\" = \"acme/none\" }\n");
    let (code, valid) = check(&file, &[]);
    assert_eq!((code, &valid["valid"]), (Some(0), &json!(true)), "{valid}");
    assert_eq!(valid["warnings"][0]["key"], "messages.models.claude-*", "{valid}");
    assert!(valid["providers"].as_array().unwrap().iter().any(|provider| provider["on"] == true), "{valid}");
    assert!(valid["models"].as_array().is_some_and(|models| !models.is_empty()), "{valid}");
    assert_eq!(check(&file, &["--strict"]).0, Some(1));
}

#[test]
fn keygen_and_config_show_print_json() {
    let output = process::run(&["keygen", "--name", "team", "--json"], &[]);
    let key: Value = serde_json::from_slice(&output.stdout).unwrap();
    let config = parse(key["configuration"].as_str().unwrap());
    assert_eq!(config.keys[1].sha256, digest_of(key["key"].as_str().unwrap()));
    let file = ConfigFile::new("[server]\nbind = \"127.0.0.1:8099\"\n");
    let output = process::run(&["config", "show", "--json", "--config", file.path()], &[]);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&shown["server"]["bind"], &shown["timeouts"]["connect"]),
        (&json!("127.0.0.1:8099"), &json!("2s")),
        "{shown}"
    );
}

#[test]
fn two_new_keys_differ() {
    assert_ne!(NewKey::random().report("a"), NewKey::random().report("a"));
}

#[test]
fn the_summary_says_what_the_configuration_comes_to() {
    let config = parse(
        r#"
[providers.acme]
base_url = "https://h/v1"
[providers.bolt]
base_url = "https://h/v1"
api_key_env = "BOLT_API_KEY"
[[models]]
id = "acme/small"
context_length = 1000
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "s" }, { provider = "bolt", upstream_model = "s" }]
[[models]]
id = "acme/far"
context_length = 1000
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "bolt", upstream_model = "s" }]
[[models]]
id = "acme/gone"
context_length = 1000
expiration_date = 2020-01-31
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "g" }]
[[keys]]
name = "team"
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
expires_at = 2027-01-31
requests_per_minute = 60
spend_limit = "7.50"
spend_reset = "daily"
disabled = true
account = "web"
[[accounts]]
name = "web"
team = "shop"
concurrency = 9
[[teams]]
name = "shop"
spend_limit = "100"
"#,
    );
    expect_test::expect![[r#"
        f: nothing is wrong.

        Address: 127.0.0.1:8080
        Console: http://127.0.0.1:8081/console/
        Aliases: service/auto, service/free

        Providers
          on   acme           2 models
          off  bolt           BOLT_API_KEY is not set

        Models: 1 can be called now, of 3
          acme/small                       acme

        Keys
          development        inference, read; on loopback only
          team               inference, read; disabled; until 2027-01-31T00:00:00+00:00; $7.5 a day; 60 requests per minute

        Accounts
          web                team shop; 9 concurrent calls

        Teams
          shop               $100 in all
    "#]]
    .assert_eq(&summary(&config));
}

/// No fault: the catalog may be extended.
#[test]
fn an_alias_whose_lists_leave_no_model_is_a_note() {
    let config = parse(
        r#"
[providers.acme]
base_url = "https://h/v1"
[[models]]
id = "acme/small"
context_length = 1000
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "s" }]
[[aliases]]
name = "empty"
allowed_models = ["zzz/*"]
[[aliases]]
name = "shut"
allowed_models = ["acme/*"]
blocked_models = ["acme/small"]
[[aliases]]
name = "fine"
allowed_models = ["zzz/*", "acme/s*"]
"#,
    );
    let page = summary(&config);
    let (_, notes) = page.split_once("Notes\n").unwrap();
    let told =
        ["empty", "shut"].map(|name| format!("service/{name} matches no model: its allowed_models and blocked_models"));
    assert!(told.iter().all(|note| notes.contains(note)), "{notes}");
    assert!(!notes.contains("service/fine"), "{notes}");
}

#[test]
fn a_summary_shows_no_key() {
    let environment =
        [("ACME_API_KEY", "sk-provider-7f3a9c"), ("TEAM_KEY", "sk-caller-key-51d0e2")].into_iter().collect();
    let toml = "[providers.acme]\nbase_url = \"http://10.0.0.1/v1\"\napi_key_env = \"ACME_API_KEY\"\n\
                [[keys]]\nname = \"team\"\nenv = \"TEAM_KEY\"\n";
    let shown = summary(&Config::parse(toml, "f", Path::new("."), &environment).unwrap());
    assert!(!shown.contains("7f3a9c") && !shown.contains("51d0e2"), "{shown}");
}

#[test]
fn the_report_counts_the_faults() {
    let faults = Config::parse("x = 1\ny = 2", "f", Path::new("."), &Environment::default()).unwrap_err();
    let shown = report(&faults);
    assert!(shown.starts_with("f:1:1: x: unknown section"), "{shown}");
    assert!(shown.contains("The configuration has 2 faults."), "{shown}");
}

#[test]
fn a_wrong_configuration_ends_with_code_two_and_a_good_one_is_handed_on() {
    let arguments = |line: &str| line.split_whitespace().map(OsString::from).collect::<Vec<_>>();
    let exit = |line: &str| match run(arguments(line), &Environment::default()) {
        Next::Finish(answer) => Some(answer.code),
        Next::Serve(_) | Next::Exit(_) => None,
    };
    assert_eq!(exit("serve --config /nowhere/at/all.toml"), Some(2));
    assert_eq!(exit("check --config /nowhere/at/all.toml"), Some(2));
    assert_eq!(exit("nonsense"), Some(2));
    assert_eq!(exit("--version"), Some(0));
    assert_eq!(exit("--help"), Some(0));
    assert_eq!(exit("keygen"), Some(0));
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/config.toml");
    assert_eq!(exit(&format!("check --config {shipped}")), Some(0));
    assert_eq!(exit(&format!("--config {shipped}")), None);
    assert_eq!(exit(""), None);
}
