//! `pointsman doctor` against providers played byte by byte.

use std::{process::Output, time::SystemTime};

use serde_json::{Value, json};

use crate::{
    process::{ConfigFile, run},
    scripted::{Script, Upstream, refused_address},
    world::{always, http, http_with, stream_of},
};

const PROVIDER_KEY: &str = "sk-doctor-canary-77";

/// A configuration with the provider `acme` at this address.
fn config(url: &str, more: &str) -> ConfigFile {
    ConfigFile::new(&format!(
        "[simulation]\nmode = \"off\"\n[providers.acme]\nbase_url = \"{url}\"\napi_key_env = \"ACME_KEY\"\n{more}\n\
         [[models]]\nid = \"acme/one\"\n[[models.endpoints]]\nprovider = \"acme\"\nupstream_model = \"one\"\n\
         context_length = 1000\nusd_per_million = {{ prompt = \"1\", completion = \"1\" }}\n"
    ))
}

/// The same with a model that takes these parameters as well.
fn config_taking(url: &str, parameters: &str) -> ConfigFile {
    let text = std::fs::read_to_string(config(url, "").path()).unwrap();
    let taken = format!("context_length = 1000\nsupported_parameters = [\"max_tokens\", {parameters}]\n");
    ConfigFile::new(&text.replace("context_length = 1000\n", &taken))
}

fn doctor(config: &ConfigFile, more: &[&str]) -> Output {
    let arguments = [&["doctor", "--config", config.path()], more].concat();
    run(&arguments, &[("ACME_KEY", PROVIDER_KEY)])
}

/// The rows of `acme` as `check: status`, and the exit code.
fn rows(output: &Output) -> (Vec<String>, Option<i32>) {
    let page: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let checks = page["checks"].as_array().unwrap();
    let mine = checks.iter().filter(|check| check["subject"] == "acme");
    let shown = mine.map(|check| {
        assert_eq!(check["status"] == "failed", check["remedy"].is_string(), "each finding has one remedy: {check}");
        format!("{}: {}", check["check"].as_str().unwrap(), check["status"].as_str().unwrap())
    });
    (shown.collect(), output.status.code())
}

fn models(names: &[&str]) -> Value {
    json!({ "data": names.iter().map(|name| json!({ "id": name })).collect::<Vec<_>>() })
}

#[test]
fn a_provider_that_answers_passes_every_check_by_one_free_call_with_the_key() {
    let upstream = always(200, &models(&["one", "two"]));
    let config = config(&upstream.url("/v1"), "");
    let output = doctor(&config, &["--json"]);
    let (rows, code) = rows(&output);
    assert_eq!(code, Some(0));
    assert_eq!(rows, ["name: ok", "connect: ok", "tls: skipped", "key: ok", "models: ok"]);
    let requests = upstream.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(requests[0].starts_with("GET /v1/models HTTP/1.1\r\n"), "{requests:?}");
    assert!(requests[0].contains(&format!("authorization: Bearer {PROVIDER_KEY}")), "{requests:?}");
}

#[test]
fn each_fault_of_a_provider_is_one_finding_with_one_remedy_and_exit_code_1() {
    let cases: [(&str, Upstream, &str); 5] = [
        ("wrong key", always(401, &json!({"error": {"message": "no"}})), "key: failed"),
        ("over a limit", always(429, &json!({})), "answer: failed"),
        ("broken", always(500, &json!({})), "answer: failed"),
        ("unknown model", always(200, &models(&["two"])), "models: failed"),
        ("a web site", always(200, &json!("hello")), "models: failed"),
    ];
    for (name, upstream, finding) in cases {
        let (rows, code) = rows(&doctor(&config(&upstream.url("/v1"), ""), &["--json"]));
        let found: Vec<&String> = rows.iter().filter(|row| row.ends_with("failed")).collect();
        assert_eq!((found, code), (vec![&finding.to_owned()], Some(1)), "{name}");
        assert!(upstream.requests().iter().all(|request| request.starts_with("GET ")), "{name}: nothing that costs");
    }
}

#[test]
fn a_closed_port_an_unknown_host_and_plain_text_in_place_of_tls_are_named_as_such() {
    let plain = Upstream::start([Script::new().send("HTTP/1.1 400 Bad Request\r\n\r\n").fin()]);
    for (url, expected) in [
        (format!("http://{}/v1", refused_address()), vec!["name: ok", "connect: failed"]),
        ("http://doctor.invalid/v1".to_owned(), vec!["name: failed"]),
        (plain.url("/v1").replace("http://", "https://"), vec!["name: ok", "connect: ok", "tls: failed"]),
    ] {
        let (rows, code) = rows(&doctor(&config(&url, ""), &["--json"]));
        assert_eq!((rows, code), (expected.into_iter().map(str::to_owned).collect(), Some(1)), "{url}");
    }
}

#[test]
fn a_clock_apart_from_that_of_the_provider_is_a_finding() {
    let upstream = |date: SystemTime| {
        let date = format!("date: {}\r\n", httpdate::fmt_http_date(date));
        Upstream::start([Script::answering(http_with(200, &date, &models(&["one"])))])
    };
    let hour = std::time::Duration::from_secs(3600);
    let (wrong, right) = (upstream(SystemTime::now() - hour), upstream(SystemTime::now()));
    let (rows_wrong, code) = rows(&doctor(&config(&wrong.url("/v1"), ""), &["--json"]));
    assert!(rows_wrong.contains(&"clock: failed".to_owned()) && code == Some(1), "{rows_wrong:?}");
    let (rows_right, code) = rows(&doctor(&config(&right.url("/v1"), ""), &["--json"]));
    assert!(rows_right.contains(&"clock: ok".to_owned()) && code == Some(0), "{rows_right:?}");
}

#[test]
fn the_table_says_what_to_do_and_never_shows_a_key() {
    let upstream = always(401, &json!({"error": {"message": format!("bad key {PROVIDER_KEY}")}}));
    let config = config(&upstream.url("/v1"), "");
    for form in [&[][..], &["--json"]] {
        let output = doctor(&config, form);
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(!said.contains("canary"), "{said}");
        assert!(said.contains("the key is refused") && said.contains("api_key_env"), "{said}");
    }
}

#[test]
fn a_provider_without_its_key_is_named_with_the_variable_and_is_no_finding() {
    let upstream = always(200, &models(&["one"]));
    let output = run(&["doctor", "--config", config(&upstream.url("/v1"), "").path()], &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(0) && said.contains("ACME_KEY is not set"), "{said}");
    assert!(upstream.requests().is_empty());
}

#[test]
fn an_invalid_configuration_is_a_finding_per_fault_and_an_unknown_provider_a_wrong_command_line() {
    let output = run(&["doctor", "--config", ConfigFile::new("[server]\nbnid = 1\nwrokers = 2\n").path()], &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), said.matches("failed   configuration").count()), (Some(1), 2), "{said}");
    let upstream = always(200, &models(&["one"]));
    let output = doctor(&config(&upstream.url("/v1"), ""), &["--provider", "nobody"]);
    assert!(output.status.code() == Some(2) && output.stdout.is_empty());
    assert!(upstream.requests().is_empty());
}

/// A stream with usage, as the second connection gets it; the first one gets the list of models.
fn listing_then(answer: impl Into<Vec<u8>>) -> Upstream {
    Upstream::start([Script::answering(http(200, &models(&["one"]))), Script::answering(answer)])
}

/// The row about the paid call.
fn call_of(output: &Output) -> Value {
    let page: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows: Vec<&Value> = page["checks"].as_array().unwrap().iter().filter(|row| row["check"] == "call").collect();
    assert_eq!(rows.len(), 1, "{page}");
    rows[0].clone()
}

#[test]
fn doctor_spend_says_the_ceiling_calls_every_endpoint_once_and_tells_time_tokens_and_cost() {
    for (parameters, most_tokens, ceiling) in [("", 16, "$0.00008"), ("\"reasoning\"", 64, "$0.000128")] {
        let upstream = listing_then(stream_of(&["ok"]));
        let config = config_taking(&upstream.url("/v1"), parameters);
        let output = doctor(&config, &["--spend", "--json"]);
        let call = call_of(&output);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), call["status"].as_str()), (Some(0), Some("ok")), "{call} {talk}");
        assert!(talk.contains(&format!("1 call of at most {ceiling} in all")), "{talk}");
        let detail = call["detail"].as_str().unwrap();
        assert!(detail.contains("first token") && detail.contains("tokens, $0.0000"), "{detail}");
        let sent = upstream.requests();
        assert_eq!(sent.len(), 2, "one free call and one paid: {sent:?}");
        let body: Value = serde_json::from_str(sent[1].split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!((&body["max_tokens"], &body["model"]), (&json!(most_tokens), &json!("one")), "{body}");
    }
}

#[test]
fn a_refused_call_is_a_failure_with_a_remedy_and_never_counts_as_reachable() {
    for (status, remedy) in
        [(400, "supported_parameters"), (401, "api_key_env"), (404, "upstream_model"), (500, "try again")]
    {
        let upstream = listing_then(http(status, &json!({"error": {"message": "no", "type": "bad"}})));
        let output = doctor(&config(&upstream.url("/v1"), ""), &["--spend", "--json"]);
        let call = call_of(&output);
        assert_eq!((output.status.code(), call["status"].as_str()), (Some(1), Some("failed")), "{call}");
        assert!(call["remedy"].as_str().unwrap().contains(remedy), "{status}: {call}");
        assert_eq!(upstream.requests().len(), 2, "it is not tried again");
    }
}

#[test]
fn an_endpoint_whose_provider_failed_a_free_check_is_not_called() {
    let upstream = Upstream::start([
        Script::answering(http(401, &json!({"error": {"message": "no"}}))),
        Script::answering(stream_of(&["ok"])),
    ]);
    let output = doctor(&config(&upstream.url("/v1"), ""), &["--spend", "--json"]);
    let call = call_of(&output);
    assert!(call["status"] == "skipped" && call["detail"].as_str().unwrap().contains("free check"), "{call}");
    assert_eq!((output.status.code(), upstream.requests().len()), (Some(1), 1), "only the free call");
}

#[test]
fn an_endpoint_of_unknown_price_is_not_called() {
    let upstream = listing_then(stream_of(&["ok"]));
    let text = std::fs::read_to_string(config(&upstream.url("/v1"), "").path()).unwrap();
    let (head, _) = text.split_once("usd_per_million").unwrap();
    let output = doctor(&ConfigFile::new(&format!("{head}pricing = \"unknown\"\n")), &["--spend", "--json"]);
    let call = call_of(&output);
    assert!(call["status"] == "skipped" && call["detail"].as_str().unwrap().contains("price is unknown"), "{call}");
    assert_eq!(upstream.requests().len(), 1, "only the free call");
}

#[test]
fn the_key_of_a_service_account_is_checked_by_the_token_it_gets() {
    let key = |tokens: &Upstream| {
        let pem = include_str!("fixtures/service_account/key.pem");
        json!({"client_email": "a@b", "private_key": pem, "token_uri": tokens.url("/token")}).to_string()
    };
    let token = json!({"access_token": "ya29.canary", "expires_in": 3600, "token_type": "Bearer"});
    for (tokens, status, code) in
        [(always(200, &token), "ok", 0), (always(400, &json!({"error": "invalid_grant"})), "failed", 1)]
    {
        let upstream = always(401, &json!({}));
        let config = config(&upstream.url("/v1"), "auth = \"service-account\"\ndialect = \"gemini\"");
        let output = run(&["doctor", "--json", "--config", config.path()], &[("ACME_KEY", &key(&tokens))]);
        let (rows, exit) = rows(&output);
        assert!(rows.contains(&format!("key: {status}")) && exit == Some(code), "{rows:?}");
        assert_eq!(tokens.requests().len(), 1);
        assert!(!String::from_utf8_lossy(&output.stdout).contains("canary"));
    }
}

#[test]
fn the_keys_of_an_amazon_account_are_checked_by_a_signed_read() {
    let keys = r#"{"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"canary-of-the-account"}"#;
    let error = |name: &str| http_with(403, &format!("x-amzn-errortype: {name}\r\n"), &json!({"message": "no"}));
    let list = http(200, &json!({"modelSummaries": [{"modelId": "one"}, {"modelId": "two"}]}));
    for (answer, status, code) in [
        (list, "ok", 0),
        (error("AccessDeniedException"), "notice", 0),
        (error("UnrecognizedClientException"), "failed", 1),
    ] {
        let upstream = Upstream::start([Script::answering(answer)]);
        let config = config(&upstream.url(""), "auth = \"sigv4\"\ndialect = \"converse\"\nregion = \"us-east-1\"");
        let output = run(&["doctor", "--json", "--config", config.path()], &[("ACME_KEY", keys)]);
        let (rows, exit) = rows(&output);
        assert!(rows.contains(&format!("key: {status}")) && exit == Some(code), "{rows:?}");
        let sent = upstream.requests().remove(0);
        assert!(sent.starts_with("GET /foundation-models HTTP/1.1\r\n"), "{sent}");
        assert!(sent.contains("authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{sent}");
        assert!(!sent.contains("canary") && !String::from_utf8_lossy(&output.stdout).contains("canary"));
    }
}
