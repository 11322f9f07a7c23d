//! `pointsman keys`: at a stopped gateway and at a running one.

use serde_json::json;

use crate::{
    folder::Folder,
    harness::KEY,
    issued_keys::{ADMIN, call, chat, issue, world},
    process::{ConfigFile, Process, run},
    world::saying,
};

#[actix_web::test]
async fn keys_are_issued_and_revoked_in_the_directory_of_a_stopped_gateway() {
    let folder = Folder::new();
    let config = ConfigFile::new(&format!(
        "[server]\nbind = \"127.0.0.1:0\"\n[simulation]\nmode = \"on\"\n[ledger]\ndata_dir = {:?}\n",
        folder.at("data")
    ));
    let environment = [("POINTSMAN__LEDGER__DURABILITY", "group")];
    let keys = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["keys"].into_iter().chain(arguments.iter().copied()).collect();
        let output = run(&[&arguments[..], &["--config", config.path()]].concat(), &environment);
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let none = "There are no issued keys.\nKeys of the configuration (1): development.\n";
    assert_eq!(keys(&["list"]), (Some(0), none.to_owned()));
    let (code, said) = keys(&["create", "--name", "ci", "--account", "blue", "--limit", "1.50", "--scope", "read"]);
    assert_eq!(code, Some(0), "{said}");
    let text = said.lines().find_map(|line| line.trim().strip_prefix("sk-")).expect("the key").to_owned();
    let (_, listed) = keys(&["list"]);
    assert!(listed.starts_with("ci  sk-pointsm...") && listed.contains("account blue"), "{listed}");
    assert!(!listed.contains(&text), "{listed}");
    for (arguments, fault) in [
        (&["create", "--name", "ci"][..], "the name is taken"),
        (&["create", "--name", "x", "--limit", "-1"], "limit"),
        (
            &["create", "--name", "x", "--scope", "root"],
            "Unknown value 'root' in 'scopes'. Allowed: inference, read, admin",
        ),
        (
            &["create", "--name", "x", "--task", "poems"],
            "Unknown value 'poems' in 'task'. Allowed: general, code, math",
        ),
        (&["create", "--name", "x", "--alias", "fast"], "NAME=MODEL"),
        (&["revoke", "nobody"], "there is no issued key 'nobody'"),
        (&["usage"], "--url"),
    ] {
        let (code, said) = keys(arguments);
        assert!(code == Some(2) && said.contains(fault), "{arguments:?}: {said}");
    }
    let (_, rotated) = keys(&["rotate", "ci"]);
    assert!(rotated.contains("sk-pointsman-v1-") && !rotated.contains(&text), "{rotated}");
    assert_eq!(keys(&["disable", "development"]).0, Some(0));

    let process = Process::start(&["serve", "--config", config.path()], &environment);
    let new = rotated.lines().find(|line| line.trim().starts_with("sk-")).unwrap().trim().to_owned();
    let bearer = |key: &str| format!("Bearer {key}");
    let get = async |key: &str| {
        let headers = [("authorization", bearer(key))];
        let headers = [(headers[0].0, headers[0].1.as_str())];
        process.gateway().call(actix_web::http::Method::GET, "/api/v1/key", &headers, None).await
    };
    assert_eq!(get(&new).await.expect(200)["data"]["limit"], json!(1.5));
    assert_eq!(get(&format!("sk-{text}")).await.status, 401);
    assert_eq!(get("sk-pointsman-development").await.status, 401);
    let (code, said) = keys(&["list"]);
    assert!(code == Some(2) && said.contains("--url"), "a running gateway holds the directory: {said}");
}

#[actix_web::test]
async fn a_running_gateway_is_found_by_its_configuration_and_by_a_variable() {
    let folder = Folder::new();
    let admin = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let config = ConfigFile::new(&format!(
        "[server]\nbind = \"127.0.0.1:0\"\n[simulation]\nmode = \"on\"\n[ledger]\ndata_dir = {:?}\n\
         [[keys]]\nname = \"boss\"\nenv = \"BOSS\"\nscopes = [\"admin\"]\n",
        folder.at("data")
    ));
    let own = [("POINTSMAN__LEDGER__DURABILITY", "group"), ("POINTSMAN__ADMIN__BIND", admin.as_str()), ("BOSS", ADMIN)];
    let _process = Process::start(&["serve", "--config", config.path()], &own);
    let keys = |arguments: &[&str], more: &[(&str, &str)]| {
        let output = run(&[&["keys"], arguments].concat(), &[&own[..], more].concat());
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let key = ("POINTSMAN_ADMIN_KEY", ADMIN);
    let (code, said) =
        keys(&["create", "ci", "--limit", "5", "--limit-reset", "daily", "--config", config.path()], &[key]);
    assert_eq!(code, Some(0), "{said}");
    let url = format!("http://{admin}");
    let (code, listed) = keys(&["list"], &[key, ("POINTSMAN_ADMIN_URL", url.as_str())]);
    assert!(code == Some(0) && listed.starts_with("ci  ") && listed.contains("limit $5 daily"), "{listed}");
    let elsewhere = [key, ("POINTSMAN_ADMIN_URL", "http://127.0.0.1:1")];
    let (code, listed) = keys(&["list", "--config", config.path()], &elsewhere);
    assert!(code == Some(0) && listed.starts_with("ci  "), "the named configuration counts more: {listed}");
    let (code, said) = keys(&["list"], &elsewhere);
    assert!(code == Some(4) && said.contains("http://127.0.0.1:1"), "{said}");
    let (code, said) = keys(&["list", "--config", config.path()], &[]);
    assert!(code == Some(2) && said.contains("set POINTSMAN_ADMIN_KEY"), "{said}");
}

#[actix_web::test]
async fn keys_are_issued_and_revoked_at_a_running_gateway() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    issue(&gateway, json!({ "name": "first" })).await;
    let url = gateway.admin().url("");
    let keys = async |arguments: &[&str]| {
        let all: Vec<String> = ["keys"].iter().chain(arguments).map(|argument| (*argument).to_owned()).collect();
        let url = url.clone();
        // On a thread of its own: the gateway lives on this one.
        actix_web::rt::task::spawn_blocking(move || {
            let all: Vec<&str> = all.iter().map(String::as_str).chain(["--url", url.as_str()]).collect();
            let output = run(&all, &[("POINTSMAN_ADMIN_KEY", ADMIN)]);
            (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
        })
        .await
        .unwrap()
    };
    let (code, said) = keys(&["create", "--name", "ci"]).await;
    assert_eq!(code, Some(0), "{said}");
    let text = said.lines().find(|line| line.trim().starts_with("sk-")).unwrap().trim().to_owned();
    chat(&gateway, &text, json!({})).await.expect(200);
    let listed = keys(&["list"]).await.1;
    assert!(
        listed.lines().any(|line| line.starts_with("ci "))
            && listed.lines().last().unwrap().starts_with("Keys of the configuration ("),
        "{listed}"
    );
    assert_eq!(keys(&["disable", "ci"]).await, (Some(0), "The key 'ci' is disabled.\n".to_owned()));
    assert_eq!(chat(&gateway, &text, json!({})).await.status, 401);
    keys(&["enable", "ci"]).await;
    chat(&gateway, &text, json!({})).await.expect(200);
    let (code, used) = keys(&["usage", "ci"]).await;
    assert!(code == Some(0) && used.starts_with("STATE ") && used.lines().count() == 2, "{used}");
    assert!(used.ends_with("          -          - -        ci\n"), "{used}");
    let (_, used) = keys(&["usage", "--json"]).await;
    let used: serde_json::Value = serde_json::from_str(&used).unwrap();
    let names: Vec<_> = used["data"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap()).collect();
    assert!(
        ["ci", "first", "test"].iter().all(|name| names.contains(name)),
        "keys of the configuration too: {names:?}"
    );
    let (code, said) = keys(&["usage", "nobody"]).await;
    assert!(code == Some(2) && said.contains("404"), "{said}");
    let (_, rotated) = keys(&["rotate", "ci"]).await;
    assert!(rotated.contains("sk-pointsman-v1-"), "{rotated}");
    assert_eq!(chat(&gateway, &text, json!({})).await.status, 401);
    assert_eq!(keys(&["revoke", "ci"]).await.0, Some(0));
    assert_eq!(keys(&["list"]).await.1.lines().count(), 2, "one key and the line of those in the file");
    let all = "create --name all --objective cheapest --task code --explore false --external-user ann --alias fast=acme/small --alias \
               slow=acme/small --allowed-provider acme --blocked-provider bolt --allowed-model acme/* --blocked-model b/x";
    assert_eq!(keys(&all.split_whitespace().collect::<Vec<_>>()).await.0, Some(0));
    let listed = call(&gateway, actix_web::http::Method::GET, "/api/v1/keys", ADMIN, None).await.expect(200);
    let made = &listed["data"][1];
    let expected = json!({
        "name": "all", "objective": "cheapest", "task": "code", "explore": false, "external_user": "ann",
        "aliases": { "fast": "acme/small", "slow": "acme/small" }, "allowed_providers": ["acme"],
        "blocked_providers": ["bolt"], "allowed_models": ["acme/*"], "blocked_models": ["b/x"],
    });
    for (member, value) in expected.as_object().unwrap() {
        assert_eq!(&made[member], value, "{member}: {listed}");
    }
    let (code, said) = keys(&["disable", "nobody"]).await;
    assert!(code == Some(2) && said.contains("404"), "{said}");
    keys(&["disable", "test"]).await;
    assert_eq!(chat(&gateway, KEY, json!({})).await.status, 401);
}
