//! Who administrates a gateway whose configuration names nobody: whoever reads what it prints at its start.

use actix_web::http::Method;

use crate::{
    folder::Folder,
    harness::{Reply, TestGateway, preamble},
    process::Process,
    world::error_of,
};

const PUBLIC: &str = "sk-pointsman-development";
const OWN: &str = "sk-admin-0a1b2c3d4e5f";
const ENVIRONMENT: [(&str, &str); 4] = [
    ("POINTSMAN__SERVER__BIND", "127.0.0.1:0"),
    ("POINTSMAN__SERVER__WORKERS", "1"),
    ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
    ("POINTSMAN__SIMULATION__MODE", "on"),
];
const NAMED: &str = "[[keys]]\nname = \"own\"\nenv = \"OWN\"\nscopes = [\"admin\"]\n";

/// What the greeting says after this name.
fn said<'t>(text: &'t str, name: &str) -> &'t str {
    text.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}")).trim()
}

fn admin_of(process: &Process) -> TestGateway {
    let text = process.stdout();
    let address = said(&text, "Admin  ").strip_prefix("http://").unwrap().strip_suffix("/api/v1/admin").unwrap();
    TestGateway::at(address.parse().unwrap())
}

async fn call(gateway: &TestGateway, method: Method, path: &str, key: &str) -> Reply {
    gateway.call(method, path, &[("authorization", &format!("Bearer {key}"))], None).await
}

async fn status(gateway: &TestGateway, key: &str) -> Reply {
    call(gateway, Method::GET, "/api/v1/admin/status", key).await
}

#[actix_web::test]
async fn each_start_makes_an_administrators_key_prints_it_once_and_forgets_it() {
    let mut first = Process::start(&[], &ENVIRONMENT);
    let text = first.stdout();
    let key = said(&text, "Admin key").split(' ').next().unwrap().to_owned();
    assert!(key.starts_with("sk-pointsman-v1-") && key.len() == 80, "{text}");
    assert_eq!(text.matches(&key).count(), 1, "{text}");
    let admin = admin_of(&first);
    status(&admin, &key).await.expect(200);
    let listed = call(&admin, Method::GET, "/api/v1/admin/keys", &key).await;
    assert!(listed.text().contains("admin-of-this-start") && !listed.text().contains(&key), "{}", listed.text());

    assert_eq!(error_of(&status(&admin, PUBLIC).await, 403)["metadata"]["reason"], "scope");
    let own = call(&first.gateway(), Method::GET, "/api/v1/key", PUBLIC).await.expect(200);
    assert_eq!(own["data"]["scopes"], serde_json::json!(["inference", "read"]));
    assert_eq!(own["data"]["is_management_key"], false);

    // It may call, too, because only this machine can, and the link logs in once without it.
    let may = call(&first.gateway(), Method::GET, "/api/v1/key", &key).await.expect(200);
    assert_eq!(may["data"]["scopes"], serde_json::json!(["admin", "inference"]));
    let accept = [("accept", "text/html")];
    let to_console = admin.call(Method::GET, "/", &accept, None).await;
    assert_eq!((to_console.status, to_console.header("location")), (303, Some("console/")));
    let link = said(&text, "Log in once").split_once("/console/login?once=").unwrap().1.to_owned();
    let page = admin.call(Method::GET, &format!("/console/login?once={link}"), &[], None).await;
    assert!(page.text().contains("Log in once, with the key of this start"), "{}", page.text());
    let post = async || {
        let headers = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
        admin.call(Method::POST, "/console/login", &headers, Some(format!("once={link}").into_bytes())).await
    };
    let entered = post().await;
    assert!(entered.status == 303 && entered.header("set-cookie").is_some(), "{}", entered.text());
    let again = post().await;
    assert!(again.status == 401 && again.text().contains("This link has been used"), "{}", again.text());

    first.signal("TERM");
    first.end().await;
    assert!(!first.stderr().contains(&key), "{}", first.stderr());
    let second = Process::start(&[], &ENVIRONMENT);
    assert_eq!(error_of(&status(&admin_of(&second), &key).await, 401)["metadata"]["reason"], "invalid_key");
}

#[actix_web::test]
async fn no_key_is_made_where_the_configuration_names_an_administrator_or_has_no_listener_for_one() {
    let named = [("OWN", OWN), ("POINTSMAN__KEYS", "[{ name = \"own\", env = \"OWN\", scopes = [\"admin\"] }]")];
    let process = Process::start(&[], &[&ENVIRONMENT[..], &named].concat());
    assert_eq!(said(&process.stdout(), "Admin key"), "one of yours, from [[keys]] with the scope admin");
    status(&admin_of(&process), OWN).await.expect(200);

    let none = ("POINTSMAN__ADMIN__BIND", "");
    let process = Process::start(&[], &[ENVIRONMENT[0], ENVIRONMENT[1], none, ENVIRONMENT[3]]);
    assert!(!process.stdout().contains("sk-pointsman-v1-"), "{}", process.stdout());
}

#[actix_web::test]
async fn beyond_loopback_no_key_is_made() {
    let open = [
        ENVIRONMENT[0],
        ENVIRONMENT[1],
        ENVIRONMENT[3],
        ("POINTSMAN__ADMIN__BIND", "0.0.0.0:0"),
        ("POINTSMAN__ADMIN__ALLOW_PLAIN_HTTP", "true"),
        ("POINTSMAN__AUTH__DEVELOPMENT_KEY_ENABLED", "false"),
    ];
    let text = Process::start(&[], &open).stdout();
    assert!(said(&text, "Admin key").starts_with("none: name one of yours"), "{text}");
    assert!(!text.contains("sk-pointsman-v1-"), "{text}");
}

#[actix_web::test]
async fn the_key_of_a_start_ends_when_a_reload_names_an_administrator() {
    let folder = Folder::new();
    let text = format!("{}\n[reload]\nwatch = false\ndebounce = \"1ms\"\n", preamble());
    folder.put("config.toml", &text);
    let variables = [("OWN", OWN), ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")];
    let gateway = TestGateway::load(&folder.at("config.toml"), &variables).await;
    let admin = gateway.admin();
    let made = gateway.admin_key().expect("a key of this start").to_owned();

    let reload = async |key: &str| call(&admin, Method::POST, "/api/v1/admin/reload", key).await;
    folder.put("config.toml", &format!("{text}[limits]\nmax_n = 3\n"));
    assert_eq!(reload(&made).await.expect(200)["result"], "changed");
    status(&admin, &made).await.expect(200);

    folder.put("config.toml", &format!("{text}{NAMED}"));
    assert_eq!(reload(&made).await.expect(200)["result"], "changed");
    assert_eq!(status(&admin, &made).await.status, 401);
    status(&admin, OWN).await.expect(200);
}

#[actix_web::test]
async fn where_nobody_needs_a_key_nobody_administrates_without_one() {
    let variables = [("POINTSMAN__AUTH__MODE", "none"), ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")];
    let gateway = TestGateway::start_with("", &variables).await;
    let admin = gateway.admin();
    assert_eq!(
        gateway.call(Method::GET, "/api/v1/key", &[("authorization", "")], None).await.expect(200)["data"]["is_management_key"],
        false
    );
    assert_eq!(admin.call(Method::GET, "/api/v1/admin/status", &[("authorization", "")], None).await.status, 401);
    assert_eq!(status(&admin, PUBLIC).await.status, 401);
    status(&admin, gateway.admin_key().unwrap()).await.expect(200);
}
