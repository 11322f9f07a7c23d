//! Every key of the configuration with its value and source, and what differs between two versions: from the API and in the console.

use actix_web::http::Method;
use pointsman::state::reload::ReloadTrigger;
use serde_json::{Value, json};

use crate::{
    console_login::Browser,
    folder::Folder,
    harness::{Reply, TestGateway, preamble},
    world::{Model, World, saying},
};

const ADMIN: &str = "sk-boss-0123456789abcdef";
const HEADER: &str = "a-secret-by-mistake";

async fn config(gateway: &TestGateway, query: &str) -> Reply {
    let bearer = format!("Bearer {ADMIN}");
    let headers = [("authorization", bearer.as_str())];
    gateway.admin().call(Method::GET, &format!("/api/v1/admin/config{query}"), &headers, None).await
}

fn key<'a>(body: &'a Value, key: &str) -> &'a Value {
    let keys = body["keys"].as_array().unwrap();
    keys.iter().find(|listed| listed["key"] == key).unwrap_or(&Value::Null)
}

#[actix_web::test]
async fn values_have_their_sources_secrets_are_hidden_and_two_versions_are_compared() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let world = World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
        .with("[[keys]]\nname = \"boss\"\nenv = \"BOSS\"\nscopes = [\"admin\"]")
        .with(&format!("[providers.acme.headers]\nx-team = \"{HEADER}\""))
        .variable("BOSS", ADMIN)
        .variable("POINTSMAN__ADMIN__BIND", "127.0.0.1:0");
    let text = |more: &str| format!("{}\n[reload]\nwatch = false\n{more}\n{}", preamble(), world.toml());
    folder.put("config.toml", &text("[limits]\nmax_n = 3\nmax_tools = 9"));
    let environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let gateway = TestGateway::load(&folder.at("config.toml"), &environment).await;
    folder.put("config.toml", &text("[limits]\nmax_n = 4"));
    gateway.inner().reload(ReloadTrigger::Signal).await;

    let body = config(&gateway, "?from=1").await.expect(200);
    let max_n = key(&body, "limits.max_n");
    assert_eq!((&max_n["value"], &max_n["source"]), (&json!("4"), &json!("file")));
    assert!(max_n["place"].as_str().unwrap().contains("config.toml:"), "{max_n}");
    let bind = key(&body, "admin.bind");
    assert_eq!((&bind["source"], &bind["place"]), (&json!("variable"), &json!("POINTSMAN__ADMIN__BIND")));
    assert_eq!(key(&body, "limits.max_tools")["source"], "default");
    assert_eq!(key(&body, "providers.acme.headers.x-team")["value"], "***");
    let causes: Vec<&Value> = body["versions"].as_array().unwrap().iter().map(|version| &version["cause"]).collect();
    assert_eq!(causes, [&json!("signal"), &Value::Null], "newest first");
    let changes = &body["difference"]["changes"];
    assert_eq!(
        changes,
        &json!([{"key": "limits.max_n", "from": "3", "to": "4"}, {"key": "limits.max_tools", "from": "9", "to": null}])
    );
    config(&gateway, "?from=7").await.expect(404);
    config(&gateway, "?from=first").await.expect(400);
    config(&gateway, "?source=joy").await.expect(400);
    let set = config(&gateway, "?q=limits.max&source=set").await.expect(200);
    assert_eq!((&set["keys"][0]["key"], &set["keys_found"]), (&json!("limits.max_n"), &json!(1)));
    assert_eq!(set["keys_total"], body["keys_total"]);
    let same = config(&gateway, "?from=2&to=2").await.expect(200);
    assert_eq!(same["difference"]["changes"], json!([]));

    let browser = Browser::logged_in(&gateway, ADMIN).await;
    let page = browser.page("/console/config?from=1&to=2").await;
    let (_, difference) = page.split_once("Keys that differ between two versions").unwrap();
    assert!(difference.contains("limits.max_tools") && difference.contains("not set"), "{page}");
    assert!(page.contains(">limits.max_n<") && !page.contains("limits.max_body"), "those that are set: {page}");
    let found = browser.page("/console/config?q=limits.max&source=default").await;
    let (_, found) = found.split_once("Keys with their values in force").unwrap();
    assert!(found.contains("limits.max_tools") && !found.contains(">limits.max_n<"), "{found}");
    for secret in [HEADER, ADMIN] {
        assert!(!page.contains(secret) && !body.to_string().contains(secret));
    }
}
