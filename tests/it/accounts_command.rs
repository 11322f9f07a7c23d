//! `pointsman accounts`, `teams` and `audit`: at a stopped gateway and at a running one.

use serde_json::{Value, json};

use crate::{
    folder::Folder,
    issued_keys::{ADMIN, call, world},
    process::{ConfigFile, run},
    world::{ask, saying},
};

fn said(output: std::process::Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn accounts_and_teams_are_set_up_in_the_directory_of_a_stopped_gateway_and_the_audit_log_tells_it() {
    let folder = Folder::new();
    let config = ConfigFile::new(&format!(
        "[simulation]\nmode = \"on\"\n[ledger]\ndata_dir = {:?}\n[[teams]]\nname = \"sales\"\nspend_limit = \"50\"\n",
        folder.at("data")
    ));
    let pointsman = |line: &str| {
        let arguments: Vec<&str> = line.split_whitespace().chain(["--config", config.path()]).collect();
        said(run(&arguments, &[("POINTSMAN__LEDGER__DURABILITY", "group")]))
    };
    assert_eq!(pointsman("accounts list"), (Some(0), "There are no accounts.\n".to_owned()));
    assert_eq!(
        pointsman("teams create web --limit 10 --limit-reset daily"),
        (Some(0), "The team 'web' is set up.\n".to_owned())
    );
    assert_eq!(pointsman("accounts create blue --team web --limit 5 --concurrency 3").0, Some(0));
    assert_eq!(pointsman("accounts limit blue --limit 7.50 --limit-reset weekly").0, Some(0));
    let (_, listed) = pointsman("accounts list --json");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let expected = json!({ "name": "blue", "origin": "administrator", "disabled": false, "team": "web", "limit": "7.5", "limit_reset": "weekly", "concurrency": 3 });
    assert_eq!(listed, json!({ "data": [expected] }));
    let (_, teams) = pointsman("teams list");
    assert!(
        teams.contains(" 10          - daily    web\n") && teams.contains(" 50          - -        sales\n"),
        "{teams}"
    );
    for (line, fault) in [
        ("accounts create blue", "is there already; 'pointsman accounts limit' changes it"),
        ("accounts limit nobody --limit 1", "there is no account 'nobody'"),
        ("accounts create red --team nobody", "there is no team 'nobody'"),
        ("accounts create red --limit much", "'limit' must be"),
        ("teams limit sales --limit 1", "changed in the configuration"),
        ("teams remove sales", "no team 'sales' was set up"),
        ("teams disable nobody", "there is no team 'nobody'"),
        ("audit --action explode", "Unknown value"),
    ] {
        let (code, text) = pointsman(line);
        assert!(code == Some(2) && text.contains(fault), "{line}: {text}");
    }
    assert_eq!(pointsman("teams disable sales"), (Some(0), "The team 'sales' is disabled.\n".to_owned()));
    assert!(pointsman("teams list").1.contains("sales  (disabled)\n"));
    assert_eq!(pointsman("teams enable sales"), (Some(0), "The team 'sales' is enabled.\n".to_owned()));
    assert_eq!(pointsman("accounts remove blue"), (Some(0), "The account 'blue' is removed.\n".to_owned()));
    let (code, audit) = pointsman("audit");
    let lines: Vec<&str> = audit.lines().collect();
    assert_eq!((code, lines.len()), (Some(0), 6), "{audit}");
    assert!(lines[0].contains("remove_account 'blue'") && lines[5].contains("command line ("), "{audit}");
    assert!(lines[1].contains("enable_team 'sales': on false -> true"), "{audit}");
    assert!(lines[3].contains("put_account 'blue': spend {\"amount\":\"5\"} -> "), "{audit}");
    assert_eq!(pointsman("audit --object web --limit 5").1.lines().count(), 1);
}

#[actix_web::test]
async fn accounts_and_teams_are_set_up_at_a_running_gateway() {
    let (upstream, folder) = (saying("Hello"), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let url = gateway.admin().url("");
    let pointsman = async |line: &str| {
        let (line, url) = (line.to_owned(), url.clone());
        // On a thread of its own: the gateway lives on this one.
        actix_web::rt::task::spawn_blocking(move || {
            let arguments: Vec<&str> = line.split_whitespace().chain(["--url", url.as_str()]).collect();
            said(run(&arguments, &[("POINTSMAN_ADMIN_KEY", ADMIN)]))
        })
        .await
        .unwrap()
    };
    assert_eq!(pointsman("teams create web --limit 10").await, (Some(0), "The team 'web' is set up.\n".to_owned()));
    assert_eq!(pointsman("accounts create blue --team web --limit 5 --limit-reset daily").await.0, Some(0));
    assert_eq!(pointsman("accounts limit blue --requests-per-minute 30").await.0, Some(0));
    let accounts =
        call(&gateway.admin(), actix_web::http::Method::GET, "/api/v1/admin/accounts", ADMIN, None).await.expect(200);
    let blue = accounts["data"].as_array().unwrap().iter().find(|account| account["name"] == "blue").unwrap();
    let found = ["team", "limit", "limit_reset", "requests_per_minute"].map(|member| blue[member].clone());
    assert_eq!(found, [json!("web"), json!(5), json!("daily"), json!(30)], "what is not named stays: {blue}");
    let (code, listed) = pointsman("accounts list").await;
    assert!(
        code == Some(0) && listed.starts_with("   TODAY $") && listed.contains("daily    web              blue\n"),
        "{listed}"
    );
    assert_eq!(pointsman("teams disable web").await, (Some(0), "The team 'web' is disabled.\n".to_owned()));
    assert!(pointsman("teams list").await.1.contains("web  (disabled)\n"));
    assert_eq!(pointsman("teams enable web").await, (Some(0), "The team 'web' is enabled.\n".to_owned()));
    assert_eq!(pointsman("accounts limit blue --limit none --team none").await.0, Some(0));
    let (_, listed) = pointsman("accounts list --json").await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let blue = listed["data"].as_array().unwrap().iter().find(|account| account["name"] == "blue").unwrap();
    assert_eq!((&blue["limit"], blue.get("team")), (&Value::Null, None), "{blue}");
    let (code, text) = pointsman("accounts create blue").await;
    assert!(code == Some(2) && text.contains("accounts limit"), "{text}");
    assert_eq!(pointsman("teams remove web").await.0, Some(0));
    gateway.chat(&ask("nobody/nothing")).await.expect(404);
    let (code, refused) = pointsman("logs --refused").await;
    assert!(code == Some(0) && refused.contains("  404 model_not_found") && refused.contains("  nobody/nothing  req-"));
    gateway.chat(&ask("acme/small")).await.expect(200);
    let (code, all) = pointsman("logs --all --key test --since 1h").await;
    assert!(code == Some(0) && all.lines().count() == 1 && all.contains("  test  acme/small @ acme  "), "{all}");
    assert_eq!(pointsman("logs --all --slow").await.1, "pointsman: no generation to show\n");
    let (code, audit) = pointsman("audit --by admin --action remove_team").await;
    assert!(code == Some(0) && audit.contains("admin (127.0.0.1)  remove_team 'web'"), "{audit}");
}
