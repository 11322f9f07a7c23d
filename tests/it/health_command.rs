//! `pointsman health` and `pointsman reload`, as a stranger calls them.

use serde_json::Value;

use crate::{
    folder::Folder,
    harness::{KEY, TestGateway},
    process::{Process, run},
    scripted::refused_address,
    world::always,
};

const SIMULATED: [(&str, &str); 2] =
    [("POINTSMAN__SIMULATION__MODE", "on"), ("POINTSMAN__SERVER__BIND", "127.0.0.1:0")];

/// Exit code, standard output, standard error; run on a thread of its own, since gateways may live on this one.
async fn called(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    let environment: Vec<(String, String)> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let ran = actix_web::rt::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        run(&arguments, &environment)
    });
    let output = ran.await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[actix_web::test]
async fn health_needs_no_key_and_says_each_check_as_text_and_as_json() {
    let process = Process::start(&[], &SIMULATED);
    let url = process.gateway().url("");
    let (code, said, _) = called(&["health", "--url", &url], &[]).await;
    assert!(code == Some(0) && said.starts_with("ready\n"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("  catalog    ok      models ")), "{said}");
    let (code, said, _) = called(&["health", "--json", "--url", &format!("{url}/api/v1")], &[]).await;
    assert_eq!((code, &serde_json::from_str::<Value>(&said).unwrap()["status"]), (Some(0), &"ready".into()));
}

#[actix_web::test]
async fn health_verbose_says_the_verdict_of_the_console() {
    let folder = Folder::new();
    let file = "[server]\nbind = \"127.0.0.1:0\"\n[simulation]\nmode = \"on\"\n\
                [[keys]]\nname = \"boss\"\nenv = \"TEST_KEY\"\nscopes = [\"admin\", \"read\"]\n";
    folder.put("config.toml", file);
    let gateway = TestGateway::load(&folder.at("config.toml"), &[("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")]).await;
    let url = gateway.admin().url("");
    let (code, said, fault) = called(&["health", "--verbose", "--url", &url], &[("POINTSMAN_ADMIN_KEY", KEY)]).await;
    assert!(code == Some(0) && said.starts_with("All well: "), "{said}{fault}");
    assert!(said.contains("  info      Records are kept in memory only."), "{said}");
    let (code, said, _) =
        called(&["health", "--verbose", "--json", "--url", &url], &[("POINTSMAN_ADMIN_KEY", KEY)]).await;
    assert_eq!((code, &serde_json::from_str::<Value>(&said).unwrap()["data"]["severity"]), (Some(0), &"ok".into()));
    let (code, _, fault) = called(&["health", "--verbose", "--url", &url], &[]).await;
    assert!(code == Some(2) && fault.contains("POINTSMAN_ADMIN_KEY"), "{fault}");
    gateway.inner().begin_drain();
    let (_, said, _) = called(&["health", "--verbose", "--url", &url], &[("POINTSMAN_ADMIN_KEY", KEY)]).await;
    assert!(said.starts_with("The gateway is shutting down"), "{said}");
}

#[actix_web::test]
async fn a_gateway_that_is_not_ready_is_exit_code_1() {
    let gateway = TestGateway::simulated().await;
    gateway.inner().begin_drain();
    let (code, said, _) = called(&["health", "--url", &gateway.url("")], &[]).await;
    assert!(code == Some(1) && said.starts_with("draining\n"), "{said}");
}

#[actix_web::test]
async fn what_is_no_gateway_is_told_from_one_that_is_away() {
    let (code, said, fault) = called(&["health", "--url", &format!("http://{}", refused_address())], &[]).await;
    assert!(code == Some(4) && said.is_empty() && fault.contains("--url"), "{fault}");
    let other = always(200, &Value::String("hello".to_owned()));
    let (code, _, fault) = called(&["health", "--url", &format!("http://{}", other.address())], &[]).await;
    assert!(code == Some(2) && fault.contains("answers 200, and not as a gateway does"), "{fault}");
}

#[actix_web::test]
async fn reload_says_what_changed_and_every_fault_of_a_file_that_is_refused() {
    let folder = Folder::new();
    let file = |rate: &str| {
        format!(
            "[server]\nbind = \"127.0.0.1:0\"\n[admin]\nbind = \"127.0.0.1:0\"\n[simulation]\nmode = \"on\"\n\
             [[keys]]\nname = \"boss\"\nenv = \"TEST_KEY\"\nscopes = [\"admin\", \"read\"]\nrequests_per_minute = {rate}\n"
        )
    };
    folder.put("config.toml", &file("600"));
    let gateway = TestGateway::load(&folder.at("config.toml"), &[("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")]).await;
    let url = gateway.admin().url("");
    let reload = async || called(&["reload", "--url", &url], &[("POINTSMAN_ADMIN_KEY", KEY)]).await;
    folder.put("config.toml", &file("700"));
    let (code, said, fault) = reload().await;
    assert!(code == Some(0) && said.contains("version 2 is in force\n  changed  keys"), "{said}{fault}");
    folder.put("config.toml", &file("\"many\""));
    let (code, said, fault) = reload().await;
    assert!(code == Some(2) && said.is_empty() && fault.contains("requests_per_minute"), "{fault}");
    let (code, _, fault) = called(&["reload", "--url", &url], &[]).await;
    assert!(code == Some(2) && fault.contains("POINTSMAN_ADMIN_KEY"), "{fault}");
}
