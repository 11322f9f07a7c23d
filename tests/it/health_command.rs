//! `pointsman health` and `pointsman reload`, as a stranger calls them.

use std::{
    net::{SocketAddr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
};

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

/// An address that nobody has.
/// An address whose port no outgoing connection takes meanwhile: it lies below those that the system gives away.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 5_000).unwrap();
    let port = |_| first + NEXT.fetch_add(1, Ordering::Relaxed);
    let is_free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    SocketAddr::from(([127, 0, 0, 1], (0..1_000).map(port).find(is_free).unwrap()))
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
async fn without_url_health_asks_the_address_at_which_serve_listens_with_the_same_configuration_and_variables() {
    let (folder, address) = (Folder::new(), free_address());
    let (wildcard, localhost) = (format!("0.0.0.0:{}", address.port()), format!("localhost:{}", address.port()));
    folder.put("config.toml", &format!("[server]\nbind = \"{localhost}\"\n[simulation]\nmode = \"on\"\n"));
    let file = folder.at("config.toml");
    let with_file = ["--config", file.to_str().unwrap()];
    for (start, environment) in [
        (&["serve", with_file[0], with_file[1]][..], &[][..]),
        (
            &["serve"],
            &[
                ("POINTSMAN__SERVER__BIND", wildcard.as_str()),
                ("POINTSMAN__SIMULATION__MODE", "on"),
                ("POINTSMAN__AUTH__DEVELOPMENT_KEY_ENABLED", "false"),
                ("POINTSMAN__KEYS", "[{ name = \"test\", env = \"TEST_KEY\" }]"),
                ("TEST_KEY", KEY),
            ],
        ),
    ] {
        let mut process = Process::start(start, environment);
        let ask: Vec<&str> = ["health"].into_iter().chain(start[1..].iter().copied()).collect();
        let (code, said, fault) = called(&ask, environment).await;
        assert!(code == Some(0) && said.starts_with("ready\n"), "{said}{fault}");
        process.signal("TERM");
        process.end().await;
        let (code, _, fault) = called(&ask, environment).await;
        assert!(code == Some(4) && fault.contains(&address.port().to_string()), "{fault}");
    }
    // A gateway goes on with what it read when its file has a fault since; where it listens is known.
    let process = Process::start(&["serve", with_file[0], with_file[1]], &[]);
    folder.put("config.toml", &format!("[server]\nbind = \"{localhost}\"\n[limits]\nmax_n = \"many\"\n"));
    let (code, said, fault) = called(&["health", with_file[0], with_file[1]], &[]).await;
    assert!(code == Some(0) && said.starts_with("ready\n"), "{said}{fault}");
    drop(process);
    let (code, _, fault) = called(&["health"], &SIMULATED).await;
    assert!(code == Some(2) && fault.contains("server.bind"), "{fault}");
}

#[actix_web::test]
async fn without_url_health_asks_a_gateway_with_a_certificate_for_another_name() {
    let (folder, address) = (Folder::new(), free_address());
    let own = rcgen::generate_simple_self_signed(["gateway.example".to_owned()]).unwrap();
    folder.put("server.pem", &own.cert.pem());
    folder.put("server.key", &own.signing_key.serialize_pem());
    // The admin listener speaks TLS outside of loopback.
    let admin = format!("0.0.0.0:{}", free_address().port());
    let file = format!(
        "[server]\nbind = \"{address}\"\n[server.tls]\ncertificate = \"server.pem\"\nkey = \"server.key\"\n\
         [admin]\nbind = \"{admin}\"\n[auth]\ndevelopment_key_enabled = false\n[simulation]\nmode = \"on\"\n\
         [[keys]]\nname = \"boss\"\nenv = \"TEST_KEY\"\nscopes = [\"admin\", \"read\"]\n"
    );
    folder.put("config.toml", &file);
    let config = folder.at("config.toml");
    let config = config.to_str().unwrap();
    let key = [("TEST_KEY", KEY), ("POINTSMAN__ADMIN__BIND", admin.as_str())];
    let _process = Process::start(&["serve", "--config", config], &key);
    let (code, said, fault) = called(&["health", "--config", config], &[]).await;
    assert!(code == Some(0) && said.starts_with("ready\n"), "{said}{fault}");
    let verbose = ["health", "--verbose", "--config", config];
    let environment = [key[1], ("POINTSMAN_ADMIN_KEY", KEY)];
    let (code, said, fault) = called(&verbose, &environment).await;
    assert!(code == Some(0) && said.starts_with("All well: "), "{said}{fault}");
    // A key is sent to nobody who shows another certificate than the one in the configuration.
    let other = rcgen::generate_simple_self_signed(["gateway.example".to_owned()]).unwrap();
    folder.put("server.pem", &other.cert.pem());
    folder.put("server.key", &other.signing_key.serialize_pem());
    let (code, said, fault) = called(&verbose, &environment).await;
    assert!(code == Some(4) && said.is_empty(), "{said}{fault}");
    let (code, said, _) = called(&["health", "--config", config], &[]).await;
    assert!(code == Some(0) && said.starts_with("ready\n"), "{said}");
}

#[actix_web::test]
async fn proxy_variables_are_warned_of_by_name_at_start_and_by_check_and_never_with_their_password() {
    let variables =
        [("https_proxy", "http://user:5ec2e7@127.0.0.1:1"), ("ALL_PROXY", "socks5://127.0.0.1:2"), ("HTTP_PROXY", "")];
    let environment: Vec<_> = SIMULATED.into_iter().chain(variables).collect();
    let process = Process::start(&[], &environment);
    process.says("ALL_PROXY, https_proxy: no proxy is used", 1).await;
    let (_, said, fault) = called(&["check"], &environment).await;
    assert!(said.contains("ALL_PROXY, https_proxy: no proxy is used"), "{said}{fault}");
    let (_, doctor, _) = called(&["doctor"], &environment).await;
    assert!(doctor.contains("ALL_PROXY, https_proxy: no proxy is used"), "{doctor}");
    for text in [process.stderr(), process.stdout(), said, doctor] {
        assert!(!text.contains("5ec2e7"), "{text}");
    }
    let (_, said, _) = called(&["check"], &SIMULATED).await;
    assert!(!said.contains("proxy"), "{said}");
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
